"""Conversations and packages of the pipeline, each with its owner; they outlive the worker process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from psycopg.types.json import Json

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.adapters.postgres.database import Database
    from worker.model import Principal


@dataclass(frozen=True, slots=True)
class Response:
    """A stored answer.

    Attributes:
        response_id: its id.
        conversation_id: its conversation.
        mode: the mode of the job.
        provider, model: the model that answered.
        claims_sha256: digest of the caller's claims.
        provider_response_id: the provider's id to continue from; None if it stores nothing.
        starting_prompt: the model's instructions.
        question, answer: their texts.
        package_id: the package that the answer is based on.
    """

    response_id: str
    conversation_id: str
    mode: str
    provider: str
    model: str
    claims_sha256: bytes
    provider_response_id: str | None
    starting_prompt: str
    question: str
    answer: str | None
    package_id: str | None


@dataclass(frozen=True, slots=True)
class StoredPackage:
    """A stored package.

    Attributes:
        package_id: its id.
        stage: its last finished stage.
        content: its content without texts of chunks.
        claims_sha256: digest of its caller's claims.
    """

    package_id: str
    stage: str
    content: Mapping[str, Any]
    claims_sha256: bytes


_SQL = blocks("sessions")
_SELECT_RESPONSE = _SQL["select_response"]
_SELECT_TURNS = _SQL["select_turns"]
_INSERT_RESPONSE = _SQL["insert_response"]
_INSERT_PACKAGE = _SQL["insert_package"]
_SELECT_PACKAGE = _SQL["select_package"]


class Sessions:
    """The pipeline's stored state of its callers.

    Args:
        database: the database that holds it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def response(self, caller: Principal, response_id: str) -> Response | None:
        """Return an owner's answer; None if unknown or of another owner."""
        names = {"owner": caller.owner, "response_id": response_id}
        (rows,) = self._database.read_records(caller, [(_SELECT_RESPONSE, names)])
        return Response(*rows[0]) if rows else None

    def turns(self, caller: Principal, conversation_id: str, limit: int) -> list[Response]:
        """Return the latest ``limit`` answers of a conversation, in their order."""
        names = {"owner": caller.owner, "conversation_id": conversation_id, "limit": limit}
        (rows,) = self._database.read_records(caller, [(_SELECT_TURNS, names)])
        return [Response(*row[:-1]) for row in rows]

    def package(self, caller: Principal, package_id: str) -> StoredPackage | None:
        """Return an owner's package; None if unknown or of another owner."""
        names = {"owner": caller.owner, "package_id": package_id}
        (rows,) = self._database.read_records(caller, [(_SELECT_PACKAGE, names)])
        return StoredPackage(*rows[0]) if rows else None

    def keep(self, caller: Principal, package: StoredPackage, response: Response | None = None) -> None:
        """Store a package, and the answer based on it, in one transaction; existing rows stay."""
        values = {
            "owner": caller.owner,
            "package_id": package.package_id,
            "stage": package.stage,
            "content": Json(package.content, dumps=orjson.dumps),
            "claims_sha256": package.claims_sha256,
        }
        statements: list[tuple[bytes, Mapping[str, Any]]] = [(_INSERT_PACKAGE, values)]
        if response is not None:
            columns = {name: getattr(response, name) for name in response.__dataclass_fields__}
            statements.append((_INSERT_RESPONSE, {"owner": caller.owner, **columns}))
        self._database.write(caller, statements)
