-- Renews the keys of owners, or makes them, and records when their lists were last seen, by Redis' time.
-- Removes first (a key that does not exist), so that it runs on a full Redis too.
--
-- KEYS: 1 sorted set of the owners' lists; then the key of each owner
-- ARGV: 1 seconds that the keys live; then list and value of each owner
redis.call('DEL', 'retrieval-worker.nothing')
for number = 2, #KEYS do
    redis.call('SET', KEYS[number], ARGV[2 * number - 1], 'EX', ARGV[1])
    redis.call('ZADD', KEYS[1], now, ARGV[2 * number - 2])
end
