-- A set of limits for the whole fleet: a process gets its tokens of all limits, or none. A limit has a level of whole
-- tokens, which is below 0 while it is in debt, and parts of a token: `per` parts are one, and each microsecond adds
-- `permits` parts. A level in parts may exceed 2^53, so it takes two numbers.
-- KEYS: limits (hash: name of a limit to "level filled parts unit"), processes (sorted set: pid by when last seen), the
--   last charge of this process (text: its number)
-- ARGV: "pid seen charge" as one text: whether the process is to be recorded as a member, and the number of its charge
--   (0: none), which counts once however often it comes; then for each limit, one to four,
--   "name permits per burst debt want need back used" as one text: `used` tokens are charged
-- reply: wait (0: granted), place of the limit that frees last (0: granted), processes; for each limit granted, forgiven
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local most = 4503599627370496
local pid, seen, charge = string.match(ARGV[1] or '', '^(%w+) ([01]) (%d+)$')
if not charge then error('argument 1 is not a process, a flag and a number') end
charge = charge + 0
local count = #ARGV - 1
if count < 1 or count > 4 then error('not one to four limits') end
local names, limits = {}, {}
for at = 1, count do
  local it = { string.match(ARGV[at + 1], '^([%w_]+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$') }
  if not it[9] then error('argument ' .. at + 1 .. ' is no limit') end
  names[at] = it[1]
  for place = 2, 9 do
    it[place] = it[place] + 0
    if it[place] > most then error('a number is above 2^52') end
  end
  it[2], it[3] = math.max(it[2], 1), math.max(it[3], 1)
  if it[3] > 35184372088832 then error('per is above 2^45') end
  limits[at] = it
end
if charge > most then error('a number is above 2^52') end
-- Read every key that may be of another type before any write.
local held = redis.call('HMGET', KEYS[1], unpack(names))
local processes = redis.call('ZCARD', KEYS[2])
local last = charge > 0 and redis.call('GET', KEYS[3]) or ''
last = #last < 17 and not last:find('%D') and tonumber(last) or 0
if last > most then last = 0 end
local charged = charge > last
-- The quotient of product and per, and the rest: exact although the product may exceed 2^53. Both factors are at most
-- 2^52, and `factor` and `rest` are below `per`, which is at most 2^45 (a year).
local function flow(elapsed, factor, per, rest)
  if elapsed * factor < most then
    local parts = elapsed * factor + rest
    local left = parts % per
    return (parts - left) / per, left
  end
  local whole, left = 0, 0
  for digit = 7, 0, -1 do
    local unit = 128 ^ digit
    local parts = left * 128 + math.floor(elapsed / unit) % 128 * factor
    left = parts % per
    whole = whole * 128 + (parts - left) / per
  end
  left = left + rest
  if left >= per then whole, left = whole + 1, left - per end
  return whole, left
end
local wait, late, writes = 0, 0, seen == '1' or charged
for at = 1, count do
  local it = limits[at]
  local permits, per, burst, debt, need, back = it[2], it[3], it[4], it[5], it[7], it[8]
  local sign, level, filled, parts, unit = string.match(held[at] or '', '^(%-?)(%d+) (%d+) (%d+) (%d+)$')
  if unit then level, filled, parts, unit = level + 0, filled + 0, parts + 0, unit + 0 end
  if not unit or level > most or filled > most or unit > most or parts >= unit then
    sign, level, filled, parts, unit = '', burst, now, 0, per
  end
  if sign == '-' then level = 0 - level end
  -- Settings have changed: keep whole tokens, and the rest in proportion.
  if unit ~= per then parts, writes = math.min(math.floor(parts / unit * per), per - 1), true end
  -- After a set-back of the clock of more than a second, time continues from the present reading.
  if filled > now + 1000000 then filled, writes = now, true end
  if now > filled then
    local elapsed, rest = now - filled, permits % per
    local whole = (permits - rest) / per
    -- Compute the products only if they are below what is missing.
    if whole > 0 and elapsed >= (burst - level) / whole then
      level = burst
    else
      local tokens
      tokens, parts = flow(elapsed, rest, per, parts)
      level = level + elapsed * whole + tokens
    end
    filled = now
  end
  if back > 0 then level, writes = level + back, true end
  if level >= burst then level, parts = burst, 0 end
  local least = 0 - debt
  if level < least then level, parts = least, 0 end
  it.forgiven = 0
  if charged then
    level = level - it[9]
    if level < least then it.forgiven, level, parts = least - level, least, 0 end
  end
  if need > level and need > 0 then
    local left = math.ceil(((math.min(need, burst) - level) * per - parts) / permits) + filled - now
    left = math.min(math.max(left, 1), most)
    if left > wait then wait, late = left, at end
  end
  it.level, it.filled, it.parts = level, filled, parts
end
local reply, fields, life = {}, {}, 0
for at = 1, count do
  local it = limits[at]
  local granted = wait == 0 and math.max(math.min(it[6], it.level), 0) or 0
  it.level = it.level - granted
  writes = writes or granted > 0
  reply[at] = string.format('%.0f %.0f', granted, it.forgiven)
  fields[2 * at - 1] = it[1]
  fields[2 * at] = string.format('%.0f %.0f %.0f %.0f', it.level, it.filled, it.parts, it[3])
  life = math.max(life, math.ceil(((it[4] - it.level) * it[3] - it.parts) / it[2]) + it.filled - now)
end
if seen == '1' then
  redis.call('ZADD', KEYS[2], now, pid)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 5000000)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 1000001, '+inf')
  redis.call('PEXPIRE', KEYS[2], 10000)
  processes = redis.call('ZCARD', KEYS[2])
end
-- A refusal writes nothing: the tokens added since the last write are computed anew each time.
if writes then
  redis.call('HSET', KEYS[1], unpack(fields))
  -- The key expires when all limits would be full: a missing limit is a full one.
  redis.call('PEXPIRE', KEYS[1], math.min(math.ceil(life / 1000), 8796093022208) + 1000)
end
if charged then redis.call('SET', KEYS[3], string.format('%.0f', charge), 'PX', 600000) end
return string.format('%.0f %.0f %.0f ', wait, late, processes) .. table.concat(reply, ' ')
