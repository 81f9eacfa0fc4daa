"""Claims: a connection that waits for a message of one queue and moves it to this owner's list.

A message is thus never in this process only. If a connection breaks with a reply outstanding, its owner is abandoned:
the next connection is another owner, so that a message which the old command may still move arrives in a list that is
recognised as a dead owner's.
"""

from __future__ import annotations

import contextlib
import select
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from worker.adapters import logs
from worker.queue.transport import excerpts, keys, unacked
from worker.queue.transport.inspection import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from worker.queue.transport import owners

log = logs.logger("worker.transport")

BURST = 64
BURST_BYTES = 1_048_576
"""Limits of one batch; the message that exceeds the bytes is still included."""

# Returns messages, the next one first.
_TAKE = (
    keys.WHEN_FULL
    + excerpts.SHORTEN
    + """
local taken, bytes, longest = {}, 0, tonumber(ARGV[3])
for number = 1, tonumber(ARGV[1]) do
    local raw = redis.call('LMOVE', KEYS[1], KEYS[2], 'RIGHT', 'LEFT')
    if not raw then break end
    if #raw > longest then
        raw = shorten(raw, longest)
        redis.call('LSET', KEYS[2], 0, raw)
    end
    taken[number] = raw
    bytes = bytes + #raw
    if bytes > tonumber(ARGV[2]) then break end
end
return taken
"""
)

# Only messages still in the list: the owner may have been declared dead meanwhile, or the command may be a repetition.
REQUEUE = """
for number = 2, #ARGV do
    if redis.call('LREM', KEYS[1], 1, ARGV[number]) == 1 then redis.call(ARGV[1], KEYS[2], ARGV[number]) end
end
"""

WAIT_SECONDS = 1
"""Time that Redis blocks a claim on an empty queue."""

FULL_SECONDS = 0.2
"""Time without another blocking command after a full Redis has refused one; messages are taken by scripts meanwhile."""

_FIRST_BYTES = 65_536


def announced_bytes(connection: Any) -> int:
    """Return the length of the reply that a connection gets next, from its first line; 0: it is no string."""
    start = b""
    while b"\r\n" not in start:
        part = connection._sock.recv(_FIRST_BYTES)  # noqa: SLF001 -- redis-py has no other
        if not part:
            raise redis.ConnectionError("Redis closed the connection")
        connection._parser._reader.feed(part)  # noqa: SLF001 -- the parser continues there
        start += part
    return int(start[1 : start.index(b"\r\n")]) if start.startswith(b"$") else 0


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedMessage:
    """Message that is recorded as unacknowledged, and not inspected yet.

    Attributes:
        claim: the claim that took it.
        raw: the message.
        tag: its delivery tag.
        count: number of its deliveries, this one included.
        alone: True: it must not be in a bundle; a process died with one that it was in.
    """

    claim: Claim
    raw: bytes
    tag: str
    count: int
    alone: bool


class Claim:
    """Claim on one queue: takes messages one at a time, or in bursts if many are refused.

    Args:
        queue: name of the queue.
        client: its pool provides the blocking connection.
        heart: keeps the owner alive.
        clock: monotonic seconds.
        longest: most bytes of a message; only an excerpt of a longer one is taken.

    Attributes:
        connection: connection of the blocking command; None until `connect`.
        owner: owner of the messages it takes.
        since: time when the blocking command was sent; None while there is none.
        burst: number of messages to take at a time, so that about one of them is deliverable: one more than were not
            deliverable last time.
        stretch: most messages to take and deliver at a time: it doubles with each job that may be in a bundle, and is 1
            after any other, so that no process is given several of those.
        deliveries: number of deliveries since a deferred message was last requeued.
    """

    reliable = True

    def __init__(
        self,
        queue: str,
        client: redis.Redis,
        heart: owners.Heart,
        clock: Callable[[], float],
        longest: int = Rules.max_bytes,
    ) -> None:
        self.queue = queue
        self.connection: Any = None
        self.owner = ""
        self.since: float | None = None
        self.burst = self.stretch = 1
        self._unread: tuple[str, ...] = ()
        self._refused_until = float("-inf")
        self.deliveries = 0
        self._client = client
        self._heart = heart
        self._clock = clock
        self._longest = longest

    @property
    def ready(self) -> bool:
        """True if it is connected."""
        return self.connection is not None and self.connection._sock is not None  # noqa: SLF001 -- kombu's own way

    @property
    def idle(self) -> bool:
        """True if it is connected and sent no blocking command."""
        return self.ready and self.since is None

    @property
    def refused(self) -> bool:
        """True if a full Redis has just refused the blocking command."""
        return self._clock() < self._refused_until

    def connect(self, client: redis.Redis) -> None:
        """Connect, as a new owner.

        Args:
            client: client for non-blocking commands.
        """
        self.drop()
        if self.connection is None:
            self.connection = self._client.connection_pool.get_connection()
        self.connection.connect()
        self._own(client)

    def _own(self, client: redis.Redis) -> None:
        self.owner = self._heart.add(client, self.queue)

    def start(self) -> None:
        """Send the blocking command that takes a message."""
        place = keys.inflight(self.queue, self.owner)
        self.connection.send_command("BLMOVE", self.queue, place, "RIGHT", "LEFT", WAIT_SECONDS)
        self.since = self._clock()

    def read(self) -> bytes | None:
        """Read the blocking command's reply: a message that this owner has now, or None after the timeout."""
        if self.since is None:  # no reply is expected: the server has closed an idle connection
            self.drop()
            return None
        try:
            if self._announced_bytes() > self._longest:
                self._refuse_too_long()
                return None
            answer = self._client.parse_response(self.connection, "BLMOVE")
        except redis.OutOfMemoryError:  # a full Redis, which lets scripts take messages
            self.since, self._refused_until = None, self._clock() + FULL_SECONDS
            return None
        except redis.ResponseError:
            self.since = None
            raise
        except BaseException:
            self.drop()
            raise
        self.since = None
        return answer  # type: ignore[no-any-return] # bytes or None

    def _announced_bytes(self) -> int:
        return announced_bytes(self.connection)

    def _refuse_too_long(self) -> None:
        """Requeue the message as an excerpt; the rest of it is not read."""
        owner = self.owner
        self.drop()
        log.warning("message too long: replaced by an excerpt", queue=self.queue)
        place = keys.inflight(self.queue, owner)
        with contextlib.suppress(redis.RedisError, OSError):  # the next claim tries again
            self._client.eval(excerpts.SHORTEN_LIST, 1, place, self._longest)
            self._heart.release(self._client, self.queue, owner)

    def take_now(self) -> list[bytes]:
        """Take up to `burst` available messages without waiting, the next one first."""
        place = keys.inflight(self.queue, self.owner)
        return self._ask("EVAL", _TAKE, 2, self.queue, place, self.burst, BURST_BYTES, self._longest) or []

    def take_next(
        self, numbers: Sequence[int], done: Sequence[unacked.Acknowledgement] = (), first: bytes = b""
    ) -> list[ClaimedMessage]:
        """Take the next messages, record them as unacknowledged, and acknowledge other deliveries, atomically.

        Args:
            numbers: a unique number for each delivery; at most that many messages are taken.
            done: the deliveries to acknowledge.
            first: a message of this owner's list, to be recorded as the first of them.
        """
        tags = tuple(keys.tag(self.owner, number) for number in numbers)
        place = keys.inflight(self.queue, self.owner)
        limits = {"longest": self._longest, "budget": BURST_BYTES}
        with self.recording(*tags):
            recorded, taken = self._ask(*unacked.taking(self.queue, tags, done, first=first, place=place, **limits))
        messages = [(first, *recorded)] if first else []
        return [
            ClaimedMessage(self, raw, tag, count, bool(alone))
            for tag, (raw, count, alone) in zip(tags, [*messages, *taken], strict=False)
            if count
        ]

    @contextlib.contextmanager
    def recording(self, *tags: str) -> Iterator[None]:
        """Name the deliveries that a command makes: if its reply is lost, they are requeued soon after."""
        self._unread = tags
        yield
        self._unread = ()

    def _ask(self, *command: str | bytes | float) -> Any:
        """Send a command once: a client would repeat it if the reply is lost, and so take a second message."""
        try:
            self.connection.send_command(*command)
            return self._client.parse_response(self.connection, str(command[0]))
        except BaseException:
            self.drop()
            raise

    def settled(self, taken: int, refused: int) -> None:
        """Adapt `burst` to the number of messages just taken that were not delivered: refused or delayed.

        If none was delivered, `burst` does not decrease.
        """
        least = self.burst if refused == taken else 1
        self.burst = min(max(1 + refused, least), BURST)

    def requeue(self, client: redis.Redis, taken: Sequence[bytes], *, last: bool = False) -> None:
        """Requeue messages just taken, as the next ones in their order, or as the last."""
        place = keys.inflight(self.queue, self.owner)
        side, order = ("LPUSH", taken) if last else ("RPUSH", taken[::-1])
        client.eval(REQUEUE, 2, place, self.queue, side, *order)

    def drop(self) -> None:
        """Drop the connection and its owner; the owner's messages are requeued as a dead owner's."""
        self.since = None
        if self.owner:
            self._heart.abandon(self.queue, self.owner, self._unread)
            self.owner, self._unread = "", ()
        if self.connection is not None:
            self.connection.disconnect()

    def close(self, client: redis.Redis) -> None:
        """Stop waiting; requeue a message that still arrived."""
        owner = self.owner
        try:
            if self.ready and self.since is not None:
                readable, _, _ = select.select([self.connection._sock], [], [], WAIT_SECONDS + 0.5)  # noqa: SLF001 -- redis-py has no other
                if not readable:
                    return
                self.read()
            if self.ready and owner:
                self._heart.release(client, self.queue, owner)
        except (redis.RedisError, OSError):
            pass  # its list is requeued as a dead owner's
        finally:
            self.drop()
            if self.connection is not None:
                self._client.connection_pool.release(self.connection)
                self.connection = None


class Pop(Claim):
    """Claim for a consumer without acknowledgements; a message that is not read is lost."""

    reliable = False

    def _announced_bytes(self) -> int:
        """Return 0, without a check: messages come from this worker's own results and remote control."""
        return 0

    def _own(self, client: redis.Redis) -> None:
        """Do nothing: a message is gone from Redis once read, so it has no owner."""

    def start(self) -> None:
        """Send the blocking command that takes a message."""
        self.connection.send_command("BRPOP", self.queue, WAIT_SECONDS)
        self.since = self._clock()

    def read(self) -> bytes | None:
        """Return the message; None after the timeout."""
        answer: Any = super().read()
        return answer[1] if answer else None

    def take_now(self) -> list[bytes]:
        """Take an available message without waiting."""
        raw = self._ask("RPOP", self.queue)
        return [] if raw is None else [raw]

    def requeue(self, client: redis.Redis, taken: Sequence[bytes], *, last: bool = False) -> None:
        """Do nothing: messages that were read are gone from Redis."""
