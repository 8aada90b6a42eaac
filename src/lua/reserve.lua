-- Reserves up to `want` slots of one bucket: one atomic step on one clock (TIME, read once). All times are whole microseconds.
-- KEYS 1 epoch marker (hash rid,n,since) 2 bucket (hash tat,eid,pause) 3 tickets (hash asker -> "turn:due"); ARGV 1 rid 2 asker 3 I 4 L 5 g 6 H 7 want, 0 = look 8 floor 9 suspect 10 ttl ms
-- reply {now, eid, retry, reason, tat, first1, last1, first2, last2, ...}: retry > 0 = nothing, ask again after it; reason 0 granted 1 nothing within the horizon
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local rid, me = ARGV[1], ARGV[2]
local I, L, g, H = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local want, floor, suspect, ttl = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], tonumber(ARGV[10])

-- A turn not taken within this time is over. It was a turn, not a slot: nothing is lost.
local TURN = 250000
-- A marker that expires opens a new epoch, which only costs a wait of H + I; so expiry is safe, and a forgotten
-- destination does not stay for ever. Everything it could be confused with is long over by then.
local MARKER_TTL = 7 * 86400 * 1000

-- tostring() would write 1.7e+15 and lose the microseconds.
local function int(x)
  return string.format('%.0f', x)
end

-- The epoch: another one when another server process answers, when the marker is gone, when the clock went back,
-- and when an asker saw the clock step forward (compared with the current one, so that many reports make one epoch).
local marker = redis.call('HMGET', KEYS[1], 'rid', 'n', 'since')
local n, since = tonumber(marker[2]) or 0, tonumber(marker[3]) or 0
if marker[1] ~= rid or since > now or (suspect ~= '' and suspect == rid .. ':' .. int(n)) then
  n, since = n + 1, now
  redis.call('HSET', KEYS[1], 'rid', rid, 'n', int(n), 'since', int(since))
end
redis.call('PEXPIRE', KEYS[1], MARKER_TTL)
local eid = rid .. ':' .. int(n)

local kept = redis.call('HMGET', KEYS[2], 'tat', 'eid', 'pause')
local tat, pause = tonumber(kept[1]) or 0, tonumber(kept[3]) or 0
if kept[2] ~= eid then
  tat = math.max(tat, since + H + I)  -- beyond every slot of the epoch before, whatever was lost
end
tat = math.max(tat, floor)
tat = math.min(tat, now + H + I)      -- nothing real is further ahead: the clock went back

local function keep()
  redis.call('HSET', KEYS[2], 'tat', int(tat), 'eid', eid)
  redis.call('PEXPIRE', KEYS[2], math.ceil((math.max(tat, pause) - now) / 1000) + ttl)
end

if want == 0 then
  keep()
  return {now, eid, 0, 0, tat}
end

-- Tickets: who was denied first is served first, so that replicas take turns when slots are scarcer than askers.
local ahead, mine, latest = 0, nil, 0
local tickets = redis.call('HGETALL', KEYS[3])
local others = {}
for i = 1, #tickets, 2 do
  local turn, due = string.match(tickets[i + 1], '^(%d+):(%d+)$')
  turn, due = tonumber(turn), tonumber(due)
  if turn == nil or due + TURN <= now or due - now > 600000000 then
    redis.call('HDEL', KEYS[3], tickets[i])
  else
    latest = math.max(latest, turn)
    if tickets[i] == me then mine = turn else others[#others + 1] = turn end
  end
end
for _, turn in ipairs(others) do
  if mine == nil or turn < mine then ahead = ahead + 1 end
end

local first = math.max(now, tat, pause)
local free = 0
if first - now <= H then free = math.floor((now + H - first) / I) + 1 end
local room = math.min(want, free - ahead)

if room <= 0 then
  local retry = math.max(1000, first + ahead * I - H - now)
  redis.call('HSET', KEYS[3], me, int(mine or latest + 1) .. ':' .. int(now + retry))
  redis.call('PEXPIRE', KEYS[3], math.ceil(retry / 1000) + 60000)
  keep()
  return {now, eid, math.ceil(retry), 1, tat}
end

local reply = {now, eid, 0, 0, 0}
for _ = 1, room do
  local eff = math.max(first, now + g - L)  -- a slot due at once leaves the answer time to travel; the next counts from there
  reply[#reply + 1] = first
  reply[#reply + 1] = eff + L
  tat = eff + I
  first = math.max(now, tat, pause)
  if first - now > H then break end         -- eff may have moved the rest beyond the horizon
end
if mine then redis.call('HDEL', KEYS[3], me) end
keep()
reply[5] = tat
return reply
