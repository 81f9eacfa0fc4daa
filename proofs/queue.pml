/* Claims of messages, as docs/delivery.md describes them: two workers, each with a main process and a pool process.

   Followed step by step: worker/queue/claims.py, worker/queue/processes/{process,keeper,pool}.py, worker/queue/lua.
   Each command or script of Redis is one step, with what its client does before it, and after it, in memory. A process
   may die between any two of these, also alone with its slot in the table as it was just then.

   Proved, of all interleavings of these steps (`proofs/check`):
   - A message that left the queue's places for good has an outcome. So has a dead letter.
   - A final outcome is never replaced. None is stored of a job that no process began, but a refusal.
   - A death is counted of the message that ran, and no message is counted more often than something died.
   - Every run ends, without assuming fairness: nothing repeats. At its end every message is answered or a dead letter,
     no count or mark is left, and no owner is known but those of processes that live.

   Faults, FAULTS of them, at any step (two of them: of deaths of processes and lost connections): a process dies, its last command on its way; its main process dies, or
   both; a connection is lost, its command executed late, or never (executed at once: the reply is lost); an owner's key
   expires though its process lives; Redis is full; a job reaches its hard time limit.

   Abstracted:
   - Order: a claim takes any message of the queue; up to its limit, also more than half of it.
   - Time: what may become due, expire or be too long does so at any moment; waits end when there is something to do.
   - A worker has one process, and forks the next one when what the last one held is settled; the other worker has one
     meanwhile. A process notices at once that its main process is gone; what it had just claimed, it ends.
   - Dead owners are tidied up by worker 1, by worker 0 only without it. Two tidiers meet on a list only if one of
     them is its own process, or the main process of that.
   - `DEL` of an owner's key, settle.lua and `ZREM` are one step. An owner that was just forgotten is not renewed:
     its connection has ended, so its list stays empty.
   - Late commands of tidiers: the list that they name is empty, and stays so.
   - A connection's number is used again once nothing names it, to keep the model finite.
   - One queue; no callbacks; no operators; no older workers. Messages are neither long nor malformed, and all jobs
     may be bundled. Redis keeps what it has written, and permits `CLIENT KILL`.
*/

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef KINDS
#define KINDS 127    /* of faults that may happen: bits, see DEATH */
#endif
#ifndef OUTAGES
#define OUTAGES 0   /* jobs that find Postgres away: they are retried, or fail as Unavailable */
#endif
#ifndef DELAYS
#define DELAYS 0    /* 1: message 0 has an eta */
#endif
#ifndef KILLER
#define KILLER 0    /* message 0 ends each process 1: that runs it; 2: that reads it; 3: that runs it, with its main process */
#endif

#define MESSAGES 2
#define MAX_DELIVERIES 2
#define NONE 255

/* Places of a message: a list (0 to 7; connection c has 2c and 2c + 1), or: */
#define QUEUE 8
#define DELAYED 9
#define DEFERRED 10
#define DEAD 11
#define GONE 12

/* Records: of an answer by worker 0 or 1 (1, 2), or: */
#define TIMED_OUT 3
#define REPLACEABLE 4   /* Unavailable, DeadLettered */

/* Modes of settle.lua; then steps of Keeper._answer */
#define UNCOUNTED 0
#define ALONE 1
#define COUNTED 2
#define MESSAGE 3   /* the process died of this one */
#define ANSWERED 4
#define STORE 5
#define REMOVE 6

/* States of a slot */
#define IDLE 0
#define RUNNING 1
#define STORING 2
#define ENDED 3

/* Late commands of a connection: + side that is filled, or + message */
#define LATE_TAKE 1
#define LATE_MOVE 3
#define LATE_DELAY 5
#define LATE_RETRY 7
#define LATE_REQUEUE 9

/* What is full: where only results are, for a while; where queues and results are, for ever */
#define RESULTS 1
#define BOTH 2

#define BIT(number) (1 << (number))
#define IN(mask, number) (((mask) >> (number)) & 1)
#define LISTS(connection) (3 << (2 * (connection)))
#define CONNECTION(list) ((list) >> 1)
#define WAITS (place[0] == QUEUE || place[1] == QUEUE)
#define IS_FINAL(record) ((record) != 0 && (record) != REPLACEABLE)

/* Redis */
byte place[MESSAGES] = QUEUE;
byte count[MESSAGES], mark[MESSAGES];   /* hash of counts; mark: `:alone` */
byte record[MESSAGES];
byte owners, keys;                      /* lists: in the sorted set of owners; whose owner's key exists */
byte open;                              /* connections that the server has not ended */
byte out_of_memory;
/* Commands that have not arrived: of each connection that claims, with the list that it names; of each worker */
byte late[4], late_list[4] = NONE, late_put[2];
byte late_letter[2], late_letter_list[2] = NONE;

/* The table, and what a main process knows of its process */
byte state[2], slot_place[2] = NONE, slot_job[2] = NONE, announced[2];
bool together[2], alive[2], main[2], is_timed_out[2];

byte tidied[2] = NONE;  /* the list that a main process tidies up */
byte faults = FAULTS, outages = OUTAGES;
bool eta[MESSAGES], began[MESSAGES];

hidden byte i, k;

/* --- Redis' scripts ----------------------------------------------------------------------------------------------- */

inline forget(m) { count[m] = 0; mark[m] = 0 }

inline count_death(m) {
#ifndef BUG_NO_RECOUNT
    count[m] = count[m] + (mark[m] == 1 -> 2 : 1);
#endif
    if :: mark[m] -> mark[m] = 2 :: else fi;
    assert((KILLER && m == 0) || count[m] <= FAULTS - faults + (KILLER != 0))
}

#ifdef BUG_COUNT_BY_PLACE
#define IS_FATAL(m) number == k
#else
#define IS_FATAL(m) number == m
#endif

inline settle_lua(list, mode, number) {
    d_step {
        i = 0; k = 0;
        do
        :: i < MESSAGES && place[i] == list ->
            if
            :: mode == ANSWERED -> assert(record[i] != 0); forget(i); place[i] = GONE
            :: mode == COUNTED -> place[i] = QUEUE; count_death(i)
            :: mode == MESSAGE && IS_FATAL(i) ->
                assert(slot_job[w] == NONE || slot_job[w] == i);
                place[i] = DEFERRED; count_death(i)
            :: mode == ALONE -> place[i] = QUEUE; if :: !mark[i] -> mark[i] = 1 :: else fi
            :: else -> place[i] = QUEUE
            fi;
            k++; i++
        :: i < MESSAGES && place[i] != list -> i++
        :: i == MESSAGES -> break
        od;
        i = 0
    }
}

inline store_lua(messages, value) {
    d_step {
        i = 0;
        do
        :: i < MESSAGES && IN(messages, i) ->
            assert(value == REPLACEABLE || began[i]);
#ifdef BUG_OVERWRITE
            assert(!IS_FINAL(record[i]) || record[i] == value);
            record[i] = value;
#else
            if :: !IS_FINAL(record[i]) -> record[i] = value :: else fi;
#endif
            i++
        :: i < MESSAGES && !IN(messages, i) -> i++
        :: i == MESSAGES -> break
        od;
        i = 0
    }
}

/* take.lua in two parts; BLMOVE is the second one, for one message */
inline acknowledge_lua(list) {
    d_step {
        i = 0;
        do
        :: i < MESSAGES && place[i] == list -> assert(record[i] != 0); forget(i); place[i] = GONE; i++
        :: i < MESSAGES && place[i] != list -> i++
        :: i == MESSAGES -> break
        od;
        i = 0
    }
}

inline move_lua(list, most) {
    if
    :: place[0] == QUEUE -> place[0] = list
    :: place[1] == QUEUE -> place[1] = list
    :: most > 1 && place[0] == QUEUE && place[1] == QUEUE -> place[0] = list; place[1] = list
    :: !WAITS
    fi
}

inline delay_lua(m, list, is_changed) {
    if
    :: place[m] == list -> place[m] = DELAYED; eta[m] = false; if :: is_changed -> forget(m) :: else fi
    :: else
    fi
}

inline requeue_lua(m, list) { if :: place[m] == list -> place[m] = QUEUE :: else fi }

inline dead_letter_lua(m, list) {
    if :: place[m] == list -> assert(record[m] != 0); forget(m); place[m] = DEAD :: else fi
}

/* --- Tidier ------------------------------------------------------------------------------------------------------- */

#ifdef BUG_LATE_COMMAND
#define MAY_COME_LATE(list) false
#else
#define MAY_COME_LATE(list) IN(open, CONNECTION(list))
#endif

inline end_connection(list) { /* CLIENT KILL */
    open = open & ~BIT(CONNECTION(list)); late[CONNECTION(list)] = 0; late_list[CONNECTION(list)] = NONE;
#ifdef BUG_FORGOTTEN_OWNER
    owners = owners & ~BIT(list)
#endif
}

inline settle(list, mode, number) {
    keys = keys & ~BIT(list);
    settle_lua(list, mode, number);
    owners = owners & ~BIT(list)
}

/* --- faults ------------------------------------------------------------------------------------------------------- */

#define DEATH 0
#define MAIN_DEATH 1
#define LOST 2
#define EXPIRY 3
#define FULL_RESULTS 4
#define FULL_BOTH 5
#define TIME_LIMIT 6

/* The workers are alike: the first fault is of worker 0 */
#define HAPPENS(kind) IN(KINDS, kind) && faults > 0 -> faults--
#define FAULT(kind) (w == 0 || faults < FAULTS) && HAPPENS(kind)
#define MAY_DIE if :: true :: FAULT(DEATH); goto died fi

/* --- a pool process ----------------------------------------------------------------------------------------------- */

#define OTHERS_LOST (lost & ~(work == NONE -> 0 : BIT(work)))
#define IS_CUT_OFF (OTHERS_LOST || cur == NONE)
#define FILLED (2 * cur + side)
#define OTHER (2 * cur + 1 - side)

#define IS_FREE(c) (!IN(open, c) && !((owners | keys | announced[0] | announced[1]) & LISTS(c)) \
    && CONNECTION(tidied[0]) != (c) && CONNECTION(tidied[1]) != (c) \
    && CONNECTION(late_list[0]) != (c) && CONNECTION(late_list[1]) != (c) \
    && CONNECTION(late_list[2]) != (c) && CONNECTION(late_list[3]) != (c) \
    && CONNECTION(late_letter_list[0]) != (c) && CONNECTION(late_letter_list[1]) != (c))

inline drop() { if :: cur != NONE -> lost = lost | LISTS(cur); cur = NONE :: else fi } /* _Line.drop */

inline back_off() { drop(); if :: state[w] != ENDED -> state[w] = IDLE :: else fi } /* Process._back_off */

inline tidy_lost() { /* a step of Claims._tidy_lost */
    own = 0;
    do :: !IN(OTHERS_LOST, own) -> own++ :: else -> break od;
    MAY_DIE;
    if
    :: MAY_COME_LATE(own) -> end_connection(own)
    :: else ->
        settle(own, (own == answered -> ANSWERED : UNCOUNTED), NONE);
        lost = lost & ~BIT(own);
        if :: own == answered -> answered = NONE :: else fi
    fi;
    own = 0
}

inline connect() { /* Claims.connect, _Line.connect, Slot.announce */
    do
    :: atomic { OTHERS_LOST -> tidy_lost() }
    :: atomic {
        !OTHERS_LOST && (cur != NONE || IS_FREE(0) || IS_FREE(1) || IS_FREE(2) || IS_FREE(3)) ->
        MAY_DIE;
        if
        :: cur == NONE ->
            cur = (IS_FREE(0) -> 0 : (IS_FREE(1) -> 1 : (IS_FREE(2) -> 2 : 3)));
            side = 0;
            open = open | BIT(cur); keys = keys | LISTS(cur); owners = owners | LISTS(cur);
            MAY_DIE
        :: else
        fi;
        announced[w] = lost | LISTS(cur);
        break
    }
    od
}

/* RecordStore.put, repeated until its reply comes: Process._store_all */
#define PUT(messages, value, again) \
    if \
    :: out_of_memory != RESULTS -> store_lua(messages, value) \
    :: out_of_memory == RESULTS && !main[w] -> state[w] = IDLE; goto abandon \
    :: late_put[w] == 0 && FAULT(LOST); late_put[w] = (messages) + 4 * (value); drop(); goto again \
    :: late_put[w] == 0 && FAULT(DEATH); late_put[w] = (messages) + 4 * (value); goto died \
    fi

/* By a connection of the client's pool: Process._dead_letter */
#define DEAD_LETTER(m) \
    if \
    :: dead_letter_lua(m, work) \
    :: late_letter_list[w] == NONE && FAULT(LOST); late_letter_list[w] = work; late_letter[w] = m; goto abandon \
    :: late_letter_list[w] == NONE && FAULT(DEATH); late_letter_list[w] = work; late_letter[w] = m; goto died \
    fi

/* By the connection that claims: Claims.delay, .requeue */
#define ASK(command, code) \
    if \
    :: IN(open, cur) -> command \
    :: !IN(open, cur) -> goto abandon \
    :: IN(open, cur) && FAULT(LOST); late[cur] = code; late_list[cur] = work; goto abandon \
    :: IN(open, cur) && FAULT(DEATH); late[cur] = code; late_list[cur] = work; goto died \
    fi

inline claimed(list) { /* Claims._claimed; Slot.begin_reading */
    d_step {
        held = (place[0] == list) + 2 * (place[1] == list);
        spent = 0; over = 0; alone = 0; i = 0;
        do
        :: i < MESSAGES && place[i] == list ->
            spent = spent | ((count[i] >= MAX_DELIVERIES) << i);
            over = over | ((count[i] > MAX_DELIVERIES) << i);
            alone = alone | ((mark[i] > 0) << i);
            i++
        :: i < MESSAGES && place[i] != list -> i++
        :: i == MESSAGES -> break
        od;
        i = 0
    };
    if
    :: held ->
        MAY_DIE;
        work = list; side = 1 - side; m = 0;
#ifdef BUG_ACK_BEFORE_STORE
        acknowledge_lua(work);
#endif
        state[w] = STORING; slot_place[w] = work; slot_job[w] = NONE; together[w] = (held == 3)
    :: else
    fi
}

inline be_idle() { state[w] = IDLE; slot_place[w] = NONE; slot_job[w] = NONE; together[w] = false }

/* An `if` around an atomic sequence: others may act before it. A jump from one such sequence into another, without,
   goes on at once. */

proctype Process(byte w) {
    byte cur = NONE, work = NONE, answered = NONE, lost;    /* connection; Claims._worked_on, _answered, _lost */
    byte side, limit = 2;                                   /* that is filled next; Process._claim_limit */
    byte held, spent, over, alone, m, own, batch;
    bool has_ended;

forked:
    alive[w];

claim: /* Claims.take */
    if
    :: atomic {
        if :: work != NONE -> answered = work; work = NONE :: else fi;
        if :: has_ended -> MAY_DIE; state[w] = ENDED; has_ended = false :: else fi;
        if :: IS_CUT_OFF -> goto connect_to_claim :: else fi;
        if
        :: !main[w] && answered == NONE -> goto leave
        :: main[w] && answered == NONE && !WAITS -> be_idle(); goto wait
        :: answered != NONE || (main[w] && WAITS) ->
            if
            :: !IN(open, cur) || !IN(keys, FILLED) -> back_off(); goto claim
            :: IN(open, cur) && IN(keys, FILLED) ->
                acknowledge_lua(OTHER);
                answered = NONE;
                if
                :: !main[w] -> goto leave
                :: else -> move_lua(FILLED, limit); claimed(FILLED); if :: held -> goto inspect :: else -> be_idle() fi
                fi
            :: IN(open, cur) && FAULT(LOST); late[cur] = LATE_TAKE + side; back_off(); goto claim
            :: IN(open, cur) && FAULT(DEATH); late[cur] = LATE_TAKE + side; goto died
            fi
        fi
    }
    fi;

wait: /* Claims.wait */
    if
    :: atomic { !main[w] -> goto leave }
    :: atomic { main[w] && !IN(open, cur) -> back_off(); goto claim }
    :: atomic { main[w] && out_of_memory == BOTH && WAITS -> goto claim }
    :: atomic { main[w] && IN(open, cur) && out_of_memory != BOTH && WAITS -> move_lua(FILLED, 1); claimed(FILLED) }
    :: atomic { IN(open, cur) && FAULT(LOST); late[cur] = LATE_MOVE + side; back_off(); goto claim }
    :: atomic { IN(open, cur) && FAULT(DEATH); late[cur] = LATE_MOVE + side; goto died }
    fi;

inspect: /* Process._inspect_all */
    if
    :: atomic {
        do
        :: m < MESSAGES && (!IN(held, m) || !(KILLER == 2 && m == 0 || IN(spent, m) || eta[m])) -> m++
        :: else -> break
        od;
        if
        :: m == MESSAGES -> goto choose
        :: m < MESSAGES && KILLER == 2 && m == 0 && !IN(over, m) -> goto killed
        :: m < MESSAGES && !(KILLER == 2 && m == 0 && !IN(over, m)) && IN(spent, m) -> /* Process._refuse */
            PUT(BIT(m), REPLACEABLE, inspect);
            if :: IS_FINAL(record[m]) -> held = held & ~BIT(m); m++; goto inspect :: else fi
        :: m < MESSAGES && !(KILLER == 2 && m == 0) && !IN(spent, m) ->
            if :: IS_CUT_OFF -> goto connect_to_inspect :: else fi;
            ASK(delay_lua(m, work, false), LATE_DELAY + m);
            held = held & ~BIT(m); m++; goto inspect
        fi
    }
    fi;

    if :: atomic { DEAD_LETTER(m); held = held & ~BIT(m); m++; goto inspect } fi;

choose: /* Process._select: requeue the message that is not answered together with the other one */
    atomic {
        if
        :: held == 0 -> limit = 2; goto worked
        :: held && !(held & ~alone) -> limit = 1; m = (held == 3 -> 1 : MESSAGES)
        :: held && (held & ~alone) -> limit = 2; m = (held == 3 && alone -> alone - 1 : MESSAGES)
        fi;
        if
        :: m < MESSAGES ->
            if :: IS_CUT_OFF -> m = MESSAGES; goto connect_to_inspect :: else fi;
            ASK(requeue_lua(m, work), LATE_REQUEUE + m);
            held = held & ~BIT(m); m = 0; goto run_next
        :: else -> m = 0; goto run_now
        fi
    };

run_next:
    if :: atomic { true -> goto run_now } fi;
run_now: /* Slot.begin, .begin_next; Process._answer */
    atomic {
        do :: m < MESSAGES && !IN(held, m) -> m++ :: else -> break od;
        batch = BIT(m);
        if :: m == 0 && held == 3 -> batch = 3 :: true fi;
        state[w] = RUNNING; slot_job[w] = m; together[w] = (batch == 3);
        began[m] = true; if :: batch == 3 -> began[1] = true :: else fi;
        if
        :: KILLER == 1 && IN(batch, 0) -> goto killed
        :: KILLER == 3 && IN(batch, 0) -> main[w] = false; goto killed
        :: else
        fi;
        if
        :: true
        :: FAULT(DEATH); goto died
        :: batch != 3 && FAULT(TIME_LIMIT); is_timed_out[w] = true; goto killed     /* Pool._keep_limits */
        fi;
        state[w] = STORING; /* Process._end */
        if /* it may be ended here, too, for the same job */
        :: batch != 3 && late_put[w] == 0 && FAULT(TIME_LIMIT);
            late_put[w] = batch + 4 * (w + 1); is_timed_out[w] = true; goto killed
        :: true -> PUT(batch, w + 1, put_again); goto stored
        :: batch != 3 && outages > 0 -> outages--; goto retry
        :: batch != 3 && outages > 0 -> outages--; goto give_up
        fi
    };

put_again:
    if :: atomic { PUT(batch, w + 1, put_again); goto stored } fi;

retry: /* Process._retry */
    if
    :: atomic {
        if :: IS_CUT_OFF -> goto connect_to_retry :: else fi;
        if
        :: true
        :: IN(open, cur) && FAULT(TIME_LIMIT);
            late[cur] = LATE_RETRY + m; late_list[cur] = work; is_timed_out[w] = true; goto killed
        fi;
        ASK(delay_lua(m, work, true), LATE_RETRY + m);
        goto stored
    }
    fi;

give_up: /* retries_exhausted */
    if :: atomic { PUT(BIT(m), REPLACEABLE, give_up) } fi;
    if :: atomic { DEAD_LETTER(m); goto stored } fi;

stored:
    atomic {
        m = (batch == 3 -> MESSAGES : m + 1);
        if :: m < MESSAGES && (held >> m) -> goto run_next :: else fi;
        has_ended = true
    };
worked:
    atomic { held = 0; spent = 0; over = 0; alone = 0; m = 0; batch = 0; goto claim };

abandon: /* Claims.abandon */
    atomic {
        back_off(); work = NONE; held = 0; spent = 0; over = 0; alone = 0; m = 0; batch = 0;
        goto claim
    };

connect_to_claim:
    connect();
    goto claim;
connect_to_inspect:
    connect();
    goto inspect;
connect_to_retry:
    connect();
    goto retry;

leave: /* Claims.close */
    atomic { drop() };
    do
    :: atomic { lost -> tidy_lost() }
    :: atomic { !lost -> goto killed }
    od;

died: /* alone, or with its main process, as a machine does */
    atomic { if :: true :: IN(KINDS, MAIN_DEATH) -> main[w] = false fi };
killed:
    atomic {
        cur = NONE; work = NONE; answered = NONE; lost = 0; side = 0; limit = 1;
        held = 0; spent = 0; over = 0; alone = 0; m = 0; own = 0; batch = 0; has_ended = false;
        alive[w] = false;
        goto forked
    }
}

/* --- a main process ----------------------------------------------------------------------------------------------- */

inline lowest(lists) { tidied[w] = 0; do :: !IN(lists, tidied[w]) -> tidied[w]++ :: else -> break od }

/* Keeper._message_of: the message that ran, or the first one if it was only read */
#define FIRST_OF(list) (place[0] == list -> 0 : (place[1] == list -> 1 : MESSAGES))

inline message_of(list) {
    d_step {
        number = (slot_job[w] == NONE -> FIRST_OF(list) : (place[slot_job[w]] == list -> slot_job[w] : MESSAGES));
#ifdef BUG_COUNT_BY_PLACE
        number = (number == 1 && place[0] != list -> 0 : number)
#endif
    }
}

#define IS_TIDYING (main[w] && tidied[w] != NONE)
#define IS_AT_REST (main[w] && tidied[w] == NONE)

proctype Keeper(byte w) {
    byte todo, mode, number;
    bool is_settling;

fork: /* Pool._fork; Slot.clear */
    atomic {
        todo = 0; mode = 0; number = 0; is_settling = false; tidied[w] = NONE;
        be_idle(); announced[w] = 0; is_timed_out[w] = false;
        main[w] = true; alive[w] = true
    };
    do
    :: atomic { !main[w] && !alive[w] -> goto fork }    /* a supervisor starts the worker again */
    :: atomic { main[w] && alive[w] && FAULT(MAIN_DEATH); main[w] = false }
    :: atomic { !alive[w] && main[w] && FAULT(MAIN_DEATH); goto fork }
    :: atomic { IS_AT_REST && alive[w] && (announced[w] & owners & ~keys) -> keys = keys | (announced[w] & owners) } /* renew */
    :: atomic { /* Tidier._tidy_if_dead */
        IS_AT_REST && alive[w] && (w == 1 || !main[1]) && (owners & ~keys) ->
        lowest(owners & ~keys);
        mode = (place[0] == tidied[w] && place[1] == tidied[w] -> ALONE : COUNTED)
    }
    :: atomic { IS_AT_REST && !alive[w] && !is_settling -> is_settling = true; todo = announced[w] }
    :: atomic { IS_AT_REST && is_settling && !todo -> goto fork }
    :: atomic { /* Keeper._settle */
        IS_AT_REST && is_settling && todo ->
        lowest(todo);
        todo = todo & ~BIT(tidied[w]);
        if
        :: tidied[w] != slot_place[w] || state[w] == IDLE -> mode = UNCOUNTED
        :: tidied[w] == slot_place[w] && state[w] == ENDED -> mode = ANSWERED
        :: tidied[w] == slot_place[w] && (state[w] == RUNNING || state[w] == STORING) && together[w] -> mode = ALONE
        :: tidied[w] == slot_place[w] && (state[w] == RUNNING || state[w] == STORING) && !together[w] ->
            message_of(tidied[w]);
            mode = (is_timed_out[w] && number < MESSAGES -> STORE : MESSAGE)
        fi
    }
    /* Keeper._answer */
    :: atomic { IS_TIDYING && mode == STORE && out_of_memory != RESULTS -> store_lua(BIT(number), TIMED_OUT); mode = REMOVE }
    :: atomic {
        IS_TIDYING && mode == REMOVE ->
        if
        :: place[number] == tidied[w] ->
            assert(record[number] != 0);
#ifndef BUG_COUNT_LEFT
            forget(number);
#endif
            place[number] = GONE
        :: else
        fi;
        mode = UNCOUNTED
    }
    :: atomic { IS_TIDYING && mode < STORE && MAY_COME_LATE(tidied[w]) -> end_connection(tidied[w]) }
    :: atomic {
        IS_TIDYING && mode < STORE && !MAY_COME_LATE(tidied[w]) ->
        settle(tidied[w], mode, number); tidied[w] = NONE; mode = 0; number = 0
    }
    od
}

/* --- what comes late; time; messages that wait (Keeper._look) ----------------------------------------------------- */

#define RENEWED ((main[0] -> announced[0] : 0) | (main[1] -> announced[1] : 0))
#define ARRIVES(c) (late[c] && IN(open, c) && (late[c] < LATE_MOVE || late[c] >= LATE_DELAY || (WAITS && out_of_memory != BOTH)))

proctype Redis() {
    byte c;
    do
    :: atomic {
        (ARRIVES(0) || ARRIVES(1) || ARRIVES(2) || ARRIVES(3)) ->
        if :: ARRIVES(0) -> c = 0 :: ARRIVES(1) -> c = 1 :: ARRIVES(2) -> c = 2 :: ARRIVES(3) -> c = 3 fi;
        if
        :: late[c] < LATE_MOVE ->
            if
            :: IN(keys, 2 * c + late[c] - LATE_TAKE) ->
                acknowledge_lua(2 * c + 1 - (late[c] - LATE_TAKE)); move_lua(2 * c + late[c] - LATE_TAKE, 2)
            :: else
            fi
        :: late[c] >= LATE_MOVE && late[c] < LATE_DELAY -> move_lua(2 * c + late[c] - LATE_MOVE, 1)
        :: late[c] >= LATE_DELAY && late[c] < LATE_RETRY -> delay_lua(late[c] - LATE_DELAY, late_list[c], false)
        :: late[c] >= LATE_RETRY && late[c] < LATE_REQUEUE -> delay_lua(late[c] - LATE_RETRY, late_list[c], true)
        :: late[c] >= LATE_REQUEUE -> requeue_lua(late[c] - LATE_REQUEUE, late_list[c])
        fi;
        late[c] = 0; late_list[c] = NONE; c = 0
    }
    :: atomic { late_put[0] -> store_lua(late_put[0] & 3, late_put[0] >> 2); late_put[0] = 0 }
    :: atomic { late_put[1] -> store_lua(late_put[1] & 3, late_put[1] >> 2); late_put[1] = 0 }
    :: atomic {
        late_letter_list[0] != NONE ->
        dead_letter_lua(late_letter[0], late_letter_list[0]); late_letter_list[0] = NONE; late_letter[0] = 0
    }
    :: atomic {
        late_letter_list[1] != NONE ->
        dead_letter_lua(late_letter[1], late_letter_list[1]); late_letter_list[1] = NONE; late_letter[1] = 0
    }
    :: atomic { keys & ~RENEWED -> keys = keys & RENEWED }     /* nobody renews them */
    :: atomic { (keys & RENEWED & announced[0]) && HAPPENS(EXPIRY); keys = keys & ~announced[0] }
    :: atomic { (keys & RENEWED & announced[1]) && faults < FAULTS && HAPPENS(EXPIRY); keys = keys & ~announced[1] }
    :: atomic { !out_of_memory && HAPPENS(FULL_RESULTS); out_of_memory = RESULTS }
    :: atomic { out_of_memory == RESULTS -> out_of_memory = 0 }
    :: atomic { !out_of_memory && HAPPENS(FULL_BOTH); out_of_memory = BOTH }
    :: atomic { place[0] == DELAYED -> place[0] = QUEUE }       /* promote.lua */
    :: atomic { place[1] == DELAYED -> place[1] = QUEUE }
    :: atomic { place[0] == DEFERRED && place[1] != QUEUE -> place[0] = QUEUE }     /* requeue_deferred.lua */
    :: atomic { place[1] == DEFERRED && place[0] != QUEUE -> place[1] = QUEUE }
    od
}

#define IS_ENDED(m) (((place[m] == GONE && record[m] != 0) || place[m] == DEAD) && count[m] == 0 && mark[m] == 0)

init {
    atomic { eta[0] = DELAYS; run Keeper(0); run Keeper(1); run Process(0); run Process(1); run Redis() };
    timeout;
    assert(IS_ENDED(0) && IS_ENDED(1));
    assert(owners == (announced[0] | announced[1]) && keys == owners)
}
