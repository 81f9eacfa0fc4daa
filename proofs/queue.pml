/* Claims of messages, as docs/delivery.md describes them: two workers, each with a main process and a pool process.

   Followed step by step: worker/queue/claims.py, worker/queue/processes/{process,keeper,pool}.py, worker/queue/lua.
   Each command and each script of Redis is one step, and so is each write to a process's slot in the table. A process
   or a worker may die before any step; a reply may be lost, a command be late, an owner's key expire: FAULTS in all.

   Proved, of all interleavings (proofs/check):
   - A message that left its list for good has an outcome; so has a dead letter; nothing is anywhere else.
   - A final outcome is never replaced, and none is stored of a job that no process began.
   - A death is counted of the message that ran. No message is counted more often than something died.
   - No run is infinite, and each ends with every message answered or a dead letter, no count or mark of it left, and
     no owner known but those of processes that live. No fairness is assumed: without faults nothing repeats.

   Abstracted:
   - Order: a claim takes any message of the queue. In a list they lie by their number.
   - Time: what is due, expired or too long becomes so at any moment. Waits end when there is something to do.
   - A worker has one process and forks the next once what the last one held is settled. One queue; no callbacks.
   - A claim takes up to its limit, also more than half of the queue. Messages are numbers: neither long nor malformed.
   - A command executes when it is sent, or late, or never. Late commands of tidiers are left out: the list that they
     name is of a connection that has ended, and empty.
   - Numbers of connections are used again, once nothing names them.
   - Redis keeps what it has written. `CLIENT KILL` is permitted. No older workers, no operators.
*/

#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef KINDS
#define KINDS 127
#endif
#ifndef SCENARIO
#define SCENARIO 0
#endif
#ifndef OUTAGES
#define OUTAGES 1
#endif

#define MESSAGES 2
#define MAX_DELIVERIES 2
#define NONE 255

/* Places of a message: a list (two of each connection: 2c and 2c+1), or: */
#define QUEUE 8
#define DELAYED 9
#define DEFERRED 10
#define DEAD 11
#define GONE 12

/* Records: of an answer by worker 0 or 1 (1, 2), or: */
#define TIMED_OUT 3
#define REPLACEABLE 4 /* Unavailable, DeadLettered: the job may be sent again */

/* Modes of settle.lua */
#define UNCOUNTED 0
#define ALONE 1
#define COUNTED 2
#define NUMBER 3
#define ANSWERED 4

/* States of a slot */
#define IDLE 0
#define RUNNING 1
#define STORING 2
#define ENDED 3

/* Late commands of a connection: that fill its side 0 or 1 */
#define LATE_TAKE 1
#define LATE_MOVE 3
#define LATE_DELAY 5 /* + message: of the list of that message's process */
#define LATE_REQUEUE 7

#define BIT(number) (1 << (number))
#define LISTS(connection) (3 << (2 * (connection)))
#define IN(mask, number) (((mask) >> (number)) & 1)
#define FREE(c) (!IN(open, c) && !((owners | keys | announced[0] | announced[1]) & LISTS(c)) \
    && (tidied[0] >> 1) != (c) && (tidied[1] >> 1) != (c) && (letter_list[0] >> 1) != (c) && (letter_list[1] >> 1) != (c))
#define IS_FINAL(record) ((record) != 0 && (record) != REPLACEABLE)

/* Redis */
byte place[MESSAGES] = QUEUE;
byte count[MESSAGES], mark[MESSAGES], record[MESSAGES];
byte owners, keys;      /* lists: of the sorted set of owners; whose owner's key exists */
byte open;              /* connections that the server has not ended */
byte late[4], late_list[4];         /* of each connection, a command that has not arrived */
byte late_record[2];                /* of each worker, a late put: message + 1, record * 4 */
byte letter_list[2] = NONE, letter_message[2];      /* a late dead_letter.lua */
bool is_full, beside;      /* the results' Redis is full; it is the queue's too */

/* The shared table */
byte state[2], slot_place[2] = NONE, slot_job[2] = NONE, announced[2];
bool together[2];
bool alive[2], main[2] = true;
bool is_timed_out[2];               /* Member.ended_for */

byte tidied[2] = NONE;  /* the list that a main process tidies up */
byte faults = FAULTS, outages = OUTAGES;
byte kills_run = NONE, kills_read = NONE;   /* a message that kills each process that runs, or reads it */
bool eta[MESSAGES], began[MESSAGES];

hidden byte i, k;

inline count_death(m) {
    count[m] = count[m] + (mark[m] == 1 -> 2 : 1);
    if :: mark[m] -> mark[m] = 2 :: else fi;
    assert(m == kills_run || m == kills_read || count[m] <= FAULTS - faults + (kills_run != NONE || kills_read != NONE))
}

inline forget(m) { /* HDEL of its count and its mark */
    count[m] = 0; mark[m] = 0
}

#ifdef BUG_COUNT_BY_PLACE
#define FATAL k
#else
#define FATAL i
#endif

inline settle_lua(list, mode, number) {
    d_step {
        i = 0; k = 0;
        do
        :: i < MESSAGES && place[i] == list ->
            if
            :: mode == ANSWERED -> assert(record[i] != 0); forget(i); place[i] = GONE
            :: mode == COUNTED -> place[i] = QUEUE; count_death(i)
            :: mode == NUMBER && number == FATAL ->
                place[i] = DEFERRED;
                assert(slot_job[w] == NONE || slot_job[w] == i);    /* a death counts of the message that ran */
#ifndef BUG_NO_RECOUNT
                count_death(i)
#endif
            :: mode == ALONE -> place[i] = QUEUE; if :: !mark[i] -> mark[i] = 1 :: else fi
            :: else -> place[i] = QUEUE
            fi;
            k++; i++
        :: i < MESSAGES && place[i] != list -> i++
        :: i == MESSAGES -> break
        od
    }
}

inline end_connection(list) { /* Tidier._end_connection, and DEL of the owner's key */
#ifndef BUG_LATE_COMMAND
    open = open & ~BIT(list >> 1); late[list >> 1] = 0; late_list[list >> 1] = 0;
#endif
    keys = keys & ~BIT(list)
}

inline put(messages, value) { /* store.lua */
    d_step {
        i = 0;
        do
        :: i < MESSAGES ->
            if
            :: IN(messages, i) ->
                assert(value == REPLACEABLE || began[i]);
#ifdef BUG_OVERWRITE
                assert(!IS_FINAL(record[i]) || record[i] == value);
                record[i] = value
#else
                if :: !IS_FINAL(record[i]) -> record[i] = value :: else fi
#endif
            :: else
            fi;
            i++
        :: else -> break
        od
    }
}

inline acknowledge_list(list) {
    d_step {
        i = 0;
        do
        :: i < MESSAGES ->
            if
            :: place[i] == list -> assert(record[i] != 0); forget(i); place[i] = GONE
            :: else
            fi;
            i++
        :: else -> break
        od
    }
}

/* The part of take.lua that moves messages; BLMOVE moves one */
inline move(list, most) {
    if
    :: most > 0 && place[0] == QUEUE -> place[0] = list
    :: most > 0 && place[1] == QUEUE -> place[1] = list
    :: most > 1 && place[0] == QUEUE && place[1] == QUEUE -> place[0] = list; place[1] = list
    :: most == 0 || (place[0] != QUEUE && place[1] != QUEUE)
    fi
}

inline delay_lua(m, list, changed) {
    if
    :: place[m] == list -> place[m] = DELAYED; eta[m] = false; if :: changed -> forget(m) :: else fi
    :: else
    fi
}

inline requeue_lua(m, list) { if :: place[m] == list -> place[m] = QUEUE :: else fi }

inline dead_letter_lua(m, list) {
    if
    :: place[m] == list -> assert(record[m] != 0); forget(m); place[m] = DEAD
    :: else
    fi
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* The workers are alike, so the first fault is worker 0's */
#define FAULT(kind) IN(KINDS, kind) && faults > 0 && (w == 0 || faults < FAULTS) -> faults--
#define DEATH 0
#define MAIN_DEATH 1
#define LOST_REPLY 2
#define LATE_COMMAND 3
#define EXPIRY 4
#define FULL 5
#define TIME_LIMIT 6
#define DIES :: atomic { FAULT(DEATH); goto died }
#define MAY_DIE if :: true :: FAULT(DEATH); goto died fi

inline drop() { if :: cur != NONE -> lost = lost | LISTS(cur); cur = NONE :: else fi }

#define OTHERS_LOST (lost & ~(work == NONE -> 0 : BIT(work)))

inline tidy_own() { /* Claims._tidy_lost: Tidier.tidy of the lowest list */
    own = 0;
    do :: !IN(OTHERS_LOST, own) -> own++ :: else -> break od;
    if
    :: atomic { IN(open, own >> 1) -> end_connection(own) }
    :: atomic { !IN(open, own >> 1) }
    DIES
    fi;
    if
    :: atomic {
        keys = keys & ~BIT(own);
        settle_lua(own, (own == answered -> ANSWERED : UNCOUNTED), 0);
        owners = owners & ~BIT(own); lost = lost & ~BIT(own);
        if :: own == answered -> answered = NONE :: else fi;
        own = 0
    } DIES
    fi
}

inline connect() {
    do
    :: OTHERS_LOST -> tidy_own()
    :: else -> break
    od;
    if
    :: cur == NONE ->
        if
        :: atomic {
            (FREE(0) || FREE(1) || FREE(2) || FREE(3)) ->
            cur = (FREE(0) -> 0 : (FREE(1) -> 1 : (FREE(2) -> 2 : 3)));
            side = 0;
            open = open | BIT(cur);
            keys = keys | LISTS(cur);
#ifndef BUG_FORGOTTEN_OWNER
            owners = owners | LISTS(cur);
#endif
            MAY_DIE;
            announced[w] = lost | LISTS(cur)
        } DIES
        fi
    :: else
    fi;
    if
    :: announced[w] != (lost | LISTS(cur)) ->
        if :: atomic { announced[w] = lost | LISTS(cur) } DIES fi
    :: else
    fi
}

/* The choices of a command: it executes, and its reply comes, or is lost; it comes late, or the process dies meanwhile.
   A process dies before a command or after it: what it does in between only its slot tells, which is read once it died. */

/* Process._store_all: repeated until the reply comes */
#define PUT(messages, value, label) \
    if \
    :: !is_full || beside -> put(messages, value) \
    :: FAULT(LOST_REPLY); put(messages, value); drop(); goto label \
    :: late_record[w] == 0 && FAULT(LATE_COMMAND); late_record[w] = (messages) + (value) * 4; drop(); goto label \
    :: late_record[w] == 0 && FAULT(DEATH); late_record[w] = (messages) + (value) * 4; goto died \
    fi

/* By a connection of the pool of clients */
#define DEAD_LETTER(m) \
    if \
    :: atomic { dead_letter_lua(m, work) } \
    :: atomic { FAULT(LOST_REPLY); dead_letter_lua(m, work); goto abandon } \
    :: atomic { letter_list[w] == NONE && FAULT(LATE_COMMAND); letter_list[w] = work; letter_message[w] = m; goto abandon } \
    :: atomic { letter_list[w] == NONE && FAULT(DEATH); letter_list[w] = work; letter_message[w] = m; goto died } \
    DIES \
    fi

/* A script, by the connection that claims */
#define ASK(command, code) \
    if \
    :: atomic { IN(open, cur) -> command } \
    :: atomic { !IN(open, cur) -> goto abandon } \
    :: atomic { IN(open, cur) && FAULT(LOST_REPLY); command; goto abandon } \
    :: atomic { IN(open, cur) && FAULT(LATE_COMMAND); late[cur] = code; late_list[cur] = work; goto abandon } \
    :: atomic { IN(open, cur) && FAULT(DEATH); late[cur] = code; late_list[cur] = work; goto died } \
    DIES \
    fi

inline claimed(list) { /* Claims._claimed; Slot.begin_reading */
    d_step {
        held = (place[0] == list) + 2 * (place[1] == list);
        spent = 0; alone = 0; over = 0; i = 0;
        do
        :: i < MESSAGES ->
            spent = spent | ((place[i] == list && count[i] >= MAX_DELIVERIES) << i);
            over = over | ((place[i] == list && count[i] > MAX_DELIVERIES) << i);
            alone = alone | ((place[i] == list && mark[i]) << i);
            i++
        :: else -> break
        od
    };
    if
    :: held ->
        MAY_DIE;
        work = list; side = 1 - side;
#ifdef BUG_ACK_BEFORE_STORE
        acknowledge_list(work);
#endif
        state[w] = STORING; slot_place[w] = work; slot_job[w] = NONE; together[w] = (held == 3)
    :: else -> state[w] = IDLE; slot_place[w] = NONE; slot_job[w] = NONE; together[w] = false
    fi
}

#define FILLED (2 * cur + side)
#define OTHER (2 * cur + 1 - side)
#define WAITS (place[0] == QUEUE || place[1] == QUEUE)

proctype Process(byte w) {
    byte cur = NONE, work = NONE, answered = NONE, lost;
    byte side, limit = 2, held, spent, over, alone, m, own;
    bool has_ended;

forked: /* Pool._fork */
    alive[w];

claim: /* Claims.take */
    if :: work != NONE -> answered = work; work = NONE :: else fi;
    if
    :: lost || cur == NONE ->
        if :: has_ended -> atomic { state[w] = ENDED; has_ended = false } :: else fi;
        connect()
    :: else
    fi;
    if
    :: atomic { main[w] && answered == NONE && !WAITS -> state[w] = IDLE; slot_place[w] = NONE; slot_job[w] = NONE; together[w] = false; goto wait }
    :: atomic { !main[w] && answered == NONE -> goto leave }
    :: atomic { answered != NONE || main[w] && WAITS ->
        if :: has_ended -> MAY_DIE; state[w] = ENDED; has_ended = false :: else fi;
        if
        :: !IN(open, cur) || !IN(keys, FILLED) -> drop(); goto claim /* it has counted as dead */
        :: IN(open, cur) && IN(keys, FILLED) ->
            acknowledge_list(OTHER);
            answered = NONE;
            if :: main[w] -> move(FILLED, limit); claimed(FILLED) :: else goto leave fi
        :: IN(open, cur) && IN(keys, FILLED) && FAULT(LOST_REPLY); acknowledge_list(OTHER); move(FILLED, limit); drop(); goto claim
        :: IN(open, cur) && FAULT(LATE_COMMAND); late[cur] = LATE_TAKE + side; drop(); goto claim
        :: IN(open, cur) && FAULT(DEATH); late[cur] = LATE_TAKE + side; goto died
        :: FAULT(DEATH); goto died
        fi
    }
    DIES
    fi;
    if :: held -> goto work_on :: else fi;

wait: /* Claims.wait */
    if
    :: atomic { !main[w] -> goto claim }
    :: atomic { !IN(open, cur) -> drop(); goto claim }
    :: atomic { is_full && beside && WAITS -> goto claim }
    :: atomic { IN(open, cur) && !(is_full && beside) && WAITS -> move(FILLED, 1); claimed(FILLED) }
    :: atomic { IN(open, cur) && !(is_full && beside) && WAITS && FAULT(LOST_REPLY); move(FILLED, 1); drop(); goto claim }
    :: atomic { IN(open, cur) && FAULT(LATE_COMMAND); late[cur] = LATE_MOVE + side; drop(); goto claim }
    :: atomic { IN(open, cur) && FAULT(DEATH); late[cur] = LATE_MOVE + side; goto died }
    DIES
    fi;

work_on: /* Process._work, ._inspect_all */
    m = 0;
    do
    :: m < MESSAGES && !IN(held, m) -> m++
    :: m < MESSAGES && IN(held, m) ->
        if
        :: m == kills_read && !IN(over, m) -> goto killed
        :: !(m == kills_read && !IN(over, m)) && IN(spent, m) -> /* Process._refuse */
refuse:     if :: atomic { PUT(BIT(m), REPLACEABLE, refuse) } DIES fi;
            if :: !IS_FINAL(record[m]) -> DEAD_LETTER(m) :: else fi;
            held = held & ~BIT(m)
        :: !(m == kills_read) && !IN(spent, m) && eta[m] ->
            connect();
            ASK(delay_lua(m, work, false), LATE_DELAY + m);
            held = held & ~BIT(m)
        :: !(m == kills_read) && !IN(spent, m) && !eta[m]
        fi;
        m++
    :: m == MESSAGES -> break
    od;
    /* Process._select: the message to be requeued, if any */
    if
    :: held == 0 -> limit = 2; goto worked
    :: held && !(held & ~alone) -> limit = 1; m = (held == 3 -> 1 : 2)
    :: held && (held & ~alone) -> limit = 2; m = (held == 3 && alone -> alone - 1 : 2)
    fi;
    if
    :: m < 2 ->
        connect();
        ASK(requeue_lua(m, work), LATE_REQUEUE + m);
        held = held & ~BIT(m)
    :: else
    fi;
    m = (IN(held, 0) -> 0 : 1);
    if
    :: held == 3 -> /* answered together */
        if
        :: atomic {
            state[w] = RUNNING; slot_job[w] = 0; together[w] = true; began[0] = true; began[1] = true;
            if :: kills_run != NONE -> goto killed :: else fi;
            MAY_DIE;
            state[w] = STORING;
put_both:   PUT(3, w + 1, put_both);
        }
        :: goto each
        DIES
        fi;
        goto ended
    :: else
    fi;
each:
    do
    :: m < MESSAGES && !IN(held, m) -> m++
    :: m < MESSAGES && IN(held, m) ->
        if
        :: atomic { /* Slot.begin, .begin_next */
            state[w] = RUNNING; slot_job[w] = m; together[w] = false; began[m] = true;
            if :: kills_run == m -> goto killed :: else fi;
            if
            :: true
            :: FAULT(DEATH); goto died
            :: FAULT(TIME_LIMIT); is_timed_out[w] = true; goto killed   /* Pool._keep_limits */
            fi;
            state[w] = STORING; /* Process._end */
            if
            :: true ->
put_one:        PUT(BIT(m), w + 1, put_one)
            :: outages > 0 -> outages--; goto delayed /* Process._retry */
            :: outages > 0 -> outages--; goto exhausted
            fi
        } DIES
        fi;
next:   m++
    :: m == MESSAGES -> break
    od;
ended:
    has_ended = true;
worked:
    held = 0; spent = 0; over = 0; alone = 0; m = 0;
    goto claim;

delayed:
    connect();
    ASK(delay_lua(m, work, true), LATE_DELAY + m);
    goto next;

exhausted:
    if :: atomic { PUT(BIT(m), REPLACEABLE, exhausted) } DIES fi;
    DEAD_LETTER(m);
    goto next;

abandon: /* Claims.abandon; Process._back_off */
    atomic {
        drop(); work = NONE; held = 0; spent = 0; over = 0; alone = 0; m = 0; own = 0;
        if :: state[w] != ENDED -> state[w] = IDLE :: else fi
    };
    goto claim;

leave: /* Claims.close */
    drop();
    do
    :: lost -> tidy_own()
    :: else -> break
    od;
    goto killed;

died: /* alone, or with its main process, as a machine does */
    atomic { if :: true :: IN(KINDS, MAIN_DEATH) -> main[w] = false fi };
killed:
    atomic {
        cur = NONE; work = NONE; answered = NONE; side = 0; limit = 1; held = 0; spent = 0; over = 0; alone = 0;
        m = 0; own = 0; lost = 0; has_ended = false; alive[w] = false
    };
    goto forked
}

/* ------------------------------------------------------------------------------------------------------------------ */

#define MAIN_DIES :: atomic { !main[w] -> goto died } :: atomic { FAULT(MAIN_DEATH); main[w] = false; goto died }

inline tidy(mode) { /* Tidier.tidy */
    if
    :: atomic { main[w] && IN(open, tidied[w] >> 1) -> end_connection(tidied[w]) }
    :: atomic { main[w] && !IN(open, tidied[w] >> 1) }
    MAIN_DIES
    fi;
    if
    :: atomic {
        main[w] ->
        keys = keys & ~BIT(tidied[w]);
        settle_lua(tidied[w], mode, number);
        owners = owners & ~BIT(tidied[w]); tidied[w] = NONE; number = 0
    } MAIN_DIES
    fi
}

inline lowest(mask) { tidied[w] = 0; do :: !IN(mask, tidied[w]) -> tidied[w]++ :: else -> break od }

inline message_of(list) { /* Keeper._message_of: the message that ran, or the first one if it was only read */
    d_step {
        if
        :: slot_job[w] != NONE -> number = (place[slot_job[w]] == list -> slot_job[w] : MESSAGES)
        :: else -> number = (place[0] == list -> 0 : (place[1] == list -> 1 : MESSAGES))
        fi;
#ifdef BUG_COUNT_BY_PLACE
        number = (number == 1 && place[0] != list -> 0 : number)
#endif
    }
}

proctype Keeper(byte w) {
    byte todo, number;

begin: /* Pool._fork; Slot.clear */
    atomic {
        main[w] = true;
        state[w] = IDLE; slot_place[w] = NONE; slot_job[w] = NONE; together[w] = false; announced[w] = 0;
        is_timed_out[w] = false; todo = 0; number = 0; tidied[w] = NONE;
        alive[w] = true
    };
    do
    :: atomic { main[w] && !alive[w] -> todo = announced[w] }; /* Keeper._settle */
        do
        :: atomic { todo && main[w] -> lowest(todo); todo = todo & ~BIT(tidied[w]) };
            if
            :: tidied[w] == slot_place[w] && state[w] == ENDED -> tidy(ANSWERED)
            :: tidied[w] == slot_place[w] && (state[w] == RUNNING || state[w] == STORING) ->
                if
                :: together[w] -> tidy(ALONE)
                :: else ->
                    message_of(tidied[w]);
                    if
                    :: is_timed_out[w] && number < MESSAGES -> /* Keeper._answer */
                        if :: atomic { main[w] && (!is_full || beside) -> put(BIT(slot_job[w]), TIMED_OUT) } MAIN_DIES fi;
                        if
                        :: atomic {
                            main[w] ->
                            if
                            :: place[slot_job[w]] == tidied[w] ->
                                assert(record[slot_job[w]] != 0);
#ifndef BUG_COUNT_LEFT
                                forget(slot_job[w]);
#endif
                                place[slot_job[w]] = GONE
                            :: else
                            fi
                        } MAIN_DIES
                        fi;
                        tidy(UNCOUNTED)
                    :: else -> tidy(NUMBER)
                    fi
                fi
            :: else -> tidy(UNCOUNTED)
            fi
        :: atomic { !todo && main[w] -> goto begin }
        MAIN_DIES
        od
    :: atomic { main[w] && (owners & ~keys) && tidied[1 - w] == NONE -> lowest(owners & ~keys) }; /* Tidier._tidy_if_dead */
        if
        :: (place[0] == tidied[w]) + (place[1] == tidied[w]) > 1 -> tidy(ALONE)
        :: else -> tidy(COUNTED)
        fi
    :: atomic { main[w] && (announced[w] & ~keys) -> keys = keys | announced[w]; owners = owners | announced[w] } /* renew.lua */
    MAIN_DIES
    od;
died:
    atomic { todo = 0; number = 0; tidied[w] = NONE };
    atomic { !alive[w] -> goto begin }
}

#define RENEWED ((main[0] -> announced[0] : 0) | (main[1] -> announced[1] : 0))

/* What comes late; time; what main processes do with messages that wait (Keeper._look) */
proctype Redis() {
    byte c;
    do
    :: atomic {
        (late[0] && IN(open, 0) || late[1] && IN(open, 1) || late[2] && IN(open, 2) || late[3] && IN(open, 3)) ->
        if
        :: late[0] && IN(open, 0) -> c = 0
        :: late[1] && IN(open, 1) -> c = 1
        :: late[2] && IN(open, 2) -> c = 2
        :: late[3] && IN(open, 3) -> c = 3
        fi;
        if
        :: late[c] < LATE_MOVE ->
            if
            :: IN(keys, 2 * c + late[c] - LATE_TAKE) ->
                acknowledge_list(2 * c + 1 - (late[c] - LATE_TAKE)); move(2 * c + late[c] - LATE_TAKE, 2)
            :: else
            fi
        :: late[c] >= LATE_MOVE && late[c] < LATE_DELAY -> move(2 * c + late[c] - LATE_MOVE, 1)
        :: late[c] >= LATE_DELAY && late[c] < LATE_REQUEUE -> delay_lua(late[c] - LATE_DELAY, late_list[c], !eta[late[c] - LATE_DELAY])
        :: late[c] >= LATE_REQUEUE -> requeue_lua(late[c] - LATE_REQUEUE, late_list[c])
        fi;
        late[c] = 0; late_list[c] = 0; c = 0
    }
    :: atomic { late_record[0] -> if :: put(late_record[0] & 3, late_record[0] >> 2) :: true fi; late_record[0] = 0 }
    :: atomic { late_record[1] -> if :: put(late_record[1] & 3, late_record[1] >> 2) :: true fi; late_record[1] = 0 }
    :: atomic {
        letter_list[0] != NONE ->
        if :: dead_letter_lua(letter_message[0], letter_list[0]) :: true fi; letter_list[0] = NONE; letter_message[0] = 0
    }
    :: atomic {
        letter_list[1] != NONE ->
        if :: dead_letter_lua(letter_message[1], letter_list[1]) :: true fi; letter_list[1] = NONE; letter_message[1] = 0
    }
    :: atomic { keys & ~RENEWED -> keys = keys & RENEWED }     /* keys expire that nobody renews */
    :: atomic { (keys & RENEWED & announced[0]) && IN(KINDS, EXPIRY) && faults > 0 -> faults--; keys = keys & ~announced[0] }       /* a frozen worker */
    :: atomic { (keys & RENEWED & announced[1]) && IN(KINDS, EXPIRY) && faults > 0 && faults < FAULTS -> faults--; keys = keys & ~announced[1] }
    :: atomic { !is_full && IN(KINDS, FULL) && faults > 0 -> faults--; is_full = true }
    :: atomic { is_full && !beside -> is_full = false }
    :: atomic { place[0] == DELAYED -> place[0] = QUEUE }       /* promote.lua */
    :: atomic { place[1] == DELAYED -> place[1] = QUEUE }
    :: atomic {     /* requeue_deferred.lua */
        (place[0] == DEFERRED || place[1] == DEFERRED) && place[0] != QUEUE && place[1] != QUEUE ->
        if :: place[0] == DEFERRED -> place[0] = QUEUE :: place[1] == DEFERRED -> place[1] = QUEUE fi
    }
    od
}

#define IS_ENDED(m) ((place[m] == GONE || place[m] == DEAD) && record[m] != 0 && count[m] == 0 && mark[m] == 0)

init {
    atomic {
        if :: IN(SCENARIO, 0) -> eta[0] = true :: else fi;
        if :: IN(SCENARIO, 1) -> kills_run = 0 :: else fi;
        if :: IN(SCENARIO, 2) -> kills_read = 0 :: else fi;
        if :: IN(SCENARIO, 3) -> beside = true :: else fi;
        run Keeper(0); run Keeper(1); run Process(0); run Process(1); run Redis()
    };
    timeout;
    assert(IS_ENDED(0) && IS_ENDED(1));
    assert(owners == (announced[0] | announced[1]) && keys == owners)
}
