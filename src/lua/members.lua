-- Who has waiters for a bucket, how many, and until when it is paused: for predicting waits and for show, never for pacing.
-- KEYS 1 members (hash replica -> "seen:queued") 2 bucket (hash tat,eid,pause), or none; ARGV 1 replica 2 its waiters, -1 = none any more 3 ttl, microseconds
-- reply {now, members, waiters of all, end of the pause or 0}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local ttl = tonumber(ARGV[3])
if tonumber(ARGV[2]) < 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:%d', now, tonumber(ARGV[2])))
end
local count, sum = 0, 0
local members = redis.call('HGETALL', KEYS[1])
for i = 1, #members, 2 do
  local seen, queued = string.match(members[i + 1], '^(%d+):(%d+)$')
  seen = tonumber(seen)
  if seen == nil or seen > now + ttl or now - seen > ttl then
    redis.call('HDEL', KEYS[1], members[i])
  else
    count, sum = count + 1, sum + tonumber(queued)
  end
end
redis.call('PEXPIRE', KEYS[1], math.ceil(ttl / 1000) * 10)
local pause = KEYS[2] and tonumber(redis.call('HGET', KEYS[2], 'pause'))
return {now, count, sum, pause or 0}
