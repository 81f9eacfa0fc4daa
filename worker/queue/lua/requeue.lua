-- Requeues messages that an owner's list still has, before all that wait. Safe to repeat.
-- Removes each first, so that it runs on a full Redis too.
--
-- KEYS: 1 the owner's list; 2 queue; 3 hash of numbers (take.lua)
-- ARGV: the messages, the next one last
for _, message in ipairs(ARGV) do
    if redis.call('LREM', KEYS[1], 1, message) == 1 then
        redis.call('RPUSH', KEYS[2], message)
        redis.call('HINCRBY', KEYS[3], 'in_turn', 1)
    end
end
