-- Acknowledges the messages of an owner's one side and moves the next ones of the queue to its other side.
-- Takes at most half of those that wait, but one at least: other processes may be idle.
-- Does nothing if the owner has counted as dead. Removes first, so that it runs on a full Redis too.
--
-- Takes what has had its turn, at the queue's right end; then one message of each caller in turn; then of the queue. Its
-- messages are not taken but gathered if callers wait, or more than ARGV 1. The next call sorts them by their callers.
-- Whatever waits, one message of it stands in the queue: whoever waits for the queue is woken.
--
-- KEYS: 1 key of the owner that takes; 2 queue; 3 list that it takes to; 4 list whose messages are all answered;
--       5 hash of counts; 6 list of the callers, each the list of its messages, the next one last;
--       7 hash of numbers: 'sorted', messages in these lists; 'in_turn', messages that have had their turn;
--       then the lists of the callers of gathered messages
-- ARGV: 1 most messages (0: acknowledge only); 2 most bytes of a message (a longer one becomes an excerpt);
--       3 bytes after which no more is taken; four times as many are gathered; 4 most messages if several callers
--       wait, up to eight times as many; 5 most to gather (0: none); 6 messages that were taken when others were
--       gathered; then for each of these, the next one first, the number of its caller
-- Reply: nil if the owner is gone, or its list is another one; else {messages, the next one first}, {count, alone,
--        count, alone, ...} of these, and {messages that were gathered}, to the left of these in the list
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
    for number = 7, #ARGV do
        local caller = KEYS[7 + ARGV[number]]
        if redis.call('EXISTS', caller) == 0 then redis.call('LPUSH', KEYS[6], caller) end
        redis.call('LMOVE', KEYS[3], caller, 'RIGHT', 'LEFT')
    end
    redis.call('HINCRBY', KEYS[7], 'sorted', sorts)
end

local queued, callers = redis.call('LLEN', KEYS[2]), redis.call('LLEN', KEYS[6])
local numbers = redis.call('HMGET', KEYS[7], 'sorted', 'in_turn')
local sorted, in_turn = callers > 0 and tonumber(numbers[1] or 0) or 0, math.min(tonumber(numbers[2] or 0), queued)
local most = math.min(tonumber(ARGV[1]), math.ceil((queued + sorted) / 2))
if callers > 1 then most = math.min(most, math.max(tonumber(ARGV[4]), math.floor(callers / 8))) end
local longest, budget, bytes = tonumber(ARGV[2]), tonumber(ARGV[3]), 0

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

local function next_caller(use)
    local caller = redis.call('RPOP', KEYS[6])
    if not caller then return false end
    if use(caller) then sorted = sorted - 1 end
    if redis.call('EXISTS', caller) == 1 then redis.call('LPUSH', KEYS[6], caller) end
    return true
end

local taken, gathered, counts = {}, {}, {}
local unsorted, had_turn = queued - in_turn, math.min(in_turn, most)
local gathers = unsorted > 0 and had_turn < most and (callers > 0 or unsorted > tonumber(ARGV[1])) and tonumber(ARGV[5]) or 0
while #taken < had_turn and bytes <= budget and take(KEYS[2], taken) do end
in_turn = in_turn - #taken
while #gathered < gathers and bytes <= 4 * budget and take(KEYS[2], gathered) do end
if gathers == 0 then
    while callers > 0 and #taken < most and bytes <= budget and next_caller(function(caller) return take(caller, taken) end) do end
    while #taken < most and bytes <= budget and take(KEYS[2], taken) do end
    if callers > 0 and redis.call('EXISTS', KEYS[2]) == 0 and next_caller(function(caller)
        return redis.call('LMOVE', caller, KEYS[2], 'RIGHT', 'RIGHT')
    end) then in_turn = 1 end
end
for place, number in ipairs({sorted, in_turn}) do
    local name = place == 1 and 'sorted' or 'in_turn'
    if number > 0 then
        redis.call('HSET', KEYS[7], name, number)
    elseif numbers[place] then
        redis.call('HDEL', KEYS[7], name)
    end
end
for number, message in ipairs(taken) do
    local digest = counted and redis.sha1hex(message)
    counts[2 * number - 1] = counted and tonumber(redis.call('HGET', KEYS[5], digest) or 0) or 0
    counts[2 * number] = counted and redis.call('HEXISTS', KEYS[5], digest .. ':alone') or 0
end
return {taken, counts, gathered}
