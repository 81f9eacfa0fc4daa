-- Start of a script that needs the time: `now` is Redis' Unix time, as a score.
-- Redis 6 needs the first line to allow writes after it.
--
-- KEYS: none
-- ARGV: none
redis.replicate_commands()
local time = redis.call('TIME')
local now = time[1] .. '.' .. string.format('%06d', time[2])
