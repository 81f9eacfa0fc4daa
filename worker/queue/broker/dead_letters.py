"""Dead letters: messages that can't be run, in a Redis stream per queue, with reason, time and original.

The original is kept whole, or not at all if it may hold a token. It is never shown: lists and views show its
description.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from retrieval_client.errors import InvalidJob
from worker.adapters import logs
from worker.queue.broker import inspection, keys
from worker.queue.broker.excerpts import is_excerpt, sent_bytes
from worker.queue.lua import Script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import redis

    from worker.queue.broker.inspection import Refusal, Rules

log = logs.logger("worker.broker")

_NAME = b"principal_token"
_ESCAPE = rb"\\u00"
"""Escape inside a string: JSON in it may spell a token, or its name, in escapes."""

_TOKEN = re.compile(rb"eyJ[\w\\-]*+(\.)?")
"""Signed token, if the group matches; it may have escaped line ends. Base64 without a dot may be an embedding.

Linear: a match always takes all that it looked at.
"""

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
        kept: ``whole`` or ``nothing``. Older versions wrote also ``cut`` and ``start``. Only a whole one can be sent
            again.
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


def compose(raw: bytes, refusal: Refusal, rules: Rules, redis_time: datetime) -> dict[str, Any]:
    """Return the fields of a stream entry, except the number of deliveries."""
    is_kept = _may_be_kept(raw, refusal, rules)
    task_id = refusal.id or ""
    return {
        "at": redis_time.astimezone(UTC).isoformat(timespec="milliseconds"),
        "reason": refusal.reason,
        "error": type(refusal.error).__name__,
        "message": refusal.error.message,
        "task": refusal.task,
        "task_id": "" if _may_hold_token(task_id.encode()) else task_id,
        "digest": "" if is_excerpt(raw) else f"sha256:{hashlib.sha256(raw).hexdigest()}",
        "bytes": sent_bytes(raw),
        "kept": "whole" if is_kept else "nothing",
        "original": raw if is_kept else b"",
    }


def dead_letter(
    client: redis.Redis, queue: str, place: str, raw: bytes, fields: dict[str, Any], rules: Rules
) -> int | None:
    """Write an entry, which `compose` made, and remove its message, with its count, from the list of its owner.

    Atomic, and safe to repeat.

    Returns:
        The number of its deliveries that were counted; None if the message was no longer in the list.
    """
    digest = keys.digest(raw)
    places = (place, keys.dead(queue), keys.deliveries(queue))
    pairs = [field for pair in fields.items() for field in pair]
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


def _may_be_kept(raw: bytes, refusal: Refusal, rules: Rules) -> bool:
    """Return whether a message holds no token, as far as everything in it can be read.

    It is judged by its decoded content, which has no escapes and no transport encoding any more.
    """
    if refusal.may_kill or len(raw) > rules.dead_bytes:
        return False
    try:
        text = orjson.dumps(inspection.decoded(raw, rules))
    except (InvalidJob, ValueError, TypeError, RecursionError):  # TypeError: what orjson does not write
        return False
    return not _may_hold_token(text)


def _may_hold_token(text: bytes) -> bool:
    return _NAME in text or _ESCAPE in text or any(match[1] for match in _TOKEN.finditer(text))


# --- for operators ----------------------------------------------------------------------------------

_SHOWN = ("at", "reason", "error", "message", "task", "task_id", "deliveries", "digest", "bytes", "kept")


def _read(queue: str, entry: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    texts = {name: fields.get(name.encode(), b"").decode("utf-8", "replace") for name in _SHOWN}
    numbers = {name: int(texts.pop(name) or 0) for name in ("deliveries", "bytes")}
    return DeadLetter(entry=entry.decode(), queue=queue, **texts, **numbers)  # type: ignore[arg-type] # strings by name


def every(client: redis.Redis, queue: str, newest: int | None = None) -> Iterator[DeadLetter]:
    """Yield a queue's dead letters, newest first."""
    highest, remaining = "+", newest
    while remaining is None or remaining > 0:
        page: Any = client.xrevrange(keys.dead(queue), max=highest, count=min(100, remaining or 100))
        for entry, fields in page:
            yield _read(queue, entry, fields)
        if not page:
            return
        highest, remaining = f"({page[-1][0].decode()}", None if remaining is None else remaining - len(page)


def one(client: redis.Redis, queue: str, entry: str) -> tuple[DeadLetter, bytes] | None:
    """Return a dead letter and its message, empty if that is not kept; None if there is none."""
    if not re.fullmatch(r"[0-9]{1,19}-[0-9]{1,19}", entry):  # else Redis takes it for no id
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
    letter_and_original = one(client, queue, entry)
    if letter_and_original is None:
        return False
    letter, original = letter_and_original
    if letter.reason == "expired":
        raise InvalidJob(f"{entry} expired: only its sender can send it again")
    if letter.kept != "whole":
        raise InvalidJob(f"{entry} is not stored whole: only its sender can send it again")

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


def oldest_seconds(client: redis.Redis, queue: str, redis_time: float) -> float:
    """Return the age of a queue's oldest dead letter; 0 without any. Redis tells it with the letter's content only."""
    oldest: Any = client.xrange(keys.dead(queue), count=1)
    return max(0.0, redis_time - int(oldest[0][0].partition(b"-")[0]) / 1000) if oldest else 0.0
