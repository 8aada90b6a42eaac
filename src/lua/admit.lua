-- Decides one request by all of its limits: takes from every one or, when one refuses, from none. One atomic step on one clock. Whole microseconds.
-- KEYS i what limit i knows of its caller (all under one hash tag); ARGV 7 for each: 1 kind 2 quota 3 cost 4 "1" = on trial, refuses nobody 5 x 6 y 7 z
--   token, leaky: a unit takes x + y / z; fixed, counter, strict: slices of x, y of them before the oldest; log: period x
-- reply for each {fits, remaining, retry (-1 = never), reset, note}: note 0 fine 1 the key was not ours and begins anew 2 it lay in the future and was cut
-- The same as src/inbound/limit.c and its three families, in the same order; the reasons are told there.
local fmod, max, floor, ceil, format, match = math.fmod, math.max, math.floor, math.ceil, string.format, string.match
local call, try = redis.call, redis.pcall
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local MOST = 2 ^ 53 -- above it a number is not exact, so not one of ours

-- tostring() would write 1.7e+15 and lose the microseconds.
local function int(x)
  return format('%.0f', x)
end

local function whole(text)
  local x = text and match(text, '^%d+$') and tonumber(text)
  return x and x < MOST and x or nil
end

-- What has no meaning after `us` is kept no longer; a millisecond more, since Redis rounds.
local function ttl(us)
  return int(ceil(max(us, 0) / 1000) + 1)
end

-- a * b / m and what is left over, exactly, though a * b may be beyond 2^53: digit by digit in base 128 (m and b stay below 2^45).
local function muldiv(a, b, m)
  if a * b < MOST then
    local rest = fmod(a * b, m)
    return (a * b - rest) / m, rest
  end
  local quotient, rest, digits = 0, 0, {}
  while a > 0 do
    digits[#digits + 1] = fmod(a, 128)
    a = (a - digits[#digits]) / 128
  end
  for i = #digits, 1, -1 do
    local sum = rest * 128 + digits[i] * b
    rest = fmod(sum, m)
    quotient = quotient * 128 + (sum - rest) / m
  end
  return quotient, rest
end

-- The text under a key; nil when there is none. Another type is not ours.
local function text_of(s)
  local text = try('GET', s.key)
  if type(text) == 'table' then
    s.note, text = 1, false
  end
  return text or nil
end

-- ---- token and leaky bucket: the moment when nothing is used, us and a fraction part / z

local function drain()
  local family = {}

  local function later(s, us, part, units)
    part = part + units * s.y
    local rest = fmod(part, s.z)
    return us + units * s.x + (part - rest) / s.z, rest
  end

  local function is_after(us, part, other_us, other_part)
    return us > other_us or us == other_us and part > other_part
  end

  function family.load(s)
    local text, us, part = text_of(s), 0, 0
    if text then
      local first, second = match(text, '^(%d+) ?(%d*)$')
      us, part = whole(first), second == '' and 0 or whole(second)
      if not us or not part then
        s.note, us, part = 1, 0, 0
      end
    end
    if part >= s.z then us, part = us + 1, 0 end
    local last_us, last_part = later(s, now, 0, s.quota)
    if is_after(us, part, last_us, last_part) then
      us, part, s.note = last_us, last_part, 2
    elseif us < now then
      us, part = now, 0
    end
    s.us, s.part = us, part
  end

  local function slack(s)
    return s.kind == 'token' and s.quota - s.cost or 0
  end

  function family.fits(s)
    return not is_after(s.us, s.part, later(s, now, 0, slack(s)))
  end

  function family.take(s)
    s.us, s.part = later(s, s.us, s.part, s.cost)
  end

  function family.keep(s)
    call('SET', s.key, s.part == 0 and int(s.us) or int(s.us) .. ' ' .. int(s.part), 'PX', ttl(s.us + 1 - now))
  end

  -- The division is only a guess, put right by exact steps.
  local function units_left(s)
    local us, part = later(s, now, 0, s.quota)
    us, part = us - s.us, part - s.part
    if s.z == 1 then return (us - fmod(us, s.x)) / s.x end
    if part < 0 then us, part = us - 1, part + s.z end
    local units = floor((us + part / s.z) / (s.x + s.y / s.z))
    local guess_us, guess_part = later(s, 0, 0, units)
    if is_after(guess_us, guess_part, us, part) then return units - 1 end
    guess_us, guess_part = later(s, 0, 0, units + 1)
    return is_after(guess_us, guess_part, us, part) and units or units + 1
  end

  function family.report(s)
    local wait = s.us - now + (s.part > 0 and 1 or 0)
    local span_us, span_part = 0, 0
    if s.cost <= s.quota then span_us, span_part = later(s, 0, 0, slack(s)) end
    local left = wait == 0 and s.cost <= s.quota and 1 or 0
    if s.kind == 'token' then left = floor(units_left(s) / max(s.cost, 1)) end
    return left, s.us - span_us + (s.part > span_part and 1 or 0) - now, wait
  end

  return family
end

-- ---- fixed, counter, strict: s[1] is the count of the newest slice, s[s.y + 1] that of the oldest

local function windows()
  local family = {}

  function family.load(s)
    local text, start = text_of(s), 0
    local counts = {}
    if text then
      local sane, last = string.find(text, '^%d+ [ %d]*%d$'), -1
      for word in string.gmatch(text, '%d+') do
        last = last + 1
        counts[last] = tonumber(word)
        sane = sane and counts[last] < MOST
      end
      start = counts[0]
      if not sane or last > s.y + 1 then
        s.note, start, counts = 1, 0, {}
      end
    end
    if start > now then
      s.note, start = 2, now
    end
    local steps = now - start
    steps = (steps - fmod(steps, s.x)) / s.x
    if steps > s.y then
      start, counts = now - fmod(now, s.x), {}
    else
      start = start + steps * s.x
    end
    s.start = start
    for i = 1, s.y + 1 do s[i] = i > steps and counts[i - steps] or 0 end
  end

  local function sum(s, count)
    local total = 0
    for i = 1, count do total = total + s[i] end
    return total
  end

  local function used(s)
    local oldest = s[s.y + 1]
    if s.kind == 'fixed' then
      oldest = 0
    elseif s.kind == 'counter' then
      local weight, rest = muldiv(oldest, s.x - (now - s.start), s.x)
      oldest = weight + (rest > 0 and 1 or 0)
    end
    return sum(s, s.y) + oldest
  end

  function family.fits(s)
    return used(s) + s.cost <= s.quota
  end

  function family.take(s)
    s[1] = s[1] + s.cost
  end

  function family.keep(s)
    local last = s.y + 1
    while last > 1 and s[last] == 0 do last = last - 1 end
    local words = {int(s.start)}
    for i = 1, last do words[i + 1] = int(s[i]) end
    call('SET', s.key, table.concat(words, ' '), 'PX', ttl(s.start + (s.y + 1) * s.x - now))
  end

  local function faded(s, oldest, free)
    if free < 0 then return s.x + 1 end
    if s.kind == 'fixed' or oldest <= free then return 0 end
    return s.kind == 'counter' and s.x - muldiv(free, s.x, oldest) or s.x + 1
  end

  local function when_fits(s)
    for step = 0, s.y do
      local into = faded(s, s[s.y - step + 1], s.quota - s.cost - sum(s, s.y - step))
      if into <= s.x then return s.start + step * s.x + into end
    end
    return s.start + (s.y + 1) * s.x
  end

  function family.report(s)
    local lives, gone = s.kind == 'fixed' and s.y or s.y + 1, now
    for i = lives, 1, -1 do
      if s[i] > 0 then gone = s.start + (lives - i + 1) * s.x end
    end
    return floor(max(s.quota - used(s), 0) / max(s.cost, 1)), max(when_fits(s) - now, 0), max(gone - now, 0)
  end

  return family
end

-- ---- log: a list of time, total, time, total ...; the first pair is no entry, its total is what was before the entries

local function log()
  local family = {}

  local function pair(s, i)
    local two = call('LRANGE', s.key, 2 * i, 2 * i + 1)
    local at, total = whole(two[1]), whole(two[2])
    if not at or not total then s.broken = true end
    return at or 0, total or 0
  end

  -- The first i from `low` up to `high` - 1 for which `test` holds, else `high`: looks near `low` first.
  local function first_where(s, low, high, test)
    local width = 1
    while low < high do
      local middle = math.min(low + width - 1, high - 1)
      if test(pair(s, middle)) then
        high = middle
        while low < high do
          middle = floor((low + high) / 2)
          if test(pair(s, middle)) then high = middle else low = middle + 1 end
        end
      else
        low, width = middle + 1, width * 2
      end
    end
    return low
  end

  local function forget(s)
    s.pairs, s.over, s.base, s.total, s.at = 0, 0, 0, 0, 0
  end

  function family.load(s)
    forget(s)
    local length = try('LLEN', s.key)
    if type(length) == 'table' or length % 2 == 1 or length == 2 then
      s.note = 1
    elseif length > 0 then
      s.pairs = length / 2 - 1
      s.at, s.total = pair(s, s.pairs)
      local till = max(now, s.at) - s.x
      local first = call('LRANGE', s.key, 0, 3) -- mostly nothing is over, and this is all there is to know
      local at, base = whole(first[3]), whole(first[2])
      if not at or not base then
        s.broken = true
      elseif s.at > till and at > till then
        s.base = base
      else
        s.over = s.pairs
        if s.at > till then
          s.over = first_where(s, 2, s.pairs, function(later) return later > till end) - 1
        end
        local _, total = pair(s, s.over)
        s.base = total
      end
      if s.broken or s.base > s.total then s.note = 1 end
    end
    if s.note == 1 then
      forget(s)
    elseif s.at > now + s.x then
      s.note, s.at, s.over, s.pairs, s.cut = 2, now, 0, 1, true
    end
  end

  function family.fits(s)
    return s.total - s.base + s.cost <= s.quota
  end

  -- `keep` is called before `take` where the past was cut, and after it where a request was admitted.
  function family.keep(s)
    if s.cut then
      call('DEL', s.key)
      call('RPUSH', s.key, '0', int(s.base), int(s.at), int(s.total))
      s.cut = false
    end
    if s.taken then
      if s.over > 0 and s.over == s.pairs then
        call('DEL', s.key)
        s.pairs, s.base, s.total, s.over = 0, 0, s.cost, 0
      elseif s.over > 0 then
        call('LTRIM', s.key, 2 * s.over, -1)
        s.pairs, s.over = s.pairs - s.over, 0
      end
      if s.pairs == 0 then call('RPUSH', s.key, '0', '0') end
      call('RPUSH', s.key, int(s.at), int(s.total))
      s.pairs = s.pairs + 1
    end
    call('PEXPIRE', s.key, ttl(s.at + s.x - now))
  end

  function family.take(s)
    s.at, s.total, s.taken = max(now, s.at), s.total + s.cost, true
  end

  function family.report(s)
    local using, retry = s.total - s.base, 0
    local reset = using > 0 and s.at + s.x - now or 0
    if not s.fits and s.cost <= s.quota then
      local free = s.total + s.cost - s.quota
      local i = first_where(s, s.over + 1, s.pairs, function(_, total) return total >= free end)
      retry = pair(s, i) + s.x - now
    end
    return floor(max(s.quota - using, 0) / max(s.cost, 1)), retry, reset
  end

  return family
end

-- ---- the request

-- Functions are made anew each time a script runs, so a family's only when it is needed.
local makers = {token = drain, leaky = drain, fixed = windows, counter = windows, strict = windows, log = log}
local made, limits, admitted = {}, {}, true

for i = 1, #KEYS do
  local a = 7 * i - 7
  local s = {key = KEYS[i], kind = ARGV[a + 1], quota = tonumber(ARGV[a + 2]), cost = tonumber(ARGV[a + 3]),
             x = tonumber(ARGV[a + 5]), y = tonumber(ARGV[a + 6]), z = tonumber(ARGV[a + 7]), note = 0}
  local maker = makers[s.kind]
  local family = made[maker] or maker()
  made[maker] = family
  family.load(s)
  if s.note == 1 then call('DEL', s.key) end
  if s.note == 2 then family.keep(s) end
  s.fits = s.cost <= s.quota and (s.cost == 0 or family.fits(s))
  admitted = admitted and (s.fits or ARGV[a + 4] == '1')
  s.family, limits[i] = family, s
end

local reply = {}
for i, s in ipairs(limits) do
  if admitted and s.fits and s.cost > 0 then
    s.family.take(s)
    s.family.keep(s)
  end
  local left, retry, reset = s.family.report(s)
  if s.fits then retry = 0 elseif s.cost > s.quota then retry = -1 end
  local n = 5 * i - 5
  reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4], reply[n + 5] = s.fits and 1 or 0, left, retry, reset, s.note
end
return reply
