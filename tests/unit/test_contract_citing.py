"""Jobs about what was retrieved before: in which forms hashes, sections and runs may come."""

from __future__ import annotations

import json
from typing import Any, get_args

import jsonschema
import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RunPipeline
from retrieval_client.contract.pinned import DifferenceKind
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import hash_chunk
from workbench.schemas import files, objects

HASH = hash_chunk("chunk A")
DIGITS = HASH.removeprefix("sha256:")
CITED = {"subject_id": "song-1", "run_id": "r1"}
SCHEMAS = objects.schemas()
KINDS = json.loads(files()["difference-kinds.json"])["kinds"]
FORMS = {"canonical": HASH, "capitals": f"sha256:{DIGITS.upper()}", "bare": DIGITS, "bare capitals": DIGITS.upper()}
NO_HASHES = ["", DIGITS[1:], f"{DIGITS}0", f"SHA256:{DIGITS}", f"sha512:{DIGITS}", f" {DIGITS}", f"g{DIGITS[1:]}"]


def jobs_with(given: str) -> list[tuple[str, Any, dict[str, Any]]]:
    """Every kind of job, with a hash in each place where it may have one."""
    record = {"source_id": "s", "text": "chunk A", "weight": 0.5, "section": None, "chunk_hash": given}
    quote = {"chunk_hash": given, "quote": "chunk"}
    return [
        ("pinned_replay.job", PinnedReplay, {"required_chunk_hashes": [given]}),
        ("build_citations.job", BuildCitations, {"records": [record]}),
        ("build_citations.job", BuildCitations, {"records": [], "quotes": [quote]}),
        ("build_citations.job", BuildCitations, {"records": [], "labels": {"S1": given}}),
        ("build_citations.job", BuildCitations, {"cite": CITED, "sections": {given: "Verse 1"}}),
        ("run_pipeline.job", RunPipeline, {"question": "What hums?", "pinned_chunks": [given]}),
    ]


def schema_takes(name: str, job: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(SCHEMAS[name]).is_valid(job)


@pytest.mark.parametrize("given", FORMS.values(), ids=FORMS)
def test_a_hash_may_come_in_capitals_and_without_its_prefix_and_is_read_in_the_canonical_form(given: str) -> None:
    """Seed 000 stored the 64 digits alone; worker and schema take them, and equal jobs stay equal."""
    for (name, model, job), (_, _, canonical) in zip(jobs_with(given), jobs_with(HASH), strict=True):
        assert schema_takes(name, job)
        assert parse_job(model, job) == parse_job(model, canonical)


@pytest.mark.parametrize("given", NO_HASHES)
def test_what_is_no_hash_is_refused_by_worker_and_schema(given: str) -> None:
    """Another length, another prefix, other characters: one sentence that says what a hash looks like."""
    for name, model, job in jobs_with(given):
        with pytest.raises(InvalidJob, match="64 hex digits, with or without sha256: before them"):
            parse_job(model, job)
        assert not schema_takes(name, job) or "sections" in job


def test_a_chunk_may_be_of_one_section_or_of_several() -> None:
    """A name, or a list of names; worker and schema agree on what is neither."""
    for sections, read in (("Verse 1", ["Verse 1"]), (["Verse 1", "Chorus"], ["Verse 1", "Chorus"])):
        job = {"cite": CITED, "sections": {HASH: sections}}
        assert schema_takes("build_citations.job", job)
        assert parse_job(BuildCitations, job).sections == {HASH: read}
    for wrong in ([], 1, None, {}, ["x" * 513], ["Verse 1", None], ["x"] * 101):
        job = {"cite": CITED, "sections": {HASH: wrong}}
        assert not schema_takes("build_citations.job", job)
        with pytest.raises(InvalidJob, match="sections"):
            parse_job(BuildCitations, job)


def test_one_hash_in_two_forms_does_not_lose_a_section() -> None:
    """As keys of one object they would be two, and one of them would be dropped in silence."""
    with pytest.raises(InvalidJob, match="sections: expected each hash once, in whichever form"):
        parse_job(BuildCitations, {"cite": CITED, "sections": {HASH: "Verse 1", DIGITS: "Chorus"}})


def test_a_run_is_cited_as_retrieved_unless_the_job_says_otherwise() -> None:
    """`what` is `retrieved` or `cited`, of a run that is cited, and of no other run."""
    assert getattr(parse_job(BuildCitations, {"cite": CITED}).cite, "what", None) == "retrieved"
    job = {"cite": {**CITED, "what": "cited"}}
    assert getattr(parse_job(BuildCitations, job).cite, "what", None) == "cited"
    assert schema_takes("build_citations.job", job)
    with pytest.raises(InvalidJob, match=r"cite\.what: expected 'retrieved' or 'cited'"):
        parse_job(BuildCitations, {"cite": {**CITED, "what": "all"}})
    with pytest.raises(InvalidJob, match=r"run\.what: this field is not known"):
        parse_job(BuildCitations, {"cite": CITED, "run": {**CITED, "what": "cited"}})


@pytest.mark.parametrize(("field", "good", "bad"), [
    ("seed", [0, -1, 2**63 - 1, -(2**63)], [2**63, -(2**63) - 1, 1.5, "1", True, None]),
    ("temperature", [0, 0.7, 2], [-0.1, 2.1, "0", True, None]),
])  # fmt: skip
def test_a_seed_and_a_temperature_are_numbers_that_models_take(field: str, good: list[Any], bad: list[Any]) -> None:
    """A 64-bit integer, and a number from 0 to 2."""
    for value in good:
        assert getattr(parse_job(RunPipeline, {"question": "q", field: value}), field) == value
        assert schema_takes("run_pipeline.job", {"question": "q", field: value})
    for value in bad:
        with pytest.raises(InvalidJob, match=field):
            parse_job(RunPipeline, {"question": "q", field: value})
        assert not schema_takes("run_pipeline.job", {"question": "q", field: value})


def test_the_published_kinds_are_those_of_the_type() -> None:
    """In one order; the first eleven are accepted by default, four never."""
    assert tuple(kind["kind"] for kind in KINDS) == get_args(DifferenceKind)
    assert [kind["accepted_by_default"] for kind in KINDS] == [True] * 11 + [False] * 10
    assert {kind["kind"] for kind in KINDS if not kind["can_be_accepted"]} == {"symbol", "cut", "words", "order"}
