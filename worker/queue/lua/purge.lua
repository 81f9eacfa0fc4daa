-- Deletes messages that were sorted by caller (take.lua), a bounded number of callers at once; safe to repeat.
--
-- KEYS: 1 list of the callers; 2 hash of numbers
-- ARGV: 1 most callers
-- Reply: the number of messages; nil if no caller waits
local callers = redis.call('LPOP', KEYS[1], ARGV[1])
if not callers then
    redis.call('DEL', KEYS[2])
    return false
end
local count = 0
for _, caller in ipairs(callers) do
    count = count + redis.call('LLEN', caller)
    redis.call('DEL', caller)
end
redis.call('HINCRBY', KEYS[2], 'sorted', -count)
return count
