"""Conversations and packages of the pipeline: each its owner's, so that a chain outlives workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from worker.adapters.postgres.database import Database


@dataclass(frozen=True, slots=True)
class Response:
    """An answer that was given.

    Attributes:
        response_id: its name.
        conversation_id: the conversation it is part of.
        mode: what it was for.
        provider, model: who gave it.
        claims_sha256: digest of the claims it was given to.
        provider_response_id: what the provider goes on from; None where it keeps nothing.
        starting_prompt: the model's instructions.
        question, answer: what was said.
        package_id: what the answer rests on.
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
    """A package as it is kept.

    Attributes:
        package_id: its name.
        stage: the last stage that it went through.
        content: what it holds besides texts of chunks.
        claims_sha256: digest of the claims that it was made with.
    """

    package_id: str
    stage: str
    content: Mapping[str, Any]
    claims_sha256: bytes


_COLUMNS = (
    b"response_id, conversation_id, mode, provider, model, claims_sha256, provider_response_id, starting_prompt,"
    b" question, answer, package_id"
)

_SELECT_RESPONSE = (
    b"SELECT " + _COLUMNS + b" FROM retrieval.responses WHERE owner = %(owner)s AND response_id = %(response_id)s"
)

_SELECT_TURNS = (
    b"SELECT * FROM (SELECT "
    + _COLUMNS
    + b", sequence FROM retrieval.responses WHERE owner = %(owner)s AND conversation_id = %(conversation_id)s"
    b" ORDER BY sequence DESC LIMIT %(limit)s) AS latest ORDER BY sequence"
)

# A job that is run again (at least once means now and then twice) finds its answer there already.
_INSERT_RESPONSE = b"""
INSERT INTO retrieval.responses
       (owner, response_id, conversation_id, mode, provider, model, claims_sha256, provider_response_id,
        starting_prompt, question, answer, package_id)
VALUES (%(owner)s, %(response_id)s, %(conversation_id)s, %(mode)s, %(provider)s, %(model)s, %(claims_sha256)s,
        %(provider_response_id)s, %(starting_prompt)s, %(question)s, %(answer)s, %(package_id)s)
ON CONFLICT DO NOTHING
"""

_INSERT_PACKAGE = b"""
INSERT INTO retrieval.packages (owner, package_id, stage, content, claims_sha256)
VALUES (%(owner)s, %(package_id)s, %(stage)s, %(content)s, %(claims_sha256)s)
ON CONFLICT DO NOTHING
"""

_SELECT_PACKAGE = b"""
SELECT package_id, stage, content, claims_sha256 FROM retrieval.packages
 WHERE owner = %(owner)s AND package_id = %(package_id)s
"""


class Sessions:
    """What the pipeline keeps for its callers.

    Args:
        database: where it is kept.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def response(self, owner: str, response_id: str) -> Response | None:
        """An answer of an owner; another's is an unknown one."""
        names = {"owner": owner, "response_id": response_id}
        (rows,) = self._database.read_records(owner, [(_SELECT_RESPONSE, names)])
        return Response(*rows[0]) if rows else None

    def turns(self, owner: str, conversation_id: str, limit: int) -> list[Response]:
        """The latest ``limit`` answers of a conversation, in their order."""
        names = {"owner": owner, "conversation_id": conversation_id, "limit": limit}
        (rows,) = self._database.read_records(owner, [(_SELECT_TURNS, names)])
        return [Response(*row[:-1]) for row in rows]

    def package(self, owner: str, package_id: str) -> StoredPackage | None:
        """A package of an owner; another's is an unknown one."""
        names = {"owner": owner, "package_id": package_id}
        (rows,) = self._database.read_records(owner, [(_SELECT_PACKAGE, names)])
        return StoredPackage(*rows[0]) if rows else None

    def keep(self, owner: str, package: StoredPackage, response: Response | None = None) -> None:
        """Keep a package, and the answer that rests on it, in one transaction; what is there already stays."""
        values = {
            "owner": owner,
            "package_id": package.package_id,
            "stage": package.stage,
            "content": Json(package.content),
            "claims_sha256": package.claims_sha256,
        }
        statements: list[tuple[bytes, Mapping[str, Any]]] = [(_INSERT_PACKAGE, values)]
        if response is not None:
            said = {name: getattr(response, name) for name in response.__dataclass_fields__}
            statements.append((_INSERT_RESPONSE, {"owner": owner, **said}))
        self._database.write(owner, statements)
