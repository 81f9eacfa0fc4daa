-- Acknowledges the messages of an owner's one side and moves the next ones of the queue to its other side.
-- Takes at most half of those that wait, but one at least: other processes may be idle.
-- Does nothing if the owner has counted as dead. Removes first, so that it runs on a full Redis too.
--
-- KEYS: 1 key of the owner that takes; 2 queue; 3 list that it takes to; 4 list whose messages are all answered;
--       5 hash of counts
-- ARGV: 1 most messages (0: acknowledge only); 2 most bytes of a message (a longer one becomes an excerpt);
--       3 bytes after which no more is taken
-- Reply: nil if the owner is gone; else {messages, the next one first}, and {count, alone, count, alone, ...} of these
--        if any message of the queue is counted
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local counted = redis.call('EXISTS', KEYS[5]) == 1
if counted then
    for place = 0, redis.call('LLEN', KEYS[4]) - 1 do
        local digest = redis.sha1hex(redis.call('LINDEX', KEYS[4], place))
        redis.call('HDEL', KEYS[5], digest, digest .. ':alone')
    end
end
redis.call('DEL', KEYS[4])

local most = math.min(tonumber(ARGV[1]), math.ceil(redis.call('LLEN', KEYS[2]) / 2))
local longest, budget = tonumber(ARGV[2]), tonumber(ARGV[3])
local taken, counts, bytes = {}, {}, 0
for number = 1, most do
    if bytes > budget then break end
    local message = redis.call('LMOVE', KEYS[2], KEYS[3], 'RIGHT', 'LEFT')
    if #message > longest then
        message = shorten(message, longest)
        redis.call('LSET', KEYS[3], 0, message)
    end
    taken[number] = message
    bytes = bytes + #message
    if counted then
        local digest = redis.sha1hex(message)
        counts[2 * number - 1] = tonumber(redis.call('HGET', KEYS[5], digest) or 0)
        counts[2 * number] = redis.call('HEXISTS', KEYS[5], digest .. ':alone')
    end
end
return counted and {taken, counts} or {taken}
