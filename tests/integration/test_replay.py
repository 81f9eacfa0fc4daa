"""Runs and `pinned_replay` on a real Postgres with the sample corpus."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import asker, without_trace

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.pinned import Replay
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised
from retrieval_client.hashing import NORMALISERS, hash_chunk
from worker.core.citations.document import CitationRecord, create_citations_json
from worker.core.pins.pinning import raw_hash
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}


def search(engine: Engine, user: str = "alice", run: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": run or RUN, "k": 10, **fields})
    return engine.retrieval.top_k(job, JobContext(lambda: asker(user)))


def replay(engine: Engine, user: str | None = "alice", **fields: Any) -> dict[str, Any]:
    answer = engine.replay.pinned(parse_job(PinnedReplay, fields), JobContext(lambda: asker(user) if user else None))
    if "chunks" in answer:
        Replay.model_validate(answer)
    return answer


def cite(engine: Engine, **fields: Any) -> dict[str, Any]:
    return engine.citing.build(parse_job(BuildCitations, fields), JobContext(lambda: asker("alice")))


def verdicts(answer: dict[str, Any]) -> list[str]:
    return [pin["verdict"] for pin in answer["pins"]]


# --- runs ---------------------------------------------------------------------------------------


def test_the_same_job_again_answers_from_its_record(engine: Engine, admin: Admin) -> None:
    """The index, the embeddings and the ranking may change: the recorded answer stays, byte for byte."""
    first = search(engine)
    admin.execute("UPDATE document_chunks SET embedding = (SELECT embedding FROM document_chunks LIMIT 1)")
    again = search(engine)
    assert without_trace(again) == without_trace(first)
    assert again["trace"]["search"]["method"] == "record"
    assert list(again) == list(first)


def test_a_different_job_under_the_same_run_is_refused(engine: Engine) -> None:
    """One record for a (run, task, step): another job there is `InvalidJob`; another step is another record."""
    search(engine)
    with pytest.raises(InvalidJob, match="another job"):
        search(engine, k=11)
    search(engine, run={**RUN, "step": "large"}, filters={"metadata": {"n": 2**53 + 1}})
    with pytest.raises(InvalidJob, match="another job"):
        search(engine, run={**RUN, "step": "large"}, filters={"metadata": {"n": 2**53}})
    assert search(engine, run={**RUN, "step": "verse-1"}, k=11)["k"] == 11
    assert search(engine, run={**RUN, "run_id": "r2"}, k=11)["k"] == 11


def test_reuse_replays_an_existing_run_and_else_searches(engine: Engine) -> None:
    """The seeds' fallback: search the first time, replay ever after, whatever the new query."""
    first = search(engine, run={**RUN, "reuse": True})
    other = lexical.embed(["something else"])[0].tolist()
    again = search(engine, run={**RUN, "reuse": True}, query_embedding=other, k=14)
    assert without_trace(again) == without_trace(first)


def test_a_foreign_run_is_an_unknown_run(engine: Engine) -> None:
    """Two owners may use the same names, and neither ever sees the other's record."""
    alice = search(engine)
    bob = search(engine, user="bob")
    assert bob["chunks"] != alice["chunks"]
    with pytest.raises(InvalidJob, match="no such run") as unknown:
        replay(engine, user="carol", run={"subject_id": "no", "run_id": "such"})
    with pytest.raises(InvalidJob, match="no such run") as foreign:
        replay(engine, user="carol", run=RUN)
    assert unknown.value.args == foreign.value.args


def test_a_caller_without_an_owner_claim_has_no_runs(engine: Engine) -> None:
    """A run needs somebody whose it is."""
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": RUN})
    anonymous = Principal({"roles": ("x",)}, (("app.user_id", ""), ("app.tenant_id", ""), ("app.roles", '["x"]')), "")
    with pytest.raises(NotAuthorised, match="owner claim"):
        engine.retrieval.top_k(job, JobContext(lambda: anonymous))


def test_a_record_leaves_out_what_changed_or_is_not_visible_any_more_and_says_so(engine: Engine, admin: Admin) -> None:
    """Re-authorised now: an edited chunk and a revoked one are left out, `short_reason: changed`."""
    first = search(engine, user="bob")
    edited = first["chunks"][0]["chunk_id"]
    admin.execute("UPDATE document_chunks SET text_content = text_content || ' edited' WHERE id = %s", (edited,))
    admin.execute("DELETE FROM document_grants WHERE document_id = 'report-2023-mixing-desk'")
    again = search(engine, user="bob")
    left = [c for c in first["chunks"] if c["chunk_id"] != edited and c["document_id"] != "report-2023-mixing-desk"]
    assert [c["chunk_id"] for c in again["chunks"]] == [c["chunk_id"] for c in left]
    assert (again["status"], again["short_reason"]) == ("short", "changed")


def test_a_record_holds_no_secret(engine: Engine, admin: Admin) -> None:
    """Neither who asked, nor the embedding as text; the embedding as bytes."""
    search(engine, principal={"user_id": "alice"})
    row = admin.execute("SELECT job, query_embedding, claims_sha256 FROM retrieval.run_records").fetchone()
    assert row is not None
    assert set(row[0]) == {"run", "k"}
    assert len(row[1]) == 4 * 768
    assert len(row[2]) == 32


# --- replay -------------------------------------------------------------------------------------


def test_a_run_is_replayed_to_one_digest_whatever_becomes_of_the_index(engine: Engine, admin: Admin) -> None:
    """REINDEX, VACUUM FULL, other embeddings, no HNSW, the rows written in another order: one digest."""
    first = search(engine)
    digests = [replay(engine, run=RUN)["digest"]]
    for statement in (
        "REINDEX TABLE document_chunks",
        "VACUUM FULL document_chunks",
        "UPDATE document_chunks SET embedding = NULL",
        "DROP INDEX document_chunks_embedding_idx",
        "CREATE TABLE kept AS SELECT * FROM document_chunks ORDER BY md5(id)",
        "DELETE FROM document_chunks",
        (
            "INSERT INTO document_chunks (id, document_id, text_content, page, section, coordinates, metadata)"
            " SELECT id, document_id, text_content, page, section, coordinates, metadata FROM kept"
        ),
    ):
        admin.execute(statement)
        if "DELETE" not in statement:
            answer = replay(engine, run=RUN)
            digests.append(answer["digest"])
            assert set(verdicts(answer)) == {"exact"}
    assert len(set(digests)) == 1
    assert [c["chunk_id"] for c in answer["chunks"]] == [c["chunk_id"] for c in first["chunks"]]
    fields = set(first["chunks"][0]) - {"distance", "similarity_score"}
    assert set(answer["chunks"][0]) == fields | {"source_id", "weight", "pinned"}


def test_a_hundred_replays_have_one_digest(engine: Engine) -> None:
    """The query, the seed and the turn change nothing."""
    search(engine)
    digests = {replay(engine, run=RUN, query=f"q{n}", seed=n)["digest"] for n in range(100)}
    assert len(digests) == 1


def test_every_verdict_of_a_pin_that_knows_its_chunk(engine: Engine, admin: Admin) -> None:
    """exact, normalised, moved, ambiguous, edited, missing: the first that holds."""
    chunks = search(engine)["chunks"]
    ids = [chunk["chunk_id"] for chunk in chunks]
    copy = "INSERT INTO document_chunks (id, document_id, text_content) VALUES (%s, 'handbook-safety', %s)"
    admin.execute("UPDATE document_chunks SET text_content = '  ' || text_content WHERE id = %s", (ids[1],))
    for n, copies in ((2, 1), (3, 2)):
        admin.execute("DELETE FROM document_chunks WHERE id = %s", (ids[n],))
        for i in range(copies):
            admin.execute(copy, (f"copy-{n}-{i}", chunks[n]["text"]))
    admin.execute("UPDATE document_chunks SET text_content = 'something else' WHERE id = %s", (ids[4],))
    admin.execute("DELETE FROM document_chunks WHERE id = %s", (ids[5],))
    answer = replay(engine, run=RUN)
    assert verdicts(answer)[:6] == ["exact", "normalised", "moved", "ambiguous", "edited", "missing"]
    pins = answer["pins"]
    assert [pin["chunk_id"] for pin in pins[:6]] == [*ids[:2], "copy-2-0", "copy-3-0", ids[4], None]
    assert [pin["places"] for pin in pins[:6]] == [1, 1, 1, 2, 0, 0]
    assert pins[4]["found_hash"] == hash_chunk("something else")
    assert (pins[5]["document_id"], pins[5]["found_hash"]) == (None, None)
    assert "something else" not in {chunk["text"] for chunk in answer["chunks"]}
    assert (answer["matched"], answer["missing"], len(answer["chunks"])) == (8, 1, 8)


def test_what_one_caller_may_not_see_is_missing_for_it_alone(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """A pin is no permission: `missing`, exactly as a hash of nothing; the other caller gets it."""
    private = hash_chunk(_text(engine, "handbook-desk-notes-006"))
    nothing = hash_chunk("no such text anywhere")
    alice = replay(engine, required_chunk_hashes=[private, nothing])
    bob = replay(engine, user="bob", required_chunk_hashes=[private, nothing])
    assert verdicts(alice) == ["matched", "missing"]
    assert verdicts(bob) == ["missing", "missing"]
    assert (bob["matched"], bob["missing"], bob["chunks"]) == (0, 2, [])
    foreign, unknown = ({**pin, "chunk_hash": None} for pin in bob["pins"])
    assert foreign == unknown
    assert private not in caplog.text


def _text(engine: Engine, chunk_id: str) -> str:
    corpus = engine.replay._corpora.get(None)
    return corpus.pinned(engine.replay._corpora.database, asker("alice"), [], [chunk_id])[0].text


def test_bare_hashes_match_or_are_ambiguous(engine: Engine) -> None:
    """The sample holds exact duplicates: taken is the lowest (document, chunk) that this caller sees."""
    shared = hash_chunk(_text(engine, "report-2023-mixing-desk-004"))  # = handbook-safety-001
    answer = replay(engine, required_chunk_hashes=[shared, shared])
    assert verdicts(answer) == ["ambiguous"]
    assert (answer["pins"][0]["chunk_id"], answer["pins"][0]["places"]) == ("handbook-safety-001", 2)
    assert verdicts(replay(engine, user="carol", required_chunk_hashes=[shared])) == ["matched"]


def test_fill_follows_the_pins_and_never_repeats_one(engine: Engine) -> None:
    """By (document, text, id) or by hash; without the pinned texts; `none` unless asked."""
    shared = hash_chunk(_text(engine, "report-2023-mixing-desk-004"))
    by_text = replay(engine, required_chunk_hashes=[shared], top_k=8)
    keys = [(c["document_id"], c["text"], c["chunk_id"]) for c in by_text["chunks"][1:]]
    assert keys == sorted(keys)
    assert (by_text["filled"], len(by_text["chunks"])) == (7, 8)
    assert shared not in {c["chunk_hash"] for c in by_text["chunks"][1:]}
    by_hash = replay(engine, required_chunk_hashes=[shared], top_k=8, fill="hash")
    hashes = [c["chunk_hash"] for c in by_hash["chunks"][1:]]
    assert hashes == sorted(hashes)
    assert replay(engine, required_chunk_hashes=[shared])["filled"] == 0
    assert replay(engine, required_chunk_hashes=[], top_k=1000)["filled"] == 77
    assert len(replay(engine, required_chunk_hashes=[], fill="text")["chunks"]) == 5


def test_top_k_cuts_and_counts(engine: Engine) -> None:
    """More pins than top_k: the first top_k, the rest truncated; 0: nothing."""
    hashes = [chunk["chunk_hash"] for chunk in search(engine)["chunks"]]
    answer = replay(engine, required_chunk_hashes=hashes, top_k=3)
    assert [chunk["chunk_hash"] for chunk in answer["chunks"]] == hashes[:3]
    assert answer["truncated"] == len(set(hashes)) - 3
    assert replay(engine, required_chunk_hashes=hashes, top_k=0)["chunks"] == []


def test_a_recorded_replay_is_a_run_of_its_own(engine: Engine) -> None:
    """By hashes, with fill, and by a document over several corpora: replayed to its digest, cited, judged."""
    hashes = [chunk["chunk_hash"] for chunk in search(engine)["chunks"]]
    document = cite(engine, cite=RUN)["citations"]
    for number, pins in enumerate(({"required_chunk_hashes": hashes, "top_k": 14}, {"citations": document})):
        run = {"subject_id": "song-1", "run_id": f"again-{number}"}
        first = replay(engine, **pins, run=run)
        assert replay(engine, **pins, run=run)["digest"] == first["digest"]
        again = replay(engine, run=run)
        assert [chunk["chunk_id"] for chunk in again["chunks"]] == [chunk["chunk_id"] for chunk in first["chunks"]]
        assert {pin["verdict"] for pin in again["pins"]} == {"exact"}
        cited = cite(engine, cite=run)["citations"]["all_citations"]
        assert [one["chunk_hash"] for one in cited] == [chunk["chunk_hash"] for chunk in first["chunks"]]
    with_fill = {**RUN, "step": "more"}
    replay(engine, required_chunk_hashes=hashes, top_k=14, run=with_fill)
    assert [chunk["chunk_hash"] for chunk in replay(engine, run=RUN)["chunks"]] == hashes


def test_several_runs_are_each_answered_as_if_alone(engine: Engine) -> None:
    """An unknown run among them is an error at its place."""
    search(engine)
    search(engine, run={**RUN, "run_id": "r2"}, k=12)
    runs = [{"subject_id": "song-1", "run_id": name} for name in ("r1", "no", "r2")]
    batch = replay(engine, runs=runs)
    assert batch["results"][1]["error"] == {"type": "InvalidJob", "path": "runs[1]", "message": "runs[1]: no such run"}
    for name, result in (("r1", batch["results"][0]), ("r2", batch["results"][2])):
        assert without_trace(result) == without_trace(replay(engine, run={**RUN, "run_id": name}))


def test_pins_of_an_older_hash_version_still_replay(
    engine: Engine, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pin is compared by the normaliser that it was made with, found by its chunk's id."""
    first = search(engine)
    monkeypatch.setitem(NORMALISERS, 7, str.casefold)
    for chunk in first["chunks"]:
        row = (bytes.fromhex(hash_chunk(chunk["text"], 7)[7:]), chunk["chunk_id"])
        admin.execute("UPDATE retrieval.run_pins SET hash_version = 7, chunk_hash = %s WHERE chunk_id = %s", row)
    admin.execute("UPDATE document_chunks SET text_content = 'x' WHERE id = %s", (first["chunks"][3]["chunk_id"],))
    answer = replay(engine, run=RUN)
    assert verdicts(answer) == ["edited" if n == 3 else "exact" for n in range(10)]


def test_a_chunk_pinned_under_two_hash_versions_comes_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither twice among the pins, nor again as fill."""
    monkeypatch.setitem(NORMALISERS, 7, str.casefold)
    first = replay(engine, required_chunk_hashes=[], top_k=3)["chunks"]

    def cited(chunk: dict[str, Any], version: int) -> CitationRecord:
        pinned = hash_chunk(chunk["text"], version)
        return CitationRecord(pinned, chunk["document_id"], chunk["text"], 0.5, None, version, chunk["chunk_id"])

    both = create_citations_json([cited(first[0], 7), cited(first[0], 1), cited(first[1], 7)])
    answer = replay(engine, citations=both, top_k=8)
    assert verdicts(answer) == ["exact", "exact", "exact"]
    assert [chunk["chunk_id"] for chunk in answer["chunks"]][:3] == [chunk["chunk_id"] for chunk in first]
    assert [chunk["pinned"] for chunk in answer["chunks"]] == [True] * 2 + [False] * 6
    assert len({chunk["chunk_id"] for chunk in answer["chunks"]}) == 8


def test_a_corpus_without_a_hash_column_replays_by_id_and_by_a_bounded_scan(
    make_settings: Callable[..., Settings], database: str, settings: Settings
) -> None:
    """Pins of a run by their chunks' ids, bare hashes by looking through the chunks."""
    corpus = settings.corpora["documents"].model_dump()
    corpus["columns"]["chunk_hash"] = None
    bare = Engine(make_settings(database, corpora={"documents": corpus}), time.perf_counter)
    first = search(bare)
    answer = replay(bare, run=RUN)
    assert set(verdicts(answer)) == {"exact"}
    assert [c["chunk_id"] for c in answer["chunks"]] == [c["chunk_id"] for c in first["chunks"]]
    hashes = [first["chunks"][2]["chunk_hash"], hash_chunk("nothing")]
    assert verdicts(replay(bare, required_chunk_hashes=hashes)) == ["matched", "missing"]
    assert replay(bare, required_chunk_hashes=hashes, top_k=4)["filled"] == 3
    bare.close()


def test_raw_hash_tells_white_space(engine: Engine) -> None:
    """Two texts of one chunk hash have two raw hashes."""
    text = _text(engine, "handbook-safety-003")
    other = _text(engine, "handbook-rates-003")
    assert hash_chunk(text) == hash_chunk(other)
    assert raw_hash(text) != raw_hash(other)


def test_filling_up_takes_no_time_for_each_pin_and_row(
    make_settings: Callable[..., Settings], database: str, admin: Admin
) -> None:
    """Three thousand unknown hashes beside eight thousand rows: each row is looked up among them, not compared."""
    columns = [
        name
        for (name,) in admin.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'document_chunks'"
            " AND is_generated = 'NEVER' AND is_identity = 'NO'"
            " AND column_name NOT IN ('id', 'text_content', 'embedding')"
        )
    ]
    names = ", ".join(f'"{name}"' for name in columns)
    admin.execute(
        f"INSERT INTO document_chunks (id, text_content, {names})"
        f" SELECT 'more-' || i, 'more ' || i, {names} FROM generate_series(1, 8000) AS i,"
        " (SELECT * FROM document_chunks WHERE document_id = 'handbook-safety' LIMIT 1) AS chunk".encode()
    )
    unknown = [hash_chunk(f"unknown {i}") for i in range(3000)]
    impatient = make_settings(database, search={"statement_timeout_seconds": 5})
    with contextlib.closing(Engine(impatient, time.perf_counter)) as engine:
        answer = replay(engine, required_chunk_hashes=[hash_chunk("more 1"), *unknown], top_k=3005)
    assert (answer["matched"], answer["missing"], answer["filled"]) == (1, 3000, 3004)
