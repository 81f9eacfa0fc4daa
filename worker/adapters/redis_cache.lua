-- Stores a value of the cache under its key, which it adds to a sorted set by time; then deletes the oldest beyond the
-- limit.
--
-- KEYS: 1 of the value; 2 sorted set of keys
-- ARGV: 1 the value; 2 seconds that it is kept; 3 most values
local time = redis.call('TIME')
redis.call('ZADD', KEYS[2], time[1] + time[2] / 1000000, KEYS[1])
redis.call('EXPIRE', KEYS[2], ARGV[2])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
local excess = redis.call('ZCARD', KEYS[2]) - ARGV[3]
if excess > 0 then
    for i, item in ipairs(redis.call('ZPOPMIN', KEYS[2], excess)) do
        if i % 2 == 1 then redis.call('DEL', item) end
    end
end
