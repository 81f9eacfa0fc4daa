-- Requeues a delivery of a worker of an older version that is gone, before all that wait. Safe to repeat.
-- A delivery that waited for a process had not begun, and so does not count. Removes first, for a full Redis.
-- The entry names its queue at its end: the keys of the queue are not among KEYS.
--
-- KEYS: 1 hash of deliveries; 2 sorted set of their tags; 3 set of tags that waited
-- ARGV: 1 tag; 2 end of the name of a queue's hash of counts
-- Reply: 1; 0 if there is no such delivery
local entry = redis.call('HGET', KEYS[1], ARGV[1])
local name = entry and string.match(string.sub(entry, -2048), '^.*,"",("[^"]*")%]$')
if not name then return 0 end
local queue = cjson.decode('[' .. name .. ']')[1]
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
local waited = redis.call('SREM', KEYS[3], ARGV[1])
local message = string.sub(entry, 2, -#(',"",' .. name .. ']') - 1)
redis.call('RPUSH', queue, message)
if waited == 1 then
    local counts, digest = queue .. ARGV[2], redis.sha1hex(message)
    if redis.call('HINCRBY', counts, digest, -1) <= 0 then redis.call('HDEL', counts, digest) end
end
return 1
