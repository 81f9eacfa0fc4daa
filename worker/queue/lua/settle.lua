-- Empties the list of an owner that is gone: requeues its messages in their order, before all that wait.
-- A bounded number at once; safe to repeat. Removes each message first, so that it runs on a full Redis too.
--
-- KEYS: 1 the owner's list; 2 queue; 3 hash of counts; 4 list of deferred messages; 5 hash of numbers (take.lua)
-- ARGV: 1 mode; 2 most messages
--       '':         nothing is counted
--       'alone':    the process died with all of them: each must run alone
--       'counted':  the process died, and of this: each is counted
--       a digest:   the process died of this message: it is counted, and deferred; of two alike, one
--       'answered': their outcomes are stored: they are deleted, not requeued
-- Reply: the number of messages removed from the list

-- Of a claim, to the right. What was gathered stands to the left, and has not had its turn (take.lua).
local MOST_TAKEN = 64
local mode, most = ARGV[1], tonumber(ARGV[2])
for moved = 0, most - 1 do
    local message = redis.call('LPOP', KEYS[1])
    if not message then return moved end
    local digest = redis.sha1hex(message)
    local alone = digest .. ':alone'
    local has_killed = mode == digest
    if has_killed then mode = '' end
    if mode == 'answered' then
        redis.call('HDEL', KEYS[3], digest, alone)
    elseif has_killed then
        redis.call('LPUSH', KEYS[4], message)
    else
        redis.call('RPUSH', KEYS[2], message)
        if redis.call('LLEN', KEYS[1]) < MOST_TAKEN then redis.call('HINCRBY', KEYS[5], 'in_turn', 1) end
    end
    local mark = redis.call('HGET', KEYS[3], alone)
    if has_killed or mode == 'counted' then
        -- A death in a bundle ('1') is counted once the message has ended a process alone too ('2').
        redis.call('HINCRBY', KEYS[3], digest, mark == '1' and 2 or 1)
        if mark then redis.call('HSET', KEYS[3], alone, '2') end
    elseif mode == 'alone' and not mark then
        redis.call('HSET', KEYS[3], alone, '1')
    end
end
return most
