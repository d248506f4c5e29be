-- One circuit breaker for the whole fleet. States: 0 closed, 1 open, 2 half-open (opened, and the break is over).
-- KEYS: breaker (hash: e epoch, u open until, d length of the break, s 1 opened or 0 closed), votes (sorted set: pid by when)
-- ARGV: op (0 read, 1 open, 2 close) pid epoch duration quorum window      reply: state remaining epoch votes
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local function whole(text)
  local n = text and #text < 17 and not text:find('%D') and tonumber(text)
  return n and n <= 4503599627370496 and n or nil
end
local function argument(at) return whole(ARGV[at]) or error('argument ' .. at .. ' is no number') end
local op, epoch, duration = argument(1), argument(3), argument(4)
local quorum, window = math.max(argument(5), 1), argument(6)
local kept = math.max(10 * duration, 60000000)
local held = redis.call('HMGET', KEYS[1], 'e', 'u', 'd', 's')
local votes = redis.call('ZCOUNT', KEYS[2], now - window + 1, now + 1000000)
local known, till = whole(held[1]) or 0, whole(held[2]) or 0
local state = whole(held[4]) == 1 and 1 or 0
if state == 1 then
  -- The clock has run back: limit the break to its declared length.
  local length = whole(held[3]) or 0
  if till > now + length then
    till = now + length
    redis.call('HSET', KEYS[1], 'u', till)
  end
  if now >= till then state = 2 end
end
local opens = false
if op == 1 and state == 0 then
  redis.call('ZADD', KEYS[2], now, ARGV[2])
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - window)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], now + 1000001, '+inf')
  redis.call('PEXPIRE', KEYS[2], math.ceil(window / 1000) + 1000)
  votes = redis.call('ZCARD', KEYS[2])
  opens = votes >= quorum
elseif op == 1 and state == 2 then
  -- A failed probe. A probe of an earlier break says nothing about this break.
  opens = epoch == known
end
if opens then
  -- The epoch includes the clock, so that no epoch repeats after a loss of data.
  state, known, till = 1, math.max(known + 1, math.floor(now / 1000)), now + duration
  redis.call('DEL', KEYS[2])
  redis.call('HSET', KEYS[1], 'e', known, 'u', till, 'd', duration, 's', 1)
  redis.call('PEXPIRE', KEYS[1], math.ceil((duration + kept) / 1000))
elseif op == 2 and state == 2 and epoch == known then
  state = 0
  redis.call('HSET', KEYS[1], 's', 0)
  redis.call('PEXPIRE', KEYS[1], math.ceil(kept / 1000))
end
return string.format('%.0f %.0f %.0f %.0f', state, state == 1 and till - now or 0, known, votes)
