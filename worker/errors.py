"""One tree of errors, classified by what the caller or the queue should do about them.

The class names are on the wire: Celery publishes them as ``exc_type`` and the one sentence as
``exc_message``. A message never repeats an embedding, a text, a token or a password.
"""

from __future__ import annotations


class RetrievalError(Exception):
    """Anything this project raises on purpose; its single argument is one readable sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidJob(RetrievalError):
    """The job is wrong and stays wrong: fix the job. Never retried.

    ``path`` names the field (``filters.pages[0]``), the message says what was expected there.
    """

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path
        self.expected = message

    def __reduce__(self) -> tuple[type[InvalidJob], tuple[str, str]]:
        """Pickle by parts: prefork children hand exceptions to their parent."""
        return type(self), (self.expected, self.path)


class NotAuthorised(RetrievalError):
    """Nobody that this worker believes is asking: get a principal. Never retried.

    ``forged`` says that the job's token was never good for it; the message is a dead letter then.
    """

    def __init__(self, message: str, *, forged: bool = False) -> None:
        super().__init__(message)
        self.forged = forged


class Unavailable(RetrievalError):
    """Postgres, Redis or a provider is away: the queue tried again until its bound; send it later."""


class TimedOut(RetrievalError):
    """The job ran into its time limit: ask for less, or raise the limit in settings."""


class DeadLettered(RetrievalError):
    """The message can't be run (it expired, no worker has its task, or it killed its worker too often): look at why."""


class SettingsError(RetrievalError):
    """The worker is set up wrongly: fix the settings, the role or the schema. Stops the start."""


class InternalError(RetrievalError):
    """A fault of this project: report it with the task id; details are in the worker's log."""
