"""Settings without servers: as shipped, from a clean environment."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from worker.settings import PREFIX, Settings, from_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable


SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine that runs the tests reaches the settings."""
    postgres = ("DATABASE_CONNECTION_STRING", "DATABASE_READ_CONNECTION_STRING")
    ours = (*postgres, "CELERY_BROKER_URL", "CELERY_RESULT_BACKEND")
    for name in list(os.environ):
        if name.upper().startswith(PREFIX) or name.upper() in ours:
            monkeypatch.delenv(name)


@pytest.fixture
def values() -> dict[str, Any]:
    """The shipped settings as plain data, with connection strings that hold a secret."""
    return {
        **tomllib.loads((config_folder() / "worker.toml").read_text()),
        "database_connection_string": f"postgresql://worker:{SECRET}@db/app",
        "broker_url": f"redis://:{SECRET}@redis/0",
    }


@pytest.fixture
def make_settings(values: dict[str, Any]) -> Callable[..., Settings]:
    """Makes the shipped settings with changes."""

    def make(**changes: Any) -> Settings:
        return from_values({**values, **changes})

    return make
