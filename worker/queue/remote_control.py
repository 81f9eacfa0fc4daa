"""Celery's remote control with an allow-list: any client of its channel can query and resize the pool, no more.

No content of a control message raises: an exception would close the channel, or end the worker.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from celery.app import control as celery_control
from kombu import pidbox

from worker.adapters import logs
from worker.settings.serving import ControlCommand

if TYPE_CHECKING:
    from collections.abc import Callable

log = logs.logger("worker.remote_control")

MOST_PROCESSES = 64
"""Largest pool that remote control can set; the smallest is one."""

_LONGEST = 255
_CLOCKS = 2**53
_ID = re.compile(r"[\w-]{1,64}")


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= MOST_PROCESSES


def _is_flag(value: object) -> bool:
    return value is None or isinstance(value, bool)


def _is_ids(value: object) -> bool:
    ids = value if isinstance(value, list) else [value]
    return len(ids) <= _LONGEST and all(isinstance(task_id, str) and len(task_id) <= _LONGEST for task_id in ids)


def _is_nothing(value: object) -> bool:
    return not value


ALLOWED: dict[str, dict[str, Callable[[object], bool]]] = {
    "active": {"safe": _is_flag},
    "active_queues": {},
    "autoscale": {"max": _is_count, "min": _is_count},
    "clock": {},
    "conf": {"with_defaults": _is_flag},
    "disable_events": {},
    "enable_events": {},
    "heartbeat": {},
    "ping": {},
    "pool_grow": {"n": _is_count},
    "pool_shrink": {"n": _is_count},
    "query_task": {"ids": _is_ids},
    "registered": {"taskinfoitems": _is_nothing, "builtins": _is_flag},
    "report": {},
    "reserved": {},
    "revoked": {},
    "scheduled": {},
    "stats": {},
}
"""Commands that every worker accepts, with their arguments, and the check of each."""

NOT_READY = "not ready: no process of the pool has started; the worker's log says why"
"""Error in the reply to `ping`, in place of its ``pong``."""


class RefusedCommand(Exception):
    """Refused command; the message is the reply."""


@dataclass(frozen=True, slots=True)
class Command:
    """Well-formed control message: a command and its arguments, by name.

    Attributes:
        reply_key: routing key of the caller's reply queue; None: no reply is wanted.
        ticket: id by which the caller matches the reply to its request.
    """

    method: str
    arguments: dict[str, Any]
    reply_key: str | None
    ticket: str | None


class Node(pidbox.Node):
    """Remote control node of a worker."""

    # Kombu sets these when a worker starts, without annotations.
    state: Any
    channel: Any
    mailbox: Any
    hostname: Any

    def handle_message(self, body: Any, message: Any = None) -> Any:
        """Run a command if this worker is addressed, or reply why it is refused."""
        self._note_clock(message)
        try:
            command = _read(body, self.hostname, self.mailbox.reply_exchange.name)
        except (RefusedCommand, ValueError, TypeError, LookupError):
            log.warning("control message ignored: malformed")
            return None
        if command is None:
            return None
        answer = self._answer(command)
        if command.reply_key is not None:
            self._reply(command, answer)
        return answer

    def _note_clock(self, message: Any) -> None:
        headers = getattr(message, "headers", None)
        clock = headers.get("clock") if isinstance(headers, dict) else None
        if type(clock) is int and 0 < clock < _CLOCKS:
            self.adjust_clock(clock)

    def _answer(self, command: Command) -> Any:
        if command.method == "ping" and not self.state.consumer.pool.is_ready:
            return {"error": NOT_READY}
        try:
            self._check(command)
            return self.handle(command.method, command.arguments)
        except RefusedCommand as refusal:
            logged_method = command.method if {*ALLOWED, *get_args(ControlCommand)} & {command.method} else "unknown"
            log.warning("control command refused", command=logged_method, reason=str(refusal))
            return {"error": str(refusal)}
        except Exception as error:  # noqa: BLE001 -- a command's own; its message may quote what was sent
            log.warning("control command failed", command=command.method, error=type(error).__name__)
            return {"error": f"{command.method} failed: {type(error).__name__}"}

    def _check(self, command: Command) -> None:
        """Check that a command is allowed.

        Raises:
            RefusedCommand: it is not allowed.
        """
        checks = ALLOWED.get(command.method)
        if checks is not None:
            for name, value in command.arguments.items():
                if name not in checks or not checks[name](value):
                    raise RefusedCommand(
                        f"{command.method}: an argument is unknown, or not of the expected type and size"
                    )
        elif command.method not in self.state.app.conf.worker_remote_control:
            raise RefusedCommand(
                "this command is not allowed: worker.remote_control in the worker's settings may name it"
            )
        self._check_size(command)

    def _check_size(self, command: Command) -> None:
        if command.method == "autoscale":
            self._check_scale(command.arguments.get("min"), command.arguments.get("max"))
        if command.method not in {"pool_grow", "pool_shrink"}:
            return
        count = command.arguments.get("n", 1)
        new_size = self.state.consumer.pool.num_processes + (count if command.method == "pool_grow" else -count)
        if not 1 <= new_size <= MOST_PROCESSES:
            raise RefusedCommand(f"a pool has 1 to {MOST_PROCESSES} processes")

    def _check_scale(self, minimum: int | None, maximum: int | None) -> None:
        """Refuse a minimum above the maximum: Celery accepts any pair, and starts as many processes as the minimum."""
        scaler = self.state.consumer.controller.autoscaler
        if scaler is None:
            raise RefusedCommand("this worker has a fixed number of processes: start it with --autoscale")
        low: int = scaler.min_concurrency if minimum is None else minimum
        high: int = scaler.max_concurrency if maximum is None else maximum
        if low > high:
            raise RefusedCommand("autoscale: min is greater than max")

    def _reply(self, command: Command, answer: Any) -> None:
        """Send the answer to the caller's queue, if that is still bound, and nowhere else."""
        exchange = self.mailbox.reply_exchange.name
        queue = f"{command.reply_key}.{exchange}"
        try:
            if (command.reply_key, "", queue) not in self.channel.get_table(exchange):
                return
            headers = {"ticket": command.ticket, "clock": self.mailbox.clock.forward()}
            with self.mailbox.producer_or_acquire(channel=self.channel) as producer:
                producer.publish(
                    {self.hostname: answer},
                    exchange="",
                    routing_key=queue,
                    headers=headers,
                    serializer=self.mailbox.serializer,
                    retry=True,
                )
        except Exception as error:  # noqa: BLE001 -- a lost connection is noticed where jobs are taken
            log.warning("control reply not sent", command=command.method, error=type(error).__name__)


def _read(body: Any, hostname: str, replies: str) -> Command | None:
    """Return a control message's command; None if it is addressed to other workers.

    Raises:
        RefusedCommand, ValueError, TypeError, LookupError: it is malformed.
    """
    method, arguments = body["method"], body.get("arguments") or {}
    if not isinstance(method, str) or not isinstance(arguments, dict):
        raise RefusedCommand("malformed")
    if not _is_meant(hostname, body.get("destination"), body.get("pattern"), body.get("matcher")):
        return None
    reply_to, ticket, reply_key = body.get("reply_to"), body.get("ticket"), None
    if reply_to:
        reply_key = reply_to["routing_key"]
        if reply_to["exchange"] != replies or not _is_id(reply_key) or not _is_id(ticket):
            raise RefusedCommand("malformed")
    return Command(method, arguments, reply_key, ticket)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_meant(hostname: str, destination: Any, pattern: Any, matcher: Any) -> bool:
    """Return whether a message is for this worker; patterns are globs only: a regular expression may run endlessly."""
    if destination:
        return isinstance(destination, list) and hostname in destination
    if not pattern or not matcher:
        return True
    return matcher == "glob" and len(pattern) <= _LONGEST and fnmatch.fnmatchcase(hostname, pattern)


class Mailbox(pidbox.Mailbox):
    """Celery's mailbox, with `Node`."""

    node_cls = Node


class Control(celery_control.Control):
    """Celery's `app.control`, with `Mailbox`."""

    Mailbox = Mailbox
