-- Looks at how long a queue's messages have waited, by Redis' clock, whatever their senders say: first in, first out.
-- A mark is how many messages had arrived in all at a look, and when that was; what is taken later was first seen then.
-- Several workers look: a look soon after another one's does nothing.
--
-- KEYS: 1 queue; 2 hash of numbers (take.lua): 'taken', counted from the first look on; 'looked', when that was last, in
--       seconds; 'seen', how many had been taken then; 3 list of marks, oldest first, each the number and the time
-- ARGV: 1 least seconds between looks
-- Reply: nil if it did nothing; else {messages, tenths of a second, messages, tenths, ...}: what was taken since, and how
--        long before it was first seen; what was never seen waiting, for no time
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local numbers = redis.call('HMGET', KEYS[2], 'taken', 'looked', 'seen', 'sorted')
for place = 1, 4 do numbers[place] = tonumber(numbers[place]) end
local taken, looked, seen, sorted = unpack(numbers, 1, 4)
if looked and math.abs(now - looked) < tonumber(ARGV[1]) then return false end
if not taken then
    taken, seen = 0, 0
    redis.call('DEL', KEYS[3])
end
local arrived = taken + redis.call('LLEN', KEYS[1]) + math.max(0, sorted or 0)

local function mark_at(place)
    local mark = redis.call('LINDEX', KEYS[3], place)
    if not mark then return end
    local number, at = string.match(mark, '^(%d+) (.+)$')
    return tonumber(number), tonumber(at)
end

local waits = {}
local first, at = mark_at(0)
while first and seen < taken do
    local count = math.min(first, taken) - seen
    if count > 0 then
        waits[#waits + 1] = count
        waits[#waits + 1] = math.floor(math.max(0, now - at) * 10 + 0.5)
        seen = seen + count
    end
    if first > taken then break end
    redis.call('LPOP', KEYS[3])
    first, at = mark_at(0)
end
if seen < taken then
    waits[#waits + 1] = taken - seen
    waits[#waits + 1] = 0
end

-- An empty queue has no marks: those whose messages went another way (a lost second of a server, another consumer) end here.
if arrived == taken then
    redis.call('DEL', KEYS[3])
    at = nil
end
local last, last_at = mark_at(-1)
-- A wait is told within one part of 500, so that the list stays short however long the queue stands.
local oldest = at and now - at or 0
if arrived > math.max(last or 0, taken) and now - (last_at or 0) >= oldest / 500 then
    redis.call('RPUSH', KEYS[3], string.format('%.0f %.3f', arrived, now))
end
redis.call('HSET', KEYS[2], 'taken', taken, 'looked', string.format('%.3f', now), 'seen', taken)
return waits
