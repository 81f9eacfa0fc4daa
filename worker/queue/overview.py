"""Overview: what waits, runs and failed in the queues, for operators; without the content of any job."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from retrieval_client.errors import Unavailable
from worker.queue.broker import dead_letters, delayed, keys, turns
from worker.queue.broker.owners import BEAT_SECONDS, LIFE_SECONDS
from worker.queue.claims import REQUEUED_SECONDS
from worker.queue.rates import RateMeter, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from worker.queue.broker.dead_letters import DeadLetter
    from worker.queue.rates import Rate

MOST_TAGS = 10_000
"""Most running messages whose queues are looked up."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """State of a queue.

    Attributes:
        queue: its name.
        waiting: messages that no worker took.
        delayed: messages that wait for their due time or their turn.
        dead: dead letters.
        oldest_dead_seconds: age of the oldest dead letter; 0 without any.
    """

    queue: str
    waiting: int
    delayed: int
    dead: int
    oldest_dead_seconds: float


@dataclass(frozen=True, slots=True)
class WorkerState:
    """Worker, and the messages that it holds: taken, and not acknowledged.

    Attributes:
        name: its name, HOST-PID of its main process.
        is_alive: False if the keys of all its owners have expired.
        silent_seconds: time since it was last heard from.
        held: queue → number of messages, of queues with any.
        running_seconds: how long the oldest of them runs, where that is known.
    """

    name: str
    is_alive: bool
    silent_seconds: float
    held: Mapping[str, int]
    running_seconds: float | None


@dataclass(frozen=True, slots=True)
class BrokerState:
    """State of all queues.

    Attributes:
        queues: each queue, in the order asked for.
        running: messages that workers took and have not acknowledged.
        oldest_running_seconds: age of the oldest of them; 0 without any.
        workers: workers that are alive, and those that are gone and still hold messages, by name.
        letters: the newest dead letters of each queue.
        rates: rate of each queue; none before the second look.
    """

    queues: tuple[QueueState, ...]
    running: int
    oldest_running_seconds: float
    workers: tuple[WorkerState, ...]
    letters: tuple[DeadLetter, ...]
    rates: Mapping[str, Rate]

    @property
    def alive(self) -> int:
        """Number of workers that are alive."""
        return sum(worker.is_alive for worker in self.workers)

    def describe(self, worker: WorkerState) -> str:
        """Return in words what one of the workers holds and, if it is gone, when that is requeued."""
        text = f"holds {' and '.join(f'{count} of {queue}' for queue, count in worker.held.items()) or 'nothing'}"
        if worker.running_seconds is not None:
            text += f", the oldest runs for {worker.running_seconds:.0f} s"
        if not worker.is_alive:
            when = f"within {REQUEUED_SECONDS:.0f} s" if self.alive else "once a worker runs"
            return f"{text}; it is gone, last heard from {worker.silent_seconds:.0f} s ago: requeued {when}"
        if worker.silent_seconds > 2 * BEAT_SECONDS:
            text += f"; last heard from {worker.silent_seconds:.0f} s ago, gone after {LIFE_SECONDS} s"
        return text


class Overview:
    """Overview of the queues of a broker."""

    def __init__(self, url: str, queues: Sequence[str]) -> None:
        self._url = url
        self._queues = tuple(queues)
        self._meter = RateMeter()

    def check(self) -> None:
        """Check that the broker answers. Raises as `look`."""
        with self._connected() as client:
            client.ping()

    def look(self, newest: int) -> BrokerState:
        """Return the current state, with up to ``newest`` dead letters of each queue.

        Raises:
            Unavailable: the broker does not answer, or refuses its user.
        """
        with self._connected() as client:
            index: Any = client.zrange(keys.UNACKED_INDEX, 0, 0, withscores=True)
            redis_time: Any = client.time()
            recorded: Any = client.zcard(keys.UNACKED_INDEX)
            owners = _owners(client)
            states = tuple(self._state(client, queue, redis_time[0]) for queue in self._queues)
            letters = [letter for queue in self._queues for letter in dead_letters.every(client, queue, newest)]
            listed = {name: client.llen(keys.inflight(owner.queue, name)) for name, owner in owners.items()}
            held = _held(client, owners, listed)
        workers = _workers(owners, held, redis_time[0])
        began_of_owners = [owner.began for name, owner in owners.items() if owner.began is not None and held[name]]
        began = [*(score for _, score in index), *began_of_owners]
        age = max(0.0, redis_time[0] - min(began)) if began else 0.0
        dead = {state.queue: state.dead for state in states}
        inside = {state.queue: state.waiting + state.delayed for state in states}
        for name, owner in owners.items():
            if owner.queue in inside:
                inside[owner.queue] += held[name]
        ended = {name: (owner.queue, owner.ended) for name, owner in owners.items() if owner.is_alive}
        rates = self._meter.add(Sample(redis_time[0] + redis_time[1] / 1e6, inside, dead, ended))
        running = int(recorded) + sum(listed.values())
        return BrokerState(states, running, age, workers, tuple(letters), rates)

    def retry(self, queue: str, entry: str) -> bool:
        """Send a dead letter again; return False if it is gone.

        Raises:
            InvalidJob: it can't be sent again.
            Unavailable: the broker does not answer, or refuses its user.
        """
        with self._connected() as client:
            return queue in self._queues and bool(dead_letters.retry(client, queue, entry))

    def purge(self, queue: str, entry: str) -> bool:
        """Delete a dead letter; return False if it is gone. Raises as `look`."""
        with self._connected() as client:
            is_present = queue in self._queues and dead_letters.one(client, queue, entry) is not None
            return is_present and bool(dead_letters.purge(client, queue, [entry]))

    def use_token(self, token_id: str, seconds: float) -> bool:
        """Mark a token as used, for all inspectors of this broker; return False if it was used before.

        Args:
            token_id: the token's `jti`.
            seconds: lifetime of the mark, at least the rest of the token's.

        Raises:
            Unavailable: the broker does not answer, or refuses its user.
        """
        with self._connected() as client:
            return bool(client.set(keys.used_token(token_id), "", nx=True, px=math.ceil(seconds * 1000)))

    @staticmethod
    def _state(client: redis.Redis, queue: str, redis_time: float) -> QueueState:
        waiting = turns.waiting(client, queue, keys.PRIORITIES)
        dead: Any = client.xlen(keys.dead(queue))
        oldest = dead_letters.oldest_seconds(client, queue, redis_time)
        return QueueState(queue, waiting, delayed.depth(client, queue), int(dead), oldest)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[redis.Redis]:
        try:
            with redis.Redis.from_url(self._url, socket_connect_timeout=2, socket_timeout=5) as client:
                yield client
        except (redis.RedisError, ValueError, TypeError) as error:  # the last: an option of the URL that there is not
            is_away = isinstance(error, redis.ConnectionError | redis.TimeoutError)
            if is_away and not isinstance(error, redis.AuthenticationError):
                options = client.get_connection_kwargs()
                place = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
                raise Unavailable(f"Redis is away ({place})") from None
            raise Unavailable(f"Redis refuses to answer ({type(error).__name__})") from None


@dataclass(frozen=True, slots=True)
class _Owner:
    queue: str
    seen: float
    is_alive: bool
    worker: str
    ended: int
    began: float | None


def _owners(client: redis.Redis) -> dict[str, _Owner]:
    """Return the owners: a worker that is alive renews a key for each of its queues."""
    places: Any = client.zrange(keys.OWNERS, 0, -1, withscores=True)
    seen_owners = [(*keys.parse_inflight(place.decode()), seen) for place, seen in places]
    values: Any = client.mget([keys.owner_key(owner) for _, owner, _ in seen_owners]) if seen_owners else []
    owners = {}
    for (queue, owner, seen), value in zip(seen_owners, values, strict=True):
        worker, ended, began = keys.parse_owner_value((value or keys.worker_of(owner).encode()).decode())
        owners[owner] = _Owner(queue, seen, value is not None, worker, ended, began)
    return owners


def _held(client: redis.Redis, owners: Mapping[str, _Owner], listed: Mapping[str, int]) -> Counter[str]:
    """Return how many messages each owner has: taken, and not acknowledged."""
    tags: Any = client.zrange(keys.UNACKED_INDEX, 0, MOST_TAGS - 1)
    recorded = (keys.owner_of(tag.decode("utf-8", "replace")) for tag in tags)
    return Counter(listed) + Counter(owner for owner in recorded if owner in owners)


def _workers(owners: Mapping[str, _Owner], held: Mapping[str, int], redis_time: float) -> tuple[WorkerState, ...]:
    """Return the workers that have these owners; none that is gone and holds nothing."""
    groups: dict[str, list[tuple[_Owner, int]]] = {}
    for name, owner in owners.items():
        groups.setdefault(owner.worker, []).append((owner, held[name]))
    return tuple(
        _worker_of(name, group, redis_time)
        for name, group in sorted(groups.items())
        if any(owner.is_alive or count for owner, count in group)
    )


def _worker_of(name: str, group: Sequence[tuple[_Owner, int]], redis_time: float) -> WorkerState:
    counts: Counter[str] = Counter()
    for owner, count in group:
        counts[owner.queue] += count
    began = [owner.began for owner, count in group if owner.began is not None and count]
    return WorkerState(
        name,
        any(owner.is_alive for owner, _ in group),
        max(0.0, redis_time - max(owner.seen for owner, _ in group)),
        {queue: count for queue, count in sorted(counts.items()) if count},
        max(0.0, redis_time - min(began)) if began else None,
    )
