-- Requeues delayed messages that are due by Redis' time, behind all that wait. Safe to repeat.
-- Removes each first, so that it runs on a full Redis too.
--
-- KEYS: 1 sorted set of delayed tags; 2 hash of delayed messages; 3 queue
-- ARGV: 1 most messages; 2 bytes after which no more is requeued
-- Reply: 1 if more are due
local due, bytes = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]), 0
for number, tag in ipairs(due) do
    redis.call('ZREM', KEYS[1], tag)
    local message = redis.call('HGET', KEYS[2], tag)
    if message then
        redis.call('HDEL', KEYS[2], tag)
        redis.call('LPUSH', KEYS[3], message)
        bytes = bytes + #message
        if bytes > tonumber(ARGV[2]) then break end
    end
end
return #redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)
