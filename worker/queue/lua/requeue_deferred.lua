-- Requeues deferred messages if nothing waits in the queue.
--
-- KEYS: 1 list of deferred messages; 2 queue
-- ARGV: 1 most messages
-- Reply: the number of messages
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
for number = 1, tonumber(ARGV[1]) do
    local message = redis.call('RPOP', KEYS[1])
    if not message then return number - 1 end
    redis.call('LPUSH', KEYS[2], message)
end
return tonumber(ARGV[1])
