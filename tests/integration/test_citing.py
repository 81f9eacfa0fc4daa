"""`build_citations` on a real Postgres with the sample corpus, artifacts in a real folder."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from worker.contract import BuildCitations, Citations, PinnedReplay, RetrieveTopK, parse_job
from worker.core import lexical
from worker.core.hashing import hash_chunk
from worker.engine import Engine
from worker.errors import InvalidJob, NotAuthorised
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from worker.settings import Settings

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}


def asker(user: str) -> Principal:
    return Principal({"user_id": user}, (("app.user_id", user), ("app.tenant_id", ""), ("app.roles", "")), user)


@pytest.fixture
def engine(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(make_settings(database, artifacts={"url": str(tmp_path)}), time.perf_counter)
    yield made
    made.close()


def retrieve(engine: Engine, user: str = "alice") -> list[dict[str, Any]]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": RUN, "k": 10})
    return engine.retrieval.top_k(job, lambda: asker(user))["chunks"]


def cite(engine: Engine, user: str | None = "alice", **fields: Any) -> dict[str, Any]:
    answer = engine.citing.build(parse_job(BuildCitations, fields), lambda: asker(user) if user else None)
    Citations.model_validate(json.loads(json.dumps(answer)))
    return answer


def record(chunk: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "source_id": chunk["document_id"],
        "text": chunk["text"],
        "weight": 0.5,
        "chunk_id": chunk["chunk_id"],
        "chunk_hash": chunk["chunk_hash"],
        **changes,
    }


def test_a_run_is_cited_verified_and_stored(engine: Engine, tmp_path: Path) -> None:
    """Each chunk of the run, by section, with what became of it; the file holds exactly the document."""
    chunks = retrieve(engine)
    sections = {chunks[0]["chunk_hash"]: "Verse 1", chunks[1]["chunk_hash"]: "Chorus"}
    answer = cite(engine, cite=RUN, sections=sections, run=RUN)
    document = answer["citations"]
    assert [c["chunk_id"] for c in document["all_citations"]] == [c["chunk_id"] for c in chunks]
    assert set(document["by_section"]) == {"Verse 1", "Chorus", "unknown"}
    assert document["total_count"] == 10
    assert document["source_ids"] == sorted({c["document_id"] for c in chunks})
    assert {check["verdict"] for check in answer["verification"]} == {"exact"}
    assert all(check["integrity"] and check["authorised"] for check in answer["verification"])
    assert answer["artifact"] == "runs/song-1/r1/citations.json"
    (stored,) = tmp_path.glob("*/runs/song-1/r1/citations.json")
    assert json.loads(stored.read_text()) == document


def test_a_citations_document_replays_to_the_runs_digest(engine: Engine) -> None:
    """Retrieve, cite, replay by the document: the same chunks as by the run."""
    retrieve(engine)
    document = cite(engine, cite=RUN)["citations"]

    def digest(**pins: Any) -> str:
        return engine.replay.pinned(parse_job(PinnedReplay, pins), lambda: asker("alice"))["digest"]

    assert digest(citations=document) == digest(run=RUN)


def test_a_document_whose_text_is_not_its_hash_replays_the_sources_text_and_never_as_exact(engine: Engine) -> None:
    """The hash and the chunk still tell which text was meant; nobody knows its bytes any more."""
    chunk = retrieve(engine)[0]
    document = cite(engine, "alice", records=[record(chunk, text="forged", section=None)], verify=False)["citations"]
    job = parse_job(PinnedReplay, {"citations": document})
    answer = engine.replay.pinned(job, lambda: asker("alice"))
    assert [pin["verdict"] for pin in answer["pins"]] == ["normalised"]
    assert [found["text"] for found in answer["chunks"]] == [chunk["text"]]


def test_earlier_versions_are_kept_and_owners_kept_apart(engine: Engine, tmp_path: Path) -> None:
    """Another document moves the earlier one aside; the same one again changes nothing; bob's is another file."""
    chunks = retrieve(engine)
    for n in (1, 2, 2, 3):
        cite(engine, records=[record(chunk) for chunk in chunks[:n]], run=RUN)
    cite(engine, "bob", records=[record(chunks[0])], run=RUN, verify=False)
    counts = {
        path.name: json.loads(path.read_text())["total_count"]
        for path in sorted(tmp_path.glob("*/runs/song-1/r1/citations*"))
        if json.loads(path.read_text())["total_count"] != 1 or "v1" in path.name
    }
    assert counts == {"citations.json": 3, "citations.v1.json": 1, "citations.v2.json": 2}
    assert len(list(tmp_path.glob("*/runs/song-1/r1/citations.json"))) == 2


@pytest.mark.parametrize("name", ["..", "a/../../b", "/etc", "a\\b", ".", "a\nb"])
def test_an_id_that_leads_elsewhere_is_refused(engine: Engine, tmp_path: Path, name: str) -> None:
    """No path is made of ids that could leave the run's folder; nothing is written."""
    for field in ("subject_id", "run_id"):
        with pytest.raises(InvalidJob) as caught:
            cite(engine, records=[], run={**RUN, field: name}, verify=False)
        assert caught.value.path == f"run.{field}"
    assert not list(tmp_path.iterdir())


def test_verification_is_of_now_and_of_this_caller(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """Edited, moved, gone, forged, not visible: each citation says it. A forged text can't vouch for its bytes."""
    chunks = retrieve(engine)
    records = [record(chunk) for chunk in chunks[:4]]
    records.append(record(chunks[4], text="forged"))
    admin.execute("UPDATE document_chunks SET text_content = 'now this' WHERE id = %s", (chunks[1]["chunk_id"],))
    admin.execute("UPDATE document_chunks SET id = 'elsewhere' WHERE id = %s", (chunks[2]["chunk_id"],))
    admin.execute("DELETE FROM document_chunks WHERE id = %s", (chunks[3]["chunk_id"],))
    checks = cite(engine, records=records)["verification"]
    assert [check["verdict"] for check in checks] == ["exact", "edited", "moved", "missing", "normalised"]
    assert [check["integrity"] for check in checks] == [True, True, True, True, False]
    assert [check["authorised"] for check in checks] == [True, True, True, False, True]
    private = record(chunks[0])
    assert private["source_id"] == "handbook-desk-notes"
    assert cite(engine, "bob", records=[private])["verification"][0]["verdict"] == "missing"


def test_quotes_labels_and_conflicts_are_reported(engine: Engine) -> None:
    """Word for word, misattributed or not there; labels used, unused, unknown, unreadable; what contradicts."""
    first, second = retrieve(engine)[:2]
    start = first["text"][:30].rsplit(" ", 1)[0]
    answer = cite(
        engine,
        records=[record(first), record(second), record(second, weight=0.9)],
        answer="It hums [S1], always [S7], or so [see S2 and 3].",
        labels={"S1": first["chunk_hash"], "S2": second["chunk_hash"]},
        quotes=[
            {"chunk_hash": first["chunk_hash"], "quote": start},
            {"chunk_hash": second["chunk_hash"], "quote": start},
            {"chunk_hash": first["chunk_hash"], "quote": "no chunk ever said this"},
        ],
    )
    assert [quote["verdict"] for quote in answer["quotes"]] == ["verbatim", "misattributed", "not_found"]
    assert answer["quotes"][0]["spans"] == [[0, len(start)]]
    assert answer["quotes"][1]["found_in"] == [first["chunk_hash"]]
    assert [label["label"] for label in answer["labels"]["used"]] == ["S1"]
    assert answer["labels"]["unused"] == ["S2"]
    assert [label["text"] for label in answer["labels"]["unknown"]] == ["S7"]
    assert answer["labels"]["unreadable"] == [{"text": "[see S2 and 3]", "span": (33, 47)}]
    assert "weight_differs" in {conflict["kind"] for conflict in answer["conflicts"]}
    assert answer["artifact"] is None


def test_a_quote_says_which_of_two_texts_with_one_hash_its_spans_are_of(engine: Engine) -> None:
    """Texts that differ only in white space have one hash: spans are offsets in the text of `citation`."""
    texts = ["Salt letters on the  window", "Salt letters on the window", "Salt\n\nletters on the window"]
    records = [{"source_id": f"s{n}", "text": text, "weight": 0.5, "section": None} for n, text in enumerate(texts)]
    words = ("Salt letters", "the  window", "the window", "Salt\n\nletters", "the WINDOW", "the door")
    asked = [{"chunk_hash": hash_chunk(texts[0]), "quote": quote} for quote in words]
    asked.append({"chunk_hash": hash_chunk("nothing"), "quote": "Salt letters"})
    answer = cite(engine, None, records=records, quotes=asked, verify=False)
    quotes = answer["quotes"]
    assert [quote["verdict"] for quote in quotes] == [*["verbatim"] * 4, "normalised", "not_found", "misattributed"]
    assert [quote["citation"] for quote in quotes] == [0, 0, 1, 2, 0, None, None]
    for quote in quotes[:4]:
        ((start, end),) = quote["spans"]
        assert answer["citations"]["all_citations"][quote["citation"]]["text"][start:end] == quote["quote"]


def test_who_asks_matters_only_where_something_is_asked(engine: Engine) -> None:
    """Inline records without verification or a run need nobody; each of those needs somebody."""
    one = {"source_id": "s", "text": "some text", "weight": 0.5, "section": None}
    answer = cite(engine, None, records=[one], verify=False)
    assert answer["citations"]["all_citations"][0]["chunk_hash"] == hash_chunk("some text")
    for fields in ({"records": [one]}, {"records": [one], "verify": False, "run": RUN}, {"cite": RUN}):
        with pytest.raises(NotAuthorised):
            cite(engine, None, **fields)
    with pytest.raises(InvalidJob, match="no such run"):
        cite(engine, "carol", cite=RUN)


def test_quotes_past_the_search_budget_are_not_checked(engine: Engine) -> None:
    """Ninety hard quotes over a thousand chunks end as an answer; an easy quote among them is checked all the same."""
    texts = [f"Chunk {i}. " + "a b a-b [w1] … " * 40 for i in range(1_000)]
    hard = " ".join(f"one two three [w{i}] … a b" for i in range(40))
    hashes = [hash_chunk(text) for text in texts]
    quotes = [{"chunk_hash": hashes[i], "quote": f"{hard} {i}"} for i in range(90)]
    quotes.append({"chunk_hash": hashes[500], "quote": "Chunk 500. a b"})
    answer = cite(
        engine,
        records=[{"source_id": "s", "text": text, "weight": 0.5, "section": None} for text in texts],
        quotes=quotes,
        verify=False,
        store=False,
    )
    verdicts = [quote["verdict"] for quote in answer["quotes"]]
    assert set(verdicts[:90]) <= {"not_checked", "not_found"}
    assert "not_checked" in verdicts
    assert verdicts[90] == "verbatim"
    assert {quote["reason"] for quote in answer["quotes"]} == {"search budget spent", None}
