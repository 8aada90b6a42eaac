-- Reserves up to `want` slots of one bucket, and of all else that limits it: one atomic step on one clock (TIME, read once). Whole microseconds.
-- KEYS 1 epoch marker (hash rid,n,since) 2 bucket (hash tat,eid,pause) 3 tickets (hash asker -> "turn:due")
-- ARGV 1 rid 2 asker 3 I 4 L 5 g 6 H 7 want, 0 = look 8 floor 9 suspect 10 ttl ms 11 cost of each 12 largest cost of any; then any number of
--   "parent" I floor           + KEYS bucket, tickets: a slot of this one too
--   "rolling" N span           + KEYS list of units' times
--   "coarse" N span slice      + KEYS hash slice's start -> units
--   "aligned" N period offset guard  + KEYS hash window's start -> units
--   "flight" N lease mine      + KEYS hash asker -> "in flight:expiry"
--   "charge" units             with a look: slots cost so many more than they were asked with, or fewer
--   "left" units age           with a look: the third party says that its quota, the first one, had so many left for a request that old
-- reply {now, eid, retry, reason, tat, parent's tat, free, first1, last1, first2, last2, ...}: retry > 0 = nothing, ask again after it;
--   reason, of that or of when the next one is (free): 1 the pace 2 a quota 3 in flight. What follows "parent" limits that one. The same as src/outbound/slot.c.
local call, max, floor, ceil, format, match = redis.call, math.max, math.floor, math.ceil, string.format, string.match
local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]
local rid, me = ARGV[1], ARGV[2]
local I, L, g, H = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local want, suspect, ttl = tonumber(ARGV[7]), ARGV[9], tonumber(ARGV[10])
local cost, cost_most = tonumber(ARGV[11]), tonumber(ARGV[12])

-- A turn not taken within this time is over. It was a turn, not a slot: nothing is lost.
local TURN = 250000
-- A marker that expires opens a new epoch, which only costs a wait of H + I; so expiry is safe, and a forgotten
-- destination does not stay for ever. Everything it could be confused with is long over by then.
local MARKER_TTL = 7 * 86400 * 1000
local FLIGHT_RETRY = 20000
-- What was in flight before an epoch began may be forgotten: until everybody has said it again nobody gets more.
local FLIGHT_QUIET = 3000000

-- tostring() would write 1.7e+15 and lose the microseconds.
local function int(x)
  return format('%.0f', x)
end

-- The epoch: another one when another server process answers, when the marker is gone, when the clock went back,
-- and when an asker saw the clock step forward (compared with the current one, so that many reports make one epoch).
local marker = call('HMGET', KEYS[1], 'rid', 'n', 'since')
local n, since = tonumber(marker[2]) or 0, tonumber(marker[3]) or 0
if marker[1] ~= rid or since > now or (suspect ~= '' and suspect == rid .. ':' .. int(n)) then
  n, since = n + 1, now
  call('HSET', KEYS[1], 'rid', rid, 'n', int(n), 'since', int(since))
end
call('PEXPIRE', KEYS[1], MARKER_TTL)
local eid = rid .. ':' .. int(n)

-- ---- levels: the bucket, and its parent

local function level(bucket, tickets, interval, floor_us)
  local kept = call('HMGET', bucket, 'tat', 'eid', 'pause')
  local tat, pause = tonumber(kept[1]) or 0, tonumber(kept[3]) or 0
  local beyond = H + cost_most * interval
  if kept[2] ~= eid then
    tat = max(tat, since + beyond)  -- beyond every slot of the epoch before, whatever was lost
  end
  -- Where costs are corrected it may have gone back since an asker saw it.
  if cost_most == 1 or kept[2] ~= eid then tat = max(tat, floor_us) end
  if tat > now + beyond then tat = now + beyond end  -- nothing real is further ahead: the clock went back
  return {bucket = bucket, tickets = tickets, I = interval, tat = tat, pause = pause, quotas = {}}
end

local function keep(l)
  call('HSET', l.bucket, 'tat', int(l.tat), 'eid', eid)
  call('PEXPIRE', l.bucket, ceil((max(l.tat, l.pause) - now) / 1000) + ttl)
end

local levels = {level(KEYS[2], KEYS[3], I, tonumber(ARGV[8]))}
local key, arg, charge, left, left_age = 4, 13, 0, nil, 0
local function argument()
  arg = arg + 1
  return tonumber(ARGV[arg - 1])
end
while ARGV[arg] do
  local kind, l = ARGV[arg], levels[#levels]
  arg = arg + 1
  if kind == 'parent' then
    levels[2] = level(KEYS[key], KEYS[key + 1], argument(), argument())
    key = key + 1
  elseif kind == 'charge' then
    charge, key = argument(), key - 1
  elseif kind == 'left' then
    left, left_age, key = argument(), argument(), key - 1
  elseif kind == 'flight' then
    l.flight = {key = KEYS[key], most = argument(), lease = argument(), mine = argument()}
  else
    local q = {key = KEYS[key], kind = kind, N = argument(), span = argument()}
    if kind == 'coarse' then q.slice, q.offset, q.life = argument(), 0, q.span end
    if kind == 'aligned' then q.slice, q.offset, q.guard, q.life = q.span, argument(), argument(), 0 end
    l.quotas[#l.quotas + 1] = q
  end
  key = key + 1
end

-- ---- quotas: the same three ways as in src/outbound/quota.c

-- Settings may have changed under a request that waits: one that costs more than there ever is takes all there is.
local function cost_of(q, units)
  return math.min(units or cost, q.N)
end

-- A time further ahead than any slot can be was written before the clock went back.
local function no_later(x)
  return math.min(x, now + H + g)
end

local function unit_at(q, index)
  return no_later(tonumber(call('LRANGE', q.key, index, index)[1]) or 0)
end

local function start_of(q, at)
  return at - math.fmod(at + q.offset, q.slice)
end

local function load(q)
  if q.kind == 'rolling' then
    q.used = call('LLEN', q.key)
    return
  end
  local all = call('HGETALL', q.key)
  q.slices, q.units = {}, {}
  for i = 1, #all, 2 do
    local start, units = tonumber(all[i]), tonumber(all[i + 1])
    if start == nil or units == nil or start + q.slice + q.life <= now - q.slice or start > now + H + g + q.slice then
      call('HDEL', q.key, all[i])
    else
      q.slices[#q.slices + 1], q.units[start] = start, units
    end
  end
  table.sort(q.slices)
end

local function earliest(q, at)
  if q.kind == 'rolling' then
    local excess = q.used + cost_of(q) - q.N
    return excess <= 0 and at or max(at, unit_at(q, excess - 1) + q.span)
  elseif q.kind == 'coarse' then
    local units = 0
    for _, start in ipairs(q.slices) do
      if start + q.slice + q.span > at then units = units + q.units[start] end
    end
    for _, start in ipairs(q.slices) do
      if units + cost_of(q) <= q.N then break end
      if start + q.slice + q.span > at then
        at, units = start + q.slice + q.span, units - q.units[start]
      end
    end
    return at
  end
  local guard = max(0, math.min(q.guard, floor((q.span - L) / 3)))  -- there is always a way between two edges
  while true do
    local start = start_of(q, at)
    at = max(at, start + guard)
    if max(at, now + g - L) + L + guard <= start + q.span and (q.units[start] or 0) + cost_of(q) <= q.N then return at end
    at = start + q.span + guard
  end
end

local function spend(q, at, more)
  if q.kind == 'rolling' then
    local units, rest = {}, cost_of(q, more)
    q.used = q.used + rest
    while rest > 0 do
      for i = 1, math.min(rest, 1000) do units[i] = int(at) end
      call('RPUSH', q.key, unpack(units, 1, math.min(rest, 1000)))
      rest = rest - 1000
    end
    if q.used > q.N then
      call('LTRIM', q.key, q.used - q.N, -1)
      q.used = q.N
    end
    call('PEXPIRE', q.key, ceil((at + q.span - now) / 1000) + ttl)
    return
  end
  local start = start_of(q, at)
  if not q.units[start] then
    q.slices[#q.slices + 1], q.units[start] = start, 0
    table.sort(q.slices)
  end
  q.units[start] = q.units[start] + cost_of(q, more)
  call('HSET', q.key, int(start), int(q.units[start]))
  call('PEXPIRE', q.key, ceil((start + q.slice + q.life - now) / 1000) + ttl)
end

-- ---- the next slot

local reason, retry, early

local function after_quotas(l, at)
  for _, q in ipairs(l.quotas) do
    local later = earliest(q, at)
    if later > at then at, reason = later, 2 end
  end
  return at
end

-- When it is, and whether it can be taken now; else `retry` is when to ask again. What lies between the parent's next slot and the
-- bucket's own is lost to everybody, so it must be a small part of the parent's interval.
local function next_slot()
  reason = 1
  local own, parent = after_quotas(levels[1], max(now, levels[1].tat, levels[1].pause)), levels[2]
  local parents = parent and after_quotas(parent, max(now, parent.tat, parent.pause)) or own
  local at, before = max(own, parents), nil
  repeat
    before = at
    for _, l in ipairs(levels) do at = after_quotas(l, at) end
  until at == before
  local hold = parent and floor(parent.I / 4) or 0
  early = parent and own > parents + hold
  -- the parent's next slot may move on by others' doing, and surely does with time
  retry = early and max(own - (parents + hold), floor((own - hold - now) / 2)) or at - H - now
  return at, not early and retry <= 0
end

for _, l in ipairs(levels) do
  for _, q in ipairs(l.quotas) do load(q) end
end

-- ---- what was learned of slots that were used

-- Units that count at that time.
local function used(q, at)
  local units = 0
  if q.kind == 'rolling' then
    local low, high = 0, q.used  -- the first of them that still counts
    while low < high do
      local middle = floor((low + high) / 2)
      if unit_at(q, middle) + q.span > at then high = middle else low = middle + 1 end
    end
    return q.used - low
  end
  for _, start in ipairs(q.slices) do
    if start + q.slice + q.life > at and start <= at then units = units + q.units[start] end
  end
  return units
end

-- Now, but behind all that is in a list already.
local function spend_now(q, units)
  if units > 0 then spend(q, q.kind == 'rolling' and max(now, unit_at(q, -1)) or now, units) end
end

local function learn()
  for _, l in ipairs(levels) do
    if charge ~= 0 then l.tat = max(now, max(l.tat, now) + charge * l.I) end
    for _, q in ipairs(l.quotas) do spend_now(q, charge) end
  end
  local q = levels[1].quotas[1] or (levels[2] and levels[2].quotas[1])
  -- What was said of the window before says nothing of this one.
  if left and q and not (q.kind == 'aligned' and start_of(q, now - left_age) < start_of(q, now)) then
    spend_now(q, q.N - left - used(q, now))
  end
end

if want == 0 then
  if charge ~= 0 or left then learn() end
  for _, l in ipairs(levels) do keep(l) end
  local free = next_slot()
  return {now, eid, 0, reason, levels[1].tat, levels[2] and levels[2].tat or 0, free}
end

-- ---- tickets: who was denied first is served first, so that askers take turns when slots are scarcer than they are

local function look_at_tickets(l)
  local mine, latest, others = nil, 0, {}
  local tickets = call('HGETALL', l.tickets)
  for i = 1, #tickets, 2 do
    local turn, due = match(tickets[i + 1], '^(%d+):(%d+)$')
    turn, due = tonumber(turn), tonumber(due)
    if turn == nil or due + TURN <= now or due - now > 600000000 then
      call('HDEL', l.tickets, tickets[i])
    else
      latest = max(latest, turn)
      if tickets[i] == me then mine = turn else others[#others + 1] = turn end
    end
  end
  l.mine, l.latest, l.ahead = mine, latest, 0
  for _, turn in ipairs(others) do
    if mine == nil or turn < mine then l.ahead = l.ahead + 1 end
  end
end

local function look_at_flight(f)
  local entries, total = call('HGETALL', f.key), f.mine
  for i = 1, #entries, 2 do
    local count, expiry = match(entries[i + 1], '^(%d+):(%d+)$')
    count, expiry = tonumber(count), tonumber(expiry)
    if count == nil or expiry <= now or expiry > now + 2 * f.lease then
      call('HDEL', f.key, entries[i])
    elseif entries[i] ~= me then
      total = total + count
    end
  end
  return since + FLIGHT_QUIET > now and 0 or f.most - total
end

-- One whose own slot is far off waits for that one, not for its turn at its parent's: a ticket there would hold up others.
local at, is_there = next_slot()
local room, denied, full = want, levels[1], false
for _, l in ipairs(levels) do
  look_at_tickets(l)
  if not early then
    local first = max(now, l.tat, l.pause)
    local free = first - now <= H and floor((now + H - first) / l.I) + 1 or 0
    if free - l.ahead < room then room, denied, full = free - l.ahead, l, false end
    local flying = l.flight and look_at_flight(l.flight) - l.ahead or room
    if flying < room then room, denied, full = flying, l, true end
  end
end

local function keep_flight(granted)
  for _, l in ipairs(levels) do
    if l.flight then
      local count = l.flight.mine + granted
      if count > 0 then
        call('HSET', l.flight.key, me, int(count) .. ':' .. int(now + l.flight.lease))
        call('PEXPIRE', l.flight.key, ceil(l.flight.lease / 1000) + 1000)
      else
        call('HDEL', l.flight.key, me)
      end
    end
  end
end

if room <= 0 or not is_there then
  if is_there and full then
    reason, retry = 3, max(FLIGHT_RETRY, since + FLIGHT_QUIET - now)
  else
    retry = denied.ahead * denied.I + (early and retry or at - H - now)
  end
  retry = ceil(max(1000, retry))
  call('HSET', denied.tickets, me, int(denied.mine or denied.latest + 1) .. ':' .. int(now + retry))
  call('PEXPIRE', denied.tickets, ceil(retry / 1000) + 60000)
  for _, l in ipairs(levels) do keep(l) end
  keep_flight(0)
  return {now, eid, retry, reason, levels[1].tat, levels[2] and levels[2].tat or 0, at}
end

local reply = {now, eid, 0, 0, 0, 0, 0}
local granted = 0
while is_there and granted < room do
  local eff = max(at, now + g - L)  -- a slot due at once leaves the answer time to travel; the next counts from there
  reply[#reply + 1] = at
  reply[#reply + 1] = eff + L
  for _, l in ipairs(levels) do
    l.tat = eff + cost * l.I
    for _, q in ipairs(l.quotas) do spend(q, eff) end
  end
  granted = granted + 1
  at, is_there = next_slot()        -- eff may have moved the rest beyond the horizon
end
for _, l in ipairs(levels) do
  if l.mine then call('HDEL', l.tickets, me) end
  keep(l)
end
keep_flight(granted)
reply[4], reply[5], reply[6], reply[7] = reason, levels[1].tat, levels[2] and levels[2].tat or 0, at
return reply
