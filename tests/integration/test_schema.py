"""The reference schema: idempotent, and hashing as Python does."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.prebuilt import copied_database

from retrieval_client.hashing import format_hash, hash_chunk
from worker.cli.loader import migrate

if TYPE_CHECKING:
    from workbench.devstack.stack import Stack

WHITE_SPACE = [chr(n) for n in range(sys.maxunicode + 1) if not 0xD800 <= n <= 0xDFFF and not chr(n).strip()]
STORABLE = st.characters(exclude_categories=["Cs"], exclude_characters="\x00")
TEXTS = st.one_of(
    st.text(STORABLE, max_size=200),
    st.lists(st.one_of(st.sampled_from(WHITE_SPACE), STORABLE), max_size=60).map("".join),
)


@pytest.fixture(scope="module")
def connection(stack: Stack, sample_template: str) -> Any:
    with (
        copied_database(stack.postgres, sample_template, "schema_tests") as name,
        psycopg.connect(stack.postgres.dsn(name), autocommit=True) as opened,
    ):
        yield opened


def sql_hash(connection: psycopg.Connection[Any], text: str) -> str:
    row = connection.execute("SELECT retrieval.hash_chunk_v1(%s)", (text,)).fetchone()
    assert row is not None
    return format_hash(row[0])


def test_there_are_29_white_space_code_points() -> None:
    """The schema lists exactly the characters at which `str.split()` splits."""
    assert len(WHITE_SPACE) == 29


@settings(
    max_examples=50 * settings.default.max_examples,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=TEXTS)
def test_postgres_hashes_as_python_does(connection: psycopg.Connection[Any], text: str) -> None:
    """Any text that Postgres can store has one hash, in Postgres as in Python."""
    assert sql_hash(connection, text) == hash_chunk(text)


@pytest.mark.parametrize("code_point", [ord(character) for character in WHITE_SPACE])
def test_every_white_space_is_normalised_in_both(connection: psycopg.Connection[Any], code_point: int) -> None:
    """Each of the 29, alone, doubled, inside and at the ends."""
    space = chr(code_point)
    for text in (space, space * 3, f"{space}a{space}{space}b{space}", f"a{space}\u00e9"):
        assert sql_hash(connection, text) == hash_chunk(text)
    assert hash_chunk(f"a{space}b") == hash_chunk("a b")


def test_what_looks_like_white_space_and_is_none_is_kept_in_both(connection: psycopg.Connection[Any]) -> None:
    """Zero-width and other invisible characters are text."""
    for text in ("a\u200bb", "a\u2060b", "a\ufeffb", "a\u00adb", "a\u180eb", "a\\sb", "a\u0008b"):
        assert sql_hash(connection, text) == hash_chunk(text)
        assert hash_chunk(text) != hash_chunk("a b")


def test_the_stored_hash_is_the_generated_one(connection: psycopg.Connection[Any]) -> None:
    """The indexed column holds version 1 of every chunk of the sample."""
    rows = connection.execute("SELECT text_content, chunk_hash FROM document_chunks").fetchall()
    assert len(rows) == 107
    assert all(format_hash(stored) == hash_chunk(text) for text, stored in rows)


def test_migrating_twice_changes_nothing(connection: psycopg.Connection[Any]) -> None:
    """The schema may be installed again at any time: rows, policies and hashes stay."""
    state = """
        SELECT (SELECT count(*) FROM document_chunks), (SELECT count(*) FROM pg_policies),
               (SELECT count(*) FROM pg_indexes WHERE schemaname = 'public'),
               (SELECT string_agg(relname || relrowsecurity, ',' ORDER BY relname) FROM pg_class WHERE relkind = 'r'
                  AND relnamespace = 'public'::regnamespace)
    """
    before = connection.execute(state).fetchone()
    migrate(connection)
    migrate(connection)
    assert connection.execute(state).fetchone() == before


def test_the_workers_role_owns_nothing_and_can_only_read(connection: psycopg.Connection[Any]) -> None:
    """No table, no write, no role rights beyond login."""
    row = connection.execute(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin,"
        " (SELECT count(*) FROM pg_class WHERE relowner = pg_roles.oid)"
        " FROM pg_roles WHERE rolname = 'retrieval_worker'"
    ).fetchone()
    assert row == (False, False, False, False, True, 0)
    for table in ("documents", "document_chunks", "document_grants"):
        for right in ("INSERT", "UPDATE", "DELETE", "TRUNCATE"):
            query = "SELECT has_table_privilege('retrieval_worker', %s, %s)"
            assert connection.execute(query, (table, right)).fetchone() == (False,)
