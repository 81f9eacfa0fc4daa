"""`build_citations` on a real Postgres with the sample corpus, artifacts in a real folder."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.pinned import Citations
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised
from retrieval_client.hashing import hash_chunk
from worker.core.text import lexical
from worker.jobs import citations
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from worker.settings import Settings

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}


@pytest.fixture
def engine(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(make_settings(database, artifacts={"url": str(tmp_path)}), time.perf_counter)
    yield made
    made.close()


def retrieve(engine: Engine, user: str = "alice") -> list[dict[str, Any]]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": RUN, "k": 10})
    return engine.retrieval.top_k(job, JobContext(lambda: asker(user)))["chunks"]


def cite(engine: Engine, user: str | None = "alice", **fields: Any) -> dict[str, Any]:
    answer = engine.citing.build(parse_job(BuildCitations, fields), JobContext(lambda: asker(user) if user else None))
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


def test_a_citation_that_names_another_document_is_told_from_a_true_one(engine: Engine) -> None:
    """Right hash, right chunk id, a source that never said it: `moved`, and the document where it stands."""
    true, *_ = retrieve(engine)
    forged = record(true, source_id="The Lancet 2024", page=999)
    without_chunk = {name: value for name, value in forged.items() if name != "chunk_id"}
    checks = cite(engine, records=[record(true), forged, without_chunk], store=False)["verification"]
    assert [check["verdict"] for check in checks] == ["exact", "moved", "matched"]
    assert {check["document_id"] for check in checks} == {true["document_id"]}


def test_a_run_is_cited_verified_and_stored(engine: Engine, tmp_path: Path) -> None:
    """Each chunk of the run, by section, with what became of it; the file holds the document, and its conflicts."""
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
    assert answer["artifact"].endswith("/runs/song-1/r1/citations.json")
    stored = json.loads((tmp_path / answer["artifact"]).read_text())
    assert stored == {**document, "conflicts": json.loads(json.dumps(answer["conflicts"]))}
    assert [conflict["kind"] for conflict in stored["conflicts"]] == ["same_text_two_sources"]


def test_a_chunk_of_several_sections_is_cited_in_each(engine: Engine) -> None:
    """Side by side in the order of the run; each section once, whatever the form of the hash."""
    first, second = retrieve(engine)[:2]
    digits = second["chunk_hash"].removeprefix("sha256:").upper()
    sections = {first["chunk_hash"]: ["Verse 1", "Chorus", "Verse 1"], digits: "Chorus"}
    document = cite(engine, cite=RUN, sections=sections)["citations"]
    cited = [(one["chunk_id"], one["section"]) for one in document["all_citations"]]
    assert cited[:3] == [(first["chunk_id"], "Verse 1"), (first["chunk_id"], "Chorus"), (second["chunk_id"], "Chorus")]
    by_section = {name: [one["chunk_id"] for one in found] for name, found in document["by_section"].items()}
    assert by_section["Verse 1"] == [first["chunk_id"]]
    assert by_section["Chorus"] == [first["chunk_id"], second["chunk_id"]]
    assert document["total_count"] == 11


def test_a_chunk_that_two_steps_found_is_cited_once_a_section(engine: Engine) -> None:
    """Citing a run cites what any of its records holds, and no chunk twice for the same section."""
    chunks = retrieve(engine)
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": {**RUN, "step": "chorus"}, "k": 12})
    more = engine.retrieval.top_k(job, JobContext(lambda: asker("alice")))["chunks"]
    document = cite(engine, cite=RUN, sections={chunks[0]["chunk_hash"]: ["Verse 1", "Chorus"]})["citations"]
    cited = [one["chunk_id"] for one in document["all_citations"]]
    assert cited == [chunks[0]["chunk_id"], *(chunk["chunk_id"] for chunk in more)]


def test_only_an_answer_cites(engine: Engine) -> None:
    """A run of retrievals alone has none, and says so."""
    retrieve(engine)
    with pytest.raises(InvalidJob, match=r"cite\.what: expected a run with an answer of run_pipeline"):
        cite(engine, cite={**RUN, "what": "cited"})


def test_a_citations_document_replays_to_the_runs_digest(engine: Engine, tmp_path: Path) -> None:
    """Retrieve, cite, replay by the document, as answered and as kept: the same chunks as by the run."""
    retrieve(engine)
    answer = cite(engine, cite=RUN, run=RUN)
    document, kept = answer["citations"], json.loads((tmp_path / answer["artifact"]).read_text())

    def digest(**pins: Any) -> str:
        return engine.replay.pinned(parse_job(PinnedReplay, pins), JobContext(lambda: asker("alice")))["digest"]

    assert digest(citations=document) == digest(citations=kept) == digest(run=RUN)


@pytest.mark.parametrize("changes", [{}, {"chunk_id": "nowhere"}, {"source_id": "elsewhere"}, {"weight": 1}])
def test_a_text_that_is_not_its_hash_is_tampered_whatever_else_is_right(
    engine: Engine, changes: dict[str, Any]
) -> None:
    """In `build_citations` and in a replay of the document; and no text is answered for it."""
    chunk, other = retrieve(engine)[:2]
    records = [record(chunk, text="forged", **changes), record(other)]
    answer = cite(engine, records=records)
    assert [check["verdict"] for check in answer["verification"]] == ["tampered", "exact"]
    assert [check["integrity"] for check in answer["verification"]] == [False, True]
    job = parse_job(PinnedReplay, {"citations": answer["citations"], "top_k": 2, "fill": "hash"})
    replayed = engine.replay.pinned(job, JobContext(lambda: asker("alice")))
    assert [pin["verdict"] for pin in replayed["pins"]] == ["tampered", "exact"]
    assert (replayed["matched"], replayed["missing"], replayed["filled"]) == (1, 0, 1)
    assert chunk["chunk_hash"] not in [found["chunk_hash"] for found in replayed["chunks"]]


def test_a_tampered_citation_tells_nothing_of_a_chunk_that_is_hidden(engine: Engine) -> None:
    """For bob, alice's chunk and one that is nowhere are the same, but for their hashes."""
    private = record(retrieve(engine)[0], text="forged")
    nowhere = {**private, "chunk_id": "nowhere", "chunk_hash": hash_chunk("no such text anywhere")}
    answer = cite(engine, "bob", records=[private, nowhere])
    assert {(check["verdict"], check["authorised"]) for check in answer["verification"]} == {("tampered", False)}
    job = parse_job(PinnedReplay, {"citations": answer["citations"]})
    pins = engine.replay.pinned(job, JobContext(lambda: asker("bob")))["pins"]
    assert {**pins[0], "chunk_hash": ""} == {**pins[1], "chunk_hash": ""}
    assert pins[0]["chunk_id"] is pins[0]["document_id"] is pins[0]["found_hash"] is None


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
    assert [check["verdict"] for check in checks] == ["exact", "edited", "moved", "missing", "tampered"]
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
    misattributed = answer["quotes"][1]
    assert misattributed["found_in"] == [misattributed["chunk_hash"]] == [first["chunk_hash"]]
    assert misattributed["claimed_hash"] != first["chunk_hash"]
    assert [label["label"] for label in answer["labels"]["used"]] == ["S1"]
    assert answer["labels"]["unused"] == ["S2"]
    assert [label["text"] for label in answer["labels"]["unknown"]] == ["S7"]
    assert answer["labels"]["unreadable"] == [{"text": "[see S2 and 3]", "span": (33, 47)}]
    assert "weight_differs" in {conflict["kind"] for conflict in answer["conflicts"]}
    assert answer["artifact"] is None


def test_an_elided_quote_says_what_it_leaves_out_and_puts_in(engine: Engine) -> None:
    """With the texts, and with spans of the chunk's own text."""
    text = "The desk may stay in service, but those channels should not carry quiet sources until they are repaired."
    asked = ["those channels should … until [the channels] are repaired", "The desk may stay in service"]
    quotes = [{"chunk_hash": hash_chunk(text), "quote": quote} for quote in asked]
    records = [{"source_id": "s", "text": text, "weight": 1, "section": None}]
    elided, whole = cite(engine, None, records=records, quotes=quotes, verify=False)["quotes"]
    assert (elided["verdict"], whole["verdict"]) == ("elided", "verbatim")
    left_out = " not carry quiet sources "
    start = text.index(left_out)
    assert elided["left_out"] == [{"span": (start, start + len(left_out)), "text": left_out, "another_sentence": False}]
    assert elided["put_in"] == [{"text": "the channels", "replaces": "they"}]
    assert (whole["left_out"], whole["put_in"]) == ([], [])
    assert (whole["before"], whole["after"]) == (None, text[len(asked[1]) :])


def test_an_altered_quote_says_what_differs(engine: Engine) -> None:
    """Both texts, both places, and a kind of the closed list; a kind that settings accept is only normalised."""
    text = "Store it dry—never  in the van."
    records = [{"source_id": "s", "text": text, "weight": 1, "section": None}]
    asked = ["Store it dry-never in the van", "Store it wet—never in the van"]
    quotes = [{"chunk_hash": hash_chunk(text), "quote": quote} for quote in asked]
    dashed, wet = cite(engine, None, records=records, quotes=quotes, verify=False)["quotes"]
    dash = {"kind": "dash", "quoted": "-", "source": "—", "quote_span": (12, 13), "chunk_span": (12, 13)}
    space = {"kind": "white_space", "quoted": " ", "source": "  ", "quote_span": (18, 19), "chunk_span": (18, 20)}
    word = {"kind": "words", "quoted": "wet", "source": "dry", "quote_span": (9, 12), "chunk_span": (9, 12)}
    assert (dashed["verdict"], dashed["differences"]) == ("altered", [dash, space])
    assert (wet["verdict"], wet["differences"]) == ("altered", [word, space])
    assert (wet["chunk_hash"], wet["claimed_hash"], wet["citation"]) == (hash_chunk(text), hash_chunk(text), 0)


def test_differences_that_settings_accept(make_settings: Callable[..., Settings], database: str) -> None:
    """`citations.accept` decides what leaves a quote normalised, here and in answers."""
    text = "Store it dry—never in the van."
    settings = make_settings(database, citations={"accept": ["dash"]})
    quotes = [{"chunk_hash": hash_chunk(text), "quote": quote} for quote in ("dry-never", "dry—never  in")]
    records = [{"source_id": "s", "text": text, "weight": 1, "section": None}]
    with contextlib.closing(Engine(settings, time.perf_counter)) as engine:
        answer = cite(engine, None, records=records, quotes=quotes, verify=False)
    assert [quote["verdict"] for quote in answer["quotes"]] == ["normalised", "altered"]


def test_a_forged_text_vouches_for_no_quote(engine: Engine) -> None:
    """It is said to stand in the chunk of that hash, whose text this is not; in an honest copy it is found."""
    chunk = retrieve(engine)[0]
    forged = record(chunk, text="Channel 18 never hummed at all.")
    asked = [{"chunk_hash": chunk["chunk_hash"], "quote": quote} for quote in ("never hummed at all", chunk["text"])]
    alone = cite(engine, records=[forged], quotes=asked)["quotes"]
    assert [(quote["verdict"], quote["citation"]) for quote in alone] == [("not_found", None)] * 2
    beside = cite(engine, records=[forged, record(chunk)], quotes=asked)["quotes"]
    assert [(quote["verdict"], quote["citation"]) for quote in beside] == [("not_found", None), ("verbatim", 1)]


def test_a_quote_says_which_of_two_texts_with_one_hash_its_spans_are_of(engine: Engine) -> None:
    """Texts that differ only in white space have one hash: spans are offsets in the text of `citation`."""
    texts = ["Salt letters on the  window", "Salt letters on the window", "Salt\n\nletters on the window"]
    records = [{"source_id": f"s{n}", "text": text, "weight": 0.5, "section": None} for n, text in enumerate(texts)]
    words = ("Salt letters", "the  window", "the window", "Salt\n\nletters", "The window", "the door")
    asked = [{"chunk_hash": hash_chunk(texts[0]), "quote": quote} for quote in words]
    asked.append({"chunk_hash": hash_chunk("nothing"), "quote": "Salt letters"})
    answer = cite(engine, None, records=records, quotes=asked, verify=False)
    quotes = answer["quotes"]
    assert [quote["verdict"] for quote in quotes] == [*["verbatim"] * 4, "normalised", "not_found", "misattributed"]
    assert [quote["citation"] for quote in quotes] == [0, 0, 1, 2, 1, None, 0]
    for quote in quotes[:4]:
        ((start, end),) = quote["spans"]
        assert answer["citations"]["all_citations"][quote["citation"]]["text"][start:end] == quote["quote"]


def test_who_asks_matters_only_where_something_is_asked(engine: Engine) -> None:
    """Inline records need a caller only with verification or a run."""
    one = {"source_id": "s", "text": "some text", "weight": 0.5, "section": None}
    answer = cite(engine, None, records=[one], verify=False)
    assert answer["citations"]["all_citations"][0]["chunk_hash"] == hash_chunk("some text")
    for fields in ({"records": [one]}, {"records": [one], "verify": False, "run": RUN}, {"cite": RUN}):
        with pytest.raises(NotAuthorised):
            cite(engine, None, **fields)
    with pytest.raises(InvalidJob, match="no such run"):
        cite(engine, "carol", cite=RUN)


def test_quotes_past_the_search_budget_are_not_checked(
    make_settings: Callable[..., Settings], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ninety hard quotes over a thousand chunks end as an answer; an easy quote among them is checked all the same."""
    texts = [f"Chunk {i}. " + "5 mW of it. " * 20 for i in range(1_000)]
    hashes = [hash_chunk(text) for text in texts]
    quotes = [{"chunk_hash": hashes[i], "quote": "5 MW of it. " * 10 + str(i)} for i in range(90)]
    quotes.append({"chunk_hash": hashes[500], "quote": "Chunk 500. 5 mW"})
    monkeypatch.setattr(citations, "STEPS_PER_JOB", 1_000_000)
    with contextlib.closing(Engine(make_settings(database), time.perf_counter)) as engine:
        answer = cite(
            engine,
            records=[{"source_id": "s", "text": text, "weight": 0.5, "section": None} for text in texts],
            quotes=quotes,
            verify=False,
            store=False,
        )
    verdicts = [quote["verdict"] for quote in answer["quotes"]]
    assert set(verdicts[:90]) <= {"not_checked", "not_found", "altered"}
    assert "not_checked" in verdicts
    assert verdicts[90] == "verbatim"
    assert {quote["reason"] for quote in answer["quotes"]} == {"search budget spent", None}
