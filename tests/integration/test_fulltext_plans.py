"""How Postgres answers full-text search, on 50,000 rows, on PostgreSQL 16 and 18."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from worker.adapters.postgres.database import Database
from worker.adapters.postgres.fulltext import FullTextSearch
from worker.adapters.postgres.search import Corpus, search
from worker.cli.doctor import LEAKPROOF
from worker.cli.loader import migrate
from worker.model import NO_FILTERS, FilterSet

from .large import BTREE, GIN, ROWS, SCAN, Large, asker, executed, text

if TYPE_CHECKING:
    from collections.abc import Iterator

K = 15
KEY, SIGNATURES = "document_chunks_pkey", "document_chunks_signature_idx"
STRICT, LOOSE = "kick snare", "kick snare nowhere"


def matching(large: Large, asked: str, filters: FilterSet = NO_FILTERS) -> FullTextSearch:
    return FullTextSearch(large.corpus, asked, large.queries[0], K, filters, web_search="-" in asked)


def found(large: Large, user: str, asked: str) -> list[str]:
    (one,) = search(large.database, asker(user), [matching(large, asked)])
    return [candidate.chunk.id for candidate in one.candidates]


@pytest.fixture
def public(large: Large) -> Iterator[Large]:
    """The same rows, open to everybody: by their policy, and by the settings."""
    large.admin.execute("ALTER POLICY chunks_visible ON document_chunks USING (true)")
    settings = large.settings.corpora["documents"].model_copy(update={"public": True})
    corpus = Corpus("documents", settings, large.settings.search, large.database.types["documents"])
    yield dataclasses.replace(large, corpus=corpus)
    migrate(large.admin)


@pytest.fixture
def leakproof(large: Large) -> Iterator[Large]:
    """The same rows and policies, where a superuser trusts `@@`; over connections that hold no older plan."""
    large.admin.execute(LEAKPROOF)
    database = Database(large.settings)
    types = database.types["documents"]
    corpus = Corpus("documents", large.settings.corpora["documents"], large.settings.search, types)
    yield dataclasses.replace(large, database=database, corpus=corpus)
    database.close()
    large.admin.execute("ALTER FUNCTION ts_match_vq(tsvector, tsquery) NOT LEAKPROOF")


@pytest.mark.parametrize("asked", [STRICT, LOOSE])
def test_gin_answers_where_everybody_sees_everything(public: Large, asked: str) -> None:
    """No policy stands before `@@`: the index gives the rows, and no table of chunks is scanned."""
    assert of_chunks(public.explain("all", matching(public, asked))) == {GIN, KEY}


def of_chunks(plan: dict[str, Any]) -> set[str]:
    """The indexes and scans by which chunks were found and then read: those of the word statistics left out."""
    return {name for name in executed(plan) if "_statistics" not in name}


@pytest.mark.parametrize("user", ["all", "half"])
def test_under_row_level_security_gin_is_out_of_reach(large: Large, user: str) -> None:
    """`@@` is not leakproof: it is looked at only after the policy, of the chunks whose signatures may match."""
    for asked in (STRICT, LOOSE):
        used = executed(large.explain(user, matching(large, asked)))
        assert SIGNATURES in used
        assert not used & {GIN, SCAN}


def test_without_signatures_all_chunks_are_scanned(large: Large) -> None:
    """A table may lack the column: what is found is the same, by a scan of the chunks."""
    plain = unsigned(large)
    used = executed(plain.explain("all", matching(plain, STRICT)))
    assert SCAN in used
    assert not used & {GIN, SIGNATURES}
    for asked in (STRICT, LOOSE, "marimba"):
        assert found(plain, "half", asked) == found(large, "half", asked)


def unsigned(large: Large) -> Large:
    """The same rows, as if their table had no column of signatures."""
    types = large.database.types["documents"]
    columns = {name: kind for name, kind in types.columns.items() if name != "text_signature"}
    settings = large.settings.corpora["documents"]
    older = dataclasses.replace(types, columns=columns)
    return dataclasses.replace(large, corpus=Corpus("documents", settings, large.settings.search, older))


@pytest.mark.parametrize("asked", [STRICT, LOOSE])
def test_few_visible_documents_are_searched_by_a_b_tree(large: Large, asked: str) -> None:
    """1 % visible: the policy's own column narrows first, and no table of chunks is scanned."""
    used = executed(large.explain("hundredth", matching(large, asked)))
    assert used & {BTREE, SIGNATURES}
    assert SCAN not in used


def test_named_documents_are_searched_by_a_b_tree(large: Large) -> None:
    """A filter on a few documents narrows as well."""
    filters = FilterSet(document_ids=("d00001", "d00007"))
    used = executed(large.explain("all", matching(large, STRICT, filters)))
    assert used & {BTREE, SIGNATURES}
    assert SCAN not in used


@pytest.mark.parametrize("user", ["all", "half"])
def test_gin_answers_under_row_level_security_where_the_operator_is_leakproof(leakproof: Large, user: str) -> None:
    """A superuser may declare the operator leakproof: the index then gives the rows, and the policy decides."""
    used = executed(leakproof.explain(user, matching(leakproof, STRICT)))
    assert GIN in used
    assert not used & {SCAN, SIGNATURES}


@pytest.mark.parametrize("asked", [STRICT, LOOSE])
def test_signatures_are_read_once_and_few_chunks_after_them(large: Large, asked: str) -> None:
    """All words or any word: one scan tells; of the 11,000 chunks with any, those with one can't reach the cut."""
    used = nodes(large.explain("all", matching(large, asked)))
    assert sum(node.get("Index Name") == SIGNATURES for node in used) == 1
    read = [node["Actual Rows"] * node["Actual Loops"] for node in used if node.get("Index Name") == KEY]
    assert K <= sum(read) < 3000


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    """All that was really executed of a plan."""
    below = [node for child in plan.get("Plans", []) for node in nodes(child)]
    return [plan, *below] if plan["Actual Loops"] else below


def test_the_plan_does_not_change_when_it_becomes_generic(public: Large) -> None:
    """A prepared statement's generic plan (after five executions) still uses the index."""
    for _ in range(8):
        assert len(found(public, "all", STRICT)) == K
    assert of_chunks(public.explain("all", matching(public, STRICT))) == {GIN, KEY}


@pytest.mark.parametrize("asked", [STRICT, LOOSE, "kick -snare", "marimba", "nowhere"])
def test_no_plan_changes_what_is_found(large: Large, asked: str, request: pytest.FixtureRequest) -> None:
    """Thousands of chunks tie: scan, index and index under policies cut them at the same place, by id."""
    by_scan = found(large, "all", asked)
    by_index_under_policies = found(request.getfixturevalue("leakproof"), "all", asked)
    by_index = found(request.getfixturevalue("public"), "all", asked)
    assert by_scan == by_index_under_policies == by_index == expected(asked)


def expected(asked: str) -> list[str]:
    """By hand: without statistics each word adds n / (n + k1), where n is how often it stands in the chunk."""
    words = [word for word in asked.split() if not word.startswith("-")]
    without = {word[1:] for word in asked.split() if word.startswith("-")}
    scores = {}
    for row in range(ROWS):
        held = text(row).split()
        counts = [held.count(word) for word in words]
        wanted = any(counts) if asked == LOOSE else all(counts)
        scores[row] = round(sum(n / (n + 1.2) for n in counts), 9) if wanted and not without & {*held} else 0.0
    best = sorted((row for row in range(ROWS) if scores[row] > 0), key=lambda row: (-scores[row], row))
    return [f"c{row:06d}" for row in best[:K]]
