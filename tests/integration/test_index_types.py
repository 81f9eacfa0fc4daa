"""HNSW indexes over vector and halfvec: a worker searches the one that is there, and `migrate` builds the other."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from worker.adapters.postgres.database import Database
from worker.adapters.postgres.search import VectorSearch
from worker.cli.doctor import examine
from worker.cli.loader import migrate
from worker.cli.reindexing import Watch, index_over
from worker.cli.usage import WrongUsage
from worker.core.text import lexical
from worker.jobs.corpora import Corpora
from worker.model import NO_FILTERS
from worker.settings import read_values

from .large import executed
from .test_top_k import asker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Stack

    from worker.settings import Settings

QUESTION = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0]
VECTOR = "CREATE INDEX CONCURRENTLY old ON document_chunks USING hnsw (embedding vector_cosine_ops)"
SHIPPED = "document_chunks_embedding_idx"
INDEXES = "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
HNSW = f"{INDEXES} WHERE a.amname = 'hnsw' AND i.indrelid = 'document_chunks'::regclass ORDER BY 1"


@pytest.fixture
def site(make_settings: Callable[..., Settings], database: str) -> Callable[..., Settings]:
    """Settings of corpora so small that they use an index only without a table of documents."""

    def settings() -> Settings:
        corpora = read_values()["corpora"]
        del corpora["documents"]["documents"]
        return make_settings(database, corpora=corpora, search={"exact_rows": 0})

    return settings


def installed_before(admin: psycopg.Connection[Any]) -> None:
    """Make the index of the sample documents one over vector, as older versions installed it."""
    admin.execute(f"DROP INDEX {SHIPPED}")
    admin.execute(f"{VECTOR}".replace("CONCURRENTLY old", SHIPPED).encode())


def hnsw(admin: psycopg.Connection[Any]) -> list[str]:
    """Names of the HNSW indexes of the sample documents."""
    return [name for (name,) in admin.execute(HNSW.encode())]


def searched(settings: Settings) -> set[str]:
    """Names of the HNSW indexes that a search of a worker with these settings uses."""
    with contextlib.closing(Database(settings)) as database:
        corpus = Corpora(settings, database).get("documents")
        ((statement, values),) = VectorSearch(corpus, QUESTION, 10, NO_FILTERS).statements()
        explain = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statement, values)
        (rows,) = database.read(asker("alice"), [explain])
        return {name for name in executed(rows[0][0][0]["Plan"]) if name in {SHIPPED, "old"} or "embedding" in name}


def advice(settings: Settings) -> list[str]:
    """All that `doctor` advises about the documents' index."""
    found = [one.text for one in examine(settings) if one.subject == "corpus documents" and one.level == "advice"]
    return [text for text in found if "index" in text]


def test_the_index_that_is_there_is_searched(site: Callable[..., Settings], admin: psycopg.Connection[Any]) -> None:
    """Over halfvec as it is installed, and over vector as older versions did."""
    assert searched(site()) == {SHIPPED}
    installed_before(admin)
    assert searched(site()) == {SHIPPED}


def test_where_both_are_there_the_smaller_is_searched(
    site: Callable[..., Settings], admin: psycopg.Connection[Any]
) -> None:
    """Over halfvec; `doctor` names the one that no search uses, and its drop."""
    admin.execute(VECTOR.encode())
    assert searched(site()) == {SHIPPED}
    (unused,) = [text for text in advice(site()) if "DROP" in text]
    assert "use the index over halfvec, not old" in unused
    admin.execute(unused[unused.index("DROP") :].encode())
    assert hnsw(admin) == [SHIPPED]
    assert not [text for text in advice(site()) if "DROP" in text]


def test_an_installation_keeps_its_index(site: Callable[..., Settings], admin: psycopg.Connection[Any]) -> None:
    """Also one of another name; `doctor` says what the other type would save, and how."""
    admin.execute(f"DROP INDEX {SHIPPED}")
    admin.execute(VECTOR.encode())
    migrate(admin)
    assert hnsw(admin) == ["old"]
    (smaller,) = [text for text in advice(site()) if "half the size" in text]
    admin.execute(smaller[smaller.index("CREATE") : smaller.index(";")].encode())
    assert searched(site()) == {"document_chunks_embedding_idx"}
    assert not [text for text in advice(site()) if "half the size" in text]


def test_migrate_builds_an_index_over_the_other_type_when_told(
    site: Callable[..., Settings], admin: psycopg.Connection[Any]
) -> None:
    """Beside the old one, for each table that has only that; told again, or without a word, it builds nothing."""
    installed_before(admin)
    (built,) = index_over(admin, "halfvec")
    assert (built.built, built.table, built.old) == (True, "public.document_chunks", SHIPPED)
    assert built.bytes > 0
    assert hnsw(admin) == ["document_chunks_embedding_halfvec_idx", SHIPPED]
    assert searched(site()) == {"document_chunks_embedding_halfvec_idx"}
    (again,) = index_over(admin, "halfvec")
    assert (again.old, again.built) == (SHIPPED, False)
    admin.execute(f"DROP INDEX CONCURRENTLY {built.old}".encode())
    assert index_over(admin, "halfvec") == []
    migrate(admin)
    assert hnsw(admin) == ["document_chunks_embedding_halfvec_idx"]


def test_a_build_says_how_far_it_is(stack: Stack, database: str, admin: psycopg.Connection[Any]) -> None:
    """Again and again while it goes on, here while it waits for an older snapshot."""
    installed_before(admin)
    waits, told = "waiting for old snapshots", set[tuple[str, str]]()
    dsn = stack.postgres.dsn(database)
    with psycopg.connect(dsn) as older, psycopg.connect(dsn, autocommit=True) as watching:
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT 1")

        def progress(table: str, phase: str, done: int, total: int) -> None:
            assert total >= done >= 0
            told.add((table, phase))
            if phase == waits:
                older.rollback()

        (built,) = index_over(admin, "halfvec", Watch(watching, progress))
    assert built.built
    assert ("public.document_chunks", waits) in told


def test_what_an_interrupted_build_left_is_built_anew(
    site: Callable[..., Settings], admin: psycopg.Connection[Any]
) -> None:
    """Postgres leaves an index that is not valid, and has its name."""
    installed_before(admin)
    index_over(admin, "halfvec")
    broken = (
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'document_chunks_embedding_halfvec_idx'::regclass"
    )
    admin.execute(broken)
    assert searched(site()) == {SHIPPED}
    (said,) = [text for text in advice(site()) if "interrupted" in text]
    assert said.endswith("DROP INDEX CONCURRENTLY document_chunks_embedding_halfvec_idx")
    assert index_over(admin, "halfvec")[0].built
    assert not [text for text in advice(site()) if "interrupted" in text]
    assert searched(site()) == {"document_chunks_embedding_halfvec_idx"}


def test_an_index_that_has_the_name_is_left_alone(admin: psycopg.Connection[Any]) -> None:
    """It may be anybody's."""
    installed_before(admin)
    admin.execute("CREATE INDEX document_chunks_embedding_halfvec_idx ON document_chunks (page)")
    with pytest.raises(WrongUsage, match=r"public\.document_chunks_embedding_halfvec_idx is an index of another kind"):
        index_over(admin, "halfvec")


def test_who_has_only_vector_is_told_how_to_change(
    site: Callable[..., Settings], admin: psycopg.Connection[Any]
) -> None:
    """By one command for the reference tables."""
    installed_before(admin)
    assert [text for text in advice(site()) if "retrieval-worker migrate --index halfvec" in text]


def test_new_tables_get_the_index_that_is_asked_for(admin: psycopg.Connection[Any]) -> None:
    """`migrate --index vector`; the other one is built for each of them."""
    admin.execute("DROP TABLE document_grants, document_chunks, documents, doc_embeddings, example_strudels CASCADE")
    migrate(admin, index="vector")
    assert [one.old for one in index_over(admin, "halfvec")] == [
        SHIPPED,
        "doc_embeddings_embedding_idx",
        "example_strudels_embedding_idx",
    ]


def test_an_index_that_cannot_hold_the_dimensions_is_refused(admin: psycopg.Connection[Any]) -> None:
    """Above 2,000 the column itself is halfvec."""
    admin.execute("DROP TABLE document_grants, document_chunks, documents, doc_embeddings, example_strudels CASCADE")
    migrate(admin, dimensions=2500)
    with pytest.raises(WrongUsage, match=r"--index vector: it holds at most 2,000 dimensions, .* has 2,500"):
        index_over(admin, "vector")
    assert index_over(admin, "halfvec") == []
