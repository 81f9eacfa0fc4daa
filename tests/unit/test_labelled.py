"""The labelled set of `benchmarks/labelled` names chunks of the sample corpora, as many as its README says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from workbench.evaluation.queries import read_queries
from worker.cli.corpus_files import SAMPLES, Document, read

FOLDER = Path(__file__).parents[2] / "benchmarks" / "labelled"
QUERIES = read_queries(FOLDER / "queries.jsonl")
CALLER = "alice"


def visible(corpus: str) -> set[str]:
    """Ids of the corpus's chunks that the caller may see, by the sample file alone."""
    return {
        chunk_id
        for item in read(SAMPLES[corpus]).items
        if not isinstance(item, Document) or item.public or CALLER in {item.owner, *item.grants}
        for chunk_id, _ in item.to_embed()
    }


@pytest.mark.parametrize("corpus", SAMPLES)
def test_every_labelled_chunk_exists_and_the_caller_may_see_it(corpus: str) -> None:
    """A chunk that was renamed or hidden would count against every system alike."""
    named = {chunk_id for query in QUERIES if query.corpus == corpus for chunk_id in query.grades}
    assert named
    assert named <= visible(corpus)


def test_there_are_as_many_queries_as_the_readme_says() -> None:
    """The set stays large enough to compare systems by, and its description true."""
    counts = Counter(query.corpus for query in QUERIES)
    with_context = sum(bool(query.context) for query in QUERIES)
    text = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    assert f"{len(QUERIES)} queries over the three sample corpora" in text
    assert all(f"`{corpus}` {counts[corpus]}" in text for corpus in SAMPLES)
    assert f"{with_context} of them with an editor's state" in text
    assert min(counts["docs"], counts["examples"]) >= 25
    assert counts["documents"] >= 16


def test_every_query_is_whole() -> None:
    """A known kind, grades from 1 to 3, at least one full answer, the caller where one is needed, no query twice."""
    for query in QUERIES:
        assert query.claims == ({"user_id": CALLER} if query.corpus == "documents" else None)
        assert query.kind in {"keyword", "paraphrase", "code", "context", "misleading"}
        assert query.context or query.kind not in {"context", "misleading"}
        assert {*query.grades.values()} <= {1, 2, 3}
        assert 3 in query.grades.values(), query.id
    asked = [(query.corpus, query.question, query.context) for query in QUERIES]
    assert len({*asked}) == len({query.id for query in QUERIES}) == len(QUERIES)


@pytest.mark.parametrize("name", ["stdlib", "almanac"])
def test_the_further_sets_name_chunks_of_their_own_corpora(name: str) -> None:
    """Fifty queries at least, each with a full answer that is there."""
    queries = read_queries(FOLDER / name / "queries.jsonl")
    there = {chunk_id for item in read(FOLDER / name / "corpus.json").items for chunk_id, _ in item.to_embed()}
    assert len(queries) >= 50
    for query in queries:
        assert query.grades.keys() <= there, query.id
        assert 3 in query.grades.values(), query.id
        assert {*query.grades.values()} <= {1, 2, 3}
    assert len({query.question for query in queries}) == len({query.id for query in queries}) == len(queries)


def test_the_further_queries_with_a_context_are_whole() -> None:
    """Forty of each kind at least, each with a context, a full answer, and chunks that are there."""
    queries = [query for file in sorted(FOLDER.rglob("contexts.jsonl")) for query in read_queries(file)]
    kinds = Counter(query.kind for query in queries)
    there = {id_ for corpus in SAMPLES for id_ in visible(corpus)}
    for name in ("stdlib", "almanac"):
        there |= {id_ for item in read(FOLDER / name / "corpus.json").items for id_, _ in item.to_embed()}
    assert kinds.keys() == {"context", "misleading"}
    assert min(kinds.values()) >= 40
    text = " ".join((FOLDER / "README.md").read_text(encoding="utf-8").split())
    assert f"{len(queries)} queries, {kinds['context']} of the kind `context` and {kinds['misleading']}" in text
    for query in queries:
        assert query.context
        assert query.grades.keys() <= there, query.id
        assert 3 in query.grades.values(), query.id
    asked = {(query.question, query.context) for query in queries}
    assert len(asked) == len({query.id for query in queries}) == len(queries)


def test_questions_without_an_answer_have_none() -> None:
    """Thirty at least, of each set, no chunk of which is graded."""
    queries = [query for file in sorted(FOLDER.rglob("unanswerable.jsonl")) for query in read_queries(file)]
    assert len(queries) >= 30
    assert not any(query.grades for query in queries)
    assert {query.kind for query in queries} == {"unanswerable"}


def test_the_licence_of_copied_texts_is_beside_them() -> None:
    """Docstrings of Python's library are Python's, not ours."""
    assert "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2" in (FOLDER / "stdlib" / "LICENSE.txt").read_text()
