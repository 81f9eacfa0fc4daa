"""Scores of given chunks: as the searches compute them, and only of what the caller may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pgvector.psycopg import register_vector
from tests.integration.asking import asker

from worker.adapters.postgres.chunk_scores import ChunkScore, GivenChunks, scores_of
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.fulltext import FullTextSearch
from worker.adapters.postgres.search import Corpus, VectorSearch, search
from worker.adapters.postgres.text_statistics import refresh
from worker.core.text import lexical
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import psycopg

    from worker.core.ranking.vectors import Vector
    from worker.settings import Settings

TEXTS = {
    "s1": ("alice", "A zither and a drone; the zither is tuned."),
    "s2": ("alice", "The drone alone."),
    "s3": ("bob", "A zither of bob, tuned to a drone."),
    "s4": ("alice", "Something else."),
}
EVERY = [*TEXTS, "gone"]
VECTOR = lexical.embed(["zither and drone"])[0]


class Scored:
    """The documents' corpus, whose chunks are scored."""

    def __init__(self, settings: Settings) -> None:
        self.database = Database(settings)
        types = self.database.types["documents"]
        self.corpus = Corpus("documents", settings.corpora["documents"], settings.search, types)

    def scores(self, query: Vector | str, user: str = "alice", *, web_search: bool = False) -> Mapping[str, ChunkScore]:
        return scores_of(self.database, asker(user), GivenChunks(self.corpus, EVERY, query, web_search))


@pytest.fixture
def scored(settings: Settings, admin: psycopg.Connection[Any]) -> Iterator[Scored]:
    """Chunks of two owners."""
    register_vector(admin)
    for chunk_id, (owner, text) in TEXTS.items():
        admin.execute("INSERT INTO documents (id, owner_id) VALUES (%s, %s) ON CONFLICT DO NOTHING", (owner, owner))
        admin.execute(
            "INSERT INTO document_chunks (id, document_id, text_content, embedding) VALUES (%s, %s, %s, %s)",
            (chunk_id, owner, text, lexical.embed([text])[0]),
        )
    refresh(admin, "documents", settings.corpora["documents"])
    corpus = Scored(settings)
    yield corpus
    corpus.database.close()


@pytest.mark.parametrize("query", ["zither drone", VECTOR], ids=["words", "vector"])
def test_a_caller_gets_scores_of_visible_chunks_only(scored: Scored, query: Vector | str) -> None:
    """A hidden chunk and one that is gone are the same: neither has a score."""
    assert {*scored.scores(query, "alice")} <= {"s1", "s2", "s4"}
    assert {*scored.scores(query, "alice")} >= {"s1", "s2"}
    assert {*scored.scores(query, "bob")} == {"s3"}
    assert scored.scores(query, "carol") == {}


def test_words_score_as_full_text_search_does(scored: Scored) -> None:
    """The same BM25, and nothing for a chunk with none of the words."""
    (found,) = search(
        scored.database, asker("alice"), [FullTextSearch(scored.corpus, "zither drone", None, 50, NO_FILTERS)]
    )
    listed = {one.chunk.id: score for one, score in zip(found.candidates, found.scores or (), strict=True)}
    assert listed.keys() == {"s1", "s2"}
    assert {chunk_id: one.score for chunk_id, one in scored.scores("zither drone").items()} == listed


def test_vectors_score_as_nearest_neighbour_search_does(scored: Scored) -> None:
    """To the last bit."""
    (found,) = search(scored.database, asker("alice"), [VectorSearch(scored.corpus, VECTOR, 50, NO_FILTERS)])
    near = {one.chunk.id: one.similarity for one in found.candidates if one.chunk.id in TEXTS}
    assert {chunk_id: one.score for chunk_id, one in scored.scores(VECTOR).items()} == near


def test_coverage_is_whole_where_the_whole_query_matches(scored: Scored) -> None:
    """A part of the words is a part of it, however often they stand there; what is excluded has no score."""
    covered = {chunk_id: one.coverage for chunk_id, one in scored.scores("zither drone").items()}
    assert covered["s1"] == 1
    assert 0 < covered["s2"] < 0.8
    assert {*scored.scores("drone -zither", web_search=True)} == {"s2"}


def test_of_a_query_with_a_code_words_that_no_chunk_has_do_not_count(
    scored: Scored, admin: psycopg.Connection[Any]
) -> None:
    """The chunk with the code comes first, and would lack them; other questions say much that no chunk repeats."""
    admin.execute("UPDATE document_chunks SET text_content = 'Ticket INC-4711: drone.' WHERE id = 's2'")
    refresh(admin, "documents", scored.corpus.settings)
    covered = {chunk_id: chunk.coverage for chunk_id, chunk in scored.scores("happened occurred INC-4711").items()}
    assert covered["s2"] == pytest.approx(0.8)
    assert scored.scores("happened zither INC-4711")["s2"].coverage < 0.8
    assert scored.scores("happened occurred drone")["s2"].coverage < 0.8


def test_a_chunk_without_an_embedding_has_no_similarity(scored: Scored, admin: psycopg.Connection[Any]) -> None:
    """Neither a stored NULL nor a zero vector is near to anything."""
    admin.execute("UPDATE document_chunks SET embedding = NULL WHERE id = 's1'")
    admin.execute("UPDATE document_chunks SET embedding = array_fill(0, ARRAY[768])::vector WHERE id = 's2'")
    assert {*scored.scores(VECTOR)} == {"s4"}
