-- One token bucket for the whole fleet, in parts as `TokenBucket` has it: a token is `per` parts, and each microsecond
-- brings `permits` of them. Every number that is read is an integer of at most 2^52, so that sums are exact.
-- KEYS: bucket (text: level, filled up to, parts of a token, processes), processes (sorted set: pid by when last seen)
-- ARGV: pid permits per burst want need back seen      reply: granted wait processes (0: not known)
-- seen: 1 where the process is to be noted as one of the fleet, which each asks for once a second
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local function whole(text)
  local n = text and #text < 17 and not text:find('%D') and tonumber(text)
  return n and n <= 4503599627370496 and n or nil
end
local function argument(at) return whole(ARGV[at]) or error('argument ' .. at .. ' is no number') end
local permits, per = math.max(argument(2), 1), math.max(argument(3), 1)
local burst, want, need, back, seen = argument(4), argument(5), argument(6), argument(7), argument(8)
local full = burst * per
if full > 4503599627370496 then error('burst times per is above 2^52') end
-- What may be of another type is read before anything is written, so that a decision is made whole or not at all.
local held = redis.call('GET', KEYS[1]) or ''
local level, filled, unit, processes = string.match(held, '^(%d+) (%d+) (%d+) (%d+)$')
level, filled, unit, processes = whole(level), whole(filled), whole(unit), whole(processes)
if not (level and filled and unit and processes and unit > 0) then
  level, filled, unit, processes = full, now, per, redis.call('ZCARD', KEYS[2])
end
-- A refusal writes nothing: what has flowed in since the last write is computed anew each time.
local writes = seen > 0 or back > 0 or unit ~= per
-- Settings have changed: whole tokens stay, and the rest in proportion.
if unit ~= per then
  local rest = level % unit
  level = (level - rest) / unit * per + math.floor(rest / unit * per)
end
level = math.min(level, full)
-- A clock that ran back by less than a second is waited for. After a longer way (another server, with another clock)
-- time goes on from where it is now: that mints nothing, and nobody waits for hours.
if filled > now + 1000000 then filled, writes = now, true end
if now > filled then
  local elapsed, missing = now - filled, full - level
  -- The product is taken only where it is below `missing`. The quotient is never rounded across an integer.
  level = elapsed >= missing / permits and full or level + elapsed * permits
  filled = now
end
level = math.min(level + back * per, full)
local there, granted, wait = math.floor(level / per), 0, 0
local behind = filled - now
if want <= there then
  granted = want
elseif need <= there then
  granted = there
else
  wait = math.max(math.ceil((math.min(need, burst) * per - level) / permits) + behind, 1)
end
if seen > 0 then
  redis.call('ZADD', KEYS[2], now, ARGV[1])
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 5000000)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 1000001, '+inf')
  redis.call('PEXPIRE', KEYS[2], 10000)
  processes = redis.call('ZCARD', KEYS[2])
end
if writes or granted > 0 then
  level = level - granted * per
  -- Gone once it would be full: a key that is missing is a full bucket.
  local left = math.ceil((math.ceil((full - level) / permits) + behind) / 1000) + 1000
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f', level, filled, per, processes), 'PX', left)
end
return string.format('%.0f %.0f %.0f', granted, wait, processes)
