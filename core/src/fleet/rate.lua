-- One token bucket for the whole fleet, in parts as in `TokenBucket`: a token has `per` parts, and each microsecond
-- adds `permits` parts. Every number read is an integer of at most 2^52, so that sums are exact.
-- KEYS: bucket (text: level, filled up to, parts of a token, processes), processes (sorted set: pid by when last seen)
-- ARGV: "permits per burst want need back" as one text (a word costs the server more than a number in a text does), and
--   the pid if the process is to be recorded as a member of the fleet, which each process requests once a second
-- reply: granted wait processes (0: unknown)
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local most = 4503599627370496
local permits, per, burst, want, need, back = string.match(ARGV[1] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
if not back then error('argument 1 is not six numbers') end
-- An addition converts a text to a number, which is cheaper than `tonumber`.
permits, per, burst, want, need, back = permits + 0, per + 0, burst + 0, want + 0, need + 0, back + 0
if permits > most or per > most or burst > most or want > most or need > most or back > most then
  error('a number is above 2^52')
end
if permits < 1 then permits = 1 end
if per < 1 then per = 1 end
local full = burst * per
if full > most then error('burst times per is above 2^52') end
-- Read every key that may be of another type before any write, so that a decision is applied completely or not at all.
local held = redis.call('GET', KEYS[1]) or ''
local level, filled, unit, processes = string.match(held, '^(%d+) (%d+) (%d+) (%d+)$')
if processes then level, filled, unit, processes = level + 0, filled + 0, unit + 0, processes + 0 end
if not processes or unit == 0 or level > most or filled > most or unit > most or processes > most then
  level, filled, unit, processes = full, now, per, redis.call('ZCARD', KEYS[2])
end
-- A refusal writes nothing: the tokens added since the last write are computed anew each time.
local seen = ARGV[2]
local writes = seen or back > 0 or unit ~= per
-- Settings have changed: keep whole tokens, and the rest in proportion.
if unit ~= per then
  local rest = level % unit
  level = (level - rest) / unit * per + math.floor(rest / unit * per)
end
if level > full then level = full end
-- After a set-back of up to a second, wait for the clock. After a longer one (another server, with another clock)
-- time continues from the present reading: that adds no tokens, and no call waits for hours.
if filled > now + 1000000 then filled, writes = now, true end
if now > filled then
  local elapsed, missing = now - filled, full - level
  -- Compute the product only if it is below `missing`. The quotient is never rounded across an integer.
  level = elapsed >= missing / permits and full or level + elapsed * permits
  filled = now
end
level = level + back * per
if level > full then level = full end
local there, granted, wait = (level - level % per) / per, 0, 0
local behind = filled - now
if want <= there then
  granted = want
elseif need <= there then
  granted = there
else
  wait = math.max(math.ceil((math.min(need, burst) * per - level) / permits) + behind, 1)
end
if seen then
  redis.call('ZADD', KEYS[2], now, seen)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 5000000)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 1000001, '+inf')
  redis.call('PEXPIRE', KEYS[2], 10000)
  processes = redis.call('ZCARD', KEYS[2])
end
if writes or granted > 0 then
  level = level - granted * per
  -- The key expires when the bucket would be full: a missing key is a full bucket.
  local left = math.ceil((math.ceil((full - level) / permits) + behind) / 1000) + 1000
  redis.call('SET', KEYS[1], string.format('%.0f %.0f %.0f %.0f', level, filled, per, processes), 'PX', left)
end
return string.format('%.0f %.0f %.0f', granted, wait, processes)
