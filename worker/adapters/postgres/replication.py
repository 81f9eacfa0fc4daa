"""Checks of a standby: its safety for reads, and its replication lag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.database import check
from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.adapters.postgres.database import Statement
    from worker.settings import Settings

_SQL = blocks("replication")
LAG: Statement = (_SQL["lag"], {})
"""Upper bound of the standby's replication lag in seconds; NULL where it is unknown."""


def check_standby(settings: Settings, *, at_start: bool = False) -> Mapping[str, CorpusTypes]:
    """Inspect the role and the corpora there, by `Settings.of_the_standby`; see `postgres.check`.

    Raises:
        SettingsError: rows could leak; the message begins with the standby's variable.
        Unavailable: the server does not answer.
    """
    try:
        return check(settings, at_start=at_start)
    except SettingsError as error:
        reason = error.message.removeprefix("DATABASE_CONNECTION_STRING: ")
        raise SettingsError(f"DATABASE_READ_CONNECTION_STRING: {reason}") from None
