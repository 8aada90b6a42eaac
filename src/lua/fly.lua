-- How many requests of one asker are in flight, for limits on them; renews its lease.
-- KEYS any number: hash asker -> "in flight:expiry"; ARGV 1 asker 2 its number 3 lease, microseconds
-- reply {now}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local lease = tonumber(ARGV[3])
for _, key in ipairs(KEYS) do
  if tonumber(ARGV[2]) > 0 then
    redis.call('HSET', key, ARGV[1], string.format('%d:%.0f', tonumber(ARGV[2]), now + lease))
    redis.call('PEXPIRE', key, math.ceil(lease / 1000) + 1000)
  else
    redis.call('HDEL', key, ARGV[1])
  end
end
return {now}
