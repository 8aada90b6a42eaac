-- What a third party's answers said about a bucket, for all replicas: pauses that grow, a slower rate, errors counted. src/outbound/strikes.c says the same.
-- KEYS 1 word (hash strikes,until,why,struck,slow,moved,errors) 2 bucket (hash tat,eid,pause)
-- ARGV 1 what: 0 look 1 well 2 throttled 3 banned 4 error 5 budget 2 age of the request 3 pause asked for, 0 = none 4 usual pause 5 growth 6 least 7 most 8 slow to 9 slowest, permille of the interval 10 step of the return 11 errors allowed 12 slice of their period 13 most of all, microseconds
-- reply {now, end of the pause or 0, why, strikes, slow, 1 = a new strike}
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local a = {}
for i = 1, 13 do a[i] = tonumber(ARGV[i]) end
local what, asked, step = a[1], a[3], a[10]
local left = now - a[2]
local SLICES, STEPS = 10, 200
local function int(x)
  return string.format('%.0f', x)
end

local kept = redis.call('HMGET', KEYS[1], 'strikes', 'until', 'why', 'struck', 'slow', 'moved', 'errors')
local strikes, till, why = tonumber(kept[1]) or 0, tonumber(kept[2]) or 0, tonumber(kept[3]) or 0
local struck, slow, moved = tonumber(kept[4]) or 0, tonumber(kept[5]) or 1000, tonumber(kept[6]) or now
local pause = tonumber(redis.call('HGET', KEYS[2], 'pause')) or 0
-- That far ahead: the clock went back.
if till > now + a[13] then till = 0 end
if pause > now + a[13] then pause = 0 end
-- An operator ended it: with it went the offence.
if till > pause then till = 0 end
struck, moved = math.min(struck, now), math.min(moved, now)

-- What was slowed down comes back by itself, a twelfth of it with each step.
local steps = math.floor((now - moved) / step)
if steps > 0 then
  local excess = slow - 1000
  for _ = 1, math.min(steps, STEPS) do excess = math.floor(excess * 11 / 12) end
  slow, moved = 1000 + (steps > STEPS and 0 or excess), moved + steps * step
end

local length, reason, fresh, errors = -1, 0, 0, kept[7]
if what == 1 then
  if left >= till then strikes = 0 end
elseif what == 2 then
  -- A request that left before the pause was over is of the same offence.
  if left >= till then
    strikes, fresh = strikes + 1, 1
    if a[9] > 1000 and (strikes > 1 or (struck > 0 and now - struck <= 80 * step)) then
      slow, moved = math.min(math.floor(slow * 3 / 2), a[9]), now
    end
    struck = now
    length = a[4]
    for _ = 2, math.min(strikes, 64) do length = math.min(length * a[5], a[7]) end
  end
  if asked > 0 then length = asked end
  if length >= 0 then length, reason = math.max(math.min(length, a[7]), a[6]), 1 end
elseif what == 3 then
  length, reason = math.max(a[4], math.min(asked, a[7])), 2
elseif what == 4 and a[11] > 0 then
  local current, total, words, list = math.floor(now / a[12]), 0, {}, {}
  for index, count in string.gmatch(errors or '', '(%d+):(%d+)') do
    index, count = tonumber(index), tonumber(count)
    if index >= current - SLICES and index <= current then list[#list + 1] = {index, count} end
  end
  if #list == 0 or list[#list][1] ~= current then list[#list + 1] = {current, 0} end
  list[#list][2] = list[#list][2] + 1
  for i, one in ipairs(list) do
    total = total + one[2]
    words[i] = int(one[1]) .. ':' .. int(one[2])
  end
  errors = table.concat(words, ' ')
  for _, one in ipairs(list) do
    if total < a[11] then break end
    total = total - one[2]
    length, reason = (one[1] + SLICES + 1) * a[12] - now, 3
  end
elseif what == 5 then
  local to = math.min(a[8], a[9])
  if to > slow then slow, moved = to, now end
  if asked > 0 then length, reason = math.min(asked, a[7]), 4 end
end

if length >= 0 then
  local last = now + math.min(length, a[13])
  if last >= till then till, why = last, reason end
  if last > pause then
    pause = last
    redis.call('HSET', KEYS[2], 'pause', int(pause))
    local need = math.ceil((pause - now) / 1000) + 60000
    if redis.call('PTTL', KEYS[2]) < need then redis.call('PEXPIRE', KEYS[2], need) end
  end
end
if what > 0 then
  redis.call('HSET', KEYS[1], 'strikes', int(strikes), 'until', int(till), 'why', int(why), 'struck', int(struck), 'slow', int(slow),
             'moved', int(moved), 'errors', errors or '')
  local live = math.max(till - now, a[12] * (SLICES + 2), STEPS * step)
  redis.call('PEXPIRE', KEYS[1], math.ceil(live / 1000) + 60000)
end
return {now, pause > now and pause or 0, till > now and why or 0, strikes, slow, fresh}
