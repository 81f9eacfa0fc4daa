"""Who takes messages off queues, who of them is alive, and what becomes of the others' lists.

An owner is one connection that claims from a queue. Its key in Redis is renewed every few seconds by a thread, because
the main process may be busy for longer than that; the thread ends with the process, and stands still with it. Whose key
has gone counts as dead: its list goes back to the queue, and its deliveries too. A job may run twice, but is not lost.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from worker.adapters import logs
from worker.queue.transport import keys
from worker.queue.transport.clock import NOW

if TYPE_CHECKING:
    from collections.abc import Container

log = logs.logger("worker.transport")

BEAT_SECONDS = 3.0
AGAIN_SECONDS = 0.5
"""How soon a renewal that failed is tried again: it fails within its time limit of 3 s, so three fit into a life."""

LIFE_SECONDS = 12
"""How long an owner that is not heard of counts as alive. Whoever stands still for longer, or can't reach Redis, counts
as dead: what it had runs twice, nothing is lost."""

FORGET_SECONDS = 900.0
"""How long a dead owner's list is looked at: a command of its last connection may arrive late."""


_SEEN = (
    NOW
    + """
for _, place in ipairs(ARGV) do redis.call('ZADD', KEYS[1], now, place) end
"""
)

# In the order in which the messages were taken; a bounded number. Takes away first, because a full Redis refuses to
# begin with what adds.
_PUT_BACK = """
for moved = 0, tonumber(ARGV[1]) - 1 do
    local message = redis.call('LPOP', KEYS[1])
    if not message then return moved end
    redis.call('RPUSH', KEYS[2], message)
    if ARGV[2] ~= '' then redis.call('HINCRBY', KEYS[3], redis.sha1hex(message), 1) end
end
return tonumber(ARGV[1])
"""
_PUT_BACK_AT_ONCE = 64


LOOKS = 5
"""How often a worker looks, at its maintenance, for what a command of a connection it lost may still have moved."""


@dataclass
class DisconnectedOwner:
    """An owner without a connection.

    Attributes:
        queue: it has claimed from.
        unread: the delivery that its last command may have made, and nobody has read; or nothing.
        looks: how often to look for what its last command moved; None: it was heard to the end.
    """

    queue: str
    unread: str = ""
    looks: int | None = LOOKS


class Heart:
    """Keeps the owners of one worker alive: those that claim, and those whose connection has gone and that hold a job.

    Args:
        client: one of its own, because the thread must share nothing with the main one; it tries commands once.
        name: of this process; owners' names begin with it.

    Attributes:
        left: owners without a connection.
    """

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._name = name
        self._lists: dict[str, str] = {}
        self.left: dict[str, DisconnectedOwner] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, client: redis.Redis, queue: str) -> str:
        """A new owner, known before it claims anything; its name."""
        owner = f"{self._name}-{uuid.uuid4().hex[:12]}"
        place = keys.inflight(queue, owner)
        self._beat(client, {owner: place})
        with self._lock:
            self._lists[owner] = place
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="owners", daemon=True)
            self._thread.start()
        return owner

    def abandon(self, queue: str, owner: str, unread: str = "") -> None:
        """Note that an owner's connection broke, and that what it has claimed is not known."""
        if owner in self._lists:
            self.left.setdefault(owner, DisconnectedOwner(queue, unread))

    def release(self, client: redis.Redis, queue: str, owner: str) -> None:
        """Take back what an owner claimed: its connection was closed with nothing on the way."""
        requeue_owned(client, queue, owner)
        self.left[owner] = DisconnectedOwner(queue, looks=None)

    def let_go(self, client: redis.Redis, holders: Container[str]) -> None:
        """Forget owners without a connection that hold nothing.

        Where it is not known what they claimed, they are looked at some more, and then left to die.
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
            if left.looks is None:
                client.delete(keys.owner_key(owner))
                client.zrem(keys.OWNERS, place)

    def renew(self, client: redis.Redis) -> None:
        """Say now that all owners live: after a silence nobody may take this worker's own for dead, itself included."""
        with self._lock:
            lists = dict(self._lists)
        self._beat(client, lists)

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(BEAT_SECONDS)

    def _run(self) -> None:
        pause = BEAT_SECONDS
        while not self._stopped.wait(pause):
            pause = BEAT_SECONDS
            try:
                self.renew(self._client)
            except (redis.RedisError, OSError) as error:
                log.warning("owner not renewed", error=type(error).__name__)
                pause = AGAIN_SECONDS
        self._client.connection_pool.disconnect()

    def _beat(self, client: redis.Redis, lists: dict[str, str]) -> None:
        if not lists:
            return
        with client.pipeline(transaction=False) as pipe:
            for owner in lists:
                pipe.set(keys.owner_key(owner), self._name, ex=LIFE_SECONDS)
            pipe.eval(_SEEN, 1, keys.OWNERS, *lists.values())
            pipe.execute()


def requeue_owned(client: redis.Redis, queue: str, owner: str, *, counted: bool = False) -> int:
    """Move an owner's list back, to where it was taken from and in that order; how many there were.

    Args:
        client: of the broker.
        queue: where the messages are from.
        owner: who took them.
        counted: each counts as delivered, because its owner died: it may have died of one of them.
    """
    places = (keys.inflight(queue, owner), queue, keys.deliveries(queue))
    moved = 0
    while True:
        now: Any = client.eval(_PUT_BACK, len(places), *places, _PUT_BACK_AT_ONCE, "counted" if counted else "")
        moved += int(now)
        if now < _PUT_BACK_AT_ONCE:
            return moved


def bury(client: redis.Redis) -> list[str]:
    """Put the lists of dead owners back on their queues.

    Returns:
        The dead whose deliveries may still be unanswered.
    """
    known, now = _known(client)
    lists = [(place.decode(), seen) for place, seen in known]
    with client.pipeline(transaction=False) as pipe:
        for place, _ in lists:
            pipe.exists(keys.owner_key(keys.parse_inflight(place)[1]))
            pipe.llen(place)
        answers = pipe.execute() if lists else []
    dead = []
    for (place, seen), alive, length in zip(lists, answers[::2], answers[1::2], strict=True):
        if alive:
            continue
        queue, owner = keys.parse_inflight(place)
        dead.append(owner)
        if length:
            moved = requeue_owned(client, queue, owner, counted=True)
            log.warning("claims of a dead worker put back", queue=queue, owner=owner, messages=moved)
        elif seen < now - FORGET_SECONDS:
            client.zrem(keys.OWNERS, place)
    return dead


def _known(client: redis.Redis) -> tuple[Any, float]:
    """The lists that may hold something, by when their owners were last seen; and Redis' time."""
    with client.pipeline() as pipe:
        pipe.zrange(keys.OWNERS, 0, -1, withscores=True)
        pipe.time()
        known, (seconds, _) = pipe.execute()
    return known, seconds
