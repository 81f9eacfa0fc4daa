"""What a job's log line says of its answer: how many chunks, and how it came out; no text, no id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Result = Mapping[str, Any]


def outcome(task: str, result: Result) -> tuple[int, str]:
    """Chunks in an answer, and its outcome in a few words.

    Args:
        task: the task that gave it.
        result: the answer.
    """
    return _OUTCOMES[task](result)


def _top_k(result: Result) -> tuple[int, str]:
    if "results" in result:
        return _batch(result)
    return len(result["chunks"]), str(result["status"])


def _replay(result: Result) -> tuple[int, str]:
    if "results" in result:
        return _batch(result)
    return len(result["chunks"]), " ".join(f"{name}={count}" for name, count in _replay_counts(result).items())


def _batch(result: Result) -> tuple[int, str]:
    chunks = sum(len(part.get("chunks", ())) for part in result["results"])
    return chunks, f"batch of {len(result['results'])}"


def _citations(result: Result) -> tuple[int, str]:
    return int(result["citations"]["total_count"]), f"{len(result['conflicts'])} conflicts"


def _hybrid(result: Result) -> tuple[int, str]:
    parts = result["results"]
    said = " ".join(f"{name}={part['status']}" for name, part in parts.items())
    return sum(len(part["chunks"]) for part in parts.values()), said


def _pipeline(result: Result) -> tuple[int, str]:
    return len(result["package"]["candidates"]), str(result["status"])


def _verified(result: Result) -> tuple[int, str]:
    return int(result["checked"]), f"drifted={result['drifted']}"


def _replay_counts(result: Result) -> dict[str, int]:
    """What a replay counted, and what its stages did: each of the contract's edge cases shows in one of them."""
    counts = {name: result[name] for name in ("matched", "missing", "filled", "truncated", "skipped")}
    for stage in result["trace"]["stages"]:
        counts |= stage["counts"]
    return counts


_OUTCOMES: Mapping[str, Callable[[Result], tuple[int, str]]] = {
    "retrieve_top_k": _top_k,
    "pinned_replay": _replay,
    "build_citations": _citations,
    "retrieve_hybrid": _hybrid,
    "run_pipeline": _pipeline,
    "verify_runs": _verified,
}
