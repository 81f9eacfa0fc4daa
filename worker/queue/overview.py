"""Overview: what waits, runs and failed in the queues, for operators; without the content of any job."""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from retrieval_client.errors import Unavailable
from worker.queue.rates import RateMeter, Sample
from worker.queue.transport import dead_letters, delayed, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from worker.queue.rates import Rate
    from worker.queue.transport.dead_letters import DeadLetter

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
class BrokerState:
    """State of all queues.

    Attributes:
        queues: each queue, in the order asked for.
        running: messages that workers took and have not acknowledged.
        oldest_running_seconds: age of the oldest of them; 0 without any.
        workers: workers that are alive.
        letters: the newest dead letters of each queue.
        rates: rate of each queue; none before the second look.
    """

    queues: tuple[QueueState, ...]
    running: int
    oldest_running_seconds: float
    workers: int
    letters: tuple[DeadLetter, ...]
    rates: Mapping[str, Rate]


class Overview:
    """Overview of the queues of a broker.

    Args:
        url: URL of the broker.
        queues: names of the queues.
        clock: Unix time.
    """

    def __init__(self, url: str, queues: Sequence[str], clock: Callable[[], float]) -> None:
        self._url = url
        self._queues = tuple(queues)
        self._clock = clock
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
            now: Any = client.time()
            recorded: Any = client.zcard(keys.UNACKED_INDEX)
            owners = _owners(client)
            states = tuple(self._state(client, queue) for queue in self._queues)
            letters = [one for queue in self._queues for one in dead_letters.every(client, queue, newest)]
            listed = {name: client.llen(keys.inflight(owner.queue, name)) for name, owner in owners.items()}
            held = _held(client, owners, listed)
        began = [*(score for _, score in index), *(owner.began for owner in owners.values() if owner.began is not None)]
        age = max(0.0, now[0] - min(began)) if began else 0.0
        dead = {one.queue: one.dead for one in states}
        inside = {one.queue: one.waiting + one.delayed + held[one.queue] for one in states}
        ended = {name: (owner.queue, owner.ended) for name, owner in owners.items() if owner.is_alive}
        rates = self._meter.add(Sample(now[0] + now[1] / 1e6, inside, dead, ended))
        workers = {owner.worker for owner in owners.values() if owner.is_alive}
        running = int(recorded) + sum(listed.values())
        return BrokerState(states, running, age, len(workers), tuple(letters), rates)

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
            known = queue in self._queues and dead_letters.one(client, queue, entry) is not None
            return known and bool(dead_letters.purge(client, queue, [entry]))

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

    def _state(self, client: redis.Redis, queue: str) -> QueueState:
        waiting = [client.llen(f"{queue}{end}") for end in keys.PRIORITIES]
        (depth,) = dead_letters.depths(client, [queue], self._clock, ages=True)
        counted: Any = sum(waiting)
        return QueueState(queue, int(counted), delayed.depth(client, queue), depth.letters, depth.oldest_seconds or 0.0)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[redis.Redis]:
        try:
            with redis.Redis.from_url(self._url, socket_connect_timeout=2, socket_timeout=5) as client:
                yield client
        except (redis.RedisError, ValueError) as error:
            is_away = isinstance(error, redis.ConnectionError | redis.TimeoutError)
            if is_away and not isinstance(error, redis.AuthenticationError):
                options = client.get_connection_kwargs()
                place = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
                raise Unavailable(f"Redis is away ({place})") from None
            raise Unavailable(f"Redis refuses to answer ({type(error).__name__})") from None


@dataclass(frozen=True, slots=True)
class _Owner:
    queue: str
    is_alive: bool
    worker: str
    ended: int
    began: float | None


def _owners(client: redis.Redis) -> dict[str, _Owner]:
    """Return the owners: a worker that is alive renews a key for each of its queues."""
    places: Any = client.zrange(keys.OWNERS, 0, -1)
    known = [keys.parse_inflight(place.decode()) for place in places]
    values: Any = client.mget([keys.owner_key(owner) for _, owner in known]) if known else []
    return {
        owner: _Owner(queue, value is not None, *keys.parse_owner_value((value or b"").decode()))
        for (queue, owner), value in zip(known, values, strict=True)
    }


def _held(client: redis.Redis, owners: Mapping[str, _Owner], listed: Mapping[str, int]) -> Counter[str]:
    """Return how many messages of each queue its owners have: taken, and not acknowledged."""
    tags: Any = client.zrange(keys.UNACKED_INDEX, 0, MOST_TAGS - 1)
    named = (owners.get(keys.owner_of(tag.decode("utf-8", "replace"))) for tag in tags)
    held = Counter(owner.queue for owner in named if owner is not None)
    for name, owner in owners.items():
        held[owner.queue] += listed[name]
    return held
