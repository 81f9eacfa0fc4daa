-- Acknowledges the messages of an owner's one side and moves the next ones of the queue to its other side.
-- Takes at most half of those that wait, but one at least: other processes may be idle.
-- Does nothing if the owner has counted as dead. Removes first, so that it runs on a full Redis too.
--
-- Takes what has had its turn, at the queue's right end; then one message of each caller in turn; then of the queue. Its
-- messages are not taken but gathered if there are callers, or more than ARGV 1. The next call sorts them by caller.
-- A new caller is next; with one message, it ends a claim soon, and the next ones are short. Who was served is a caller
-- until its next turn, without messages too.
-- Whatever waits, one message of it stands in the queue: whoever waits for the queue is woken.
--
-- KEYS: 1 key of the owner that takes; 2 queue; 3 list that it takes to; 4 list whose messages are all answered;
--       5 hash of counts; 6 sorted set of the callers, each the list of its messages, by the numbers of their turns: of a
--       new one, half below all others; 7 hash of numbers: 'sorted', messages in these lists; 'in_turn', messages that
--       have had their turn; 'short', claims that take few, because a new caller had one message while others waited;
--       'taken', messages that were taken, if they are counted (look_at_waits.lua); then the lists of the callers of
--       gathered messages
-- ARGV: 1 most messages (0: acknowledge only); 2 most bytes of a message (a longer one becomes an excerpt);
--       3 bytes after which no more is taken, four times as many are gathered; 4 most messages of a short claim, more if there are many callers;
--       5 most to gather (0: none); 6 messages that were taken when others were gathered; then for each of these, the
--       next one first, the number of its caller
-- Reply: nil if the owner is gone, or its list is another one; else {messages, the next one first}, {count, alone, count,
--        alone, ...} of these, {messages that were gathered}, to the left of these in the list, and 1 if it should be
--        asked again: it found many callers without messages, and no message
local SHORT_CLAIMS, LOOKS = 64, 1024
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
local counted = redis.call('EXISTS', KEYS[5]) == 1
if counted then
    for place = 0, redis.call('LLEN', KEYS[4]) - 1 do
        local digest = redis.sha1hex(redis.call('LINDEX', KEYS[4], place))
        redis.call('HDEL', KEYS[5], digest, digest .. ':alone')
    end
end
redis.call('DEL', KEYS[4])

local sorts = #ARGV - 6
if sorts > 0 then
    if redis.call('LLEN', KEYS[3]) ~= ARGV[6] + sorts then return false end
    for _ = 1, tonumber(ARGV[6]) do redis.call('LMOVE', KEYS[3], KEYS[3], 'RIGHT', 'LEFT') end
    for number = 7, #ARGV do redis.call('LMOVE', KEYS[3], KEYS[7 + ARGV[number]], 'RIGHT', 'LEFT') end
    local first = redis.call('ZRANGE', KEYS[6], 0, 0, 'WITHSCORES')[2] or 0
    for number = 8, #KEYS do redis.call('ZADD', KEYS[6], 'NX', math.ceil(first) - 0.5, KEYS[number]) end
end

local queued, callers = redis.call('LLEN', KEYS[2]), redis.call('ZCARD', KEYS[6])
local numbers = redis.call('HMGET', KEYS[7], 'sorted', 'in_turn', 'short', 'taken')
for place = 1, 3 do numbers[place] = tonumber(numbers[place] or 0) or 0 end
local sorted = callers > 0 and math.max(0, numbers[1]) + sorts or 0
local in_turn = math.min(numbers[2], queued)
local short = queued + sorted > 0 and math.max(0, numbers[3] - 1) or 0
local many = math.floor(callers / 8)
local most = math.min(tonumber(ARGV[1]), math.ceil((queued + sorted) / 2))
if short > 0 then most = math.min(most, math.max(tonumber(ARGV[4]), many)) end
local longest, budget, bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), 0
local taken, gathered, looks = {}, {}, callers > 0 and LOOKS or 0

local function take(list, messages)
    local message = redis.call('LMOVE', list, KEYS[3], 'RIGHT', 'LEFT')
    if not message then return false end
    if #message > longest then
        message = shorten(message, longest)
        redis.call('LSET', KEYS[3], 0, message)
    end
    messages[#messages + 1] = message
    bytes = bytes + #message
    return true
end

-- Lets the next caller with messages have its turn; returns false if there is none, or it takes too long to find it.
local function serve(use)
    while looks > 0 do
        local caller, turn = unpack(redis.call('ZPOPMIN', KEYS[6]))
        if not caller then return false end
        looks = looks - 1
        if use(caller) then
            sorted = sorted - 1
            redis.call('ZADD', KEYS[6], math.floor(turn) + 1, caller)
            if turn % 1 > 0 and redis.call('EXISTS', caller) == 0 then
                most = math.min(most, #taken + many)
                if callers > 1 then short = SHORT_CLAIMS end
            end
            return true
        end
    end
    return false
end

local function take_of(caller) return take(caller, taken) end
local function lead(caller) return redis.call('LMOVE', caller, KEYS[2], 'RIGHT', 'RIGHT') end

local unsorted, had_turn = queued - in_turn, math.min(in_turn, most)
local is_due = unsorted > 0 and had_turn < most and (callers > 0 or unsorted > tonumber(ARGV[1]))
local gathers = is_due and tonumber(ARGV[5]) or 0
while #taken < had_turn and bytes <= budget and take(KEYS[2], taken) do end
in_turn = in_turn - #taken
while #gathered < gathers and bytes <= 4 * budget and take(KEYS[2], gathered) do end
if gathers == 0 then
    while #taken < most and bytes <= budget and serve(take_of) do end
    while #taken < most and bytes <= budget and take(KEYS[2], taken) do end
    if redis.call('EXISTS', KEYS[2]) == 0 and serve(lead) then in_turn = 1 end
end
for place, number in ipairs({sorted, in_turn, short}) do
    local name = ({'sorted', 'in_turn', 'short'})[place]
    if number <= 0 and numbers[place] ~= 0 then redis.call('HDEL', KEYS[7], name) end
    if number > 0 and numbers[place] ~= number then redis.call('HSET', KEYS[7], name, number) end
end
if numbers[4] and #taken > 0 then redis.call('HINCRBY', KEYS[7], 'taken', #taken) end
local counts = {}
for number, message in ipairs(taken) do
    local digest = counted and redis.sha1hex(message)
    counts[2 * number - 1] = counted and tonumber(redis.call('HGET', KEYS[5], digest) or 0) or 0
    counts[2 * number] = counted and redis.call('HEXISTS', KEYS[5], digest .. ':alone') or 0
end
return {taken, counts, gathered, #taken == 0 and callers > 0 and looks == 0 and 1 or 0}
