"""Dead letters: messages that can't be run, in a Redis stream per queue, with reason, time and original.

Tokens are removed from the stored original. The original itself is never shown: lists and views show its description.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import redis

from retrieval_client.errors import InvalidJob
from worker.adapters import logs
from worker.queue.broker import delayed, keys
from worker.queue.broker.excerpts import is_excerpt, sent_bytes
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from worker.queue.broker.inspection import Refusal, Rules

log = logs.logger("worker.broker")

_CUT = b"cut"
_NAME = b"principal_token"

# Each pattern takes linear time for any message: no part of it is scanned again from another start (possessive
# quantifiers, and matches start only at the beginning of a run).
_TOKEN = re.compile(rb"eyJ[\w-]{8}[\w.-]*+")
_BEFORE_VALUE = rb"""\\*+["'](?>(?:\s++|\\++[nrt])*):(?>(?:\s++|\\++[nrt])*)(\\*+)(["'])"""
_FIELD = re.compile(_NAME + _BEFORE_VALUE)
# The backslashes before the first letter are not scanned: one is enough. Each alternative begins with a literal: `re`
# then skips to these.
_FIRST_LETTER = rb"(?:%c|u(?<=\\u)00(?i:%02x))"
_NEXT_LETTER = rb"(?:%c|\\++u00(?i:%02x))"
_ESCAPED_FIELD = re.compile(
    _FIRST_LETTER % (_NAME[0], _NAME[0])
    + b"".join(_NEXT_LETTER % (letter, letter) for letter in _NAME[1:])
    + _BEFORE_VALUE
)

# A run of base64 may have escaped line ends. Runs are found in a copy that only says which characters are base64: a
# pattern would scan short runs several times.
_BASE64_CHARACTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/\\"
_NO_BASE64 = 0
_MARKS = bytes(one in _BASE64_CHARACTERS for one in range(256))
_SHORTEST_RUN = 64

# A quote inside another string has 1, 3, 7, ... backslashes before it, by its depth.
_DEPTHS = (0, 1, 3, 7, 15)
_END_OF_VALUE = {
    (depth, quote): re.compile(rb"(?<!\\)\\{0,%d}%b" % (depth, quote)) for depth in _DEPTHS for quote in (b'"', b"'")
}

MOST_CUTS = 1000
"""Most places of one message that are examined. One with more is not a job: only its length and digest are kept."""

_DEAD_LETTER = Script("dead_letter")


@dataclass(frozen=True)
class DeadLetter:
    """Dead letter as shown to operators.

    Attributes:
        entry: its id in the stream.
        queue: the message's queue.
        at: time when it was dead-lettered, in ISO 8601.
        reason: the code; see `worker.queue.broker.inspection.Reason`.
        error: class of the error that its sender got.
        message: message of that error.
        task: name of the task; cut and escaped if the worker has no such task.
        task_id: the task id, if one could be read.
        deliveries: number of deliveries.
        digest: ``sha256:`` of the message as sent; empty if it was too long to be read.
        bytes: length of the message as sent.
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
        """Return it as plain data."""
        return asdict(self)


def compose(raw: bytes, refusal: Refusal, rules: Rules, now: datetime) -> dict[str, Any]:
    """Return the fields of a stream entry, except the number of deliveries."""
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
    client: redis.Redis, queue: str, place: str, raw: bytes, fields: dict[str, Any], rules: Rules
) -> int | None:
    """Write an entry and remove its message, with its count, from an owner's list; atomic and safe to repeat.

    Args:
        client: client of the broker.
        queue: the message's queue.
        place: the owner's list.
        raw: the message.
        fields: result of `compose`.
        rules: number of entries to keep.

    Returns:
        The number of its deliveries that were counted; None if the message was no longer in the list.
    """
    digest = keys.digest(raw)
    places = (place, keys.dead(queue), keys.deliveries(queue))
    pairs = [part for pair in fields.items() for part in pair]
    count = _DEAD_LETTER.run(client.execute_command, places, raw, digest, rules.dead_entries, *pairs)
    return None if count is None else int(count)


def log_dead_letter(queue: str, refusal: Refusal, letter: dict[str, Any], count: int) -> None:
    """Log an entry, as `compose` made it, and how often its message was delivered."""
    log.error(
        "message dead-lettered",
        queue=queue,
        reason=refusal.reason,
        error=letter["error"],
        task_id=refusal.id if refusal.id and re.fullmatch(r"[\w.-]{1,64}", refusal.id) else "",
        digest=letter["digest"],
        bytes=letter["bytes"],
        deliveries=count,
    )


class _TooManyCuts(Exception):
    """Message with more possible tokens than any job has."""


def _keepable(raw: bytes, limit: int) -> tuple[bytes, str]:
    """Return the part of a message to keep, and its `DeadLetter.kept` code."""
    start = raw[:limit]
    try:
        safe = _Cutter().cut(start)
    except _TooManyCuts:
        return b"", "start"
    kept = "start" if len(raw) > limit or is_excerpt(raw) else "whole" if safe == start else "cut"
    return safe[:limit], kept


class _Cutter:
    """Remover of tokens from one message: values of the token field, and anything that looks like a signed token.

    It works on bytes, not JSON, so it also handles broken or partial messages. If the end of a token is unclear, it
    removes more.
    """

    def __init__(self) -> None:
        self._left = MOST_CUTS

    def cut(self, message: bytes) -> bytes:
        """Return a message without tokens, including those inside base64."""
        return self._cut_plain(self._cut_runs(message))

    def _cut_runs(self, message: bytes) -> bytes:
        parts, at = [], 0
        for start, end in _runs(message):
            parts += [message[at:start], self._cut_encoded(message[start:end])]
            at = end
        return b"".join((*parts, message[at:])) if parts else message

    def _cut_plain(self, text: bytes) -> bytes:
        if b"\\u00" in text:  # a name may be spelled in escapes; searching for these takes longer
            text = self._cut_fields(text, _ESCAPED_FIELD)
        elif _NAME in text:
            text = self._cut_fields(text, _FIELD)
        return _TOKEN.sub(self._cut_token, text)

    def _cut_token(self, found: re.Match[bytes]) -> bytes:
        """Cut a token. A token has a dot; base64 without one may be an embedding, or at most a token's header."""
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

    def _cut_encoded(self, whole: bytes) -> bytes:
        """Return a run of base64 without the tokens encoded in it."""
        encoded = whole
        if b"\\" in whole:  # escaped line ends
            encoded = whole.replace(rb"\n", b"").replace(rb"\r", b"").translate(None, b"\\")
        if not _may_hold_token(encoded):
            return whole
        self._count()
        encoded = encoded.rstrip(b"=")
        # If a byte was lost in transit, the rest is shifted and can't be encoded again.
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


def _runs(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield start and end of each long run of base64, with the padding after it.

    One place of every 64 is looked at: a run that is long enough has one of them.
    """
    marks = text.translate(_MARKS)
    end = 0
    for place in range(_SHORTEST_RUN - 1, len(text), _SHORTEST_RUN):
        if place < end or marks[place] == _NO_BASE64:
            continue
        start = max(end, marks.rfind(_NO_BASE64, end, place) + 1)
        after = marks.find(_NO_BASE64, place)
        after = len(text) if after < 0 else after
        if after - start >= _SHORTEST_RUN:
            padding = text[after : after + 2]
            end = after + len(padding) - len(padding.lstrip(b"="))
            yield start, end


def _decode(encoded: bytes) -> bytes:
    """Decode the complete bytes of some base64, from its first character."""
    spare = len(encoded) % 4
    return base64.b64decode(encoded + b"=" * (4 - spare) if spare > 1 else encoded[: len(encoded) - spare])


def _in_base64(text: bytes) -> Iterator[bytes]:
    """Yield the base64 characters of a text at each of the three alignments."""
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(text)) * 8 // 6
        yield base64.b64encode(bytes(before) + text)[first:end]


_HINTS = tuple(hint for text in (b"eyJ", b"principal", rb"\u00") for hint in _in_base64(text))
_HINT = re.compile(b"|".join(_HINTS))
_LONG_RUN = 1024


def _may_hold_token(encoded: bytes) -> bool:
    """Return whether base64 holds a hint: one pattern is faster in a short text, one search for each in a long one."""
    if len(encoded) < _LONG_RUN:
        return _HINT.search(encoded) is not None
    return any(hint in encoded for hint in _HINTS)


# --- for operators ----------------------------------------------------------------------------------

_SHOWN = ("at", "reason", "error", "message", "task", "task_id", "deliveries", "digest", "bytes", "kept")


def _read(queue: str, entry: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    texts = {name: fields.get(name.encode(), b"").decode("utf-8", "replace") for name in _SHOWN}
    numbers = {name: int(texts.pop(name) or 0) for name in ("deliveries", "bytes")}
    return DeadLetter(entry=entry.decode(), queue=queue, **texts, **numbers)  # type: ignore[arg-type] # strings by name


def every(client: redis.Redis, queue: str, newest: int | None = None) -> Iterator[DeadLetter]:
    """Yield a queue's dead letters, newest first."""
    last, left = "+", newest
    while left is None or left > 0:
        page: Any = client.xrevrange(keys.dead(queue), max=last, count=min(100, left or 100))
        for entry, fields in page:
            yield _read(queue, entry, fields)
        if not page:
            return
        last, left = f"({page[-1][0].decode()}", None if left is None else left - len(page)


def one(client: redis.Redis, queue: str, entry: str) -> tuple[DeadLetter, bytes] | None:
    """Return a dead letter and the stored part of its message; None if there is none."""
    if not re.fullmatch(r"\d{1,20}-\d{1,20}", entry):
        return None
    page: Any = client.xrange(keys.dead(queue), min=entry, max=entry)
    if not page:
        return None
    name, fields = page[0]
    return _read(queue, name, fields), fields.get(b"original", b"")


def retry(client: redis.Redis, queue: str, entry: str) -> bool:
    """Send a message again, byte for byte; its delivery count starts at 0. Return False if the entry is gone.

    Raises:
        InvalidJob: it can't be sent again; the error gives the reason.
    """
    found = one(client, queue, entry)
    if found is None:
        return False
    letter, original = found
    if letter.reason == "expired":
        raise InvalidJob(f"{entry} expired: only its sender can send it again")
    if letter.kept == "cut":
        raise InvalidJob(f"{entry} had a principal token, which is not kept: only its sender can send it again")
    if letter.kept != "whole":
        raise InvalidJob(f"{entry} is {letter.bytes:,} bytes long, and only its beginning is kept")

    def requeue(pipe: redis.client.Pipeline) -> None:
        """Send it if it is still there. A transaction, not a script: the inspector's user may run none."""
        is_there = pipe.xrange(keys.dead(queue), min=entry, max=entry)
        pipe.multi()
        if is_there:
            pipe.xdel(keys.dead(queue), entry)
            pipe.lpush(queue, original)

    return bool(client.transaction(requeue, keys.dead(queue)))


def purge(client: redis.Redis, queue: str, entries: Sequence[str]) -> int:
    """Delete dead letters; return the number of those that existed."""
    return int(client.xdel(keys.dead(queue), *entries)) if entries else 0


@dataclass(frozen=True)
class Depth:
    """Counts of a queue's dead letters and delayed messages.

    Attributes:
        queue: name of the queue.
        letters: number of dead letters.
        oldest_seconds: age of the oldest dead letter; 0 without any, None: not read.
        delayed: number of messages that wait for their due time or their turn.
    """

    queue: str
    letters: int
    oldest_seconds: float | None
    delayed: int


def depths(client: redis.Redis, queues: Iterable[str], clock: Callable[[], float], *, ages: bool) -> list[Depth]:
    """Count dead letters and delayed messages of each queue; see `watcher`."""
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
    """Return a function that reads the depths of queues; it returns an empty list while Redis is unavailable.

    Args:
        url: URL of the broker.
        queues: names of the queues.
        clock: Unix time.
        ages: also read the age of the oldest. Redis returns it only with the dead letter's content, which
            not every user may read.
    """

    def look() -> list[Depth]:
        try:
            with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
                return depths(client, queues, clock, ages=ages)
        except (redis.RedisError, ValueError):
            return []

    return look
