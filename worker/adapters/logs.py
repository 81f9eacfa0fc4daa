"""Logs: one JSON object a line (or coloured text on a terminal), without any content of a job or a chunk.

But for the keywords of a hybrid search's context, which it has at level `debug` alone.
"""

from __future__ import annotations

import contextlib
import logging
import logging.handlers
import re
import select
import sys
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from retrieval_client.errors import SettingsError
from worker.core.text.visible import printable_json, visible_line

if TYPE_CHECKING:
    from worker.settings.serving import LogSettings

# Third-party loggers that print arguments, URLs or headers, or repeat at INFO what `job done` says.
_LEAST_LEVELS = {
    "celery": logging.INFO,
    "kombu": logging.INFO,
    "amqp": logging.INFO,
    "celery.app.trace": logging.WARNING,
    "celery.worker.request": logging.ERROR,  # its lines have the id as it was sent
    "celery.worker.strategy": logging.WARNING,
    "psycopg": logging.ERROR,
    "psycopg.pool": logging.ERROR,
    "httpx": logging.WARNING,
    "httpcore": logging.WARNING,
}

_SHOWN_ID = re.compile(r"(?!.*eyJ)[A-Za-z0-9_.:-]{1,64}")


def _without_texts_as_ids(_: Any, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Leave out an id of a sender's that may be any text, or a token."""
    for name in {"task_id", "run_id"} & event.keys():
        if not isinstance(event[name], str) or not _SHOWN_ID.fullmatch(event[name]):
            event[name] = "(not shown)" if event[name] else ""
    return event


_SHARED: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.ExtraAdder(),
    _without_texts_as_ids,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


log = structlog.stdlib.get_logger("worker.logs")

_PATIENCE_SECONDS = 1.0
"""Longest wait for room in the output; after that lines are dropped at once, until there is room."""


class _Handler(logging.StreamHandler[Any]):
    """Handler that drops lines while no one reads the output: a full pipe would stop the jobs of all processes."""

    _dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line, after the number of those that were dropped."""
        if not self._has_room():
            self._dropped += 1
            return
        if self._dropped:
            lines, self._dropped = self._dropped, 0
            log.warning("log lines dropped", lines=lines)
        super().emit(record)

    def _has_room(self) -> bool:
        poll = select.poll()
        with contextlib.suppress(OSError, ValueError):  # a stream without a file
            poll.register(self.stream.fileno(), select.POLLOUT)
            return bool(poll.poll(0 if self._dropped else 1000 * _PATIENCE_SECONDS))
        return True


def configure(settings: LogSettings, file: str | None = None) -> None:
    """Send everything that this process logs to a file, or to standard error, in one form.

    Raises:
        SettingsError: the file can't be written.
    """
    console = settings.format == "console" or (settings.format == "auto" and not file and sys.stderr.isatty())
    renderers: list[structlog.types.Processor] = (
        [_visible, structlog.dev.ConsoleRenderer()] if console else [structlog.processors.JSONRenderer(_to_json)]
    )
    handler = _file_handler(file) if file else _Handler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_locals, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level)
    for name, level in _LEAST_LEVELS.items():
        logging.getLogger(name).setLevel(max(level, root.level))
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _file_handler(file: str) -> logging.Handler:
    try:
        return logging.handlers.WatchedFileHandler(file, encoding="utf-8")  # a new one once that is moved
    except OSError as error:
        raise SettingsError(f"--logfile: {file}: {error.strerror}") from None


def logger(name: str) -> Any:
    """Return a structured logger."""
    return structlog.stdlib.get_logger(name)


def where(error: BaseException) -> list[str]:
    """Return the frames of an error as ``file:line function``, without its message, which may quote a job."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        frames.append(f"{code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return frames


def _without_locals(_: Any, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Reduce an exception to its type and frames; its message may quote what must not be logged."""
    info = event.pop("exc_info", None)
    error = info if isinstance(info, BaseException) else info[1] if isinstance(info, tuple) else None
    if error is None and info:
        error = sys.exception()
    if error is not None:
        event["exception"] = type(error).__name__
        event["where"] = where(error)
    return event


def _visible(_: Any, __: str, event: structlog.types.EventDict) -> structlog.types.EventDict:
    """Escape terminal control characters: `ConsoleRenderer` writes strings as they are, and the rest by `repr`."""
    return {
        visible_line(name): visible_line(value) if isinstance(value, str) else value for name, value in event.items()
    }


def _to_json(event: Any, **_: Any) -> str:
    return printable_json(orjson.dumps(event, default=repr).decode())
