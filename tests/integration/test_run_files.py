"""Files of runs, and runs as files, on a real Postgres and a real folder."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, ask, asker, without_trace

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay, RunName
from retrieval_client.errors import InvalidJob
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.run_archive import RunFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from worker.settings import Settings

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
RUN = {"subject_id": "song-1", "run_id": "r1"}
NAME = RunName(subject_id="song-1", run_id="r1")


@pytest.fixture
def engine(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(make_settings(database, artifacts={"url": str(tmp_path)}), time.perf_counter)
    yield made
    made.close()


def retrieve(engine: Engine, user: str = "alice", **run: str) -> dict[str, Any]:
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": {**RUN, **run}, "k": 10})
    return engine.retrieval.top_k(job, JobContext(lambda: asker(user)))


def cite(engine: Engine, user: str = "alice", **fields: Any) -> dict[str, Any]:
    job = parse_job(BuildCitations, {"cite": RUN, "run": RUN, **fields})
    return engine.citing.build(job, JobContext(lambda: asker(user)))


def replay(engine: Engine, user: str = "alice") -> dict[str, Any]:
    return engine.replay.pinned(parse_job(PinnedReplay, {"run": RUN}), JobContext(lambda: asker(user)))


def events(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*/runs/song-1/r1/events.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


# --- files and events ---------------------------------------------------------------------------


def test_a_callers_output_is_kept_beside_the_citations_and_noted(engine: Engine, tmp_path: Path) -> None:
    """`lyrics.json`, its earlier version, and all that happened, one JSON object a line."""
    retrieve(engine)
    cite(engine)
    for text in (b'{"verse": 1}', b'{"verse": 1}', b'{"verse": 2}'):
        path = tmp_path / engine.files.keep(asker("alice"), NAME, "lyrics.json", text)
        assert path.read_bytes() == text
    (folder,) = tmp_path.glob("*/runs/song-1/r1")
    assert path.parent == folder
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["citations.json", "events.jsonl", "lyrics.json", "lyrics.v1.json"]
    assert (folder / "lyrics.v1.json").read_bytes() == b'{"verse": 1}'
    reported = [(event["kind"], event.get("file") or event.get("task")) for event in events(tmp_path)]
    assert reported == [
        ("recorded", "retrieve_top_k"),
        ("kept", "citations.json"),
        ("kept", "lyrics.json"),
        ("kept", "lyrics.json"),
    ]
    assert all(event["at"].endswith("Z") for event in events(tmp_path))


def test_a_job_that_is_run_again_leaves_no_second_event(engine: Engine, tmp_path: Path) -> None:
    """At least once means now and then twice."""
    retrieve(engine)
    for _ in range(3):
        cite(engine)
    assert [event["kind"] for event in events(tmp_path)] == ["recorded", "kept"]


@pytest.mark.parametrize(
    "name", ["../x.json", "a/b.json", ".hidden", "x", "", "events.jsonl", "a.v1.json", "a\\b.json", "x" * 200 + ".json"]
)
def test_a_file_that_would_lead_elsewhere_is_refused(engine: Engine, tmp_path: Path, name: str) -> None:
    """Names of folders, hidden files, earlier versions and the worker's own."""
    with pytest.raises(InvalidJob, match="name of a file"):
        engine.files.keep(asker("alice"), NAME, name, b"")
    assert not [*tmp_path.rglob("*.*")]


@pytest.mark.parametrize("store", ["folder", "memory"])
@pytest.mark.parametrize(
    "odd", ["song [*?]", "[", "a*", "?", "**", "[!a]", "#1 %2e%2e {a,b}", ".hidden", "~", "é 🎸", "a'$;"]
)
def test_an_id_that_is_a_pattern_is_a_name_like_any(
    make_settings: Callable[..., Settings], database: str, tmp_path: Path, store: str, odd: str
) -> None:
    """Files are kept, changed, exported and imported; the neighbour that the pattern matches keeps its own."""
    url = str(tmp_path / "store [1]") if store == "folder" else f"memory://{tmp_path}"
    matched = RunName(subject_id="a", run_id="a")
    name = RunName(subject_id=odd, run_id=odd)
    with contextlib.closing(Engine(make_settings(database, artifacts={"url": url}), time.perf_counter)) as engine:
        engine.files.keep(asker("alice"), matched, "lyrics.json", b"another run's")
        retrieve(engine, **name.model_dump(include={"subject_id", "run_id"}))
        said = {"cite": name.model_dump(exclude_none=True), "run": {"subject_id": odd, "run_id": odd}}
        assert cite(engine, **said)["artifact"].endswith(f"/runs/{odd}/{odd}/citations.json")
        for content in (b"1", b"2", b"3"):
            assert engine.files.keep(asker("alice"), name, "lyrics.json", content).endswith(
                f"/runs/{odd}/{odd}/lyrics.json"
            )
        kept = {file: engine.files._artifacts.read("alice", f"runs/{odd}/{odd}/{file}") for file in VERSIONS}
        assert kept == VERSIONS
        assert engine.files.read_all("alice", matched) == {"lyrics.json": b"another run's"}
        exported = engine.exchange.export(asker("alice"), name).as_bytes()
        assert engine.exchange.restore(asker("bob"), exported) == name
        assert engine.files.read_all("bob", name) == engine.files.read_all("alice", name)


VERSIONS = {"lyrics.v1.json": b"1", "lyrics.v2.json": b"2", "lyrics.json": b"3", "lyrics.v3.json": None}


@pytest.mark.parametrize("subject", ["..", "../bob", "a/b", "a\\b", "a\nb", "a" * 256, "é" * 128])
def test_an_id_that_names_no_folder_is_refused(engine: Engine, tmp_path: Path, subject: str) -> None:
    """It would lead elsewhere, or is longer than a file system takes: the job is wrong, the store is not away."""
    with pytest.raises(InvalidJob, match="name of a folder"):
        engine.files.keep(asker("alice"), RunName(subject_id=subject, run_id="r1"), "lyrics.json", b"")
    assert not [*tmp_path.rglob("*.*")]


def test_the_longest_id_of_a_folder_is_kept(engine: Engine) -> None:
    """255 bytes, whatever the characters."""
    name = "é" * 127 + "x"
    assert "/runs/é" in engine.files.keep(asker("alice"), RunName(subject_id=name, run_id=name), "lyrics.json", b"")


# --- export and import --------------------------------------------------------------------------


def test_a_run_goes_out_and_comes_in_whole(engine: Engine, admin: psycopg.Connection[Any], tmp_path: Path) -> None:
    """Answers, replay digest, files and events are as before; a second export differs by the import alone."""
    first, digest = retrieve(engine), replay(engine)["digest"]
    retrieve(engine, step="verse-1")
    cite(engine)
    engine.files.keep(asker("alice"), NAME, "lyrics.json", b"\x00\xff any bytes")
    exported = engine.exchange.export(asker("alice"), NAME).as_bytes()
    assert engine.exchange.export(asker("alice"), NAME).as_bytes() == exported
    admin.execute("DELETE FROM retrieval.runs")
    for file in tmp_path.rglob("*.*"):
        file.unlink()
    assert engine.exchange.restore(asker("alice"), exported) == NAME
    assert without_trace(retrieve(engine)) == without_trace(first)
    assert replay(engine)["pins"]
    assert (
        engine.replay.pinned(
            parse_job(PinnedReplay, {"run": {**RUN, "step": "verse-1"}}), JobContext(lambda: asker("alice"))
        )["digest"]
        == digest
    )
    (lyrics,) = tmp_path.glob("*/runs/song-1/r1/lyrics.json")
    assert lyrics.read_bytes() == b"\x00\xff any bytes"
    before, after = json.loads(exported), json.loads(engine.exchange.export(asker("alice"), NAME).as_bytes())
    assert {**after, "events": after["events"][:-1], "sha256": None} == {**before, "sha256": None}
    assert after["events"][-1]["kind"] == "imported"


def test_an_import_is_safe_to_repeat(engine: Engine) -> None:
    """The same run that is there already is left as it is."""
    retrieve(engine)
    exported = engine.exchange.export(asker("alice"), NAME).as_bytes()
    engine.exchange.restore(asker("alice"), exported)
    once = engine.exchange.export(asker("alice"), NAME).as_bytes()
    engine.exchange.restore(asker("alice"), exported)
    assert engine.exchange.export(asker("alice"), NAME).as_bytes() == once


def test_an_imported_run_gives_no_rights(engine: Engine) -> None:
    """Bob takes alice's run in: what he may not see is missing for him."""
    retrieve(engine)
    engine.exchange.restore(asker("bob"), engine.exchange.export(asker("alice"), NAME).as_bytes())
    seen = {chunk["document_id"] for chunk in replay(engine, "alice")["chunks"]}
    answer = replay(engine, "bob")
    assert answer["missing"] > 0
    assert {chunk["document_id"] for chunk in answer["chunks"]} < seen


def test_another_run_of_the_same_name_is_not_overwritten(engine: Engine) -> None:
    """One record for a (run, task, step), also where it comes from a file."""
    retrieve(engine)
    exported = engine.exchange.export(asker("alice"), NAME).as_bytes()
    retrieve(engine, user="bob")
    with pytest.raises(InvalidJob, match="run_id: another run has this name"):
        engine.exchange.restore(asker("bob"), exported)


def test_a_foreign_run_is_not_exported(engine: Engine) -> None:
    """As an unknown one."""
    retrieve(engine)
    with pytest.raises(InvalidJob, match="no such run"):
        engine.exchange.export(asker("bob"), NAME).as_bytes()


@pytest.mark.parametrize("change", ["revoked", "edited"])
def test_an_export_withholds_what_its_caller_can_no_longer_read(
    engine: Engine, admin: psycopg.Connection[Any], change: str
) -> None:
    """The recorded answer, its feedback and the run's files, as pages and replay do; the rest can be imported."""
    retrieve(engine)
    answer = ask(engine, question=HUM, mode="grounded", run=RUN)
    cite(engine)
    engine.files.keep(asker("alice"), NAME, "lyrics.json", answer["answer"].encode())
    chunk = answer["citations"][0]["chunk_id"]
    engine.feedback.record(asker("alice"), NAME, [chunk], used=True)
    before = engine.exchange.export(asker("alice"), NAME)
    assert (before.withheld, sorted(before.files)) == ([], ["citations.json", "lyrics.json"])
    assert answer["answer"] in json.loads(before.as_bytes())["records"][1]["answer"]["response"]["answer"]
    if change == "revoked":
        admin.execute("DELETE FROM document_grants")
        admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol'")
    else:
        admin.execute("UPDATE document_chunks SET text_content = 'other words' WHERE id = %s", [chunk])
    after = engine.exchange.export(asker("alice"), NAME)
    assert after.withheld == ["run_pipeline", "citations.json", "lyrics.json"]
    assert ([record.task for record in after.records], after.files) == (["retrieve_top_k"], {})
    assert "run_pipeline" not in {judgement.task for judgement in after.feedback}
    assert engine.exchange.restore(asker("bob"), after.as_bytes()) == NAME


def test_a_file_of_another_searchs_chunks_is_withheld_too(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """Also in a run whose records hold no text: its citations do."""
    retrieve(engine)
    cite(engine)
    admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol'")
    after = engine.exchange.export(asker("alice"), NAME)
    assert (after.withheld, after.files, len(after.records)) == (["citations.json"], {}, 1)


def _with_pin(run: dict[str, Any], **changes: Any) -> dict[str, Any]:
    run["records"][0]["pins"][0] |= changes
    return run


BAD_FILES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "not JSON": (lambda _: "{", "runs export"),
    "not a run": (lambda _: [], "runs export"),
    "another format": (lambda run: {**run, "format": "x"}, "format"),
    "another version": (lambda run: {**run, "version": 2}, "version"),
    "an unknown field": (lambda run: {**run, "owner": "bob"}, "owner"),
    "a changed name": (lambda run: {**run, "run_id": "r2"}, "sha256: the file was changed"),
    "a changed pin": (lambda run: _with_pin(run, chunk_id="other"), "sha256: the file was changed"),
    "a hash that is none": (lambda run: _with_pin(run, chunk_hash="sha256:0"), "records.0.pins.0.chunk_hash"),
    "a rank beyond an integer": (lambda run: _with_pin(run, rank=2**31), "records.0.pins.0.rank"),
}


@pytest.mark.parametrize(("change", "said"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_wrong_file_is_one_clear_error(
    engine: Engine, admin: psycopg.Connection[Any], change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    """It names the field, and nothing of the file is taken in."""
    retrieve(engine)
    run = json.loads(engine.exchange.export(asker("alice"), NAME).as_bytes())
    admin.execute("DELETE FROM retrieval.runs")
    changed = change(run)
    content = changed if isinstance(changed, str) else json.dumps(changed)
    with pytest.raises(InvalidJob, match=said):
        engine.exchange.restore(asker("alice"), content.encode())
    assert admin.execute("SELECT count(*) FROM retrieval.runs").fetchone() == (0,)


def test_a_resealed_file_is_still_checked(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """The digest tells accidents, not intent: ranks, versions and headers are looked at all the same."""
    retrieve(engine)
    run = json.loads(engine.exchange.export(asker("alice"), NAME).as_bytes())
    admin.execute("DELETE FROM retrieval.runs")
    wrongs: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
        (lambda record: record["pins"][0].update(rank=7), "ranks from 1"),
        (lambda record: record["pins"][0].update(hash_version=9), "does not know hash version 9"),
        (lambda record: record["answer"].pop("k"), "header of an answer"),
    ]
    for spoil, said in wrongs:
        copy = json.loads(json.dumps(run))
        spoil(copy["records"][0])
        sealed = RunFile.model_validate_json(json.dumps(copy))
        with pytest.raises(InvalidJob, match=said):
            engine.exchange.restore(asker("alice"), json.dumps({**copy, "sha256": sealed.digest()}).encode())
    assert admin.execute("SELECT count(*) FROM retrieval.runs").fetchone() == (0,)
