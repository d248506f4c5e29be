-- Latencies of the whole fleet: counts in the buckets of a DDSketch, in two alternating slices of time.
-- KEYS: even and odd slice (hashes: n number of the slice, bucket -> count)
-- ARGV: pid slice_us ppm bucket count ...      reply: count bucket
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local function whole(text)
  local n = text and #text < 17 and not text:find('%D') and tonumber(text)
  return n and n <= 4503599627370496 and n or nil
end
local function argument(at) return whole(ARGV[at]) or error('argument ' .. at .. ' is no number') end
-- Every representable latency lies within these bucket numbers; others are clamped to the ends.
local function bucket(text)
  local n = whole((text:gsub('^%-', '')))
  n = n and (text:sub(1, 1) == '-' and 0 - n or n)
  return n and math.max(math.min(n, 8191), -8191)
end
local length, ppm = math.max(argument(2), 1), math.min(argument(3), 1000000)
if #ARGV % 2 == 0 or #ARGV > 1027 then error('not 0 to 512 pairs of a bucket and a count') end
for at = 4, #ARGV, 2 do
  if not (bucket(ARGV[at]) and argument(at + 1)) then error('argument ' .. at .. ' is no bucket') end
end
local slice = math.floor(now / length)
local this, before = KEYS[slice % 2 + 1], KEYS[2 - slice % 2]
local fresh = whole(redis.call('HGET', this, 'n')) ~= slice
local older = whole(redis.call('HGET', before, 'n')) == slice - 1
if #ARGV > 3 then
  if fresh then
    redis.call('DEL', this)
    redis.call('HSET', this, 'n', slice)
  end
  redis.call('PEXPIRE', this, math.ceil(length / 500) + 1000)
  for at = 4, #ARGV, 2 do
    redis.call('HINCRBY', this, bucket(ARGV[at]), argument(at + 1))
  end
  fresh = false
end
local counts, total, top = {}, 0, -8191
local function take(key)
  local all = redis.call('HGETALL', key)
  for at = 1, #all, 2 do
    local number, count = bucket(all[at]), whole(all[at + 1])
    if number and count and count > 0 then
      -- So that no sum reaches 2^53.
      count = math.min(count, 274877906944)
      counts[number] = (counts[number] or 0) + count
      total, top = total + count, math.max(top, number)
    end
  end
end
if not fresh then take(this) end
if older then take(before) end
if total == 0 then return '0 0' end
-- As in the sketch: values below the highest 2,048 buckets share the lowest of them.
local lowest = top - 2047
local below, rank = 0, math.floor(ppm * (total - 1) / 1000000)
for number, count in pairs(counts) do
  if number < lowest then below = below + count end
end
local found = lowest
if below <= rank then
  repeat
    below = below + (counts[found] or 0)
    found = found + 1
  until below > rank or found > top
  found = found - 1
end
return string.format('%.0f %.0f', total, found)
