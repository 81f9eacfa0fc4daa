-- Requeues a delivery of a worker of an older version that is gone, before all that wait. Safe to repeat.
-- A delivery that waited for a process had not begun, and so does not count. Removes first, for a full Redis.
--
-- KEYS: 1 hash of deliveries; 2 sorted set of their tags; 3 set of tags that waited; 4 queue; 5 hash of counts
-- ARGV: 1 tag; 2 end of the delivery's entry, after the message
-- Reply: 1; 0 if there is no such delivery
local entry = redis.call('HGET', KEYS[1], ARGV[1])
if not entry or string.sub(entry, -#ARGV[2]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
local waited = redis.call('SREM', KEYS[3], ARGV[1])
local message = string.sub(entry, 2, -#ARGV[2] - 1)
redis.call('RPUSH', KEYS[4], message)
if waited == 1 then
    local digest = redis.sha1hex(message)
    if redis.call('HINCRBY', KEYS[5], digest, -1) <= 0 then redis.call('HDEL', KEYS[5], digest) end
end
return 1
