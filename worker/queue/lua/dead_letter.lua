-- Makes a dead letter of a message that an owner's list still has. Safe to repeat: a second entry is removed.
-- Removes first (a key that does not exist), so that it runs on a full Redis too.
--
-- KEYS: 1 the owner's list; 2 stream of dead letters; 3 hash of counts
-- ARGV: 1 the message; 2 its digest; 3 most entries; then fields and values of the entry
-- Reply: how often the message was counted; nil if the list does not have it
redis.call('DEL', 'retrieval-worker.nothing')
local count = tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or 0)
local entry = redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'deliveries', count, unpack(ARGV, 4))
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then
    redis.call('XDEL', KEYS[2], entry)
    return nil
end
redis.call('HDEL', KEYS[3], ARGV[2], ARGV[2] .. ':alone')
return count
