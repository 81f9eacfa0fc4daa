"""The seeds' loop through real worker processes: retrieve, write, cite by section, keep, replay, and what is forged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from typing import TYPE_CHECKING, Any

from tests.integration.provider import Provider, provider_that_says
from tests.raw_messages import raw_message
from tests.waiting import wait_for

from retrieval_client import (
    BuildCitations,
    Citations,
    CitedRun,
    Client,
    PinnedReplay,
    PipelineAnswer,
    Replay,
    RetrieveTopK,
    RunPipeline,
    RunRef,
    TopK,
    encode_embedding,
)
from retrieval_client.hashing import hash_chunk
from workbench.devstack.workers import celery_worker
from worker.core.text import lexical

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import redis

    Environment = Callable[..., dict[str, str]]

ALICE = {"user_id": "alice"}
RUN = RunRef(subject_id="song-1", run_id="r1")
CITED = CitedRun(subject_id="song-1", run_id="r1", what="cited")
SONG = """## Verse 1
The ferry hums across the harbour [S1], the lamp is red [S3].

## Chorus
Hum, ferry, hum [S1]. Row, nobody, row [S2]."""
REELS = "May reels marked with a blue dot be baked at the low setting?"

provider = provider_that_says(SONG)


def cite(client: Client, **fields: Any) -> Citations:
    answer = client.call(BuildCitations.model_validate({"principal": ALICE, **fields}), timeout=180)
    assert isinstance(answer, Citations)
    return answer


def replay(client: Client, **fields: Any) -> Replay:
    answer = client.call(PinnedReplay.model_validate({"principal": ALICE, **fields}), timeout=180)
    assert isinstance(answer, Replay)
    return answer


def retrieve(client: Client) -> TopK:
    vector = encode_embedding(lexical.embed([REELS])[0].tolist())
    answer = client.call(RetrieveTopK(query_embedding=vector, k=10, run=RUN, principal=ALICE), timeout=180)
    assert isinstance(answer, TopK)
    return answer


def test_the_lyrics_loop_closes(
    client: Client, worker_environment: Environment, provider: Provider, worker_log: Path, tmp_path: Path
) -> None:
    """One job writes and keeps the lyrics, one cites them by section; a replay proves that the chunks are the same."""
    environment = worker_environment(
        LANGUAGE_MODEL__KIND="openai",
        LANGUAGE_MODEL__MODEL="m",
        LANGUAGE_MODEL__BASE_URL=provider.url,
        ARTIFACTS__URL=str(tmp_path / "artifacts"),
    )
    sampled = {"seed": 7, "temperature": 0.25}
    job = RunPipeline(
        question="a song about the harbour ferry", mode="lyrics", k=5, run=RUN, principal=ALICE, **sampled
    )
    with celery_worker(environment, worker_log, "--concurrency=1"):
        answer = client.call(job, timeout=180)
        cited = cite(client, cite=CITED, run=RUN)
        everything = cite(client, cite=RUN.model_dump(include={"subject_id", "run_id"}), store=False)
        replayed = replay(client, run=RUN)
        again = client.call(job, timeout=180)
    assert isinstance(answer, PipelineAnswer)
    assert isinstance(again, PipelineAnswer)
    assert again.answer == answer.answer == SONG
    assert [{name: sent.get(name) for name in sampled} for sent in provider.requests] == [sampled]

    labels = {label: name["chunk_id"] for label, name in answer.package.source_labels.items()}
    by_section = {
        section: [citation["chunk_id"] for citation in citations]
        for section, citations in cited.citations["by_section"].items()
    }
    assert by_section == {"Verse 1": [labels["S1"], labels["S3"]], "Chorus": [labels["S1"], labels["S2"]]}
    assert {check.verdict for check in cited.verification} == {"exact"}
    assert {citation["chunk_id"] for citation in everything.citations["all_citations"]} == {*labels.values()}

    assert cited.artifact is not None
    kept = tmp_path / "artifacts" / cited.artifact
    assert json.loads(kept.read_text())["by_section"] == cited.citations["by_section"]
    lyrics = json.loads((kept.parent / "lyrics.json").read_text())
    assert {name: lyrics[name] for name in ("answer", "model", *sampled)} == {
        "answer": SONG,
        "model": "openai m",
        **sampled,
    }
    assert [section["section"] for section in lyrics["sections"]] == ["Verse 1", "Chorus"]
    assert lyrics["digest"] == replayed.digest
    events = [json.loads(line) for line in (kept.parent / "events.jsonl").read_text().splitlines()]
    assert [event.get("file") for event in events] == [None, "lyrics.json", "citations.json"]
    assert "ferry" not in worker_log.read_text()


def test_lyrics_that_can_not_be_kept_are_kept_later_and_written_once(
    client: Client, worker_environment: Environment, provider: Provider, worker_log: Path, tmp_path: Path
) -> None:
    """The store fails after the answer is recorded: the job is tried again, and keeps what the model said then."""
    store = tmp_path / "artifacts"
    environment = worker_environment(
        LANGUAGE_MODEL__KIND="openai",
        LANGUAGE_MODEL__MODEL="m",
        LANGUAGE_MODEL__BASE_URL=provider.url,
        ARTIFACTS__URL=str(store),
    )
    job = RunPipeline(question="a song about the harbour ferry", mode="lyrics", k=5, run=RUN, principal=ALICE)
    with celery_worker(environment, worker_log, "--concurrency=1"):
        store.rmdir()
        store.write_text("no folder")
        task_id = client.enqueue(job)
        wait_for(lambda: '"job delayed"' in worker_log.read_text())
        provider.text = "Another song."
        store.unlink()
        answer = client.result(task_id, timeout=180)
    assert isinstance(answer, PipelineAnswer)
    (file,) = store.glob("*/runs/song-1/r1/lyrics.json")
    assert answer.answer == json.loads(file.read_text())["answer"] == SONG
    assert len(provider.requests) == 1


def test_a_forged_citation_is_tampered_and_its_neighbours_are_not(
    client: Client, worker_environment: Environment, worker_log: Path
) -> None:
    """Right hash, right chunk, right source, another text: in `build_citations`, and in a replay of that document."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        records = [
            {
                "source_id": chunk.document_id,
                "text": chunk.text,
                "weight": 0.5,
                "section": None,
                "chunk_hash": chunk.chunk_hash,
                "chunk_id": chunk.chunk_id,
            }
            for chunk in retrieve(client).chunks[:3]
        ]
        records[1]["text"] = str(records[1]["text"]).replace("not ", "", 1) + " Forged."
        answer = cite(client, records=records)
        replayed = replay(client, citations=answer.citations)
    assert [check.verdict for check in answer.verification] == ["exact", "tampered", "exact"]
    assert [check.integrity for check in answer.verification] == [True, False, True]
    assert [pin.verdict for pin in replayed.pins] == ["exact", "tampered", "exact"]
    assert (replayed.matched, len(replayed.chunks)) == (2, 2)
    assert "Forged" not in worker_log.read_text()


def test_hashes_as_the_seed_stored_them_are_found(
    client: Client, broker: redis.Redis, worker_environment: Environment, worker_log: Path
) -> None:
    """64 digits in either case, with or without prefix, in a corpus and in inline sources; answered in one form."""
    with celery_worker(worker_environment(), worker_log, "--concurrency=1"):
        stored = retrieve(client).chunks[0]
        for text, fields in (
            (stored.text, {}),
            ("chunk A", {"sources": [{"id": "s1", "weight": 0.8, "chunks": ["chunk A", "chunk B"]}]}),
        ):
            canonical = hash_chunk(text)
            digits = canonical.removeprefix("sha256:")
            forms = [digits, digits.upper(), f"sha256:{digits.upper()}", canonical]
            for given in (*([form] for form in forms), forms):
                job = {"principal": ALICE, "required_chunk_hashes": given, **fields}
                task_id = str(uuid.uuid4())
                broker.lpush("retrieval", raw_message(job, "pinned_replay", task_id))
                answer = client.result(task_id, timeout=180)
                assert isinstance(answer, Replay)
                assert [(pin.chunk_hash, pin.verdict) for pin in answer.pins] == [(canonical, "matched")]
                assert [chunk.text for chunk in answer.chunks] == [text]


def test_the_command_line_shows_which_citations_contradict_each_other_and_where(
    client: Client, worker_environment: Environment, worker_log: Path, tmp_path: Path
) -> None:
    """Kind, chunk, place and the words that differ; the same in citations.json and in the file of `--out`."""
    environment = worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))
    out = tmp_path / "citations.json"
    command = [sys.executable, "-m", "workbench", "cite", "song-1", "r1", "--as", "alice", "--out", str(out)]
    with celery_worker(environment, worker_log, "--concurrency=1"):
        retrieve(client)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **environment},
        )
    assert done.returncode == 0, done.stderr
    (kept,) = (tmp_path / "artifacts").glob("*/runs/song-1/r1/citations.json")
    document = json.loads(kept.read_text())
    assert json.loads(out.read_text()) == document
    (conflict,) = [one for one in document["conflicts"] if one["kind"] == "possible_disagreement"]
    assert conflict["differs"] == ["negation"]
    assert f"conflicts: {len(document['conflicts'])};" in done.stdout
    rows = [line for line in done.stdout.split("\nconflicts ", 1)[1].splitlines() if line.startswith("│")]
    assert any(row.startswith("│ possible ") for row in rows)
    for side in conflict["sides"]:
        citation = document["all_citations"][side["index"]]
        place = f"│ {side['span'][0]}-{side['span'][1]} "
        (row,) = [row for row in rows if citation["source_id"] in row and place in row]
        assert citation["text"][side["span"][0] :][:10] in row
