-- A slot turned out to cost more units than it was asked with, or fewer: the next one comes so much later.
-- KEYS buckets (hash tat,eid,pause); ARGV 1 units, below 0 = fewer, then the interval of each bucket
-- reply {now}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
for i, key in ipairs(KEYS) do
  local tat = tonumber(redis.call('HGET', key, 'tat'))
  if tat then  -- a bucket that is not there has nothing to pay with: its next epoch waits anyway
    tat = math.max(now, math.max(tat, now) + tonumber(ARGV[1]) * tonumber(ARGV[i + 1]))
    redis.call('HSET', key, 'tat', string.format('%.0f', tat))
    local need = math.ceil((tat - now) / 1000) + 60000
    if redis.call('PTTL', key) < need then redis.call('PEXPIRE', key, need) end
  end
end
return {now}
