-- Moves a message that an owner's list still has to the delayed ones, by Redis' time. Safe to repeat.
-- Removes it first, so that it runs on a full Redis too.
--
-- KEYS: 1 the owner's list; 2 sorted set of delayed tags; 3 hash of delayed messages; 4 hash of counts
-- ARGV: 1 the message; 2 message in its place, or empty; 3 tag; 4 seconds
-- Reply: 1; 0 if the list does not have it
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then return 0 end
local message = ARGV[1]
if ARGV[2] ~= '' then
    local digest = redis.sha1hex(message)
    redis.call('HDEL', KEYS[4], digest, digest .. ':alone')
    message = ARGV[2]
end
redis.call('HSET', KEYS[3], ARGV[3], message)
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[3])
return 1
