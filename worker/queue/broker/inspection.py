"""Inspection of messages; a refused one is dead-lettered, and its sender gets an error.

Pure: takes bytes and the current time, returns a job or a refusal. A job has only what was checked here: headers that
it does not need, or by which a sender could control the worker, are removed.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeGuard

from retrieval_client.errors import DeadLettered, InvalidJob, RetrievalError
from retrieval_client.json_values import as_integer
from worker.core.shape import MAX_ID, MAX_MESSAGE, MAX_VALUES
from worker.queue.broker.excerpts import sent_bytes
from worker.queue.codec import UNDECODABLE, loads, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

Reason: TypeAlias = Literal[
    "malformed",
    "unknown_task",
    "bad_signature",
    "expired",
    "max_deliveries",
    "retries_exhausted",
    "unforeseen",
]
"""Reason why a message is a dead letter."""

ONE_JOB = "expected the job object as the only positional argument, and no keyword arguments"

OUTAGE_HEADER, LONGEST_OUTAGE_SECONDS = "outage_seconds", 86_400
"""Header of a retried job with the sum of its pauses during an outage, and its maximum."""


@dataclass(frozen=True)
class Rules:
    """Limits for messages.

    Attributes:
        tasks: names of the tasks that may be called; None: any.
        max_bytes: most bytes of a whole message; a longer one is not parsed.
        max_values: most values of a message, estimated: commas, colons and opening brackets count once, opening braces
            twice, also inside strings.
        max_id: most characters of a task id, and of any other header.
        max_deliveries: most deliveries of a message; the next one makes it a dead letter.
        callbacks: True: a message may name further tasks (link, chain, chord).
        dead_entries: dead letters kept per queue; the oldest are removed first.
        dead_bytes: most bytes of a message that is kept as a dead letter.
    """

    tasks: tuple[str, ...] | None = None
    max_bytes: int = MAX_MESSAGE
    max_values: int = MAX_VALUES
    max_id: int = MAX_ID
    max_deliveries: int = 5
    callbacks: bool = False
    dead_entries: int = 10_000
    dead_bytes: int = 524_288


@dataclass(frozen=True, slots=True)
class DeliveredJob:
    """Job that may run, as its message brought it.

    Attributes:
        task: name of its task.
        id: the id that its sender chose.
        args, kwargs: its arguments; one positional argument is expected.
        headers: its message's headers, checked.
        further: the tasks to be sent after it: ``callbacks``, ``errbacks``, ``chain``, ``chord``.
    """

    task: str
    id: str
    args: Any
    kwargs: Any
    headers: Mapping[str, Any]
    further: Mapping[str, Any] | None = None

    @property
    def keeps_result(self) -> bool:
        """False if its sender wants none."""
        return not self.headers["ignore_result"]

    @property
    def retries(self) -> int:
        """Number of earlier tries."""
        return int(self.headers.get("retries") or 0)

    @property
    def pauses(self) -> float:
        """Sum of the pauses between them, in seconds."""
        return float(self.headers.get(OUTAGE_HEADER) or 0.0)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Message that may not be delivered.

    Attributes:
        reason: the dead letter's reason code.
        error: the error for its sender.
        id: the task id, if one could be read.
        task: name of the task, in printable form; empty: not known.
        may_kill: True: reading the message may kill whoever does.
    """

    reason: Reason
    error: RetrievalError
    id: str | None = None
    task: str = ""
    may_kill: bool = False


class DelayedMessage(NamedTuple):
    """Message that is not due yet, with its due time (Unix time); its body was not inspected."""

    due: float


_NEVER_TRIED = "the job expired before a worker could run it"
_TRIED = (
    "Postgres, Redis or a provider was away or behind, and the job expired before its next try: send it again later"
)


class _ExpiredMessage(Exception):
    """Message that has expired, or will have before it is due."""


def inspect(raw: bytes, rules: Rules, redis_time: datetime | None) -> DeliveredJob | DelayedMessage | Refusal:
    """Inspect one entry of a queue, by Redis' time, with its zone; None: neither `eta` nor `expires` counts."""
    try:
        envelope, headers = _envelope(raw, rules)
    except InvalidJob as error:
        return Refusal("malformed", error, glimpse_id(raw, rules))
    task_id, task = headers.get("id"), headers.get("task")
    if not is_id(task_id, rules):
        return Refusal("malformed", InvalidJob(f"expected 1 to {rules.max_id} printable characters", "headers.id"))
    if not isinstance(task, str) or (rules.tasks is not None and task not in rules.tasks):
        return Refusal("unknown_task", DeadLettered("this worker has no such task"), task_id, shown_name(task))
    try:
        return _task_message(envelope, headers, rules, redis_time)
    except InvalidJob as error:
        return Refusal("malformed", error, task_id, task)
    except _ExpiredMessage:
        return Refusal("expired", DeadLettered(_TRIED if headers.get(OUTAGE_HEADER) else _NEVER_TRIED), task_id, task)


_LONGEST_NAME = 64


def shown_name(task: Any) -> str:
    r"""Return the name of a task that any sender may have chosen: at most 64 characters, escaped, and never a token.

    >>> shown_name("retrieve_topk"), shown_name("a\n\x1b[2J"), shown_name(7)
    ('retrieve_topk', 'a\\n\\x1b[2J', '(no name)')
    """
    if not isinstance(task, str):
        return "(no name)"
    if "eyJ" in task:
        return "(not shown)"
    cut = task[:_LONGEST_NAME] + ("…" if len(task) > _LONGEST_NAME else "")
    return cut.encode("unicode_escape").decode("ascii").replace("\\u2026", "...")


def _task_message(
    envelope: dict[str, Any], headers: Mapping[str, Any], rules: Rules, redis_time: datetime | None
) -> DeliveredJob | DelayedMessage:
    """Check a message for a task that this worker has; if it is not due, its body is not inspected."""
    _check_priority(envelope)
    checked = _headers(headers, rules)
    due = _due(headers, redis_time) if redis_time is not None else None
    if due is not None:
        return DelayedMessage(due.timestamp())
    _, (args, kwargs, further) = _content(envelope, rules, callbacks=rules.callbacks)
    task_id, task = headers["id"], headers["task"]
    return DeliveredJob(task, task_id, args, kwargs, {**checked, "id": task_id, "task": task}, further)


def _envelope(raw: bytes, rules: Rules) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse a message and return it with its headers."""
    if sent_bytes(raw) > rules.max_bytes:
        raise InvalidJob(f"expected a message of at most {rules.max_bytes} bytes")
    _check_values(raw, rules)
    try:
        envelope = loads(raw)
    except ValueError:
        raise InvalidJob("the message is not JSON") from None
    headers = envelope.get("headers") if isinstance(envelope, dict) else None
    if not isinstance(headers, dict):
        raise InvalidJob("expected a task message: an object with headers, properties and a body")
    return envelope, headers


def _check_values(text: bytes, rules: Rules) -> None:
    """Refuse text that would take far more memory than its length, before parsing: an empty list takes 80 bytes."""
    if len(text) * 2 <= rules.max_values:  # within the limit even if all are braces
        return
    if len(text) - len(text.translate(None, b",:[{")) + text.count(b"{") > rules.max_values:
        raise InvalidJob(f"expected at most {rules.max_values} values in a message")


_GLIMPSE = re.compile(rb'(?<!\\)"id"\s*:\s*"([\x20\x21\x23-\x5b\x5d-\x7e]{1,512})"')
_GLIMPSE_BYTES = 16_384


def glimpse_id(raw: bytes, rules: Rules) -> str | None:
    r"""Find the task id of a message that can't be parsed, so that its sender gets an error; None if not found.

    >>> glimpse_id(rb'{"body": "[[{\"id\": \"no\"}', Rules()), glimpse_id(b'{"headers": {"id": "a-1", "tas', Rules())
    (None, 'a-1')
    """
    for excerpt in (raw[:_GLIMPSE_BYTES], raw[-_GLIMPSE_BYTES:]):
        match = _GLIMPSE.search(excerpt)
        if match and is_id(match[1].decode(), rules):
            return match[1].decode()
    return None


def is_id(value: Any, rules: Rules) -> TypeGuard[str]:
    """Return whether a value is a valid task id: printable, and not too long."""
    return isinstance(value, str) and 0 < len(value) <= rules.max_id and value.isprintable()


# --- headers ----------------------------------------------------------------------------------------


def _headers(headers: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """Check and return the headers that a job needs; others are dropped."""
    _check_limits(headers)
    checked: dict[str, Any] = {}
    for name in ("root_id", "parent_id", "group", "origin", "lang"):
        if headers.get(name) is not None:
            if not is_id(headers[name], rules):
                raise InvalidJob(f"expected at most {rules.max_id} printable characters", f"headers.{name}")
            checked[name] = headers[name]
    for name in ("retries", "group_index", "replaced_task_nesting"):
        value = as_integer(headers.get(name))
        if value is not None:
            if type(value) is not int or not 0 <= value < 2**31:
                raise InvalidJob("expected a whole number from 0", f"headers.{name}")
            checked[name] = value
    outage = headers.get(OUTAGE_HEADER)
    if outage is not None:
        if type(outage) not in {int, float} or not 0 <= outage <= LONGEST_OUTAGE_SECONDS:
            raise InvalidJob(f"expected seconds from 0 to {LONGEST_OUTAGE_SECONDS}", f"headers.{OUTAGE_HEADER}")
        checked[OUTAGE_HEADER] = outage
    ignore = headers.get("ignore_result")
    if not isinstance(ignore, bool | NoneType):
        raise InvalidJob("expected true or false", "headers.ignore_result")
    expires = _moment(headers, "expires")
    return {**checked, "ignore_result": bool(ignore), "expires": expires.isoformat() if expires else None}


def _check_limits(headers: Mapping[str, Any]) -> None:
    """Refuse headers by which a sender could change how the worker runs."""
    if headers.get("timelimit") not in (None, [None, None]):  # Celery itself sends the nulls
        raise InvalidJob("expected no such header", "timelimit")
    if headers.get("compression") is not None:
        raise InvalidJob("expected no such header", "compression")


def _check_priority(envelope: Mapping[str, Any]) -> None:
    """Refuse a priority other than 0, which kombu writes into every message: queues here have none."""
    properties = envelope.get("properties")
    priority = properties.get("priority") if isinstance(properties, dict) else None
    if priority is not None and (isinstance(priority, bool) or priority != 0):
        raise InvalidJob("expected no priority", "properties.priority")


def _due(headers: Mapping[str, Any], redis_time: datetime) -> datetime | None:
    """Return the due time of a message; None: now. One that has expired, or will have when it is due, is refused."""
    eta, expires = _moment(headers, "eta"), _moment(headers, "expires")
    due = eta if eta is not None and eta > redis_time else None
    if expires is not None and expires <= (due or redis_time):
        raise _ExpiredMessage
    return due


def expired_while_retried(headers: Mapping[str, Any], due: datetime) -> DeadLettered | None:
    """Return the error of a job that will have expired when it is due to be tried again; None if it will not."""
    expires = _moment(headers, "expires")
    return DeadLettered(_TRIED) if expires is not None and expires <= due else None


def _moment(headers: Mapping[str, Any], name: str) -> datetime | None:
    value = headers.get(name)
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise InvalidJob("expected a time as ISO 8601", f"headers.{name}") from None


# --- body -------------------------------------------------------------------------------------------


def body_of(envelope: dict[str, Any]) -> bytes:
    """Return the body's bytes without transport encoding; removed from the envelope, so that memory holds it once."""
    body, properties = envelope.pop("body", None), envelope.get("properties")
    if not isinstance(body, str):
        raise InvalidJob("expected a string", "body")
    if not isinstance(properties, dict | NoneType):
        raise InvalidJob("expected an object", "properties")
    encoding = (properties or {}).get("body_encoding")
    try:
        if encoding == "base64":
            return base64.b64decode(body.replace("\r\n", "").replace("\n", ""), validate=True)
        if encoding is None or (isinstance(encoding, str) and encoding.lower() in {"utf-8", "utf8"}):
            return body.encode()
    except binascii.Error:
        raise InvalidJob("expected base64", "body") from None
    except UnicodeEncodeError:
        raise InvalidJob(UNDECODABLE) from None
    except ValueError:  # base64 with non-ASCII characters
        raise InvalidJob("expected base64", "body") from None
    raise InvalidJob("expected base64, utf-8 or nothing", "properties.body_encoding")


def _content(envelope: dict[str, Any], rules: Rules, *, callbacks: bool) -> tuple[bytes, list[Any]]:
    """Take the body out of an envelope; return it, and what it says: arguments, keyword arguments, further tasks."""
    body = body_of(envelope)
    _check_values(body, rules)
    if envelope.get("content-type") != "application/json":
        raise InvalidJob("expected application/json", "content-type")
    encoding = envelope.get("content-encoding")
    if not (encoding is None or (isinstance(encoding, str) and encoding.lower() in {"utf-8", "utf8", "binary"})):
        raise InvalidJob("expected utf-8", "content-encoding")
    try:
        content = loads(body)
    except ValueError:
        raise InvalidJob(UNDECODABLE) from None
    _check_content(content, callbacks=callbacks)
    return body, content


def arguments(raw: bytes) -> Any:
    """Return the arguments of a message, for a summary; None if it has none."""
    try:
        return loads(body_of(loads(raw)))[0]
    except (ValueError, TypeError, AttributeError, LookupError, InvalidJob):
        return None


def decoded(raw: bytes, rules: Rules) -> list[Any]:
    """Return all that a task message says, of any task: its envelope without the body, and the content of that.

    Raises:
        InvalidJob: it is no task message, or beyond the limits.
        RecursionError: it is nested too deeply.
        ValueError: an object has a name twice, of which a reader sees only one.
    """
    envelope, _ = _envelope(raw, rules)
    body, content = _content(envelope, rules, callbacks=True)
    for text in (raw, body):
        parse(text, _named_once)
    return [envelope, content]


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name twice in an object")
    return fields


def _check_content(content: Any, *, callbacks: bool) -> None:
    """Check that a decoded body is a task's, and names no further tasks where they are not allowed."""
    if not (isinstance(content, list) and [*map(type, content)] in ([list, dict, dict], [list, dict, NoneType])):
        raise InvalidJob("the body could not be decoded as JSON of [[job], {}, {}]")
    _, keywords, embed = content
    if "self" in keywords:  # Celery's own call of the task would fail on it
        raise InvalidJob(ONE_JOB)
    further = {name: (embed or {}).get(name) for name in ("callbacks", "errbacks", "chain", "chord")}
    if not _only_signatures(further):
        raise InvalidJob("expected signatures as callbacks, errbacks, chain and chord")
    given_names = [name for name, value in further.items() if value]
    if given_names and not callbacks:
        raise InvalidJob("expected no further tasks (settings: worker.allow_callbacks)", given_names[0])


def _only_signatures(further: Mapping[str, Any]) -> bool:
    lists = [[] if further[name] is None else further[name] for name in ("callbacks", "errbacks", "chain")]
    return isinstance(further["chord"], dict | NoneType) and all(
        isinstance(signatures, list) and all(isinstance(signature, dict) for signature in signatures)
        for signatures in lists
    )
