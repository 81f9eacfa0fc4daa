"""Citations of a recorded answer of `run_pipeline`, read from its record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ANSWERING = "run_pipeline"
"""The task whose records hold an answer."""


def cited_sections(recorded: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """The chunks that a recorded answer cites, each with the sections that cite it.

    Args:
        recorded: what the record of an answer holds besides its chunks.

    Returns:
        (corpus, chunk id) → names of sections in the answer's order, each once; none where the answer has no sections.
    """
    names = recorded["package"]["package"]["source_labels"]
    sections_by_chunk: dict[tuple[str, str], list[str]] = {}
    for citation in recorded["response"]["citations"]:
        name = names.get(citation["label"], {})
        if "chunk_id" not in name:  # of another service
            continue
        sections = sections_by_chunk.setdefault((name["corpus"], name["chunk_id"]), [])
        if citation["section"] is not None and citation["section"] not in sections:
            sections.append(citation["section"])
    return sections_by_chunk
