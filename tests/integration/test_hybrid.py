"""`retrieve_hybrid` on a real Postgres with the sample corpora."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs
from tests.integration.asking import asker, without_trace
from tests.integration.provider import running
from tests.waiting import PATIENCE, wait_for

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.contract.results import Hybrid
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised, TimedOut, Unavailable
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.core.text import lexical
from worker.jobs import transforms
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.parallel_search import Leg, ParallelSearch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from worker.adapters.postgres.database import Database, Row, Statement
    from worker.adapters.postgres.search import SearchResult
    from worker.model import Principal
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]

EDITOR = 'sound("bd").fast(2)'
RUN = {"subject_id": "song-1", "run_id": "r1"}
NOWHERE = "http://127.0.0.1:1/v1"
VECTORS = ["primary", "contextual"]


def ask(engine: Engine, user: str | None = "alice", query: str = "add hi-hats", **fields: Any) -> dict[str, Any]:
    job = parse_job(RetrieveHybrid, {"query": query, **fields})
    answer = engine.hybrid.retrieve(job, JobContext(lambda: asker(user) if user else None))
    Hybrid.model_validate(json.loads(json.dumps(answer)))
    return answer


def ids(answer: dict[str, Any], corpus: str = "docs") -> list[str]:
    return [chunk["chunk_id"] for chunk in answer["results"][corpus]["chunks"]]


def test_chunks_without_text_take_no_places(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """However many are nearest, for each leg and fusion: the answer is the next chunks."""
    wanted: dict[str, Any] = {"searches": [{"corpus": "docs", "top_k": 50}], "query": "sound", "legs": ["primary"]}
    nearest = ids(ask(engine, **wanted))
    admin.execute("ALTER TABLE doc_embeddings ALTER content DROP NOT NULL")
    blank = ["", " \n", "\u2003\u3000 ", None]
    for i, one in enumerate(nearest[:25]):
        admin.execute("UPDATE doc_embeddings SET content = %s WHERE id = %s", [blank[i % 4], one])
    for fusion in ("weighted", "rrf", "similarity"):
        few = {**wanted, "searches": [{"corpus": "docs", "top_k": 5}], "fusion": fusion}
        answer = ask(engine, **few)
        assert (answer["results"]["docs"]["status"], ids(answer)) == ("ok", nearest[25:30])
        both = ask(engine, **{**few, "legs": ["primary", "sparse"]})["results"]["docs"]
        assert (both["status"], len(both["chunks"])) == ("ok", 5)
        assert all(chunk["text"].strip() for chunk in both["chunks"])


def test_headings_without_text_take_no_places(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """Full text finds them by the words of their headings alone."""
    wanted: dict[str, Any] = {"query": "effects", "legs": ["sparse"], "fusion": "rrf"}
    found = ids(ask(engine, **wanted, searches=[{"corpus": "docs", "top_k": 50}]))
    admin.execute("UPDATE doc_embeddings SET content = '' WHERE id = ANY (%s)", [found[:3]])
    (left,) = admin.execute(
        "SELECT count(*) FROM doc_embeddings WHERE content = '' AND text_search @@ to_tsquery('english', 'effects')"
    ).fetchone() or (0,)
    assert left > 0
    answer = ask(engine, **wanted, searches=[{"corpus": "docs", "top_k": 3}])
    assert (answer["results"]["docs"]["status"], ids(answer)) == ("ok", found[3:6])


# --- the two searches ---------------------------------------------------------------------------


def test_intent_and_context_over_two_corpora(engine: Engine) -> None:
    """Seed 003's flow: transform, keywords, four searches, one ranking a corpus."""
    answer = ask(engine, user=None, context=EDITOR, transform="glossary", fusion="similarity", legs=VECTORS)
    assert answer["fusion"] == "similarity"
    assert answer["transformed_query"] == "add hi-hats, hi-hat, hh"
    assert answer["context_keywords"] == ["bd", "fast"]
    assert list(answer["results"]) == ["docs", "examples"]
    for corpus, top_k, extra in (("docs", 5, 2), ("examples", 3, 1)):
        result, metrics = answer["results"][corpus], answer["metrics"][corpus]
        assert (result["status"], result["top_k"], len(result["chunks"])) == ("ok", top_k, top_k)
        assert (metrics["primary_count"], metrics["contextual_count"]) == (top_k + extra, top_k)
        assert metrics["contextual"] == "used"
        assert metrics["merged_count"] == top_k + extra + top_k - metrics["duplicate_count"]
        assert metrics["dedup_rate"] == metrics["duplicate_count"] / (top_k + extra + top_k)
        similarities = [chunk["similarity_score"] for chunk in result["chunks"]]
        assert similarities == sorted(similarities, reverse=True)
        assert [chunk["rank"] for chunk in result["chunks"]] == list(range(1, top_k + 1))


def test_the_primarys_similarity_wins_and_every_legs_score_is_told(engine: Engine) -> None:
    """A chunk that both legs found keeps the primary's similarity; both judgements stay beside it."""
    answer = ask(engine, context=EDITOR, fusion="similarity", legs=VECTORS)
    both = [chunk for chunk in answer["results"]["docs"]["chunks"] if len(chunk["scores"]["legs"]) == 2]
    assert both
    for chunk in both:
        primary, contextual = chunk["scores"]["legs"]
        assert (primary["leg"], contextual["leg"]) == ("primary", "contextual")
        assert chunk["similarity_score"] == chunk["scores"]["fused"] == primary["score"]
        assert chunk["distance"] == 1.0 - chunk["similarity_score"]


def test_a_search_says_at_debug_level_what_its_legs_found(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Seed 003's own lines: a corpus's counts and top scores, and the editor's keywords; nothing of a chunk."""
    with capture_logs() as lines:
        ask(engine, context=EDITOR)
        assert not any(line["event"] == "hybrid search" for line in lines)
        caplog.set_level("DEBUG")
        answer = ask(engine, context=EDITOR, fusion="similarity")
    said = {line["corpus"]: line for line in lines if line["event"] == "hybrid search"}
    assert list(said) == list(answer["results"])
    for corpus, line in said.items():
        chunks, metrics = answer["results"][corpus]["chunks"], answer["metrics"][corpus]
        assert (line["log_level"], line["keywords"]) == ("debug", ["bd", "fast"])
        counted = ("primary", "contextual", "sparse", "merged")
        assert line["counts"] == {name: metrics[f"{name}_count"] for name in counted}
        tops = {**metrics["top_similarity"], "merged": chunks[0]["scores"]["fused"]}
        assert line["top_scores"] == {**tops, "sparse": line["top_scores"]["sparse"]}  # BM25's, not a similarity
    assert not any(chunk["text"] in str(lines) for result in answer["results"].values() for chunk in result["chunks"])


def test_an_empty_editor_costs_nothing(engine: Engine) -> None:
    """No keywords, no second search by vectors, no second embedding; query and words are the answer."""
    answer = ask(engine, context="// nothing here yet")
    assert answer["context_keywords"] == []
    assert {metrics["contextual"] for metrics in answer["metrics"].values()} == {"skipped"}
    stages = {stage["stage"]: stage["counts"] for stage in answer["trace"]["stages"]}
    assert (stages["embed"]["texts"], stages["search"]["searches"]) == (1, 4)
    assert [leg["leg"] for leg in answer["trace"]["search"]["legs"]] == ["primary", "sparse"]
    assert without_trace(answer) == without_trace(ask(engine))


def test_an_embedding_that_comes_along_is_used_as_it_is(engine: Engine) -> None:
    """The same vector, the same answer; only the context is embedded here."""
    vector = LexicalEmbedder().embed(["add hi-hats"])[0].tolist()
    given = ask(engine, query_embedding=vector, context=EDITOR)
    assert without_trace(given) == without_trace(ask(engine, context=EDITOR))
    other = ask(engine, query="anything else", query_embedding=vector, legs=VECTORS)
    assert ids(other) == ids(ask(engine, legs=VECTORS))


def test_searches_are_narrowed_one_by_one(engine: Engine) -> None:
    """Filters of one corpus are not those of another; `top_k` is clamped and reported."""
    searches = [
        {"corpus": "examples", "top_k": 0},
        {"corpus": "documents", "top_k": 9, "filters": {"document_ids": ["handbook-safety"]}},
        {"corpus": "docs", "top_k": 999},
    ]
    answer = ask(engine, query="first aid", searches=searches)
    assert list(answer["results"]) == ["examples", "documents", "docs"]
    reported = [(part["top_k_requested"], part["top_k"]) for part in answer["results"].values()]
    assert reported == [(0, 1), (9, 9), (999, 50)]
    narrowed = answer["results"]["documents"]
    assert {chunk["document_id"] for chunk in narrowed["chunks"]} == {"handbook-safety"}
    assert (narrowed["status"], narrowed["short_reason"]) == ("short", "filters")


def test_a_job_without_fusion_gets_the_settings_method(engine: Engine, settings: Settings) -> None:
    """Shipped is `weighted`; the answer names the method, and is that of a job that asks for it."""
    assert ask(engine, context=EDITOR)["fusion"] == "weighted"
    assert without_trace(ask(engine, context=EDITOR)) == without_trace(ask(engine, context=EDITOR, fusion="weighted"))
    hybrid = settings.hybrid.model_copy(update={"fusion": "rrf"})
    other = Engine(settings.model_copy(update={"hybrid": hybrid}), time.perf_counter)
    try:
        by_ranks = without_trace(ask(other, context=EDITOR))
    finally:
        other.close()
    assert by_ranks["fusion"] == "rrf"
    assert by_ranks == without_trace(ask(engine, context=EDITOR, fusion="rrf"))


def test_rrf_takes_its_constant_from_the_job(engine: Engine) -> None:
    """A chunk that only the primary found, at its rank r, has 1 / (rrf_k + r)."""
    answer = ask(engine, fusion="rrf", rrf_k=7, legs=["primary"])
    assert [chunk["scores"]["fused"] for chunk in answer["results"]["examples"]["chunks"]] == [1 / 8, 1 / 9, 1 / 10]


@pytest.mark.parametrize("fusion", ["similarity", "rrf", "weighted"])
def test_every_fusion_is_repeatable(engine: Engine, fusion: str) -> None:
    """The same job, the same bytes but for the trace; a leg's place in the list of legs changes nothing."""
    answers = [ask(engine, context=EDITOR, fusion=fusion, weights={"primary": 2, "contextual": 1}) for _ in range(5)]
    assert len({json.dumps(without_trace(answer)) for answer in answers}) == 1
    legs = ["sparse", "contextual", "primary"]
    turned = ask(engine, context=EDITOR, fusion=fusion, legs=legs, weights={"contextual": 1, "primary": 2})
    assert without_trace(turned) == without_trace(answers[0])


def test_weights_decide_whose_ranking_it_is(engine: Engine) -> None:
    """With all the weight on one leg, its order is the answer's."""
    asked: dict[str, Any] = {"context": EDITOR, "fusion": "rrf", "legs": VECTORS}
    primary = ask(engine, **asked, weights={"primary": 1, "contextual": 0})
    contextual = ask(engine, **asked, weights={"primary": 0, "contextual": 1})
    assert ids(primary) == ids(ask(engine, legs=VECTORS))
    assert ids(contextual) == ids(ask(engine, query="add hi-hats bd fast", legs=VECTORS))
    assert ids(primary) != ids(contextual)


def test_legs_that_all_weigh_nothing_by_the_settings_are_refused(engine: Engine, settings: Settings) -> None:
    """Every chunk would have the score 0; the job can bring weights of its own."""
    hybrid = settings.hybrid.model_copy(update={"weights": {"sparse": 0.0}})
    other = Engine(settings.model_copy(update={"hybrid": hybrid}), time.perf_counter)
    try:
        with pytest.raises(InvalidJob, match=r"^weights: .* the setting hybrid\.weights has 0"):
            ask(other, legs=["sparse"])
        assert ids(ask(other, legs=["sparse"], weights={"sparse": 1})) == ids(ask(engine, legs=["sparse"]))
        assert ids(ask(other, legs=["sparse"], fusion="rrf")) == ids(ask(engine, legs=["sparse"], fusion="rrf"))
    finally:
        other.close()


def test_the_trace_says_how_much_each_leg_counted(engine: Engine) -> None:
    """For each corpus; that of a context follows its fit, and explains the scores."""
    answer = ask(engine, context=EDITOR)
    weights = {leg["leg"]: leg["weights"] for leg in answer["trace"]["search"]["legs"]}
    assert (weights["primary"], weights["sparse"]) == ([0.7, 0.7], [0.3, 0.3])
    assert all(0 <= weight <= 0.4 for weight in weights["contextual"])
    nearest = {name: metrics["top_similarity"] for name, metrics in answer["metrics"].items()}
    fits = [10 * (one["contextual"] - one["primary"]) for one in nearest.values()]
    assert weights["contextual"] == pytest.approx([0.4 * min(1.0, max(0.0, fit)) for fit in fits])
    ranks = ask(engine, context=EDITOR, fusion="rrf", weights={"contextual": 0.25})
    assert [leg["weights"] for leg in ranks["trace"]["search"]["legs"]] == [[1.0, 1.0], [0.25, 0.25], [1.0, 1.0]]
    unweighted = ask(engine, context=EDITOR, fusion="similarity")
    assert [leg["weights"] for leg in unweighted["trace"]["search"]["legs"]] == [[], [], []]


def test_diversity_drops_what_says_the_same(engine: Engine) -> None:
    """At most n of a document; no text twice; lambda 1 changes no order, lambda 0 spreads."""
    asked: dict[str, Any] = {
        "query": "microphone phantom power",
        "searches": [{"corpus": "documents", "top_k": 10}],
        "legs": ["primary"],
    }
    plain = ask(engine, **asked)
    hashes = [chunk["chunk_hash"] for chunk in plain["results"]["documents"]["chunks"]]
    assert len({*hashes}) < len(hashes)
    relevant = ask(engine, **asked, diversity={"lambda": 1})
    chunks = relevant["results"]["documents"]["chunks"]
    assert len({chunk["chunk_hash"] for chunk in chunks}) == len(chunks) == 10
    assert [c["similarity_score"] for c in chunks] == sorted((c["similarity_score"] for c in chunks), reverse=True)
    capped = ask(engine, **asked, diversity={"per_document": 1})
    documents = [chunk["document_id"] for chunk in capped["results"]["documents"]["chunks"]]
    assert len({*documents}) == len(documents)
    spread = ask(engine, **asked, diversity={"lambda": 0})
    assert ids(spread, "documents")[0] == ids(relevant, "documents")[0]
    assert ids(spread, "documents") != ids(relevant, "documents")


# --- all scores of every candidate --------------------------------------------------------------


def test_every_candidate_has_a_score_of_each_leg(engine: Engine) -> None:
    """Its own search has the same; a chunk that it did not list ranks after those that it did."""
    answer = ask(engine, context=EDITOR)
    for corpus, result in answer["results"].items():
        assert [[leg["leg"] for leg in chunk["scores"]["legs"]] for chunk in result["chunks"]] == [
            ["primary", "contextual", "sparse"]
        ] * len(result["chunks"])
        counts = answer["metrics"][corpus]
        for i, name in enumerate(("primary", "contextual", "sparse")):
            alone = ask(engine, query="add hi-hats bd fast" if name == "contextual" else "add hi-hats",
                        legs=["sparse" if name == "sparse" else "primary"],
                        searches=[{"corpus": corpus, "top_k": 50}])  # fmt: skip
            known = {one["chunk_id"]: one["scores"]["legs"][0] for one in alone["results"][corpus]["chunks"]}
            for chunk in result["chunks"]:
                leg = chunk["scores"]["legs"][i]
                assert leg == {**known.get(chunk["chunk_id"], leg), "leg": name}
                assert chunk["chunk_id"] in known or leg["rank"] > counts[f"{name}_count"]
    scored = {leg["leg"]: leg["scored"] for leg in answer["trace"]["search"]["legs"]}
    assert all(count > 0 for count in scored["sparse"])


def test_an_exact_identifier_is_first(engine: Engine, admin: Admin) -> None:
    """It stands in one chunk; the vector, made of other words, prefers others."""
    admin.execute("UPDATE doc_embeddings SET content = content || ' See set_zq_gain.' WHERE id = 'docs-euclid-003'")
    vector = LexicalEmbedder().embed(["add hi-hats to a drum pattern"])[0].tolist()
    asked: dict[str, Any] = {"query": "set_zq_gain", "query_embedding": vector}
    assert ids(ask(engine, **asked, legs=["primary"]))[0] != "docs-euclid-003"
    assert ids(ask(engine, **asked))[0] == "docs-euclid-003"


def test_a_corpus_without_full_text_is_searched_by_vectors(make_settings: MakeSettings, database: str) -> None:
    """Its texts would be parsed in each search: not without being asked for, and said in the trace."""
    settings = make_settings(database)
    docs = settings.corpora["docs"]
    columns = docs.columns.model_copy(update={"text_search": None})
    corpora = {**settings.corpora, "docs": docs.model_copy(update={"columns": columns})}
    plain = Engine(settings.model_copy(update={"corpora": corpora}), time.perf_counter)
    answer = ask(plain)
    methods = {leg["leg"]: leg["methods"] for leg in answer["trace"]["search"]["legs"]}
    assert methods["sparse"][0] == "no_full_text" != methods["sparse"][1]
    assert (answer["metrics"]["docs"]["sparse_count"], answer["degraded"]) == (0, [])
    assert ids(answer) == ids(ask(plain, legs=["primary"]))
    asked_for = ask(plain, legs=["primary", "sparse"])
    assert asked_for["metrics"]["docs"]["sparse_count"] > 0
    for fusion in ("weighted", "rrf"):
        only_words = {"fusion": fusion, "weights": {"primary": 0, "sparse": 1}}
        with pytest.raises(InvalidJob, match=r"^weights: .* legs that search docs \(primary\)"):
            ask(plain, **only_words)
        ask(plain, **only_words, searches=[{"corpus": "examples"}])
        ask(plain, **only_words, legs=["primary", "sparse"])
    plain.close()


@dataclasses.dataclass
class WithoutScores:
    """A database that fails at scores by any vector but the query's, and answers all else."""

    database: Database
    failed: list[bytes]
    query: list[float]

    def read(self, principal: Principal, statements: Sequence[Statement], *limits: Any, **more: Any) -> list[list[Row]]:
        if any(text in self.failed and values["query"].tolist() != self.query for text, values in statements):
            raise Unavailable("gone")
        return self.database.read(principal, statements, *limits, **more)


def test_a_context_whose_scores_fail_is_left_out(engine: Engine) -> None:
    """As where its search fails: the answer is that without a context, and says so."""
    expected = ask(engine)
    statements = [engine.hybrid._corpora.get(name).statements.distances for name in ("docs", "examples")]
    query = LexicalEmbedder().embed(["add hi-hats"])[0].tolist()
    database: Any = WithoutScores(engine._database, statements, query)
    engine.hybrid._legs = ParallelSearch(database, 4)
    answer = ask(engine, context=EDITOR)
    assert (answer["degraded"], answer["metrics"]["docs"]["contextual"]) == (["contextual"], "failed")
    assert ids(answer) == ids(expected)
    engine.hybrid._legs.close()


# --- who may see what ---------------------------------------------------------------------------


def test_each_caller_gets_what_it_may_see(engine: Engine) -> None:
    """Both legs ask as the caller; a job without a caller gets the public corpora only."""
    searches = [{"corpus": "documents", "top_k": 50}, {"corpus": "docs", "top_k": 3}]
    asked: dict[str, Any] = {"query": "hum on channel 18", "context": EDITOR, "searches": searches}
    alice, bob = (ask(engine, user, **asked) for user in ("alice", "bob"))
    assert "handbook-desk-notes-006" in ids(alice, "documents")
    assert "handbook-desk-notes-006" not in ids(bob, "documents")
    assert ids(alice) == ids(bob)
    with pytest.raises(NotAuthorised):
        ask(engine, None, **asked)


# --- what fails ---------------------------------------------------------------------------------


def test_a_contextual_search_that_fails_leaves_the_primary(
    make_settings: MakeSettings, database: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The embeddings server is away, the query brought its vector: primary alone, said with its cause."""
    embedder = {"kind": "openai", "base_url": NOWHERE, "timeout_seconds": 1}
    away = Engine(make_settings(database, embedder=embedder), time.perf_counter)
    vector = LexicalEmbedder().embed(["add hi-hats"])[0].tolist()
    answer = ask(away, query_embedding=vector, context=EDITOR)
    metrics = answer["metrics"]["docs"]
    assert (metrics["contextual"], answer["degraded"]) == ("failed", ["contextual"])
    assert metrics["contextual_error"].startswith("Unavailable: the embeddings server failed")
    assert ids(answer) == ids(ask(away, query_embedding=vector))
    with pytest.raises(Unavailable, match="embeddings server"):
        ask(away, context=EDITOR)
    away.close()
    capfd.readouterr()


@dataclasses.dataclass
class Sleeping:
    """A search that takes a while: real Postgres, nothing found."""

    seconds: float
    started: threading.Event = dataclasses.field(default_factory=threading.Event)

    def statements(self) -> list[Statement]:
        self.started.set()
        return [(b"SELECT pg_sleep(%(seconds)s)", {"seconds": self.seconds})]

    def read(self, results: Sequence[list[Row]]) -> SearchResult:
        raise AssertionError(f"{results}: it should have been ended by its deadline")

    def exactly(self) -> Sleeping:
        return self


def test_a_leg_that_is_late_is_left_out_or_fails_the_job(engine: Engine) -> None:
    """One deadline for all; Postgres ends the late statement itself, so no connection stays taken."""
    database = engine._database
    legs = ParallelSearch(database, 2)
    late = Leg("contextual", [Sleeping(60)], optional=True)
    nothing = Leg("primary", [])
    first, second = legs.run(asker("alice"), [nothing, late], 0.3)
    assert (list(first.results or []), second.results) == ([], None)
    assert isinstance(second.error, TimedOut)
    with pytest.raises(TimedOut):
        legs.run(asker("alice"), [nothing, dataclasses.replace(late, optional=False)], 0.3)
    with pytest.raises(TimedOut):
        legs.run(asker("alice"), [Leg("primary", [Sleeping(60)]), late], 0.3)
    legs.close()
    assert ids(ask(engine, context=EDITOR))


def test_searches_run_at_the_same_time(engine: Engine, admin: Admin) -> None:
    """Four sessions sleep at once: each search of each leg has a connection of its own."""
    legs = ParallelSearch(engine._database, 4)
    sleepers = [Leg(name, [Sleeping(600), Sleeping(600)], optional=True) for name in ("primary", "contextual")]
    thread = threading.Thread(target=legs.run, args=(asker("alice"), sleepers, PATIENCE))
    thread.start()
    asleep = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    wait_for(lambda: len(admin.execute(asleep).fetchall()) == 4)
    for (pid,) in admin.execute(asleep).fetchall():
        admin.execute("SELECT pg_cancel_backend(%s)", (pid,))
    thread.join()
    legs.close()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown corpus": ({"searches": [{"corpus": "nowhere"}]}, "searches[0].corpus"),
    "a filter that is not mapped": (
        {"searches": [{"corpus": "examples"}, {"corpus": "docs", "filters": {"pages": [1]}}]},
        "searches[1].filters.pages",
    ),
    "no language model": ({"transform": "llm"}, "transform"),
    "an embedding that is none": ({"query_embedding": [0.0] * 768}, "query_embedding"),
}


@pytest.mark.parametrize(("fields", "path"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_job_names_its_field(engine: Engine, fields: dict[str, Any], path: str) -> None:
    """One sentence with the path."""
    with pytest.raises(InvalidJob) as caught:
        ask(engine, **fields)
    assert caught.value.path == path


# --- runs ---------------------------------------------------------------------------------------


def test_a_recorded_answer_is_given_again_byte_for_byte(engine: Engine, admin: Admin) -> None:
    """Scores, metrics and order are those of the first time, even after the embeddings have changed."""
    fields: dict[str, Any] = {"context": EDITOR, "fusion": "weighted", "diversity": {"lambda": 0.5}, "run": RUN}
    first = ask(engine, **fields)
    admin.execute("UPDATE doc_embeddings SET embedding = (SELECT embedding FROM doc_embeddings LIMIT 1)")
    again = ask(engine, **fields)
    assert json.dumps(without_trace(again)) == json.dumps(without_trace(first))
    assert again["trace"]["search"] == {"method": "record"}
    assert again["trace"]["models"] == {"embedder": "lexical 1"}
    row = admin.execute("SELECT octet_length(query_embedding) FROM retrieval.run_records").fetchone()
    assert row == (2 * 4 * 768,)


def test_what_changed_is_left_out_of_a_recorded_answer(engine: Engine, admin: Admin) -> None:
    """Authorised and compared now, corpus by corpus."""
    first = ask(engine, run=RUN)
    gone = ids(first)[1]
    admin.execute("UPDATE doc_embeddings SET content = content || ' more' WHERE id = %s", (gone,))
    again = ask(engine, run=RUN)
    assert ids(again) == [chunk for chunk in ids(first) if chunk != gone]
    result = again["results"]["docs"]
    assert (result["status"], result["short_reason"]) == ("short", "changed")
    assert again["results"]["examples"] == first["results"]["examples"]


def test_a_run_over_several_corpora_replays_to_one_digest(engine: Engine, admin: Admin) -> None:
    """Pins of every corpus, in the answer's order; index, embeddings and row order may change."""
    first = ask(engine, context=EDITOR, run=RUN)
    chunks = [chunk for part in first["results"].values() for chunk in part["chunks"]]

    def replay() -> dict[str, Any]:
        return engine.replay.pinned(parse_job(PinnedReplay, {"run": RUN}), JobContext(lambda: asker("alice")))

    answer = replay()
    assert [chunk["chunk_id"] for chunk in answer["chunks"]] == [chunk["chunk_id"] for chunk in chunks]
    assert {pin["verdict"] for pin in answer["pins"]} == {"exact"}
    digests = {answer["digest"]}
    for statement in (
        "UPDATE doc_embeddings SET embedding = NULL",
        "DROP INDEX doc_embeddings_embedding_idx",
        "VACUUM FULL example_strudels",
        "CLUSTER doc_embeddings USING doc_embeddings_hash_idx",
    ):
        admin.execute(statement)
        digests.add(replay()["digest"])
    assert len(digests) == 1
    admin.execute("DELETE FROM example_strudels WHERE id = %s", (chunks[-1]["chunk_id"],))
    assert replay()["missing"] == 1


def test_a_citations_document_over_several_corpora_replays(engine: Engine) -> None:
    """It does not say where its chunks stand: each is found in the corpus that knows it, as its citation said."""
    ask(engine, context=EDITOR, run=RUN)
    who = asker("alice")
    cited = engine.citing.build(parse_job(BuildCitations, {"cite": RUN}), JobContext(lambda: who))
    assert {check["verdict"] for check in cited["verification"]} == {"exact"}
    replayed = engine.replay.pinned(parse_job(PinnedReplay, {"citations": cited["citations"]}), JobContext(lambda: who))
    by_run = engine.replay.pinned(parse_job(PinnedReplay, {"run": RUN}), JobContext(lambda: who))
    assert {pin["verdict"] for pin in replayed["pins"]} == {"exact"}
    assert replayed["digest"] == by_run["digest"]
    docs = engine.replay.pinned(
        parse_job(PinnedReplay, {"citations": cited["citations"], "corpus": "docs"}), JobContext(lambda: who)
    )
    assert (docs["matched"], docs["missing"]) == (5, 3)


def test_a_model_that_worded_the_query_need_not_be_there_again(make_settings: MakeSettings, database: str) -> None:
    """`llm`: its text is searched, shown and recorded; the run is answered with the server switched off."""
    fields: dict[str, Any] = {"query": "make it less harsh", "transform": "llm", "run": RUN}
    with running() as provider:
        model = {"kind": "openai", "base_url": provider.url, "timeout_seconds": 5}
        prices = {"openai/gpt-5-mini": {"input": "0.25", "output": "2"}}
        engine = Engine(make_settings(database, language_model=model, prices=prices), time.perf_counter)
        first = ask(engine, **fields)
        (sent,) = provider.requests
    assert (sent["path"], sent["input"], sent["store"]) == ("/v1/responses", "make it less harsh", False)
    assert first["transformed_query"] == "low-pass filter, cutoff"
    assert first["trace"]["models"]["transform"] == "openai gpt-5-mini"
    assert [(one["kind"], one["cost"]) for one in first["costs"]] == [("transform", "0.00000775")]
    assert (first["costs_total"]["cost"], first["costs_total"]["calls"]) == ("0.00000775", 1)
    assert without_trace(ask(engine, **fields)) == without_trace(first)
    with pytest.raises(Unavailable, match="language model's server failed"):
        ask(engine, query="make it less harsh", transform="llm")
    engine.close()


@pytest.mark.parametrize(
    ("status", "error"), [(429, "Unavailable"), (503, "Unavailable"), (401, "SettingsError"), (400, "SettingsError")]
)
def test_a_models_failure_is_one_of_ours_and_quotes_nothing(
    make_settings: MakeSettings, database: str, status: int, error: str
) -> None:
    """Busy and broken servers are tried again by the queue, refusals are the operator's matter."""
    with running() as provider:
        provider.status = status
        model = {"kind": "openai", "api": "chat", "base_url": provider.url, "timeout_seconds": 5}
        engine = Engine(make_settings(database, language_model=model), time.perf_counter)
        with pytest.raises(Exception, match="language model") as caught:
            ask(engine, query="make it less harsh", transform="llm")
        engine.close()
    assert type(caught.value).__name__ == error
    assert "secret" not in str(caught.value)
    assert provider.requests[0]["messages"][1] == {"role": "user", "content": "make it less harsh"}


def test_what_embeddings_cost_is_on_the_bill(make_settings: MakeSettings, database: str) -> None:
    """One call for the query and one for its contextual variant, in this order, also where the second is of no use."""
    with running() as provider:
        provider.count = lambda text: len(text.split())
        embedder = {"kind": "openai", "model": "e", "base_url": provider.url}
        engine = Engine(
            make_settings(database, embedder=embedder, prices={"openai/e": {"input": "1"}}), time.perf_counter
        )
        both = ask(engine, context=EDITOR)
        provider.embed = lambda texts: [[float("bd" not in text)] * 768 for text in texts]
        useless = ask(engine, context=EDITOR)
        engine.close()
    assert (both["degraded"], useless["degraded"]) == ([], ["contextual"])
    for answer in (both, useless):
        assert [(one["kind"], one["input_tokens"]) for one in answer["costs"]] == [("embed", 2), ("embed", 4)]
        assert answer["costs_total"]["cost"] == "0.000006"


@pytest.mark.parametrize("hangs", [False, True], ids=["raises", "hangs"])
def test_keywords_that_fail_leave_the_primary(
    make_settings: MakeSettings, database: str, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """Any error of the keyword extractor leaves the primary search alone."""
    over = threading.Event()

    def extract(_: str) -> list[str]:
        if hangs:
            over.wait(180)
        raise RuntimeError("no keywords")

    monkeypatch.setattr(transforms, "auto", extract)
    hybrid = {**make_settings(database).hybrid.model_dump(), "deadline_seconds": 2}
    engine = Engine(make_settings(database, hybrid=hybrid), time.perf_counter)
    alone, answer = ask(engine), ask(engine, context=EDITOR)
    over.set()
    engine.close()
    assert (answer["degraded"], answer["context_keywords"]) == (["contextual"], [])
    assert {metrics["contextual"] for metrics in answer["metrics"].values()} == {"failed"}
    assert answer["results"] == alone["results"]


def test_a_query_of_function_words_has_a_vector(engine: Engine) -> None:
    """Nothing divides by zero where the embedder finds nothing to go by."""
    assert lexical.embed(["is it"])[0].any()
    assert len(ids(ask(engine, query="is it"))) == 5
