"""Owners of claimed messages: their liveness, and requeueing of dead owners' messages.

An owner is one connection that claims from a queue. Its key in Redis is renewed every few seconds by a thread, because
the main process may be busy for longer; the thread ends and freezes with the process. An owner whose key has expired
counts as dead: its list and its deliveries are requeued. A job may run twice, but is not lost.
"""

from __future__ import annotations

import itertools
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from worker.adapters import logs
from worker.queue.transport import keys, unacked
from worker.queue.transport.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Container

log = logs.logger("worker.transport")

BEAT_SECONDS = 3.0
AGAIN_SECONDS = 0.5
"""Pause before a failed renewal is retried: it fails within its time limit of 3 s, so three fit into `LIFE_SECONDS`."""

LIFE_SECONDS = 12
"""Lifetime of an owner's key. An owner that is frozen or can't reach Redis for longer counts as dead: its jobs run
twice, and none is lost."""

STOPPING_BEAT_SECONDS, STOPPING_LIFE_SECONDS = 1.0, 5
"""The same once the worker was asked to stop: a supervisor that waits no longer kills it, and its jobs run elsewhere
that much sooner."""

FORGET_SECONDS = 900.0
"""Time for which a dead owner's list is checked: a command of its last connection may arrive late."""


_RENEW = (
    NOW
    + keys.WHEN_FULL
    + """
for number = 2, #KEYS do
    redis.call('SET', KEYS[number], ARGV[2 * number - 2], 'EX', ARGV[1])
    redis.call('ZADD', KEYS[1], now, ARGV[2 * number - 1])
end
"""
)

# In the order in which the messages were taken; a bounded number. Removes first, because a full Redis refuses a script
# that begins with a write that adds.
_REQUEUE = """
for moved = 0, tonumber(ARGV[1]) - 1 do
    local message = redis.call('LPOP', KEYS[1])
    if not message then return moved end
    redis.call('RPUSH', KEYS[2], message)
    if ARGV[2] ~= '' then redis.call('HINCRBY', KEYS[3], redis.sha1hex(message), 1) end
end
return tonumber(ARGV[1])
"""
_REQUEUE_AT_ONCE = 64


LOOKS = 5
"""Number of maintenance runs that check for messages which a lost connection's command may still have moved."""


@dataclass
class DisconnectedOwner:
    """Owner without a connection.

    Attributes:
        queue: the queue that it claimed from.
        unread: tags of the deliveries that its last command may have made and that were never read.
        looks: remaining checks for messages that its last command moved; None: that command was completed.
    """

    queue: str
    unread: tuple[str, ...] = ()
    looks: int | None = LOOKS


LOG_SECONDS = 10.0


class RenewalLog:
    """Log of failed renewals: the first of an outage, all so far every `LOG_SECONDS`, and its end."""

    def __init__(self) -> None:
        self._failures = 0
        self._logged = 0.0

    def failed(self, error: Exception, now: float) -> None:
        """Count a failure, at a time of any monotonic clock in seconds."""
        self._failures += 1
        if self._failures == 1 or now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.warning("owner not renewed", error=type(error).__name__, failures=self._failures)

    def renewed(self) -> None:
        """End the outage, if there is one."""
        if self._failures:
            log.info("owner renewed again", failures=self._failures)
            self._failures = 0


class Heart:
    """Heartbeat of one worker's owners: those that claim, and those without a connection that hold a job.

    Args:
        client: a client of its own, because the thread must share nothing with the main one; without retries.
        name: name of this process; owners' names begin with it.

    Attributes:
        left: owners without a connection.
        ended: owner → deliveries of it that were acknowledged; the heartbeat reports them, for `worker.queue.rates`.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._name = name
        self._lists: dict[str, str] = {}
        self.left: dict[str, DisconnectedOwner] = {}
        self.ended: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._is_stopping = self._is_stopped = False
        self._thread: threading.Thread | None = None

    def add(self, client: redis.Redis, queue: str) -> str:
        """Add an owner, registered before it claims anything; return its name."""
        owner = f"{self._name}-{uuid.uuid4().hex[:12]}"
        place = keys.inflight(queue, owner)
        self._beat(client, {owner: place})
        with self._lock:
            self._lists[owner] = place
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="owners", daemon=True)
            self._thread.start()
        return owner

    def abandon(self, queue: str, owner: str, unread: tuple[str, ...] = ()) -> None:
        """Record that an owner's connection broke, and that it is not known what it claimed."""
        if owner in self._lists:
            self.left.setdefault(owner, DisconnectedOwner(queue, unread))

    def release(self, client: redis.Redis, queue: str, owner: str) -> None:
        """Requeue the messages that an owner claimed; its connection was closed with no command outstanding."""
        requeue_owned(client, queue, owner)
        self.left[owner] = DisconnectedOwner(queue, looks=None)

    def drop_idle(self, client: redis.Redis, holders: Container[str]) -> None:
        """Drop owners without a connection that hold nothing.

        If it is not known what they claimed, they are checked some more times, and then left to expire. So is one with
        a delivery that no process of this worker has: the message is requeued as a dead owner's.
        """
        for owner, left in list(self.left.items()):
            if owner in holders:
                continue
            if left.looks:
                left.looks -= 1
                continue
            del self.left[owner]
            with self._lock:
                place = self._lists.pop(owner)
            del self.ended[owner]
            if left.looks is None and not unacked.has_any(client, owner):
                client.delete(keys.owner_key(owner))
                client.zrem(keys.OWNERS, place)

    def renew(self, client: redis.Redis) -> None:
        """Renew all owners now: after a pause no worker, this one included, may take them for dead."""
        with self._lock:
            lists = dict(self._lists)
        self._beat(client, lists)

    def hurry(self) -> None:
        """Shorten the owners' lifetime: the worker was asked to stop. A signal handler may call this."""
        self._is_stopping = True
        self._woken.set()

    def stop(self) -> None:
        """Stop the thread."""
        self._is_stopped = True
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(BEAT_SECONDS)

    @property
    def _beat_seconds(self) -> float:
        return STOPPING_BEAT_SECONDS if self._is_stopping else BEAT_SECONDS

    def _run(self) -> None:
        pause, renewals = self._beat_seconds, RenewalLog()
        while True:
            self._woken.wait(pause)
            self._woken.clear()
            if self._is_stopped:
                break
            pause = self._beat_seconds
            try:
                self.renew(self._client)
            except (redis.RedisError, OSError) as error:
                renewals.failed(error, time.monotonic())
                pause = AGAIN_SECONDS
            else:
                renewals.renewed()
        self._client.connection_pool.disconnect()

    def _beat(self, client: redis.Redis, lists: dict[str, str]) -> None:
        if not lists:
            return
        life = STOPPING_LIFE_SECONDS if self._is_stopping else LIFE_SECONDS
        places = (keys.OWNERS, *(keys.owner_key(owner) for owner in lists))
        states = ((keys.owner_value(self._name, self.ended[owner]), place) for owner, place in lists.items())
        client.eval(_RENEW, len(places), *places, life, *itertools.chain.from_iterable(states))


def requeue_owned(client: redis.Redis, queue: str, owner: str, *, counted: bool = False) -> int:
    """Requeue an owner's list, at the front and in order; return the number of messages.

    Args:
        client: client of the broker.
        queue: the messages' queue.
        owner: the owner.
        counted: True: each counts as delivered, because its owner died, possibly of one of them.
    """
    places = (keys.inflight(queue, owner), queue, keys.deliveries(queue))
    moved = 0
    while True:
        now: Any = client.eval(_REQUEUE, len(places), *places, _REQUEUE_AT_ONCE, "counted" if counted else "")
        moved += int(now)
        if now < _REQUEUE_AT_ONCE:
            return moved


def requeue_dead(client: redis.Redis) -> None:
    """Requeue the lists of dead owners."""
    known, now = _known(client)
    lists = [(place.decode(), seen) for place, seen in known]
    with client.pipeline(transaction=False) as pipe:
        for place, _ in lists:
            pipe.exists(keys.owner_key(keys.parse_inflight(place)[1]))
            pipe.llen(place)
        answers = pipe.execute() if lists else []
    for (place, seen), alive, length in zip(lists, answers[::2], answers[1::2], strict=True):
        if alive:
            continue
        queue, owner = keys.parse_inflight(place)
        if length:
            moved = requeue_owned(client, queue, owner, counted=True)
            log.warning("claims of a dead worker requeued", queue=queue, owner=owner, messages=moved)
        elif seen < now - FORGET_SECONDS:
            client.zrem(keys.OWNERS, place)


def _known(client: redis.Redis) -> tuple[Any, float]:
    """Return the lists that may hold messages, by when their owners were last seen; and Redis' time."""
    with client.pipeline() as pipe:
        pipe.zrange(keys.OWNERS, 0, -1, withscores=True)
        pipe.time()
        known, (seconds, _) = pipe.execute()
    return known, seconds
