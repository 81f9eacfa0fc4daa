-- Reads messages of a queue's lists by priority, the latest ones, so that removing them needs no long search.
-- Replaces one that is too long with an excerpt; begins with a removal, so that it runs on a full Redis too.
--
-- KEYS: the lists
-- ARGV: 1 most messages; 2 bytes after which no more is read; 3 most bytes of a message
-- Reply: list and message of each
redis.call('DEL', 'retrieval-worker.nothing')
local found, bytes, longest = {}, 0, tonumber(ARGV[3])
for list = 1, #KEYS do
    local place = 0
    while #found < tonumber(ARGV[1]) and bytes <= tonumber(ARGV[2]) do
        local raw = redis.call('LINDEX', KEYS[list], place)
        if not raw then break end
        if #raw > longest then
            raw = shorten(raw, longest)
            redis.call('LSET', KEYS[list], place, raw)
        end
        found[#found + 1] = {KEYS[list], raw}
        bytes = bytes + #raw
        place = place + 1
    end
end
return found
