"""Messages that can't be run, kept in a Redis stream per queue: why, since when, and what was sent.

Tokens are cut out of what is kept. Nothing else of a message is read out again: lists and views show what it is about.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import redis

from worker.errors import InvalidJob
from worker.queue.transport import delayed, keys
from worker.queue.transport.excerpts import is_excerpt, sent_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from worker.queue.transport.inspection import Refusal, Rules

_CUT = b"cut"
_NAME = b"principal_token"

# Each of these passes over a message once, whatever it holds: what a pattern has run over is not run over again, from
# no other start (possessive quantifiers, and starts only where a run begins).
_TOKEN = re.compile(rb"eyJ[\w-]{8}[\w.-]*+")
_BEFORE_VALUE = rb"""\\*+["'](?:\s++|\\++[nrt])*+:(?:\s++|\\++[nrt])*+(\\*+)(["'])"""
_FIELD = re.compile(_NAME + _BEFORE_VALUE)
_ESCAPED_FIELD = re.compile(
    b"".join(rb"(?:%c|\\(?<!\\\\)\\*+u00(?i:%02x))" % (letter, letter) for letter in _NAME) + _BEFORE_VALUE
)
_BASE64 = re.compile(rb"[A-Za-z0-9+/\\](?<![A-Za-z0-9+/\\]{2})[A-Za-z0-9+/\\]{63,}+={0,2}")

# A quote inside another string has 1, 3, 7, ... backslashes before it, by how deep it stands.
_DEPTHS = (0, 1, 3, 7, 15)
_END_OF_VALUE = {
    (depth, quote): re.compile(rb"(?<!\\)\\{0,%d}%b" % (depth, quote)) for depth in _DEPTHS for quote in (b'"', b"'")
}

MOST_CUTS = 1000
"""Places of one message that are looked at closely. One with more is no job: only its length and digest are kept."""

# One step that may be repeated. A message that is not in its owner's list any more is on its queue again, or buried: no
# second letter is left of it.
_BURY = """
local count = tonumber(redis.call('HGET', KEYS[3], ARGV[2]) or 0)
local entry = redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'deliveries', count, unpack(ARGV, 4))
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 0 then
    redis.call('XDEL', KEYS[2], entry)
    return nil
end
redis.call('HDEL', KEYS[3], ARGV[2])
return count
"""

_RETRY = """
if redis.call('XDEL', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('LPUSH', KEYS[2], ARGV[2])
return 1
"""


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter as it is shown.

    Attributes:
        entry: its id in the stream.
        queue: where the message was.
        at: when it was given up, in ISO 8601.
        reason: the code; see `worker.queue.transport.inspection.Reason`.
        error: the class of the failure that its sender was told.
        message: the sentence that its sender was told.
        task: its name; where the worker has no such task, cut and escaped.
        task_id: if one could be read.
        deliveries: how often it was delivered.
        digest: ``sha256:`` of the message as it was sent; empty of one that was too long to be read.
        bytes: how long that was.
        kept: ``whole``; ``cut``: without a token; ``start``: only its beginning. Only a whole one can be sent again.
    """

    entry: str
    queue: str
    at: str
    reason: str
    error: str
    message: str
    task: str
    task_id: str
    deliveries: int
    digest: str
    bytes: int
    kept: str

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def compose(raw: bytes, refusal: Refusal, rules: Rules, now: datetime) -> dict[str, Any]:
    """The fields of a stream's entry, but for how often the message was delivered."""
    original, kept = _keepable(raw, rules.dead_bytes)
    return {
        "at": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "reason": refusal.reason,
        "error": type(refusal.error).__name__,
        "message": refusal.error.message,
        "task": refusal.task or refusal.called,
        "task_id": refusal.id or "",
        "digest": "" if is_excerpt(raw) else f"sha256:{hashlib.sha256(raw).hexdigest()}",
        "bytes": sent_bytes(raw),
        "kept": kept,
        "original": original,
    }


def dead_letter(
    pipe: redis.client.Pipeline, queue: str, place: str, raw: bytes, fields: dict[str, Any], rules: Rules
) -> None:
    """Write an entry and remove its message, with its count, from an owner's list: in one step that may be repeated.

    Args:
        pipe: is answered with how often the message was delivered; None if it was not in the list any more.
        queue: where the message is from.
        place: the owner's list.
        raw: the message.
        fields: what `compose` says.
        rules: how many are kept.
    """
    digest = keys.digest(raw)
    places = (place, keys.dead(queue), keys.deliveries(queue))
    pairs = [part for pair in fields.items() for part in pair]
    pipe.eval(_BURY, len(places), *places, raw, digest, rules.dead_entries, *pairs)


def add(pipe: redis.client.Pipeline, queue: str, fields: dict[str, Any], deliveries: int, rules: Rules) -> None:
    """Write an entry, as a part of the transaction that removes the message from where it was."""
    entry: Any = {**fields, "deliveries": deliveries}
    pipe.xadd(keys.dead(queue), entry, maxlen=rules.dead_entries, approximate=True)


class _TooManyCuts(Exception):
    """A message has more places where a token may be than any job has."""


def _keepable(raw: bytes, limit: int) -> tuple[bytes, str]:
    """What is kept of a message, and whether that is all of it."""
    start = raw[:limit]
    try:
        safe = _Cutter().cut(start)
    except _TooManyCuts:
        return b"", "start"
    kept = "start" if len(raw) > limit or is_excerpt(raw) else "whole" if safe == start else "cut"
    return safe[:limit], kept


class _Cutter:
    """Cuts tokens out of one message: what a field of that name says, and what looks like a signed token.

    It reads bytes, not JSON: so it cuts the same out of a message that is broken, or kept only in part. Where it can't
    tell where a token ends, it cuts more.
    """

    def __init__(self) -> None:
        self._left = MOST_CUTS

    def cut(self, message: bytes) -> bytes:
        """A message without tokens, also those inside of base64."""
        return self._cut_plain(_BASE64.sub(self._cut_encoded, message))

    def _cut_plain(self, text: bytes) -> bytes:
        if b"\\u00" in text:  # a name may be spelled in escapes; looking for these takes longer
            text = self._cut_fields(text, _ESCAPED_FIELD)
        elif _NAME in text:
            text = self._cut_fields(text, _FIELD)
        return _TOKEN.sub(self._cut_token, text)

    def _cut_token(self, found: re.Match[bytes]) -> bytes:
        """A token has a dot: base64 without one may be an embedding, and no more than a token's header."""
        self._count()
        return _CUT if b"." in found[0] else found[0]

    def _cut_fields(self, text: bytes, field: re.Pattern[bytes]) -> bytes:
        parts, at = [], 0
        while found := field.search(text, at):
            self._count()
            depth = max(depth for depth in _DEPTHS if depth <= len(found[1]))
            end = _END_OF_VALUE[depth, found[2]].search(text, found.end())
            parts += [text[at : found.end()], _CUT]
            at = end.start() if end else len(text)
        return b"".join((*parts, text[at:])) if parts else text

    def _cut_encoded(self, run: re.Match[bytes]) -> bytes:
        """A run of base64 without what it hides."""
        whole = run[0]
        encoded = whole
        if b"\\" in whole:  # the ends of lines
            encoded = whole.replace(rb"\n", b"").replace(rb"\r", b"").translate(None, b"\\")
        if not _HINT.search(encoded):
            return whole
        self._count()
        encoded = encoded.rstrip(b"=")
        # Where a byte was lost on the way, the rest is shifted, and can't be written again.
        for shift in (1, 2, 3):
            inside = _decode(encoded[shift:])
            if self._cut_plain(inside) != inside:
                return _CUT
        inside = _decode(encoded)
        safe = self._cut_plain(inside)
        return whole if safe == inside else base64.b64encode(safe)

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _TooManyCuts


def _decode(encoded: bytes) -> bytes:
    """The whole bytes of some base64, from its first character."""
    spare = len(encoded) % 4
    return base64.b64decode(encoded + b"=" * (4 - spare) if spare > 1 else encoded[: len(encoded) - spare])


def _in_base64(text: bytes) -> Iterator[bytes]:
    """The characters by which base64 shows that it holds a text, at each of the three places where it can begin."""
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(text)) * 8 // 6
        yield base64.b64encode(bytes(before) + text)[first:end]


_HINT = re.compile(b"|".join(hint for text in (b"eyJ", b"principal", rb"\u00") for hint in _in_base64(text)))


# --- for operators ----------------------------------------------------------------------------------

_SHOWN = ("at", "reason", "error", "message", "task", "task_id", "deliveries", "digest", "bytes", "kept")


def _read(queue: str, entry: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    said = {name: fields.get(name.encode(), b"").decode("utf-8", "replace") for name in _SHOWN}
    numbers = {name: int(said.pop(name) or 0) for name in ("deliveries", "bytes")}
    return DeadLetter(entry=entry.decode(), queue=queue, **said, **numbers)  # type: ignore[arg-type] # strings by name


def every(client: redis.Redis, queue: str, newest: int | None = None) -> Iterator[DeadLetter]:
    """A queue's dead letters, the newest first."""
    last, left = "+", newest
    while left is None or left > 0:
        page: Any = client.xrevrange(keys.dead(queue), max=last, count=min(100, left or 100))
        for entry, fields in page:
            yield _read(queue, entry, fields)
        if not page:
            return
        last, left = f"({page[-1][0].decode()}", None if left is None else left - len(page)


def one(client: redis.Redis, queue: str, entry: str) -> tuple[DeadLetter, bytes] | None:
    """A dead letter and what is kept of its message; None if there is none."""
    if not re.fullmatch(r"\d{1,20}-\d{1,20}", entry):
        return None
    page: Any = client.xrange(keys.dead(queue), min=entry, max=entry)
    if not page:
        return None
    name, fields = page[0]
    return _read(queue, name, fields), fields.get(b"original", b"")


def retry(client: redis.Redis, queue: str, entry: str) -> bool:
    """Send a message again, byte for byte; its count went when it was given up. False if it is gone.

    Raises:
        InvalidJob: it can't be sent again; the message says why.
    """
    found = one(client, queue, entry)
    if found is None:
        return False
    letter, original = found
    if letter.reason == "expired":
        raise InvalidJob(f"{entry} expired: only its sender can send it anew")
    if letter.kept == "cut":
        raise InvalidJob(f"{entry} had a principal token, which is not kept: only its sender can send it anew")
    if letter.kept != "whole":
        raise InvalidJob(f"{entry} is {letter.bytes:,} bytes long, and only its beginning is kept")
    return bool(client.eval(_RETRY, 2, keys.dead(queue), queue, entry, original))


def purge(client: redis.Redis, queue: str, entries: Sequence[str]) -> int:
    """Delete dead letters; how many were there."""
    return int(client.xdel(keys.dead(queue), *entries)) if entries else 0


@dataclass(frozen=True)
class Depth:
    """What a queue has beside what waits in it.

    Attributes:
        queue: its name.
        letters: dead letters.
        oldest_seconds: how old the oldest of them is; 0 without any, None: not looked at.
        delayed: messages that wait for their time or their turn.
    """

    queue: str
    letters: int
    oldest_seconds: float | None
    delayed: int


def depths(client: redis.Redis, queues: Iterable[str], clock: Callable[[], float], *, ages: bool) -> list[Depth]:
    """How many dead letters and delayed messages there are, queue by queue; see `watcher`."""
    found = []
    for queue in queues:
        letters: Any = client.xlen(keys.dead(queue))
        age = _oldest_seconds(client, queue, clock) if ages else None
        found.append(Depth(queue, int(letters), age, delayed.depth(client, queue)))
    return found


def _oldest_seconds(client: redis.Redis, queue: str, clock: Callable[[], float]) -> float:
    oldest: Any = client.xrange(keys.dead(queue), count=1)
    return max(0.0, clock() - int(oldest[0][0].partition(b"-")[0]) / 1000) if oldest else 0.0


def watcher(
    url: str, queues: Iterable[str], clock: Callable[[], float], *, ages: bool = True
) -> Callable[[], list[Depth]]:
    """What tells the depths of queues again and again; nothing while Redis is away.

    Args:
        url: of the broker.
        queues: which.
        clock: Unix time.
        ages: how old the oldest is, too. Redis tells it only with what the dead letter holds, which not every user
            may read.
    """

    def look() -> list[Depth]:
        try:
            with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
                return depths(client, queues, clock, ages=ages)
        except (redis.RedisError, ValueError):
            return []

    return look
