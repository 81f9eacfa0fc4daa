-- Deletes messages that were sorted by caller (take.lua), a bounded number of callers at once; safe to repeat.
--
-- KEYS: 1 sorted set of the callers; 2 hash of numbers
-- ARGV: 1 most callers
-- Reply: the number of messages; nil if there is no caller
local callers = redis.call('ZPOPMIN', KEYS[1], ARGV[1])
if #callers == 0 then
    redis.call('DEL', KEYS[2])
    return false
end
local count = 0
for number = 1, #callers, 2 do
    count = count + redis.call('LLEN', callers[number])
    redis.call('DEL', callers[number])
end
redis.call('HINCRBY', KEYS[2], 'sorted', -count)
return count
