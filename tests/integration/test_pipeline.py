"""`run_pipeline` offline, on a real Postgres with the sample corpora."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, ask, asker, ids, in_stages, repeated
from tests.integration.provider import running
from tests.integration.site import says, serving

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.core.prompting.extractive import DOUBTED, is_refusal
from worker.core.ranking import bm25
from worker.core.ranking.fusion import convex
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.pipeline.sources import STAGES
from worker.jobs.pipeline.types import CorpusSearch, QueryRequest, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]

BEAT = "add hi-hats to the beat"
EDITOR = 'sound("bd*4")'
RUN = {"subject_id": "song-1", "run_id": "r1"}
EDIT = "UPDATE document_chunks SET text_content = %s WHERE id = %s"
SAID = "A dried-out capacitor is the likely cause [S1]. The pump is not [S2]."
REVOKE = "DELETE FROM document_chunks WHERE id = %s"


def count(admin: Admin, table: str) -> int:
    row = admin.execute(f"SELECT count(*) FROM retrieval.{table}").fetchone()
    assert row is not None
    return int(row[0])


def leavers(answer: dict[str, Any]) -> dict[tuple[str, str], str]:
    return {(one["corpus"], one["chunk_id"]): one["reason"] for one in answer["trace"]["left"]}


def test_what_is_near_the_editors_text_alone_answers_no_question(open_engine: Callable[..., Engine]) -> None:
    """All legs score it; its similarity is the context's, which found it."""
    legs = [{"kind": "dense"}, {"kind": "dense", "of": "context"}]
    profiles = {"own": {"legs": legs, "fetch": 1}}
    engine = open_engine(profiles=profiles, embedder={"least_evidence": 0.16})
    editor = "live room rates day cost " * 3
    response = engine.pipeline.run(
        QueryRequest("zebra xylophone quagga", context=editor, profile="own"), asker("alice")
    )
    similarities = [one.similarity for one in response.package.candidates]
    assert max(one or 0.0 for one in similarities) > 0.16
    assert is_refusal(response.answer or "")


@pytest.mark.parametrize("least", [2.0, -1.0])
def test_evidence_decides_whether_a_question_is_answered(open_engine: Callable[..., Engine], least: float) -> None:
    """Too little: that the sources may not hold it, then the nearest sentence. Enough, in other words: sentences."""
    response = open_engine(embedder={"least_evidence": least}).pipeline.run(
        QueryRequest("zebra xylophone quagga"), asker("alice")
    )
    assert response.answer is not None
    assert response.answer.startswith(DOUBTED) == (least > 0)
    assert response.answer.endswith("[S1]")
    assert response.package.candidates
    assert response.supported == ((0.0, 1.0) if least > 0 else (1.0,))
    assert [citation.label for citation in response.citations] == ["S1"]


HELD = "What causes the 50 Hz hum on channel 18?"
NEAR_MISS = "Which electrician was paid overtime for ending the hum on channel 18 before Christmas?"
FAR = "Do quaggas outrun zebras in the savannah?"


@pytest.mark.parametrize(("question", "refused"), [(HELD, False), (NEAR_MISS, True), (FAR, True)])
@pytest.mark.parametrize("profile", ["hybrid", "dense"])
def test_what_the_sources_do_not_hold_is_refused(
    open_engine: Callable[..., Engine], question: str, refused: bool, profile: str
) -> None:
    """Also where they are about its subject; the answer shows the nearest all the same."""
    response = open_engine(embedder={"least_evidence": 0.45}).pipeline.run(
        QueryRequest(question, profile=profile), asker("alice")
    )
    assert is_refusal(response.answer or "") == refused
    assert response.citations


# --- the stages from Python ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_",
    [
        QueryRequest(HUM),
        QueryRequest(BEAT, mode="code", context=EDITOR, conversation_history=(Turn("user", "a beat"),)),
        QueryRequest("a song about the harbour ferry", mode="lyrics", k=3),
        QueryRequest("Which companies offered to buy the desk?", mode="extraction", profile="dense_rerank"),
        QueryRequest(HUM, searches=(CorpusSearch("documents", 4), CorpusSearch("docs", 2))),
    ],
)
def test_each_stage_goes_on_from_the_json_of_the_one_before(engine: Engine, request_: QueryRequest) -> None:
    """Nothing is lost between them: the answer is that of `run`, which chains them."""
    response = in_stages(engine, request_)
    whole = engine.pipeline.run(request_, asker("alice"))
    assert response.status == "ok"
    assert (response.answer, response.citations, response.supported) == (whole.answer, whole.citations, whole.supported)
    assert response.package.context_block == whole.package.context_block
    assert response.package.candidates == whole.package.candidates


@pytest.mark.parametrize(
    ("mode", "question", "context", "corpora", "k"),
    [
        ("grounded", HUM, "", {"documents"}, 8),
        ("code", BEAT, EDITOR, {"docs", "examples"}, 8),
        ("lyrics", "a song about the harbour ferry", "", {"documents"}, 10),
        ("extraction", "Which companies offered to buy the desk?", "", {"documents"}, 15),
    ],
)
def test_every_mode_answers_offline(
    engine: Engine, mode: str, question: str, context: str, corpora: set[str], k: int
) -> None:
    """As shipped: its corpora, its k; every label of the answer is a citation, every citation is word for word."""
    answer = ask(engine, question=question, mode=mode, context=context)
    package = answer["package"]
    assert answer["status"] == "ok"
    assert answer["answer"]
    assert {chunk["corpus"] for chunk in package["candidates"]} == corpora
    assert len(package["candidates"]) == k
    assert answer["unknown_labels"] == []
    assert answer["costs"] == []
    assert answer["citations"]
    chunks = {(chunk["corpus"], chunk["chunk_id"]): chunk["text"] for chunk in package["candidates"]}
    for citation in answer["citations"]:
        label = package["source_labels"][citation["label"]]
        assert label["chunk_id"] == citation["chunk_id"]
        text = " ".join(chunks[label["corpus"], label["chunk_id"]].split())
        assert " ".join(citation["snippet"].strip("…").split()) in text
        assert citation["quote"] in ({"verbatim"} if mode != "code" else {None, "verbatim"})
        (chunk,) = [one for one in package["candidates"] if one["chunk_id"] == citation["chunk_id"]]
        assert (citation["heading"], citation["page_number"]) == (chunk["section"], chunk["page"])
        named = {"documents": "path", "docs": "page_name", "examples": "title"}[chunk["corpus"]]
        assert citation["source_path"] == chunk["metadata"].get(named, chunk["document_id"])
    stages = [stage["stage"] for stage in answer["trace"]["stages"]]
    assert stages == [*STAGES, "synthesize_context", "execute"]
    methods = answer["trace"]["search"]["methods"]
    assert methods.keys() == answer["trace"]["search"]["legs_ms"].keys()
    assert all(set(found) <= {"index", "exact"} or leg == "sparse" for leg, found in methods.items())
    assert all(len(found) == len(corpora) for found in methods.values())
    weights = answer["trace"]["search"]["weights"]
    assert weights.keys() == methods.keys()
    assert weights["dense"] == 0.7


def test_the_code_mode_shows_the_model_its_cheatsheet_its_editor_and_what_was_said(engine: Engine) -> None:
    """In that order around the sources, so that what never changes comes first."""
    said = [{"role": "user", "content": "a house beat"}, {"role": "assistant", "content": "here it is"}]
    answer = ask(engine, question=BEAT, mode="code", context=EDITOR, conversation_history=said, chat_mode="chat")
    parts = ["Cheatsheet:", "Sources, each", "In the user's editor:", EDITOR, "user: a house beat", f"Question: {BEAT}"]
    block = answer["package"]["context_block"]
    assert sorted(map(block.index, parts)) == [block.index(part) for part in parts]


def test_columns_of_any_type_go_to_json_and_back(
    open_engine: Callable[..., Engine], settings: Settings, admin: Admin
) -> None:
    """Metadata is JSON from the door on: dates as text, and so are numbers that JSON has not; recency reads them."""
    types = {"made": "timestamptz DEFAULT '2024-02-29T12:00Z'", "day": "date DEFAULT '2024-02-29'"}
    types |= {"worth": "numeric DEFAULT 1.50", "share": "float8 DEFAULT 'NaN'", "tags": "date[] DEFAULT '{2024-02-29}'"}
    for name, column in types.items():
        admin.execute(f"ALTER TABLE document_chunks ADD COLUMN {name} {column}")
    admin.execute("UPDATE document_chunks SET made = '2025-02-28T12:00Z' WHERE document_id = 'handbook-desk-notes'")
    corpora = {name: corpus.model_dump(exclude_unset=True) for name, corpus in settings.corpora.items()}
    corpora["documents"] |= {"metadata_columns": {name: name for name in types}, "date": "made"}
    profile = {"legs": [{"kind": "dense"}], "temporal": {"half_life_days": 365, "weight": 1}}
    engine = open_engine(corpora=corpora, profiles={"recent": profile})
    response = in_stages(engine, QueryRequest(HUM, profile="recent", k=2))
    found = [candidate.chunk for candidate in response.package.candidates]
    assert {chunk.document_id for chunk in found} == {"handbook-desk-notes"}
    made = "2025-02-28T12:00:00+00:00"
    expected = {"made": made, "day": "2024-02-29", "worth": "1.50", "share": None, "tags": ["2024-02-29"]}
    assert expected.items() <= found[0].metadata.items()
    job = {"question": HUM, "profile": "recent", "run": RUN}
    assert repeated(ask(engine, **job)) == repeated(ask(engine, **job))


# --- rights -------------------------------------------------------------------------------------


def test_a_caller_gets_answers_from_what_the_caller_may_see(engine: Engine, admin: Admin) -> None:
    """Bob's package has nothing that the database keeps from bob; alice's has some of that."""
    question = "the last song of the salt letters, and the ferry"
    alice, bob = (ask(engine, user, question=question, mode="lyrics") for user in ("alice", "bob"))
    private = {
        row[0]
        for row in admin.execute(
            "SELECT id FROM document_chunks WHERE document_id = 'notebook-alice-tideline'"
        ).fetchall()
    }
    assert private & {*ids(alice)}
    assert not private & {*ids(bob)}
    assert "notebook-alice-tideline" not in json.dumps(bob)


def test_nobody_gets_answers_from_public_corpora_only(engine: Engine, admin: Admin) -> None:
    """Nothing is kept without a caller, who could not come back for it."""
    answer = ask(engine, None, question=BEAT, mode="code")
    assert (answer["status"], answer["package"]["package_id"], answer["response_id"]) == ("ok", None, None)
    for fields in ({}, {"conversation_id": "c1", "chat_mode": "chat"}, {"stop_after": "synthesize_context"}):
        assert ask(engine, None, question=BEAT, mode="code", **fields)["conversation_id"] is None
    assert (count(admin, "packages"), count(admin, "responses")) == (0, 0)
    with pytest.raises(NotAuthorised, match="documents is not public"):
        ask(engine, None, question=HUM)
    for searches in (["docs", "documents"], ["documents"]):
        with pytest.raises(NotAuthorised, match="documents is not public"):
            ask(engine, None, question=HUM, searches=[{"corpus": name} for name in searches])


def test_what_another_caller_keeps_is_answered_as_what_nobody_keeps(engine: Engine) -> None:
    """Package, response and conversation: bob learns nothing from alice's ids."""
    alice = ask(engine, question=HUM, chat_mode="chat", conversation_id="c1")
    stopped = ask(engine, question=HUM, stop_after="build_sources")["package"]["package_id"]
    for field, theirs, none in (
        ("resume", stopped, "pkg_0"),
        ("prior_response_id", alice["response_id"], "resp_0"),
    ):
        job = {} if field == "resume" else {"question": "And then?"}
        errors = []
        for name in (theirs, none):
            with pytest.raises(InvalidJob) as caught:
                ask(engine, "bob", **job, **{field: name})
            errors.append(caught.value.message)
        assert errors[0] == errors[1]
    theirs, none = (
        ask(engine, "bob", question="And then?", mode="code", chat_mode="chat", conversation_id=name)
        for name in ("c1", "c0")
    )
    assert theirs["package"]["context_block"] == none["package"]["context_block"]
    assert "Said before" not in theirs["package"]["context_block"]
    for anonymous in (None, asker("")):
        with pytest.raises((InvalidJob, NotAuthorised)):
            ask(engine, anonymous, resume=stopped)


def test_a_response_that_is_said_to_be_of_another_conversation_is_refused(engine: Engine) -> None:
    first = ask(engine, question=HUM, chat_mode="chat", conversation_id="c1")
    with pytest.raises(InvalidJob, match="conversation_id: expected the conversation of prior_response_id"):
        ask(engine, question="And then?", prior_response_id=first["response_id"], conversation_id="c2")


# --- stop and go on -----------------------------------------------------------------------------


def test_a_job_stops_and_another_goes_on(engine: Engine) -> None:
    """Three jobs, stage by stage, give what one job gives; the package that was looked at can be gone on from again."""
    built = ask(engine, question=HUM, stop_after="build_sources")
    assert (built["answer"], built["package"]["context_block"], built["response_id"]) == (None, None, None)
    written = ask(engine, resume=built["package"]["package_id"], stop_after="synthesize_context")
    assert (written["answer"], written["response_id"]) == (None, None)
    answered = ask(engine, resume=written["package"]["package_id"])
    whole = ask(engine, question=HUM)
    assert (answered["answer"], answered["citations"]) == (whole["answer"], whole["citations"])
    assert answered["package"]["context_block"] == whole["package"]["context_block"]
    assert written["package"]["context_block"] == whole["package"]["context_block"]
    assert answered["conversation_id"] == built["conversation_id"] or built["conversation_id"] is None
    again = ask(engine, resume=built["package"]["package_id"])
    assert again["answer"] == whole["answer"]
    with pytest.raises(InvalidJob, match="resume: this package has been answered"):
        ask(engine, resume=answered["package"]["package_id"])
    for one in (written, answered, again):
        stages = [stage["stage"] for stage in one["trace"]["stages"]]
        assert stages == [*STAGES, "synthesize_context", "execute"][: len(stages)]


def test_a_job_does_not_go_back(engine: Engine) -> None:
    """A package that has its context can be looked at again, and can't stop before that."""
    written = ask(engine, question=HUM, stop_after="synthesize_context")["package"]["package_id"]
    with pytest.raises(InvalidJob, match="stop_after: this package has been through synthesize_context already"):
        ask(engine, resume=written, stop_after="build_sources")
    again = ask(engine, resume=written, stop_after="synthesize_context")
    assert again["package"]["context_block"] is not None
    built = ask(engine, question=HUM, stop_after="build_sources")["package"]["package_id"]
    assert ask(engine, resume=built, stop_after="build_sources")["package"]["context_block"] is None


@pytest.mark.parametrize("stop_after", ["build_sources", "synthesize_context"])
@pytest.mark.parametrize("change", ["revoked", "deleted", "edited"])
def test_what_changed_since_a_package_was_kept_is_left_out_of_it(
    engine: Engine, admin: Admin, stop_after: str, change: str
) -> None:
    """The rights and texts of the job that goes on decide; it says that something is missing."""
    kept = ask(engine, "bob", question=HUM, stop_after=stop_after)
    gone = kept["package"]["candidates"][0]
    if change == "edited":
        admin.execute(EDIT, ("Channel 18 is silent, says canary-4711.", gone["chunk_id"]))
    elif change == "deleted":
        admin.execute(REVOKE, (gone["chunk_id"],))
    else:
        changed = admin.execute(
            "UPDATE documents SET visibility = 'private', owner_id = 'zoe' WHERE id = %s", (gone["document_id"],)
        )
        assert changed.rowcount == 1
        admin.execute("DELETE FROM document_grants WHERE document_id = %s", (gone["document_id"],))
    answer = ask(engine, "bob", resume=kept["package"]["package_id"])
    assert gone["chunk_id"] not in ids(answer)
    assert len(ids(answer)) >= 1
    assert any("resume: sources that changed" in warning for warning in answer["trace"]["warnings"])
    said = repeated(answer)
    assert json.dumps(gone["text"])[1:60] not in said
    assert "canary-4711" not in said
    assert gone["chunk_id"] not in said


@pytest.mark.parametrize(
    "field",
    [
        {"question": HUM},
        {"mode": "code"},
        {"k": 3},
        {"searches": [{"corpus": "docs"}]},
        {"starting_prompt": "As a pirate."},
        {"pinned_chunks": ["sha256:" + "0" * 64]},
        {"conversation_id": "c1"},
        {"package": {"candidates": []}},
        {"run": RUN},
    ],
)
def test_nothing_of_a_package_comes_from_outside(engine: Engine, field: dict[str, Any]) -> None:
    """A job that resumes names a package and a caller, and nothing else."""
    kept = ask(engine, question=HUM, stop_after="build_sources")["package"]["package_id"]
    with pytest.raises(InvalidJob, match=next(iter(field))):
        ask(engine, resume=kept, **field)


# --- what is found ------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "used"), [(-5, 1), (0, 1), (1, 1), (7, 7), (10**30, 50)])
def test_k_is_clamped(engine: Engine, k: int, used: int) -> None:
    """Any integer is an answer of 1 to 50 sources, as many as there are."""
    assert len(ids(ask(engine, question=HUM, k=k, profile="dense"))) == used


def test_a_question_is_narrowed_by_filters(engine: Engine) -> None:
    """To every corpus, or to one by its own; `[]` matches nothing; a field that a corpus has not is said."""
    chosen = ask(engine, question=HUM, filters={"document_ids": ["handbook-desk-notes"]})
    assert {chunk["document_id"] for chunk in chosen["package"]["candidates"]} == {"handbook-desk-notes"}
    of_one = [{"corpus": "documents", "filters": {"document_ids": ["report-2023-mixing-desk"]}}]
    own = ask(engine, question=HUM, searches=of_one, filters={"document_ids": ["handbook-desk-notes"]})
    assert {chunk["document_id"] for chunk in own["package"]["candidates"]} == {"report-2023-mixing-desk"}
    assert ask(engine, question=HUM, filters={"document_ids": []})["status"] == "empty"
    with pytest.raises(InvalidJob, match=r"filters\.pages"):
        ask(engine, question=BEAT, mode="code", filters={"pages": [1]})
    with pytest.raises(InvalidJob, match=r"filters\.pages"):
        ask(engine, question=BEAT, searches=[{"corpus": "docs", "filters": {"pages": [1]}}])


def test_searches_take_the_place_of_the_modes_corpora_each_with_its_cap(engine: Engine) -> None:
    answer = ask(
        engine, question=BEAT, searches=[{"corpus": "examples", "top_k": 2}, {"corpus": "docs", "top_k": 3}], k=20
    )
    corpora = [chunk["corpus"] for chunk in answer["package"]["candidates"]]
    assert (corpora.count("examples"), corpora.count("docs"), len(corpora)) == (2, 3, 5)
    assert "capped" in leavers(answer).values()


def pins(engine: Engine, n: int) -> list[dict[str, Any]]:
    """Chunks of alice's that the question does not find first, worst last."""
    found = ask(engine, question="a song about the harbour ferry", profile="dense", k=50)["package"]["candidates"]
    return [*{chunk["chunk_hash"]: chunk for chunk in found}.values()][-n:]


def reranked(open_engine: Callable[..., Engine], weight: float | None) -> list[dict[str, Any]]:
    """Candidates of a profile that reranks by words, best first."""
    profile = {"legs": [{"kind": "dense"}], "fetch": 30, "rerank": "lexical", "rerank_weight": weight}
    engine = open_engine(profiles={"dense_rerank": profile, "hybrid": {"legs": [{"kind": "dense"}]}})
    found: list[dict[str, Any]] = ask(engine, question=HUM, profile="dense_rerank", k=30)["package"]["candidates"]
    return found


@pytest.mark.parametrize("weight", [0.0, 0.2, 1.0, None])
def test_the_order_is_that_of_the_rerank_score(open_engine: Callable[..., Engine], weight: float | None) -> None:
    """At weight 0 the fused order, at 1 the reranker's, by default a sum of both; fused scores stay."""
    found = reranked(open_engine, weight)
    scores = [one["scores"]["rerank"] for one in found]
    fused = [one["scores"]["fused"] for one in found]
    words = bm25.scores(HUM, [one["text"] for one in found])
    expected = convex(fused, words, 0.2 if weight is None else weight)
    assert scores == sorted(scores, reverse=True)
    assert scores == pytest.approx(expected)
    assert (fused == sorted(fused, reverse=True)) == (weight == 0)


@pytest.mark.parametrize("profile", ["dense", "hybrid_rrf", "dense_rerank"])
def test_pinned_chunks_come_first_in_their_order(engine: Engine, profile: str) -> None:
    """No reranking, refinement or cap of a profile moves them; missing ones are reported."""
    wanted = pins(engine, 3)[::-1]
    hashes = [chunk["chunk_hash"] for chunk in wanted]
    missing = "sha256:" + "0" * 64
    asked = [hashes[0], missing, hashes[1], hashes[0], hashes[2]]
    answer = ask(engine, question=HUM, profile=profile, pinned_chunks=asked)
    assert [chunk["chunk_hash"] for chunk in answer["package"]["candidates"][:3]] == hashes
    assert len(ids(answer)) == 8
    assert answer["trace"]["warnings"] == ["pinned: 1 of 4 chunks are missing"]
    labels = answer["package"]["source_labels"]
    assert [labels[f"S{i}"]["chunk_id"] for i in (1, 2, 3)] == ids(answer)[:3]
    assert not {*ids(answer)} & {chunk_id for _, chunk_id in leavers(answer)}


def test_pinned_chunks_of_one_document_are_not_capped(engine: Engine) -> None:
    """Seven pinned chunks of a document are kept, and more of a corpus than its cap; k bounds only what is found."""
    document = {"document_ids": ["handbook-desk-notes"]}
    chunks = ask(engine, question=HUM, profile="dense", filters=document, k=50)["package"]["candidates"]
    assert len(chunks) > 5
    answer = ask(
        engine,
        question="a song about the harbour ferry",
        pinned_chunks=[chunk["chunk_hash"] for chunk in chunks],
        searches=[{"corpus": "documents", "top_k": 1}],
        k=1,
    )
    assert ids(answer) == [chunk["chunk_id"] for chunk in chunks]


def test_a_pinned_chunk_that_is_not_the_callers_is_a_missing_one(engine: Engine) -> None:
    """Reported by number, like one that never existed."""
    alices = next(chunk for chunk in pins(engine, 50) if chunk["document_id"].endswith("alice-tideline"))
    answer = ask(engine, "bob", question=HUM, pinned_chunks=[alices["chunk_hash"]])
    unknown = ask(engine, "bob", question=HUM, pinned_chunks=["sha256:" + "0" * 64])
    assert answer["trace"]["warnings"] == ["pinned: 1 of 1 chunks are missing"]
    assert answer["package"]["context_block"] == unknown["package"]["context_block"]


def test_a_pinned_chunk_that_was_too_far_did_not_leave(open_engine: Callable[..., Engine], settings: Settings) -> None:
    """It is in the package, so the trace does not say that it left."""
    corpora = {name: corpus.model_dump(exclude_unset=True) for name, corpus in settings.corpora.items()}
    corpora["documents"]["max_distance"] = 0.8
    engine = open_engine(corpora=corpora)
    far = ask(engine, question=HUM, profile="dense")
    (_, pinned), *_ = [one for one, reason in leavers(far).items() if reason == "below threshold"]
    chunk_hash = {chunk["chunk_id"]: chunk["chunk_hash"] for chunk in ask(open_engine(), question=HUM, profile="dense",
                  k=50)["package"]["candidates"]}[pinned]  # fmt: skip
    answer = ask(engine, question=HUM, profile="dense", pinned_chunks=[chunk_hash])
    assert ids(answer)[0] == pinned
    assert pinned not in {chunk_id for _, chunk_id in leavers(answer)}


def test_a_job_without_a_mode_has_the_first_one_whatever_it_is_called(
    make_settings: MakeSettings, database: str
) -> None:
    """The first of the settings; its name is in the package, as if the job had named it."""
    settings = make_settings(database)
    grounded = settings.modes["grounded"]
    modes = {"minutes": grounded.model_copy(update={"k": 2}), "grounded": grounded}
    with contextlib.closing(Engine(settings.model_copy(update={"modes": modes}), time.perf_counter)) as engine:
        assert len(ids(ask(engine, question=HUM))) == 2
        assert engine.pipeline.build_sources(QueryRequest(HUM), asker("alice")).request.mode == "minutes"


def test_only_whole_sources_that_fit_the_budget_get_a_label(
    open_engine: Callable[..., Engine], settings: Settings
) -> None:
    """Sources that do not fit are reported; labels have no gaps."""
    mode = {**settings.modes["grounded"].model_dump(), "budget_tokens": 400}
    answer = ask(open_engine(modes={"grounded": mode}), question=HUM)
    labels = answer["package"]["source_labels"]
    assert 0 < len(labels) < 8
    assert [*labels] == [f"S{i}" for i in range(1, len(labels) + 1)]
    assert len(answer["package"]["context_block"].encode()) <= 4 * 400
    labelled = {label["chunk_id"] for label in labels.values()}
    beyond = {chunk_id for (_, chunk_id), reason in leavers(answer).items() if reason == "beyond budget"}
    (warning,) = answer["trace"]["warnings"]
    assert warning.startswith(f"context: {len(beyond)} of ")
    assert beyond == {*ids(answer)} - labelled


def test_a_question_longer_than_the_budget_is_answered(engine: Engine) -> None:
    """Sources have half of the budget, whatever the question takes."""
    answer = ask(engine, question=f"{HUM} {'Please tell me. ' * 2_500}")
    assert answer["status"] == "ok"
    assert answer["answer"]
    assert answer["package"]["source_labels"]


def test_sources_of_which_none_fits_are_said(open_engine: Callable[..., Engine], settings: Settings) -> None:
    """So `empty` beside candidates has a reason."""
    mode = {**settings.modes["grounded"].model_dump(), "budget_tokens": 100}
    answer = ask(open_engine(modes={"grounded": mode}), question=f"{HUM} {'Please tell me. ' * 40}")
    assert answer["status"] == "empty"
    beyond = {chunk_id for (_, chunk_id), reason in leavers(answer).items() if reason == "beyond budget"}
    assert beyond == {*ids(answer)}
    assert answer["trace"]["warnings"] == ["context: no source fits into the budget"]


@pytest.mark.parametrize("profile", ["dense", "hybrid_rrf", "dense_rerank"])
@pytest.mark.parametrize("mode", ["grounded", "code", "lyrics", "extraction"])
def test_every_candidate_is_a_source_or_left_for_a_reason(engine: Engine, mode: str, profile: str) -> None:
    """Everything that the search found has a label, or stands in `left` with the stage and the reason; never both."""
    answer = ask(engine, question=BEAT, mode=mode, profile=profile, context=EDITOR, k=6)
    stages = {stage["stage"]: stage for stage in answer["trace"]["stages"]}
    found = {tuple(one) for stage in stages.values() for one in stage["candidates"]}
    left = leavers(answer)
    labelled = {(label["corpus"], label["chunk_id"]) for label in answer["package"]["source_labels"].values()}
    assert len(found) == stages["search"]["counts"]["found"]
    assert found == labelled | left.keys()
    assert not labelled & left.keys()
    assert len(left) == len(answer["trace"]["left"])
    assert {*left.values()} <= {"duplicate", "capped", "beyond k", "below threshold", "beyond budget"}
    sizes = [len(stage["candidates"]) for stage in answer["trace"]["stages"] if stage["stage"] != "query"]
    assert all(after <= before for before, after in itertools.pairwise(sizes))


def test_the_same_text_twice_is_shown_once(engine: Engine, admin: Admin) -> None:
    """A copy in another document left as a duplicate."""
    first = ask(engine, question=HUM)["package"]["candidates"][0]
    admin.execute(
        "INSERT INTO document_chunks (id, document_id, text_content, embedding)"
        " SELECT 'a-copy', 'handbook-desk-notes', '  ' || text_content, embedding FROM document_chunks WHERE id = %s",
        (first["chunk_id"],),
    )
    answer = ask(engine, question=HUM)
    both = {first["chunk_id"], "a-copy"}
    assert len(both & {*ids(answer)}) == 1
    assert leavers(answer)["documents", (both - {*ids(answer)}).pop()] == "duplicate"


def test_progress_is_told_stage_by_stage(engine: Engine) -> None:
    """Each with how many are done of how many."""
    reported: list[tuple[str, int, int]] = []
    context = JobContext(lambda: asker("alice"), report=lambda *said: reported.append(said))
    engine.pipeline_jobs.answer(parse_job(RunPipeline, {"question": HUM}), context)
    assert reported == [*((stage, i, len(STAGES)) for i, stage in enumerate(STAGES)), ("execute", 1, 1)]


def test_what_other_services_find_is_a_source(open_engine: Callable[..., Engine], settings: Settings) -> None:
    """Labelled after the chunks, cited by its URL; it is enough for an answer; a failing service is reported."""
    item = {"url": "https://example.org/hum", "title": "Mains", "snippet": "The hum comes from the mains at 50 Hz."}
    mode = {**settings.modes["grounded"].model_dump(), "remote": ["web", "broken"]}
    with serving() as site:
        site.pages |= {"/search": says([item]), "/broken": says(b"", status=500)}
        at = f"http://127.0.0.1:{site.port}"
        remote = {
            name: {"url": f"{at}/{path}?q={{query}}", "allow_private": ["127.0.0.1"]}
            for name, path in (("web", "search"), ("broken", "broken"))
        }
        engine = open_engine(modes={"grounded": mode}, remote=remote)
        answer = ask(engine, question=HUM)
        alone = ask(engine, question=HUM, filters={"document_ids": []})
        stopped = ask(engine, question=HUM, filters={"document_ids": []}, stop_after="build_sources")
        response = in_stages(engine, QueryRequest(HUM))
    assert answer["package"]["source_labels"]["S9"] == {"provider": "web", "url": item["url"]}
    assert len(answer["trace"]["warnings"]) == 1
    assert answer["trace"]["warnings"][0].startswith("broken: ")
    assert {one for answer in (answer, alone, stopped) for one in answer["degraded"]} == {"remote:broken"}
    assert (alone["status"], stopped["status"]) == ("ok", "ok")
    assert [citation["url_or_doi"] for citation in alone["citations"]] == [item["url"]]
    assert response.package.remote_sources[0].url == item["url"]


# --- nothing found ------------------------------------------------------------------------------


def test_without_sources_no_model_is_asked(open_engine: Callable[..., Engine]) -> None:
    """Status `empty`, no answer, and not one request to the provider."""
    with running() as provider:
        engine = open_engine(language_model={"kind": "openai", "model": "m", "base_url": provider.url})
        for profile in ("hybrid_rrf", "llm_rerank"):
            answer = ask(
                engine, question=HUM, profile=profile, filters={"document_ids": []}, run={**RUN, "step": profile}
            )
            assert (answer["status"], answer["answer"], answer["citations"]) == ("empty", None, [])
            assert (answer["costs"], answer["supported"], answer["package"]["candidates"]) == ([], [], [])
        assert provider.requests == []
    again = ask(
        engine, question=HUM, profile="hybrid_rrf", filters={"document_ids": []}, run={**RUN, "step": "hybrid_rrf"}
    )
    assert (again["status"], again["answer"]) == ("empty", None)


# --- a record -----------------------------------------------------------------------------------


@pytest.fixture
def recorded(open_engine: Callable[..., Engine]) -> tuple[Engine, dict[str, Any], dict[str, Any]]:
    """A run answered with a provider that is away now; its engine, its job, its answer."""
    with running() as provider:
        provider.text = lambda asked: "a pump" if "Passage" in asked["instructions"] else SAID
        engine = open_engine(
            language_model={"kind": "openai", "model": "m", "base_url": provider.url},
            embedder={"kind": "openai", "base_url": provider.url, "send_dimensions": False},
        )
        job = {"question": HUM, "profile": "hyde_hybrid", "run": RUN, "chat_mode": "chat"}
        answer = ask(engine, **job)
        assert provider.requests
    assert answer["status"] == "ok"
    return engine, job, answer


def test_a_recorded_answer_comes_again_byte_for_byte_without_the_providers(
    recorded: tuple[Engine, dict[str, Any], dict[str, Any]], admin: Admin
) -> None:
    """The same context block, answer and ids; nothing is kept twice."""
    engine, job, answer = recorded
    again = ask(engine, **job)
    assert repeated(again) == repeated(answer)
    assert again["package"]["context_block"] == answer["package"]["context_block"]
    assert (count(admin, "packages"), count(admin, "responses")) == (1, 1)
    with pytest.raises(InvalidJob, match="run: another job is recorded"):
        ask(engine, **{**job, "question": "Another?"})
    reused = ask(engine, **{**job, "question": "Another?", "run": {**RUN, "reuse": True}})
    assert repeated(reused) == repeated(answer)


@pytest.mark.parametrize("change", ["deleted", "edited"])
def test_a_recorded_answer_is_held_back_once_a_source_is_not_what_it_was(
    recorded: tuple[Engine, dict[str, Any], dict[str, Any]], admin: Admin, change: str
) -> None:
    """Its text may rest on a source that this caller may no longer read."""
    engine, job, answer = recorded
    gone = answer["package"]["candidates"][2]
    if change == "edited":
        admin.execute(EDIT, ("now it says canary-4711", gone["chunk_id"]))
    else:
        admin.execute(REVOKE, (gone["chunk_id"],))
    again = ask(engine, **job)
    assert (again["short_reason"], again["answer"], again["citations"]) == ("changed", None, [])
    assert again["package"]["context_block"] is None
    assert (again["conversation_id"], again["response_id"]) == (answer["conversation_id"], answer["response_id"])
    said = json.dumps(again, ensure_ascii=False)
    assert gone["text"][:40] not in said
    assert "canary-4711" not in said
    assert answer["answer"] not in said
    assert ids(again) == [chunk_id for chunk_id in ids(answer) if chunk_id != gone["chunk_id"]]
    assert not any(gone[name] in repeated(again) for name in ("chunk_id", "chunk_hash"))


def test_nothing_that_is_kept_holds_a_chunks_text(
    recorded: tuple[Engine, dict[str, Any], dict[str, Any]], admin: Admin
) -> None:
    """Packages, of jobs and of records, are pins: whoever resumes one is authorised again. So are citations."""
    _, _, answer = recorded
    kept = admin.execute(
        "SELECT content::text FROM retrieval.packages UNION ALL SELECT answer::text FROM retrieval.run_records"
    ).fetchall()
    assert len(kept) == 2
    assert answer["citations"]
    texts = [chunk["text"][:40] for chunk in answer["package"]["candidates"]]
    texts += [citation["snippet"].strip("…")[:40] for citation in answer["citations"]]
    for (content,), text in itertools.product(kept, texts):
        assert text
        assert json.dumps(text)[1:-1] not in content
        assert text not in content


def test_the_same_job_has_one_name_for_what_it_makes(engine: Engine, admin: Admin) -> None:
    """At least once means now and then twice: the same task id, the same ids, one row."""
    first, second = (ask(engine, question=HUM, chat_mode="chat") for _ in range(2))
    assert repeated(first) == repeated(second)
    assert (count(admin, "packages"), count(admin, "responses")) == (1, 1)
    other = engine.pipeline_jobs.answer(
        parse_job(RunPipeline, {"question": HUM, "chat_mode": "chat"}), JobContext(lambda: asker("alice"), "t2")
    )
    assert other["response_id"] != first["response_id"]
