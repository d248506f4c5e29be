-- The permits of a bulkhead for the whole fleet, each a lease that ends by itself.
-- KEYS: slots (sorted set: "pid:fence" by when the lease ends), fence (text: the last that was given, the longest lease)
-- ARGV: op (0 acquire, 1 release, 2 renew, 3 reap) pid limit ttl n fence...
-- reply: acquire: granted first_fence used reaped   release: released used   renew: renewed used gone...   reap: reaped used
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local function whole(text)
  local n = text and #text < 17 and not text:find('%D') and tonumber(text)
  return n and n <= 4503599627370496 and n or nil
end
local function argument(at) return whole(ARGV[at]) or error('argument ' .. at .. ' is no number') end
local op, limit, ttl, n = argument(1), argument(3), argument(4), math.min(argument(5), 512)
if #ARGV > 517 then error('more than 512 fences') end
for at = 6, #ARGV do argument(at) end
redis.call('ZCARD', KEYS[1])
-- So high that no script of ours has written it.
local last, longest = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+) (%d+)$')
last, longest = whole(last) or 0, math.max(whole(longest) or 0, ttl)
if last > 4503599627369984 then last = 0 end
local function member(fence) return ARGV[2] .. ':' .. string.format('%.0f', fence) end
-- For as long as the longest lease: others may have been promised more than who is asking.
local function keep()
  local left = math.ceil(longest / 1000) + 1000
  redis.call('PEXPIRE', KEYS[1], left)
  redis.call('SET', KEYS[2], string.format('%.0f %.0f', last, longest), 'PX', left)
end
local function reap()
  -- The clock has run back: no lease is longer than any was declared to be.
  local late = redis.call('ZRANGEBYSCORE', KEYS[1], now + longest + 1, '+inf', 'LIMIT', 0, 512)
  for _, slot in ipairs(late) do redis.call('ZADD', KEYS[1], now + longest, slot) end
  return redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
if op == 0 then
  local reaped = reap()
  local used = redis.call('ZCARD', KEYS[1])
  local granted, first = math.max(math.min(n, limit - used), 0), 0
  if used == 0 then longest = ttl end
  if granted > 0 then
    -- The clock in it keeps a fence from coming again after the data was lost.
    first = math.max(last + 1, now)
    last = first + granted - 1
    for fence = first, last do redis.call('ZADD', KEYS[1], now + ttl, member(fence)) end
    keep()
  end
  return string.format('%.0f %.0f %.0f %.0f', granted, first, used + granted, reaped)
elseif op == 1 then
  local released = 0
  for at = 6, #ARGV do released = released + redis.call('ZREM', KEYS[1], member(argument(at))) end
  return string.format('%.0f %.0f', released, redis.call('ZCARD', KEYS[1]))
elseif op == 2 then
  local renewed, gone = 0, ''
  for at = 6, #ARGV do
    local fence = argument(at)
    if redis.call('ZSCORE', KEYS[1], member(fence)) then
      redis.call('ZADD', KEYS[1], now + ttl, member(fence))
      renewed = renewed + 1
    else
      gone = gone .. string.format(' %.0f', fence)
    end
  end
  if renewed > 0 then keep() end
  return string.format('%.0f %.0f', renewed, redis.call('ZCARD', KEYS[1])) .. gone
elseif op == 3 then
  local reaped = reap()
  return string.format('%.0f %.0f', reaped, redis.call('ZCARD', KEYS[1]))
end
error('op is none of 0 to 3')
