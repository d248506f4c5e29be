-- The closing of a route that was answered with "too many requests", for the whole fleet. It only says until when no
-- attempt starts: each process reopens by itself, with one attempt.
-- KEYS: closing (text: epoch, closed until, length of the closing, closings in a row)
-- ARGV: "span row" as one text: the time left of the closing that a process reports, and its closings in a row; a span
--   of 0 only reads
-- reply: remaining epoch row
local time = redis.call('TIME') local now = time[1] * 1000000 + time[2]
local most = 4503599627370496
local span, row = string.match(ARGV[1] or '', '^(%d+) (%d+)$')
if not row then error('argument 1 is not two numbers') end
span, row = span + 0, row + 0
if span > most or row > most then error('a number is above 2^52') end
local held = redis.call('GET', KEYS[1]) or ''
local epoch, till, length, known = string.match(held, '^(%d+) (%d+) (%d+) (%d+)$')
if known then epoch, till, length, known = epoch + 0, till + 0, length + 0, known + 0 end
if not known or epoch > most or till > most or length > most or known > most then
  epoch, till, length, known = 0, 0, 0, 0
end
local left, writes = math.max(till - now, 0), false
-- The clock has run back: limit the closing to its declared length.
if left > length then left, writes = length, true end
if left == 0 then known = 0 end
if span > left then
  -- The epoch includes the clock, so that no epoch repeats after a loss of data.
  epoch = math.max(epoch + 1, math.floor(now / 1000))
  left, length, known, writes = span, span, math.max(row, known), true
end
if writes then
  held = string.format('%.0f %.0f %.0f %.0f', epoch, now + left, length, known)
  redis.call('SET', KEYS[1], held, 'PX', math.ceil(left / 1000) + 1000)
end
return string.format('%.0f %.0f %.0f', left, epoch, known)
