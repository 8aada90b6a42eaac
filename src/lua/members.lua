-- Who has waiters for a bucket, how many, and until when it is paused: for predicting waits and for show, never for pacing.
-- And by which limits each replica paces it, since replicas that differ exceed the smaller one together.
-- KEYS 1 members (hash replica -> "seen:queued", "t:" replica -> "seen:first:interval:name limits") 2 bucket (hash tat,eid,pause), or none
--   then, of the levels that a slot is taken from, tickets (hash asker -> "turn:due")
-- ARGV 1 replica 2 its waiters, -1 = none any more 3 ttl, microseconds; then all or none of: 4 interval 5 name, without spaces 6 limits 7 asker
-- reply {now, members, waiters of all, end of the pause or 0} and, when somebody has other limits, {..., its interval, name, limits}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local ttl = tonumber(ARGV[3])
-- Limits are said every half minute, so two of these may get lost.
local LIMITS_TTL = 70000000
if tonumber(ARGV[2]) < 0 then
  redis.call('HDEL', KEYS[1], ARGV[1])
  -- Nobody is left to take a turn, and who comes next need not wait until it is over.
  for i = 3, #KEYS do redis.call('HDEL', KEYS[i], ARGV[7]) end
else
  redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f:%d', now, tonumber(ARGV[2])))
end

-- Since when this replica has said the same.
local first, mine = now, 't:' .. ARGV[1]
if ARGV[6] then
  local since, said = string.match(redis.call('HGET', KEYS[1], mine) or '', '^%d+:(%d+):%d+:%S+ (.*)$')
  if said == ARGV[6] then first = tonumber(since) end
  redis.call('HSET', KEYS[1], mine, string.format('%.0f:%.0f:%s:%s %s', now, first, ARGV[4], ARGV[5], ARGV[6]))
end

local count, sum, differs = 0, 0, nil
-- Who was last heard of before this replica said so may be the one in whose place it came.
local function look_at_limits(field, text)
  local seen, interval, name, limits = string.match(text, '^(%d+):%d+:(%d+):(%S+) (.*)$')
  seen, interval = tonumber(seen), tonumber(interval)
  if seen == nil or seen > now + LIMITS_TTL or now - seen > LIMITS_TTL then
    redis.call('HDEL', KEYS[1], field)
  elseif ARGV[6] and limits ~= ARGV[6] and seen >= first and (differs == nil or interval > differs[1]) then
    differs = {interval, name, limits}
  end
end

local members = redis.call('HGETALL', KEYS[1])
for i = 1, #members, 2 do
  if string.sub(members[i], 1, 2) == 't:' then
    look_at_limits(members[i], members[i + 1])
  else
    local seen, queued = string.match(members[i + 1], '^(%d+):(%d+)$')
    seen = tonumber(seen)
    if seen == nil or seen > now + ttl or now - seen > ttl then
      redis.call('HDEL', KEYS[1], members[i])
    else
      count, sum = count + 1, sum + tonumber(queued)
    end
  end
end
redis.call('PEXPIRE', KEYS[1], math.max(math.ceil(ttl / 1000) * 10, ARGV[6] and LIMITS_TTL / 1000 or 0))
local pause = KEYS[2] and tonumber(redis.call('HGET', KEYS[2], 'pause'))
if differs then return {now, count, sum, pause or 0, differs[1], differs[2], differs[3]} end
return {now, count, sum, pause or 0}
