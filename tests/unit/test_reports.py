"""The command line's report of conflicts: which citations, where, and by what they differ."""

from __future__ import annotations

import io
from typing import Any

from retrieval_client.contract.pinned import Citations
from retrieval_client.hashing import hash_chunk
from worker.adapters.terminal import Terminal
from worker.core.citations.document import CitationRecord, create_citations_json
from worker.inspector.text.answers import MOST_CONFLICTS, conflicts_table
from worker.inspector.view.citations import citations_view

LONG = "Nobody counts the reels of the north shelf before the noon bell rings over the harbour. " * 8


def record(text: str, chunk_id: str | None, weight: float = 0.5, page: int | None = None) -> CitationRecord:
    return CitationRecord(hash_chunk(text), "handbook", text, weight, None, 1, chunk_id, page)


def side(index: int, start: int, end: int, *tokens: tuple[int, int]) -> dict[str, Any]:
    given = {"index": index, "chunk_hash": hash_chunk(""), "source_id": "handbook"}
    return {**given, "span": [start, end], "tokens": [list(token) for token in tokens]}


def shown(records: list[CitationRecord], *conflicts: dict[str, Any]) -> str:
    answer = Citations.model_validate(
        {
            "schema_version": 1,
            "citations": create_citations_json(records),
            "verification": [],
            "quotes": [],
            "labels": {"used": [], "unused": [], "unknown": []},
            "conflicts": list(conflicts),
            "artifact": None,
            "trace": {"stages": [], "worker_version": "0"},
            "degraded": [],
        }
    )
    out = io.StringIO()
    Terminal(file=out, width=160).print(conflicts_table(citations_view(answer)))
    return out.getvalue()


def test_each_side_of_a_conflict_is_named_with_its_place_and_words() -> None:
    """By its source, with the page where there is one; and the words that differ."""
    records = [record("Reels may not be baked.", "c-1", page=3), record("Reels may be baked.", None)]
    said = shown(
        records,
        {"kind": "possible_disagreement", "sides": [side(0, 0, 23, (10, 13)), side(1, 0, 19)], "differs": ["negation"]},
    )
    first, second = (line for line in said.splitlines() if " 0-" in line)
    for words in ("handbook, p. 3", "0-23", "not", "Reels may not be baked."):
        assert words in first
    for words in ("handbook", "0-19", "Reels may be baked."):
        assert words in second
    assert first.startswith("│ possible")


def test_weights_that_differ_are_shown() -> None:
    """The difference is not in the words."""
    records = [record("Salt letters.", "c", 0.25), record("Salt letters.", "c", 1.0)]
    said = shown(records, {"kind": "weight_differs", "sides": [side(0, 0, 13), side(1, 0, 13)], "differs": []})
    assert "weight 0.25" in said
    assert "weight 1" in said


def test_a_long_text_is_shown_around_what_differs() -> None:
    """Cut before and after, each cut marked."""
    place = len(LONG) - 100
    said = shown(
        [record(LONG, "c")],
        {"kind": "possible_disagreement", "sides": [side(0, 0, len(LONG), (place, place + 5))], "differs": ["number"]},
    )
    words = LONG[place - 10 : place + 15].strip()
    assert words[:8] in said
    assert "…" in said
    assert len(said) < 2000


def test_of_very_many_conflicts_the_first_are_shown_and_the_others_counted() -> None:
    """A table of thousands is cut; the document has them all."""
    one = {"kind": "text_hash_mismatch", "sides": [side(0, 0, 5)], "differs": []}
    said = shown([record("hello", "c")], *[one] * (MOST_CONFLICTS + 7))
    assert said.count("│ text hash") == MOST_CONFLICTS
    assert "7 more are in the citations document" in said
