-- Stores and publishes records of jobs, but those of jobs that have a final one: a job has one outcome, also if it was
-- delivered twice. Only those after which the same id may be sent again are overwritten: from the dead letters, by an
-- operator, or with a new token, by its sender. Records begin as Celery composes them; a key of another type is none.
--
-- KEYS: of each record
-- ARGV: 1 seconds that they are kept; then the JSON of each
-- Reply: the numbers of those that are not stored
local refused = {}
local again = {Unavailable = true, DeadLettered = true, NotAuthorised = true}
for number, key in ipairs(KEYS) do
    local head = redis.pcall('GETRANGE', key, 0, 63)
    if type(head) ~= 'string' then head = '' end
    local failure = string.match(head, '^{"status": ?"FAILURE", ?"result": ?{"exc_type": ?"(%a+)"')
    local has_ended = string.find(head, '^{"status": ?"SUCCESS"') or string.find(head, '^{"status": ?"REVOKED"')
    if not has_ended and (not failure or again[failure]) then
        redis.call('SETEX', key, ARGV[1], ARGV[number + 1])
        redis.call('PUBLISH', key, ARGV[number + 1])
    else
        refused[#refused + 1] = number
    end
end
return refused
