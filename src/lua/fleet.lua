-- Who is in the fleet, and what operators ordered. Read by every replica once a second; with a verb also gives an order.
-- KEYS 1 replicas (hash replica -> when it was seen) 2 orders (hash "verb name" -> "number until count period who")
-- ARGV 1 replica 2 ttl, microseconds; then for an order 3 verb 4 name 5 for how long, microseconds 6 count 7 period 8 who
--   9 the verb that it ends, or "" 10 how long an order that is done once is shown
-- reply {now, replicas, "verb name", its value, ...}; a number is the time of the order, and no two are the same
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local me, ttl = ARGV[1], tonumber(ARGV[2])

local function int(x)
  return string.format('%.0f', x)
end

local count = 0
redis.call('HSET', KEYS[1], me, int(now))
local replicas = redis.call('HGETALL', KEYS[1])
for i = 1, #replicas, 2 do
  local seen = tonumber(replicas[i + 1])
  if seen == nil or seen > now + ttl or now - seen > ttl then
    redis.call('HDEL', KEYS[1], replicas[i])
  else
    count = count + 1
  end
end
redis.call('PEXPIRE', KEYS[1], math.ceil(ttl / 1000) * 10)

local latest, last, reply = 0, 0, {now, count}
local orders = redis.call('HGETALL', KEYS[2])
for i = 1, #orders, 2 do
  local number, till = string.match(orders[i + 1], '^(%d+) (%d+) ')
  number, till = tonumber(number), tonumber(till)
  if number == nil or till <= now or (ARGV[3] and (orders[i] == ARGV[3] .. ' ' .. ARGV[4] or orders[i] == ARGV[9] .. ' ' .. ARGV[4])) then
    redis.call('HDEL', KEYS[2], orders[i])
  else
    reply[#reply + 1] = orders[i]
    reply[#reply + 1] = orders[i + 1]
    last = math.max(last, till)
  end
  latest = math.max(latest, number or 0)
end
if ARGV[3] then
  local field, length = ARGV[3] .. ' ' .. ARGV[4], tonumber(ARGV[5])
  local till = now + (length > 0 and length or tonumber(ARGV[10]))
  local value = int(math.max(now, latest + 1)) .. ' ' .. int(till) .. ' ' .. ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[8]
  redis.call('HSET', KEYS[2], field, value)
  reply[#reply + 1] = field
  reply[#reply + 1] = value
  last = math.max(last, till)
end
if last > now then redis.call('PEXPIRE', KEYS[2], math.ceil((last - now) / 1000) + 60000) end
return reply
