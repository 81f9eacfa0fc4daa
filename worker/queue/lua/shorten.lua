-- Replaces the messages of a list that are too long with excerpts.
-- Begins with a removal, so that it runs on a full Redis too.
--
-- KEYS: 1 the list
-- ARGV: 1 most bytes of a message
redis.call('DEL', 'retrieval-worker.nothing')
for place = 0, redis.call('LLEN', KEYS[1]) - 1 do
    local message = redis.call('LINDEX', KEYS[1], place)
    if #message > tonumber(ARGV[1]) then
        redis.call('LSET', KEYS[1], place, shorten(message, tonumber(ARGV[1])))
    end
end
