"""The errors under the name that is on the wire (``exc_module``): a Celery app that reads results imports it."""

from retrieval_client.errors import (
    DeadLettered,
    InternalError,
    InvalidJob,
    NotAuthorised,
    RetrievalError,
    SettingsError,
    TimedOut,
    Unavailable,
)

__all__ = [
    "DeadLettered",
    "InternalError",
    "InvalidJob",
    "NotAuthorised",
    "RetrievalError",
    "SettingsError",
    "TimedOut",
    "Unavailable",
]
