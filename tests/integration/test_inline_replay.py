"""`pinned_replay` over inline sources: the edge cases of seeds 000 and 001, and that no order changes anything."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from structlog.testing import capture_logs
from tests.integration.asking import without_trace

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.pinned import Replay
from retrieval_client.contract.run_jobs import PinnedReplay
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import hash_chunk
from worker.core.citations.document import CitationRecord, create_citations_json
from worker.core.pins.pinning import digest
from worker.core.shape import check_shape
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import Principal

if TYPE_CHECKING:
    from worker.settings import Settings

A, B, C, D = "chunk A", "chunk B", "chunk C", "chunk D"
SOURCES: list[dict[str, Any]] = [
    {"id": "s2", "weight": 0.8, "chunks": [B, A]},
    {"id": "s1", "weight": 0.3, "chunks": [{"text": D, "chunk_id": "c1"}, C]},
]
IN_ORDER = [("s1", C), ("s1", D), ("s2", A), ("s2", B)]
NOTHING = hash_chunk("no such text anywhere")


def anonymous() -> Principal | None:
    raise AssertionError("inline sources need nobody")


def alice() -> Principal:
    return Principal(
        {"user_id": "alice"}, (("app.user_id", "alice"), ("app.tenant_id", ""), ("app.roles", "")), "alice"
    )


def replay(engine: Engine, *pins: str, sources: Any = None, **fields: Any) -> dict[str, Any]:
    """A replay of pins (texts, or hashes as they are) over inline sources."""
    if "citations" not in fields:
        fields["required_chunk_hashes"] = [hashed(pin) for pin in pins]
    job = parse_job(PinnedReplay, {"sources": SOURCES if sources is None else sources, **fields})
    answer = engine.replay.pinned(job, JobContext(anonymous))
    Replay.model_validate(answer)
    rows = [(c["chunk_hash"], c["text"], c["source_id"], c["pinned"]) for c in answer["chunks"]]
    assert answer["digest"] == digest(rows)
    assert all(chunk["chunk_hash"] == hash_chunk(chunk["text"]) for chunk in answer["chunks"])
    return answer


def hashed(pin: str) -> str:
    return pin if pin.startswith("sha256:") else hash_chunk(pin)


def verdicts(answer: dict[str, Any]) -> list[str]:
    return [pin["verdict"] for pin in answer["pins"]]


def said(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(chunk["source_id"], chunk["text"]) for chunk in answer["chunks"]]


def counts(answer: dict[str, Any]) -> dict[str, int]:
    return {name: answer[name] for name in ("matched", "missing", "filled", "truncated", "skipped")}


# --- the seeds' two phases ----------------------------------------------------------------------


def test_pins_come_first_in_the_order_asked_then_the_fill(engine: Engine) -> None:
    """Phase 1: by hash. Phase 2: by (source id, text)."""
    answer = replay(engine, B, D, top_k=4)
    assert said(answer) == [("s2", B), ("s1", D), ("s1", C), ("s2", A)]
    assert [chunk["pinned"] for chunk in answer["chunks"]] == [True, True, False, False]
    assert verdicts(answer) == ["matched", "matched"]
    assert counts(answer) == {"matched": 2, "missing": 0, "filled": 2, "truncated": 0, "skipped": 0}


def test_a_first_run_without_hashes_is_replayed_by_a_second_with_them(engine: Engine) -> None:
    """Seed 000's usage: fill, keep the hashes, ask for them: the same chunks, with another query and seed."""
    first = replay(engine, top_k=5, query="Lyrics context for love, heartbreak", seed=42)
    assert said(first) == IN_ORDER
    hashes = [chunk["chunk_hash"] for chunk in first["chunks"]]
    second = replay(engine, *hashes, top_k=5, query="Different query", seed=99)
    assert said(second) == IN_ORDER
    assert all(chunk["pinned"] for chunk in second["chunks"])


def test_without_top_k_there_is_no_fill(engine: Engine) -> None:
    """As many chunks as pins; without pins 5, if a fill is asked for by name."""
    assert said(replay(engine, B)) == [("s2", B)]
    assert said(replay(engine)) == []
    many = [{"id": "s", "chunks": [f"text {n}" for n in range(9)]}]
    assert [text for _, text in said(replay(engine, sources=many, fill="text"))] == [f"text {n}" for n in range(5)]
    assert replay(engine, B, top_k=4, fill="none")["filled"] == 0
    assert said(replay(engine, B, NOTHING, fill="text")) == [("s2", B), ("s1", C)]


def test_fill_by_hash(engine: Engine) -> None:
    answer = replay(engine, top_k=4, fill="hash")
    assert [c["chunk_hash"] for c in answer["chunks"]] == sorted(hash_chunk(text) for text in (A, B, C, D))


def test_fill_is_by_source_then_text_then_chunk_id_by_code_point(engine: Engine) -> None:
    """No locale: upper before lower case, ä after z, an astral character after U+FFFD, s10 before s2."""
    sources = [
        {"id": "s2", "chunks": ["x"]},
        {"id": "s10", "chunks": ["\U0001f600", "\ufffd", "ä", "z", "a", "Z"]},
        {"id": "S3", "chunks": ["y"]},
    ]
    wanted = [("S3", "y"), *(("s10", text) for text in ("Z", "a", "z", "ä", "\ufffd", "\U0001f600")), ("s2", "x")]
    assert said(replay(engine, sources=sources, top_k=99)) == wanted


# --- the seeds' edge cases ----------------------------------------------------------------------


def test_an_unknown_hash_is_missing_and_the_rest_goes_on(engine: Engine) -> None:
    answer = replay(engine, B, NOTHING, A, top_k=4)
    assert verdicts(answer) == ["matched", "missing", "matched"]
    assert said(answer) == [("s2", B), ("s2", A), ("s1", C), ("s1", D)]
    assert counts(answer) == {"matched": 2, "missing": 1, "filled": 2, "truncated": 0, "skipped": 0}
    nothing = {"chunk_id": None, "document_id": None, "found_hash": None, "places": 0}
    assert answer["pins"][1] == {"chunk_hash": NOTHING, "verdict": "missing", **nothing}


@pytest.mark.parametrize("sources", [[], [{"id": "s1", "chunks": []}]])
def test_no_sources_are_no_chunks(engine: Engine, sources: list[Any]) -> None:
    """`[]` is a list of sources, not the corpus."""
    answer = replay(engine, A, sources=sources, top_k=5)
    assert answer["chunks"] == []
    assert verdicts(answer) == ["missing"]
    assert replay(engine, sources=sources, top_k=5)["chunks"] == []


def test_top_k_over_what_exists_is_all(engine: Engine) -> None:
    assert said(replay(engine, top_k=1_000_000)) == IN_ORDER
    assert said(replay(engine, B, top_k=10**30)) == [("s2", B), *IN_ORDER[:3]]


@pytest.mark.parametrize("top_k", [0, -1, -(10**30)])
def test_top_k_0_is_nothing(engine: Engine, top_k: int) -> None:
    answer = replay(engine, A, B, top_k=top_k)
    assert (answer["chunks"], answer["pins"]) == ([], [])
    assert counts(answer) == {"matched": 0, "missing": 0, "filled": 0, "truncated": 2, "skipped": 0}


def test_duplicate_hashes_are_taken_once(engine: Engine) -> None:
    """They count once for top_k as well, so that none of them pushes another pin out."""
    answer = replay(engine, A, A, B, A, top_k=2)
    assert said(answer) == [("s2", A), ("s2", B)]
    assert counts(answer) == {"matched": 2, "missing": 0, "filled": 0, "truncated": 0, "skipped": 0}
    assert len(replay(engine, NOTHING, NOTHING)["pins"]) == 1


@pytest.mark.parametrize(
    "chunk",
    [
        None,
        1,
        1.5,
        True,
        [],
        ["text"],
        {},
        {"text": None},
        {"text": 1},
        {"text": "x", "chunk_id": 1},
        {"chunk_id": "c"},
        "",
        " \n\t\u2003",
        "\u200b\ufeff \u2060",
        {"text": "\u3164\ufe0f\U000e0041"},
        {"text": ""},
        {"text": "\u00a0 ", "chunk_id": "c"},
    ],
)
def test_a_chunk_that_is_no_text_is_skipped_and_counted(engine: Engine, chunk: Any) -> None:
    sources = [{"id": "s1", "chunks": [chunk, A, chunk]}]
    answer = replay(engine, A, sources=sources, top_k=5)
    assert said(answer) == [("s1", A)]
    assert counts(answer) == {"matched": 1, "missing": 0, "filled": 0, "truncated": 0, "skipped": 2}


def test_a_source_without_chunks_is_skipped_and_counted(engine: Engine) -> None:
    """The others are answered; an empty list of chunks is a list, and null is not one."""
    sources = [{"id": "s1"}, {"id": "s2", "chunks": [A]}, {}, {"id": "s3", "chunks": []}]
    answer = replay(engine, A, sources=sources, top_k=5)
    assert said(answer) == [("s2", A)]
    assert counts(answer) == {"matched": 1, "missing": 0, "filled": 0, "truncated": 0, "skipped": 2}
    assert counts(replay(engine, sources=[{}], top_k=5))["skipped"] == 1
    with pytest.raises(InvalidJob, match=r"sources\[0\]\.chunks: expected a value or no such field, got null"):
        replay(engine, sources=[{"chunks": None}])


def test_each_edge_case_is_a_line_in_the_log(engine: Engine) -> None:
    """At `warning`, with how often; a replay in which nothing is amiss logs none."""
    sources = [*SOURCES, {"chunks": [C, None, "", {}]}, {"id": "s4", "weight": 1}]
    with capture_logs() as lines:
        replay(engine, A, A, NOTHING, B, C, sources=sources, top_k=3)
        replay(engine, sources=[], top_k=0)
        replay(engine, A, sources=SOURCES, top_k=9)
        replay(engine, A, sources=SOURCES)
    assert {line["log_level"] for line in lines} == {"warning"}
    assert [(line["event"], line["count"]) for line in lines] == [
        ("duplicate_pins", 1),
        ("chunks_skipped", 3),
        ("sources_without_chunks", 1),
        ("sources_without_id", 1),
        ("sources_without_weight", 1),
        ("pins_missing", 1),
        ("pins_truncated", 1),
        ("top_k_is_zero", 1),
        ("no_sources", 1),
        ("fewer_than_top_k", 5),
    ]


def test_no_weight_is_a_half(engine: Engine) -> None:
    sources = [
        {"id": "s1", "chunks": [A]},
        {"id": "s2", "weight": 0, "chunks": [B]},
        {"id": "s3", "weight": 1, "chunks": [C]},
    ]
    assert [chunk["weight"] for chunk in replay(engine, A, sources=sources, top_k=3)["chunks"]] == [0.5, 0, 1]


def test_no_id_is_the_name_and_else_unknown(engine: Engine) -> None:
    sources = [{"name": "source1", "chunks": [A]}, {"chunks": [B]}, {"id": "s3", "name": "n", "chunks": [C]}]
    answer = replay(engine, A, B, C, sources=sources)
    assert [chunk["source_id"] for chunk in answer["chunks"]] == ["source1", "unknown", "s3"]
    assert [pin["document_id"] for pin in answer["pins"]] == ["source1", "unknown", "s3"]


def test_more_pins_than_top_k_are_truncated(engine: Engine) -> None:
    answer = replay(engine, D, NOTHING, B, A, top_k=2)
    assert said(answer)[:1] == [("s1", D)]
    assert verdicts(answer) == ["matched", "missing"]
    assert answer["truncated"] == 2


def test_a_pinned_hash_never_comes_again_as_fill(engine: Engine) -> None:
    """Neither from another source, nor spaced differently, nor one that top_k cut."""
    spaced = [*SOURCES, {"id": "s0", "chunks": ["chunk\n A", A, B]}]
    answer = replay(engine, A, sources=spaced, top_k=99)
    assert [chunk["chunk_hash"] for chunk in answer["chunks"]].count(hash_chunk(A)) == 1
    assert verdicts(answer) == ["ambiguous"]
    assert answer["pins"][0]["places"] == 3
    assert said(answer)[0] == ("s0", "chunk\n A")
    cut = replay(engine, NOTHING, A, B, sources=SOURCES, top_k=2)
    assert said(cut) == [("s2", A), ("s1", C)]
    assert B not in {text for _, text in said(cut)}


def test_the_query_and_the_seed_change_nothing(engine: Engine) -> None:
    answers = [
        replay(engine, B, NOTHING, top_k=3, **extra)
        for extra in ({}, {"query": "love"}, {"query": "hate", "seed": 99}, {"seed": -(2**70)}, {"query": ""})
    ]
    assert all(without_trace(answer) == without_trace(answers[0]) for answer in answers)


def test_ten_replays_have_one_digest(engine: Engine) -> None:
    answers = [replay(engine, B, NOTHING, A, top_k=4, seed=n) for n in range(10)]
    assert len({answer["digest"] for answer in answers}) == 1
    assert all(without_trace(answer) == without_trace(answers[0]) for answer in answers)


def test_white_space_is_no_difference_and_the_text_comes_as_it_is(engine: Engine) -> None:
    answer = replay(engine, "two words", sources=[{"id": "s", "chunks": [" two\u00a0\n words"]}])
    assert (verdicts(answer), said(answer)) == (["matched"], [("s", " two\u00a0\n words")])


def test_the_same_text_in_two_sources_is_ambiguous_and_the_lowest_is_taken(engine: Engine) -> None:
    sources = [
        {"id": "s2", "weight": 0.9, "chunks": [A]},
        {"id": "s1", "weight": 0.1, "chunks": [{"text": A, "chunk_id": "c"}]},
    ]
    answer = replay(engine, A, sources=sources)
    pin = answer["pins"][0]
    assert (pin["verdict"], pin["document_id"], pin["chunk_id"], pin["places"]) == ("ambiguous", "s1", "c", 2)
    assert answer["chunks"][0]["weight"] == 0.1


# --- inline, with a citations document or a run -------------------------------------------------


def citations(*records: tuple[str, str, str | None]) -> dict[str, Any]:
    return create_citations_json(
        [CitationRecord(hash_chunk(text), source, text, 0.9, "Verse 1", None, chunk) for source, text, chunk in records]
    )


def test_the_seeds_second_run_replays_its_citations_document(engine: Engine) -> None:
    """Seed 001: load citations.json, find the same chunks; a citation with an id knows its chunk."""
    document = citations(("s2", B, None), ("s1", D, "c1"), ("s1", "gone", "c1"), ("s1", "gone", "c7"))
    answer = replay(engine, citations=document)
    assert verdicts(answer) == ["matched", "exact", "edited", "missing"]
    assert said(answer) == [("s2", B), ("s1", D)]
    assert answer["pins"][2]["found_hash"] == hash_chunk(D)


def test_a_chunk_id_that_two_sources_use_does_not_depend_on_their_order(engine: Engine) -> None:
    """Inline ids are the sources' own: `c1` of s1 is not `c1` of s2."""
    sources = [{"id": name, "chunks": [{"text": A, "chunk_id": "c1"}]} for name in ("s1", "s2")]
    document = citations(("s1", A, "c1"))
    answers = [replay(engine, citations=document, sources=order) for order in (sources, sources[::-1])]
    assert [(verdicts(a), said(a)) for a in answers] == [(["exact"], [("s1", A)])] * 2


def test_several_runs_over_inline_sources_are_refused_or_answered(engine: Engine) -> None:
    """Either is fine; an internal error is not."""
    job = {"sources": SOURCES, "runs": [{"subject_id": "song-1", "run_id": "r1"}]}
    with contextlib.suppress(InvalidJob):
        assert "results" in engine.replay.pinned(parse_job(PinnedReplay, job), JobContext(alice))


def test_a_recorded_inline_replay_answers_again_and_refuses_another_job(engine: Engine) -> None:
    """A run is somebody's: here, and only here, somebody has to ask."""
    run = {"subject_id": "song-1", "run_id": "r1"}
    job = {"required_chunk_hashes": [hash_chunk(B)], "sources": SOURCES, "top_k": 3, "run": run}
    first = engine.replay.pinned(parse_job(PinnedReplay, job), JobContext(alice))
    assert without_trace(engine.replay.pinned(parse_job(PinnedReplay, job), JobContext(alice))) == without_trace(first)
    with pytest.raises(InvalidJob, match="another job"):
        engine.replay.pinned(parse_job(PinnedReplay, {**job, "top_k": 4}), JobContext(alice))


def test_inline_needs_no_principal_and_no_database(settings: Settings, stack: Any) -> None:
    """The caller is never looked up, and nothing is read: the answer comes with the database gone."""
    made = Engine(settings, time.perf_counter)
    try:
        before = replay(made, B, top_k=3)
        with psycopg.connect(stack.postgres.dsn(), autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'retrieval_worker'")
        assert without_trace(replay(made, B, top_k=3)) == without_trace(before)
    finally:
        made.close()


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"sources": [{"id": "s", "chunks": None}]}, "sources[0].chunks"),
        ({"sources": [{"id": "s", "chunks": A}]}, "sources[0].chunks"),
        ({"sources": [{"id": "s", "chunks": [], "extra": 1}]}, "sources[0].extra"),
        ({"sources": [{"id": "s", "chunks": [], "weight": 1.5}]}, "sources[0].weight"),
        ({"sources": [{"id": "s", "chunks": [], "weight": True}]}, "sources[0].weight"),
        ({"sources": [{"id": 1, "chunks": []}]}, "sources[0].id"),
        ({"sources": None}, "sources"),
        ({"required_chunk_hashes": ["sha256:ABC"]}, "required_chunk_hashes[0]"),
        ({"required_chunk_hashes": [hash_chunk(A) + "\n"]}, "required_chunk_hashes[0]"),
        ({"top_k": 1.5}, "top_k"),
        ({"fill": "random"}, "fill"),
    ],
)
def test_what_is_no_job_is_refused_with_its_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidJob) as refused:
        parse_job(PinnedReplay, {"required_chunk_hashes": [], "sources": SOURCES, **fields})
    assert refused.value.path == path


@pytest.mark.parametrize(
    ("chunk", "path"),
    [
        ("a secret\x00text", "sources[0].chunks[0]"),
        ({"text": "a secret \ud800"}, "sources[0].chunks[0].text"),
        (float("nan"), "sources[0].chunks[0]"),
    ],
)
def test_text_that_postgres_cannot_store_is_refused_and_not_echoed(settings: Settings, chunk: Any, path: str) -> None:
    """Not skipped as no text: the whole job is wrong, as any job with such a string."""
    with pytest.raises(InvalidJob) as refused:
        check_shape({"required_chunk_hashes": [], "sources": [{"chunks": [chunk]}]}, settings.limits.bounds)
    assert refused.value.path == path
    assert "secret" not in str(refused.value)


# --- for any sources ----------------------------------------------------------------------------

texts = st.sampled_from([A, B, C, D, "chunk  A", "", "Chunk a"])
chunks = texts | st.builds(lambda t, n: {"text": t, "chunk_id": n}, texts, st.sampled_from(["c1", "c2"])) | st.none()
weights = st.sampled_from([0, 0.3, 0.5, 1])
some_sources = st.lists(
    st.fixed_dictionaries(
        {"chunks": st.lists(chunks, max_size=5)},
        optional={"id": st.sampled_from(["s1", "s2", "s10"]), "name": st.sampled_from(["s1", "n"]), "weight": weights},
    ),
    max_size=4,
)
some_pins = st.lists(st.sampled_from([A, B, C, NOTHING]), max_size=4)
with_a_database = examples(
    deadline=None,
    max_examples=4 * examples.default.max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@with_a_database
@given(
    data=st.data(),
    sources=some_sources,
    pins=some_pins,
    top_k=st.none() | st.integers(0, 12),
    fill=st.sampled_from(["text", "hash", "none"]),
)
def test_the_order_of_sources_and_chunks_changes_nothing(
    engine: Engine, data: st.DataObject, sources: list[Any], pins: list[str], top_k: int | None, fill: str
) -> None:
    """Not the digest, not a chunk, not a weight, not a verdict: even of doubles and of sources that share an id."""
    permuted = [
        {**source, "chunks": data.draw(st.permutations(source["chunks"]))}
        for source in data.draw(st.permutations(sources))
    ]
    fields: dict[str, Any] = {"fill": fill, **({} if top_k is None else {"top_k": top_k})}
    answer = replay(engine, *pins, sources=sources, **fields)
    assert without_trace(replay(engine, *pins, sources=permuted, **fields)) == without_trace(answer)


storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
any_text = storable | texts  # some that differ only in white space
any_sources = st.lists(
    st.fixed_dictionaries(
        {
            "chunks": st.lists(
                storable | st.fixed_dictionaries({"text": storable, "chunk_id": st.text("ab", min_size=1)})
            )
        },
        optional={"id": st.text("sS1é", min_size=1, max_size=3), "weight": weights},
    ),
    max_size=5,
)


@with_a_database
@given(data=st.data(), sources=any_sources, top_k=st.integers(0, 12))
def test_any_permutation_of_any_sources_gives_the_same_digest(
    engine: Engine, data: st.DataObject, sources: list[Any], top_k: int
) -> None:
    """Order never changes the digest of any texts; and a pin is answered with its own text or with none."""
    texts = [chunk["text"] if isinstance(chunk, dict) else chunk for source in sources for chunk in source["chunks"]]
    pins = [*data.draw(st.lists(st.sampled_from(texts) if texts else storable, max_size=4)), data.draw(storable)]
    answer = replay(engine, *map(hash_chunk, pins), sources=sources, top_k=top_k)
    for _ in range(3):
        permuted = [
            {**source, "chunks": data.draw(st.permutations(source["chunks"]))}
            for source in data.draw(st.permutations(sources))
        ]
        assert replay(engine, *map(hash_chunk, pins), sources=permuted, top_k=top_k)["digest"] == answer["digest"]
    wanted = {hash_chunk(text): " ".join(text.split()) for text in pins}
    for chunk in answer["chunks"]:
        assert not chunk["pinned"] or " ".join(chunk["text"].split()) == wanted[chunk["chunk_hash"]]


@with_a_database
@given(sources=some_sources, pins=some_pins, top_k=st.integers(0, 12))
def test_what_holds_of_every_replay(engine: Engine, sources: list[Any], pins: list[str], top_k: int) -> None:
    """Never more than top_k; pins first; no pinned hash among the fill; the fill in order; counts that add up."""
    answer = replay(engine, *pins, sources=sources, top_k=top_k)
    found = answer["chunks"]
    pinned = [chunk for chunk in found if chunk["pinned"]]
    fill = found[len(pinned) :]
    assert len(found) <= top_k
    assert not any(chunk["pinned"] for chunk in fill)
    assert [c["chunk_hash"] for c in pinned] == [p["chunk_hash"] for p in answer["pins"] if p["verdict"] != "missing"]
    assert not {hashed(pin) for pin in pins} & {chunk["chunk_hash"] for chunk in fill}
    assert [(c["source_id"], c["text"]) for c in fill] == sorted((c["source_id"], c["text"]) for c in fill)
    assert (answer["matched"], answer["filled"]) == (len(pinned), len(fill))
    assert answer["matched"] + answer["missing"] + answer["truncated"] == len({hashed(pin) for pin in pins})
    given = [chunk["text"] if isinstance(chunk, dict) else chunk for one in sources for chunk in one["chunks"]]
    assert answer["skipped"] == sum(not text for text in given)


@with_a_database
@given(sources=some_sources, top_k=st.integers(1, 12))
def test_a_replay_of_a_replay_is_the_same_chunks(engine: Engine, sources: list[Any], top_k: int) -> None:
    """Fill, then pin what came: the same texts again, where no text is there twice."""
    first = replay(engine, sources=sources, top_k=top_k)
    hashes = [chunk["chunk_hash"] for chunk in first["chunks"]]
    all_hashes = [
        hash_chunk(chunk["text"] if isinstance(chunk, dict) else chunk)
        for source in sources
        for chunk in source["chunks"]
        if chunk is not None
    ]
    assume(len(set(all_hashes)) == len(all_hashes))
    again = replay(engine, *hashes, sources=sources, top_k=top_k)
    assert said(again) == said(first)
