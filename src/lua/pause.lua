-- Nobody is granted a slot of this bucket for a while: the third party asked for it. Never shortens a pause.
-- KEYS 1 bucket (hash tat,eid,pause); ARGV 1 how long, below 0 = the pause is over 2 at most, microseconds
-- reply {now, end of the pause}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local most = tonumber(ARGV[2])
if tonumber(ARGV[1]) < 0 then
  redis.call('HDEL', KEYS[1], 'pause')
  return {now, 0}
end
local till = tonumber(redis.call('HGET', KEYS[1], 'pause')) or 0
if till > now + most then till = 0 end  -- that far ahead: the clock went back
till = math.max(till, now + math.min(tonumber(ARGV[1]), most))
redis.call('HSET', KEYS[1], 'pause', string.format('%.0f', till))
local need = math.ceil((till - now) / 1000) + 60000
if redis.call('PTTL', KEYS[1]) < need then redis.call('PEXPIRE', KEYS[1], need) end
return {now, till}
