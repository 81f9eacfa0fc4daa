-- Reads the ends of the entries of deliveries: an entry may be long, and its queue is at its end.
--
-- KEYS: 1 hash of deliveries
-- ARGV: 1 bytes of an end; then the tags
-- Reply: the ends
local ends = {}
for number = 2, #ARGV do
    ends[number - 1] = string.sub(redis.call('HGET', KEYS[1], ARGV[number]) or '', -tonumber(ARGV[1]))
end
return ends
