-- Requeues deferred messages, behind all that wait.
--
-- KEYS: 1 list of deferred messages; 2 queue
-- ARGV: 1 most messages if nothing waits in the queue; 2 most messages otherwise
-- Reply: the number of messages
local most = tonumber(ARGV[redis.call('LLEN', KEYS[2]) > 0 and 2 or 1])
for number = 1, most do
    local message = redis.call('RPOP', KEYS[1])
    if not message then return number - 1 end
    redis.call('LPUSH', KEYS[2], message)
end
return most
