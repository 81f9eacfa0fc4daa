"""One tree of errors, classified by the remedy of the caller or the queue.

The class names are on the wire: Celery publishes them as ``exc_type`` and the sentence as ``exc_message``. A message
never repeats an embedding, a text, a token or a password.
"""

from __future__ import annotations

ON_THE_WIRE = "worker.errors"
"""Module of these classes in a record (``exc_module``), whatever its name in Python."""


class RetrievalError(Exception):
    """Base of all errors that this project raises; its single argument is one readable sentence.

    ``task_id``: of a client's `Unavailable` and `TimedOut`, the id of the job that may still be answered.
    """

    task_id: str | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidJob(RetrievalError, ValueError):
    """The job is wrong and stays wrong: fix the job. Never retried.

    ``path`` names the field (``filters.pages[0]``), the message gives the expectation. In Python, `retrieval_client`
    raises it as a job is made from wrong fields; it is a `ValueError` too.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.expected = message

    def __reduce__(self) -> tuple[type[InvalidJob], tuple[str, str]]:
        """Pickle by parts: prefork children hand exceptions to their parent."""
        return type(self), (self.expected, self.path)


class NotAuthorised(RetrievalError):
    """The caller is not authorised, for the token is missing or invalid: get a principal. Never retried.

    ``forged``: the token was never valid for this job; the message is dead-lettered then.
    """

    def __init__(self, message: str, *, forged: bool = False) -> None:
        super().__init__(message)
        self.forged = forged


class Unavailable(RetrievalError):
    """Postgres, Redis or a provider is unavailable: the queue retried up to its limit; send the job again later.

    ``behind``: the server answers, and has not replayed the job's `min_lsn`.
    """

    def __init__(self, message: str, *, behind: bool = False) -> None:
        super().__init__(message)
        self.behind = behind


class TimedOut(RetrievalError):
    """The job reached its time limit: ask for less, or raise the limit in the settings."""


class DeadLettered(RetrievalError):
    """The message can't be run (expired, unknown task, or too many deliveries that killed a worker): see the reason."""


class SettingsError(RetrievalError):
    """The worker is misconfigured: fix the settings, the role or the schema. Stops the start."""


class InternalError(RetrievalError):
    """A bug of this project: report it with the task id; the worker's log has the details."""


def as_error(failure: object) -> RetrievalError:
    """Return the failure of a record as an error of the class that it names.

    Its own words are passed on only of the contract's errors.
    """
    fields = failure if isinstance(failure, dict) else {}
    name, message = fields.get("exc_type"), fields.get("exc_message")
    kind = globals().get(name) if isinstance(name, str) else None
    if isinstance(kind, type) and issubclass(kind, RetrievalError):
        words = message if isinstance(message, list) else [message]
        return kind(printable(" ".join(word for word in words if isinstance(word, str))))
    return InternalError(f"the job failed ({printable(name) if isinstance(name, str) else None})")


def printable(text: str) -> str:
    r"""Return a text for a terminal, with its control characters spelled out.

    >>> print(printable("a" + chr(27) + "[31mb é"))
    a\x1b[31mb é
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )
