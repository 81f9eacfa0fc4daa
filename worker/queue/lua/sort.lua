-- Sorts the messages that an owner gathered into the lists of their callers, behind what waits there.
-- Does nothing if the owner has counted as dead, or its list is another one. Removes first, for a full Redis.
--
-- KEYS: 1 key of the owner; 2 its list: gathered messages, and to the right of these those that it took; 3 list of the
--       callers; 4 hash of numbers; then the lists of callers
-- ARGV: 1 number of messages that it took; then for each gathered message, the next one first, the number of its caller
-- Reply: 1; 0 if it did nothing
local count = #ARGV - 1
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('LLEN', KEYS[2]) ~= ARGV[1] + count then return 0 end
redis.call('DEL', 'retrieval-worker.nothing')
for _ = 1, tonumber(ARGV[1]) do redis.call('LMOVE', KEYS[2], KEYS[2], 'RIGHT', 'LEFT') end
for number = 2, #ARGV do
    local caller = KEYS[4 + ARGV[number]]
    if redis.call('EXISTS', caller) == 0 then redis.call('LPUSH', KEYS[3], caller) end
    redis.call('LMOVE', KEYS[2], caller, 'RIGHT', 'LEFT')
end
redis.call('HINCRBY', KEYS[4], 'sorted', count)
return 1
