"""Whether what Redis holds of ended jobs is what `docs/contract` says: the files, as other languages read them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from redis import Redis

CONTRACT = Path(__file__).parents[2] / "docs" / "contract"


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads((CONTRACT / f"{name}.json").read_text()))


@cache
def _results() -> tuple[str, ...]:
    return tuple(sorted(file.name.removesuffix(".json") for file in CONTRACT.glob("*.result.json")))


def faults(record: dict[str, Any]) -> list[str]:
    """Return the differences of a finished job's record from its schema; empty if it is valid."""
    kind = {"SUCCESS": "success", "FAILURE": "failure"}.get(record["status"])
    if kind is None:
        return []
    found = [error.message for error in _validator(kind).iter_errors(record)]
    # Of a task that is none of the contract's (`verify_runs`) the record is checked, not what it holds.
    if (
        kind == "success"
        and "trace" in (record["result"] or ())
        and not any(_validator(name).is_valid(record["result"]) for name in _results())
    ):
        nearest = min(_results(), key=lambda name: len([*_validator(name).iter_errors(record["result"])]))
        found += [f"{nearest}: {error.message[:200]}" for error in _validator(nearest).iter_errors(record["result"])]
    return found


def assert_as_the_contract_says(results: Redis) -> None:
    """Every record that is there, of jobs that have ended."""
    keys = sorted(results.scan_iter("celery-task-meta-*"))
    records = [json.loads(text) for text in results.mget(keys) if text] if keys else []
    found = [fault for record in records for fault in faults(record)]
    assert not found, found
