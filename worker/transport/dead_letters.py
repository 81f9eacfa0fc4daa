"""Messages that can't be run, kept in a Redis stream per queue: why, since when, and what was sent.

Tokens are cut out of what is kept. Nothing else of a message is read out again: lists and views show what it is about.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import redis

from worker.errors import InvalidJob
from worker.transport import delayed, keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from worker.transport.inspection import Refusal, Rules

_CUT = "cut"
_NAME = "principal_token"
# With its first dot: base64 without one may be an embedding, and no more than a token's header.
_TOKEN = re.compile(r"eyJ[\w-]{8,}\.[\w-]*(?:\.[\w-]*)?")
_FIELD = re.compile(r'((?<!\\)(\\*)"principal_token\2"\s*:\s*\2")((?:(?!\2")[^\\]|\\.)*?)(\2"|$)')
_BASE64 = re.compile(r"[A-Za-z0-9+/]{64,}={0,2}")

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
        reason: the code; see `worker.transport.inspection.Reason`.
        error: the class of the failure that its sender was told.
        message: the sentence that its sender was told.
        task: its name, if the worker has such a task.
        task_id: if one could be read.
        deliveries: how often it was delivered.
        digest: ``sha256:`` of the message as it was sent.
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
        "task": refusal.task or "",
        "task_id": refusal.id or "",
        "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}",
        "bytes": len(raw),
        "kept": kept,
        "original": original,
    }


def bury(pipe: redis.client.Pipeline, queue: str, place: str, raw: bytes, fields: dict[str, Any], rules: Rules) -> None:
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


def _keepable(raw: bytes, limit: int) -> tuple[bytes, str]:
    """What is kept of a message, and whether that is all of it."""
    start = raw[:limit]
    text = start.decode("utf-8", "surrogateescape")
    safe = _without_tokens_inside(text) if len(raw) <= limit else None
    if safe is None:
        safe = _cut_text(_BASE64.sub(_cut_encoded, text))
    kept = "start" if len(raw) > limit else "whole" if safe == text else "cut"
    return safe.encode("utf-8", "surrogateescape")[:limit], kept


def _without_tokens_inside(text: str) -> str | None:
    """A message without tokens, as it is if there are none; None if it isn't a message."""
    try:
        envelope = json.loads(text)
        body = envelope["body"]
        encoded = (envelope.get("properties") or {}).get("body_encoding") == "base64"
        inside = base64.b64decode(body, validate=True).decode("utf-8", "surrogateescape") if encoded else body
        safe = _cut_text(inside)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    if safe == inside:
        return _cut_text(text)
    sent = base64.b64encode(safe.encode("utf-8", "surrogateescape")).decode() if encoded else safe
    # Headers may quote a token as well: Celery's own argsrepr does.
    return _cut_text(json.dumps({**envelope, "body": sent}, ensure_ascii=True))


def _cut_text(text: str) -> str:
    """Whatever a field of that name says, and whatever looks like a signed token."""
    if _NAME in text or r"\u" in text:  # spelled out, or in escapes; looking closer takes most of a refusal's time
        try:
            named = _fields_named(json.loads(text))
        except (ValueError, RecursionError):
            named = []
        for value in named:
            text = text.replace(json.dumps(value), f'"{_CUT}"').replace(value, _CUT) if value else text
        text = _FIELD.sub(rf"\1{_CUT}\4", text)
    return _TOKEN.sub(_CUT, text)


def _fields_named(value: Any) -> list[str]:
    found, stack = [], [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            stack += item.values()
            token = item.get(_NAME)
            if isinstance(token, str) and len(token) > len(_CUT):
                found.append(token)
    return found


def _cut_encoded(run: re.Match[str]) -> str:
    """A run of base64 that hides a token."""
    whole = run[0].rstrip("=")
    inside = base64.b64decode(whole[: len(whole) // 4 * 4])
    return _CUT if b"principal_token" in inside or _TOKEN.search(inside.decode("latin-1")) else run[0]


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
