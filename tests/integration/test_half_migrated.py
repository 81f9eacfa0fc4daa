"""`migrate` and `load` in a database whose tables are not the reference schema's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.command_line import command_line

if TYPE_CHECKING:
    import psycopg

    from workbench.devstack.stack import Stack

SECRET = "canary-4711"  # noqa: S105 -- a row's content
OWN_DOCUMENTS = (
    "DROP SCHEMA retrieval CASCADE; DROP TABLE public.documents, public.document_chunks CASCADE;"
    "CREATE TABLE public.documents (id text PRIMARY KEY, body text);"
    f"INSERT INTO public.documents VALUES ('{SECRET}', '{SECRET}')"
)
BROKEN: dict[str, tuple[str, str, str]] = {
    "documents of the application's own": (
        OWN_DOCUMENTS,
        "migrate",
        'column "owner_id"',
    ),
    "runs of the application's own": (
        "DROP SCHEMA retrieval CASCADE; CREATE SCHEMA retrieval; CREATE TABLE retrieval.runs (run text)",
        "migrate",
        'table "runs"',
    ),
    "a dropped column": ("ALTER TABLE public.documents DROP COLUMN owner_id CASCADE", "migrate", 'column "owner_id"'),
    "a dropped function": ("DROP FUNCTION retrieval.hash_chunk_v1 CASCADE", "migrate", 'column "chunk_hash"'),
    "no reference tables": (
        "DROP TABLE public.documents, public.document_chunks, public.doc_embeddings, public.example_strudels CASCADE",
        "load",
        'relation "public.document_chunks"',
    ),
}


@pytest.mark.parametrize(("broken", "command", "named"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_not_the_worker_s_is_named(
    stack: Stack,
    database: str,
    admin: psycopg.Connection[Any],
    capsys: pytest.CaptureFixture[str],
    broken: str,
    command: str,
    named: str,
) -> None:
    """One sentence: what Postgres misses, and what to do; never what a row holds."""
    admin.execute(broken.encode())
    done = command_line(capsys, {"MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database)})(command)
    assert done.returncode == 78
    (said,) = done.stderr.splitlines()
    assert said.startswith("retrieval-worker: Postgres refused (SQLSTATE 42")
    assert named in said.partition(". 'retrieval-worker migrate' installs")[0]
    assert "(--records-only)" in said
    assert SECRET not in said
