"""The lyrics loop on a real Postgres: an answer in sections, citations by section, and `lyrics.json` beside them."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import ask, asker, repeated
from tests.integration.provider import Provider, provider_that_says

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob
from worker.core.citations.answering import check_answer
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg

    from worker.settings import Settings

SONG = """## Verse 1
The ferry hums across the harbour [S1], and the lamp is red [S3].

## Chorus
Hum, ferry, hum [S1]. Nobody rows.

## Chorus
Row, nobody, row [S2]."""
RUN = {"subject_id": "song-1", "run_id": "r1"}
ASKED: dict[str, Any] = {"question": "a song about the harbour ferry", "mode": "lyrics", "k": 5, "run": RUN}
SAMPLED = {"seed": 7, "temperature": 0.25}

provider = provider_that_says(SONG)


@pytest.fixture
def make_engine(
    make_settings: Callable[..., Settings], database: str, provider: Provider, tmp_path: Path
) -> Iterator[Callable[..., Engine]]:
    """Makes engines that ask the provider and keep files in the test's folder."""
    made: list[Engine] = []

    def make(**changes: Any) -> Engine:
        server = {"kind": "openai", "model": "m", "base_url": provider.url}
        values = {"language_model": server, "artifacts": {"url": str(tmp_path)}, **changes}
        made.append(Engine(make_settings(database, **values), time.perf_counter))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()


def cite(engine: Engine, what: str = "cited", **fields: Any) -> list[tuple[str, str | None]]:
    """(chunk id, section) of each citation of the run, in order."""
    job = {"cite": {**RUN, "what": what}, "verify": False, **fields}
    answer = engine.citing.build(parse_job(BuildCitations, job), JobContext(lambda: asker("alice")))
    return [(one["chunk_id"], one["section"]) for one in answer["citations"]["all_citations"]]


def lyrics(folder: Path, name: str = "lyrics.json") -> dict[str, Any]:
    (file,) = folder.glob(f"*/runs/song-1/r1/{name}")
    return dict(json.loads(file.read_text()))


def sources(answer: dict[str, Any]) -> list[str]:
    """The chunk ids that labels stand for, in order."""
    return [label["chunk_id"] for label in answer["package"]["source_labels"].values()]


def test_sections_that_the_run_knows_are_those_of_its_citations(engine: Engine) -> None:
    """A chunk that two sections cite is cited in both; one that none cites is in none."""
    first, second, third, *others = sources(ask(engine, **ASKED))
    cited = [(first, "Verse 1"), (first, "Chorus"), (second, "Chorus"), (third, "Verse 1")]
    assert cite(engine, "retrieved") == [*cited, *((chunk, None) for chunk in others)]
    assert cite(engine, "cited") == cited


def test_sections_that_the_job_gives_come_first(engine: Engine) -> None:
    """For the chunks that it names; the others keep those of the answer."""
    answer = ask(engine, **ASKED)
    first, second, third, *_ = sources(answer)
    given = {answer["package"]["source_labels"]["S1"]["chunk_hash"]: ["Bridge", "Outro"]}
    assert cite(engine, sections=given) == [
        (first, "Bridge"),
        (first, "Outro"),
        (second, "Chorus"),
        (third, "Verse 1"),
    ]


def test_an_answer_without_sections_cites_what_it_cites(engine: Engine, provider: Provider) -> None:
    """Another mode, or one whose answer has no heading: only the cited chunks, of no section."""
    provider.text = "The ferry hums [S2]."
    answer = ask(engine, **{**ASKED, "mode": "grounded"})
    assert cite(engine) == [(sources(answer)[1], None)]


def test_steps_of_a_run_are_cited_together(engine: Engine, provider: Provider, tmp_path: Path) -> None:
    """Each step's answer has sections of its own, and a file of its own."""
    provider.text = "## Verse 1\nThe ferry hums [S1]."
    first = sources(ask(engine, **{**ASKED, "run": {**RUN, "step": "verse-1"}}))[0]
    provider.text = "## Chorus\nHum, ferry [S1]."
    ask(engine, **{**ASKED, "run": {**RUN, "step": "chorus"}})
    assert cite(engine) == [(first, "Verse 1"), (first, "Chorus")]
    assert lyrics(tmp_path, "lyrics-verse-1.json")["answer"] == "## Verse 1\nThe ferry hums [S1]."
    assert lyrics(tmp_path, "lyrics-chorus.json")["answer"] == "## Chorus\nHum, ferry [S1]."


def test_headings_of_an_answer_that_is_held_back_are_held_back(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """They are words of a model that had read a source which this caller may not read any more."""
    first, second, third, *_ = sources(ask(engine, **ASKED))
    admin.execute("UPDATE document_chunks SET text_content = 'now this' WHERE id = %s", (second,))
    assert cite(engine) == [(first, None), (third, None)]


def test_the_answer_is_kept_with_what_it_takes_to_make_it_again(
    engine: Engine, provider: Provider, tmp_path: Path
) -> None:
    """Seed and temperature reach the model, the record and the file; the digest is that of a replay of the run."""
    answer = ask(engine, **ASKED, **SAMPLED)
    (sent,) = provider.requests
    assert {name: sent[name] for name in SAMPLED} == SAMPLED
    hashes = [label["chunk_hash"] for label in answer["package"]["source_labels"].values()]
    replayed = engine.replay.pinned(parse_job(PinnedReplay, {"run": RUN}), JobContext(lambda: asker("alice")))
    kept = lyrics(tmp_path)
    assert kept == {
        "answer": SONG,
        "sections": [
            {
                "section": "Verse 1",
                "text": "The ferry hums across the harbour [S1], and the lamp is red [S3].",
                "chunk_hashes": [hashes[0], hashes[2]],
            },
            {"section": "Chorus", "text": "Hum, ferry, hum [S1]. Nobody rows.", "chunk_hashes": [hashes[0]]},
            {"section": "Chorus", "text": "Row, nobody, row [S2].", "chunk_hashes": [hashes[1]]},
        ],
        **SAMPLED,
        "model": "openai m",
        "digest": replayed["digest"],
    }
    (record,) = engine.pipeline_jobs.traces(parse_job(BuildCitations, {"cite": RUN}).cite, asker("alice"))
    assert (record.package.request.seed, record.package.request.temperature) == (7, 0.25)
    assert answer["trace"]["models"]["language_model"] == "openai m"


def test_a_repeat_keeps_what_was_recorded_whatever_answers_now(
    make_engine: Callable[..., Engine], provider: Provider, tmp_path: Path
) -> None:
    """The file comes back, byte for byte, without the model: also where a worker ended before it kept it."""
    first = ask(make_engine(), **ASKED, **SAMPLED)
    (file,) = tmp_path.glob("*/runs/song-1/r1/lyrics.json")
    content = file.read_bytes()
    file.unlink()
    provider.text = "Another song."
    other = make_engine(language_model={"kind": "none"})
    again = ask(other, **ASKED, **SAMPLED)
    reused = ask(other, **{**ASKED, "seed": 8, "run": {**RUN, "reuse": True}})
    assert repeated(again) == repeated(first) == repeated(reused)
    assert file.read_bytes() == content
    assert [path.name for path in file.parent.glob("lyrics*")] == ["lyrics.json"]
    assert len(provider.requests) == 1


def test_nothing_is_kept_of_an_answer_that_is_held_back(
    engine: Engine, admin: psycopg.Connection[Any], tmp_path: Path
) -> None:
    """Nor of one that was not written: no sources, or stopped before."""
    found = sources(ask(engine, **ASKED))
    (file,) = tmp_path.glob("*/runs/song-1/r1/lyrics.json")
    file.unlink()
    admin.execute("UPDATE document_chunks SET text_content = 'now this' WHERE id = %s", (found[-1],))
    assert ask(engine, **ASKED)["short_reason"] == "changed"
    ask(engine, **{**ASKED, "stop_after": "synthesize_context", "run": {**RUN, "step": "stopped"}})
    ask(engine, **{**ASKED, "filters": {"document_ids": []}, "run": {**RUN, "step": "empty"}})
    assert not [*tmp_path.rglob("lyrics*")]


def test_a_run_that_can_be_no_folder_is_refused_before_anything_is_asked(engine: Engine, provider: Provider) -> None:
    """In a mode with sections, whose answers are kept in the run's folder; other modes keep nothing there."""
    run = {"subject_id": "a/b", "run_id": "r1"}
    with pytest.raises(InvalidJob, match=r"run\.subject_id: expected an id that can be the name of a folder"):
        ask(engine, **{**ASKED, "run": run})
    assert provider.requests == []
    assert ask(engine, **{**ASKED, "mode": "grounded", "run": run})["status"] == "ok"


def test_offline_the_sources_answer_and_the_file_says_so(make_engine: Callable[..., Engine], tmp_path: Path) -> None:
    """No headings, so one section without a name; its chunks are those that the answer cites."""
    answer = ask(make_engine(language_model={"kind": "none"}), **ASKED)
    texts = {f"S{rank}": chunk["text"] for rank, chunk in enumerate(answer["package"]["candidates"], 1)}
    cited = [citation.label for citation in check_answer(answer["answer"], texts).citations]
    (section,) = lyrics(tmp_path)["sections"]
    assert (section["section"], section["text"]) == (None, answer["answer"])
    assert len(section["chunk_hashes"]) == len(cited)
    assert {name: lyrics(tmp_path)[name] for name in ("model", "seed", "temperature")} == {
        "model": "extractive 2",
        "seed": None,
        "temperature": None,
    }
