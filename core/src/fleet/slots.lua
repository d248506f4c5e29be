-- The permits of a bulkhead for the whole fleet, each a lease that ends by itself.
-- KEYS: slots (sorted set: "pid:fence" by when the lease ends), fence (text: the last fence given, the longest lease),
--   wants (hash: each process that wants more slots than it holds -> expiry, held, wanted, since when)
-- ARGV: op (0 acquire, 1 release, 2 renew, 3 reap) pid limit ttl n held fence...
-- reply: acquire: granted first_fence used reaped keep   release: released used   renew: renewed used gone...
--   reap: reaped used
-- keep: how many slots the process may keep while other processes want some
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local function whole(text)
  local n = text and #text < 17 and not text:find('%D') and tonumber(text)
  return n and n <= 4503599627370496 and n or nil
end
local function argument(at) return whole(ARGV[at]) or error('argument ' .. at .. ' is no number') end
local op, limit, ttl, n = argument(1), argument(3), argument(4), math.min(argument(5), 512)
local mine = argument(6)
if #ARGV > 518 then error('more than 512 fences') end
for at = 7, #ARGV do argument(at) end
redis.call('ZCARD', KEYS[1])
-- A number above the check below was not written by one of our scripts.
local last, longest = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+)$')
last, longest = whole(last) or 0, math.max(whole(longest) or 0, ttl)
if last > 4503599627369984 then last = 0 end
local function member(fence) return ARGV[2] .. ':' .. string.format('%.0f', fence) end
-- For the longest lease: other processes may have longer leases than the requesting one.
local function remember()
  local left = math.ceil(longest / 1000) + 1000
  redis.call('PEXPIRE', KEYS[1], left)
  redis.call('SET', KEYS[2], string.format('%.0f %.0f', last, longest), 'PX', left)
end
local function reap()
  -- The clock has run back: limit each lease to the longest declared one.
  local late = redis.call('ZRANGEBYSCORE', KEYS[1], now + longest + 1, '+inf', 'LIMIT', 0, 512)
  for _, slot in ipairs(late) do redis.call('ZADD', KEYS[1], now + longest, slot) end
  return redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
-- The entry of a process that wants slots: its expiry, slots held, slots wanted, since when.
local function want(text)
  local till, held, wanted, from = string.match(text or '', '^(%d+) (%d+) (%d+) (%d+)$')
  till, held, wanted, from = whole(till), whole(held), whole(wanted), whole(from)
  if till and held and wanted and from and till > now and till <= now + 250000 then
    return till, held, wanted, from
  end
end
local function note(till, held, wanted, from)
  redis.call('HSET', KEYS[3], ARGV[2], string.format('%.0f %.0f %.0f %.0f', till, held, wanted, from))
  redis.call('PEXPIRE', KEYS[3], 1000)
end
if op == 0 then
  local wants = redis.call('HGETALL', KEYS[3])
  local reaped = reap()
  local used = redis.call('ZCARD', KEYS[1])
  -- The other processes that want more, their slots, and since when this process has waited.
  local others, theirs, known, since = {}, 0, false, now
  for at = 1, #wants, 2 do
    local till, held, wanted, from = want(wants[at + 1])
    if not till then
      redis.call('HDEL', KEYS[3], wants[at])
    elseif wants[at] == ARGV[2] then
      known, since = true, math.min(from, now)
    elseif #others < 511 then
      others[#others + 1] = { wants[at], held, held + wanted, from }
      theirs = theirs + held
    end
  end
  -- The fair level: the slots not held by processes that have enough, divided evenly, but no process gets more
  -- than it wants. Of the processes that want more than the level, `rest` get one slot more, in turns of 250 ms.
  local wish = mine + n
  local pot = math.max(limit - math.max(used - mine - theirs, 0), 0)
  local level, rest, hungry = math.floor(pot / (#others + 1)), 0, 0
  for _ = 1, 8 do
    local taken = math.min(wish, level)
    hungry = wish > level and 1 or 0
    for _, other in ipairs(others) do
      taken, hungry = taken + math.min(other[3], level), hungry + (other[3] > level and 1 or 0)
    end
    rest = pot - taken
    if rest < hungry or hungry == 0 then break end
    level = level + math.floor(rest / hungry)
  end
  -- First the processes in their turn, then those without such a slot, then those whose turn is over.
  local function order(held, from)
    if held <= level then return 1 end
    return now - from < 250000 and 0 or 2
  end
  local first_in, before = order(mine, since), 0
  for _, other in ipairs(others) do
    if other[3] > level then
      local place = order(other[2], other[4])
      local earlier = other[4] < since or other[4] == since and other[1] < ARGV[2]
      if place < first_in or place == first_in and earlier then before = before + 1 end
    end
  end
  local keep = before < rest and level + 1 or level
  if #others == 0 or hungry == 0 then keep = limit end
  local granted, first = math.max(math.min(n, limit - used, keep - mine), 0), 0
  if granted < n then
    note(now + 250000, mine + granted, n - granted, granted > 0 and now or since)
  elseif known then
    redis.call('HDEL', KEYS[3], ARGV[2])
  end
  if used == 0 then longest = ttl end
  if granted > 0 then
    -- The fence includes the clock, so that no fence repeats after a loss of data.
    first = math.max(last + 1, now)
    last = first + granted - 1
    for fence = first, last do redis.call('ZADD', KEYS[1], now + ttl, member(fence)) end
    remember()
  end
  return string.format('%.0f %.0f %.0f %.0f %.0f', granted, first, used + granted, reaped, keep)
elseif op == 1 then
  local till, _, wanted = want(redis.call('HGET', KEYS[3], ARGV[2]) or '')
  local released = 0
  for at = 7, #ARGV do released = released + redis.call('ZREM', KEYS[1], member(argument(at))) end
  -- Its turn is over: the others come first.
  if till and released > 0 then note(till, mine, wanted, now) end
  return string.format('%.0f %.0f', released, redis.call('ZCARD', KEYS[1]))
elseif op == 2 then
  local renewed, gone = 0, ''
  for at = 7, #ARGV do
    local fence = argument(at)
    if redis.call('ZSCORE', KEYS[1], member(fence)) then
      redis.call('ZADD', KEYS[1], now + ttl, member(fence))
      renewed = renewed + 1
    else
      gone = gone .. string.format(' %.0f', fence)
    end
  end
  if renewed > 0 then remember() end
  return string.format('%.0f %.0f', renewed, redis.call('ZCARD', KEYS[1])) .. gone
elseif op == 3 then
  local reaped = reap()
  return string.format('%.0f %.0f', reaped, redis.call('ZCARD', KEYS[1]))
end
error('op is none of 0 to 3')
