"""One queue's way into the worker: a connection that waits for a message and moves it to this owner's list.

The message is then in Redis twice known to be taken, and never only in this process. Whenever a connection breaks with
an answer on the way, its owner is abandoned: the next connection is another owner, so that what an old command may
still move arrives in a list that is recognised as a dead one's.
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
    from collections.abc import Callable, Sequence

    from worker.queue.transport import owners

log = logs.logger("worker.transport")

BURST = 64
BURST_BYTES = 1_048_576
"""Most that is taken at a time; one message more than so many bytes."""

# Messages, the next one first.
_TAKE = (
    excerpts.SHORTEN
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

# Only what is still there: its owner may have counted as dead meanwhile, or the command may be a repeated one.
GIVE_BACK = """
for number = 2, #ARGV do
    if redis.call('LREM', KEYS[1], 1, ARGV[number]) == 1 then redis.call(ARGV[1], KEYS[2], ARGV[number]) end
end
"""

WAIT_SECONDS = 1
"""How long Redis holds an unanswered claim."""

_FIRST_BYTES = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class ClaimedMessage:
    """A message that is written down as delivered, and was not looked at yet.

    Attributes:
        claim: by which.
        raw: the message.
        tag: of its delivery.
        count: how often it was delivered, with this time.
    """

    claim: Claim
    raw: bytes
    tag: str
    count: int


class Claim:
    """Takes messages off one queue, one at a time; of a flood of messages that are refused, many.

    Args:
        queue: its name.
        client: whose pool gives the connection that waits.
        heart: keeps the owner alive.
        clock: monotonic seconds.
        longest: bytes of a message; of a longer one only an excerpt is taken.

    Attributes:
        connection: of the command that waits; None until `connect`.
        owner: of what it takes.
        since: when the waiting command was sent; None while none waits.
        burst: how many to take at a time, so that about one of them is fit to be delivered: one more than were not of
            the last ones.
        deliveries: how many were delivered since one was last let back that had been put off.
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
        self.burst = 1
        self._unread = ""
        self.deliveries = 0
        self._client = client
        self._heart = heart
        self._clock = clock
        self._longest = longest

    @property
    def ready(self) -> bool:
        """Whether there is a connection."""
        return self.connection is not None and self.connection._sock is not None  # noqa: SLF001 -- kombu's own way

    @property
    def idle(self) -> bool:
        """Whether there is a connection on which nothing waits."""
        return self.ready and self.since is None

    def connect(self, client: redis.Redis) -> None:
        """Connect, as a new owner.

        Args:
            client: for all that does not wait.
        """
        self.drop()
        if self.connection is None:
            self.connection = self._client.connection_pool.get_connection()
        self.connection.connect()
        self._own(client)

    def _own(self, client: redis.Redis) -> None:
        self.owner = self._heart.add(client, self.queue)

    def start(self) -> None:
        """Send the command that waits for a message."""
        place = keys.inflight(self.queue, self.owner)
        self.connection.send_command("BLMOVE", self.queue, place, "RIGHT", "LEFT", WAIT_SECONDS)
        self.since = self._clock()

    def read(self) -> bytes | None:
        """The waiting command's answer: a message that this owner has now, or none in time."""
        if self.since is None:  # nothing is expected: the server has closed an idle connection
            self.drop()
            return None
        try:
            if self._announced_bytes() > self._longest:
                self._refuse_too_long()
                return None
            answer = self._client.parse_response(self.connection, "BLMOVE")
        except redis.ResponseError:
            self.since = None
            raise
        except BaseException:
            self.drop()
            raise
        self.since = None
        return answer  # type: ignore[no-any-return] # bytes or None

    def _announced_bytes(self) -> int:
        """How long the waiting command's answer is going to be, once its first line has come."""
        start = b""
        while b"\r\n" not in start:
            part = self.connection._sock.recv(_FIRST_BYTES)  # noqa: SLF001 -- redis-py has no other
            if not part:
                raise redis.ConnectionError("Redis closed the connection")
            self.connection._parser._reader.feed(part)  # noqa: SLF001 -- the parser goes on from there
            start += part
        return int(start[1 : start.index(b"\r\n")]) if start.startswith(b"$") else 0

    def _refuse_too_long(self) -> None:
        """Put the message back as an excerpt; what is still to come of it is not read."""
        owner = self.owner
        self.drop()
        log.warning("message too long: an excerpt takes its place", queue=self.queue)
        place = keys.inflight(self.queue, owner)
        with contextlib.suppress(redis.RedisError, OSError):  # whoever takes it next tries again
            self._client.eval(excerpts.SHORTEN_LIST, 1, place, self._longest)
            self._heart.release(self._client, self.queue, owner)

    def take_now(self) -> list[bytes]:
        """Up to `burst` messages that are there already, the next one first."""
        place = keys.inflight(self.queue, self.owner)
        return self._ask("EVAL", _TAKE, 2, self.queue, place, self.burst, BURST_BYTES, self._longest) or []

    def take_next(self, number: int, done: unacked.Acknowledgement) -> ClaimedMessage | None:
        """The next message, if there is one, written down as delivered; a delivery is acknowledged in the same step.

        Args:
            number: of the delivery; another one each time that a message was taken.
            done: the delivery to acknowledge.
        """
        tag = self._unread = keys.tag(self.owner, number)
        answer = self._ask(*unacked.taking(self.queue, tag, done, longest=self._longest))
        self._unread = ""
        return None if answer is None else ClaimedMessage(self, answer[0], tag, answer[1])

    def _ask(self, *command: str | float) -> Any:
        """Send a command once: a client would repeat it if the answer is lost, and so take a second message."""
        try:
            self.connection.send_command(*command)
            return self._client.parse_response(self.connection, str(command[0]))
        except BaseException:
            self.drop()
            raise

    def settled(self, taken: int, refused: int) -> None:
        """Note how many of the messages just taken were not delivered: refused, or to run later.

        If none was delivered, no fewer are taken next time.
        """
        least = self.burst if refused == taken else 1
        self.burst = min(max(1 + refused, least), BURST)

    def give_back(self, client: redis.Redis, taken: Sequence[bytes], *, last: bool = False) -> None:
        """Put messages just taken back on the queue, as the next ones in their order, or as the last."""
        place = keys.inflight(self.queue, self.owner)
        side, order = ("LPUSH", taken) if last else ("RPUSH", taken[::-1])
        client.eval(GIVE_BACK, 2, place, self.queue, side, *order)

    def drop(self) -> None:
        """Give up the connection and its owner; what the owner holds is put back as a dead one's."""
        self.since = None
        if self.owner:
            self._heart.abandon(self.queue, self.owner, self._unread)
            self.owner = self._unread = ""
        if self.connection is not None:
            self.connection.disconnect()

    def close(self, client: redis.Redis) -> None:
        """Stop waiting; what still came goes back."""
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
            pass  # its list is put back as a dead owner's
        finally:
            self.drop()
            if self.connection is not None:
                self._client.connection_pool.release(self.connection)
                self.connection = None


class Pop(Claim):
    """Takes messages that are lost if they are not read: what a consumer without acknowledgements asks for."""

    reliable = False

    def _announced_bytes(self) -> int:
        """Replies are not looked at: they come from this worker's own results and remote control."""
        return 0

    def _own(self, client: redis.Redis) -> None:
        """Nobody owns what is gone once it is read."""

    def start(self) -> None:
        """Send the command that waits for a message."""
        self.connection.send_command("BRPOP", self.queue, WAIT_SECONDS)
        self.since = self._clock()

    def read(self) -> bytes | None:
        """The message, if one came in time."""
        answer: Any = super().read()
        return answer[1] if answer else None

    def take_now(self) -> list[bytes]:
        """A message that is there already."""
        raw = self._ask("RPOP", self.queue)
        return [] if raw is None else [raw]

    def give_back(self, client: redis.Redis, taken: Sequence[bytes], *, last: bool = False) -> None:
        """Put messages just read back: nobody has them any more."""
