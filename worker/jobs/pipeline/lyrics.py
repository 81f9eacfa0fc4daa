"""`lyrics.json`: an answer with sections, stored beside the citations of its run."""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from worker.core.citations.labels import classify
from worker.core.pins.pinning import digest
from worker.core.text.headings import Headings

if TYPE_CHECKING:
    from worker.jobs.pipeline.types import QueryResponse

_PLAIN_STEP = re.compile(r"[A-Za-z0-9_-]{1,64}")


def lyrics_name(step: str | None) -> str:
    """Return the file name for a run or one of its steps; a step that can't be part of a file name is hashed.

    >>> lyrics_name(None), lyrics_name("verse-1"), lyrics_name("verse 1")
    ('lyrics.json', 'lyrics-verse-1.json', 'lyrics-021f922ddf5d1032.json')
    """
    if step is None:
        return "lyrics.json"
    return f"lyrics-{step if _PLAIN_STEP.fullmatch(step) else hashlib.sha256(step.encode()).hexdigest()[:16]}.json"


def lyrics_json(response: QueryResponse) -> bytes:
    """Return the answer, its sections with the chunks that each cites, and the parameters to reproduce it.

    ``digest`` is that of a replay of the run's chunks (`pinned_replay`): same chunks, same digest.

    Args:
        response: has an answer, and the texts of its sources.
    """
    answer, package = response.answer or "", response.package
    hashes = {label: name["chunk_hash"] for label, name in package.source_labels.items() if "chunk_hash" in name}
    chunks = [candidate.chunk for candidate in package.candidates]
    lyrics = {
        "answer": answer,
        "sections": [_section(name, text, hashes) for name, text in Headings(answer).sections()],
        "seed": package.request.seed,
        "temperature": package.request.temperature,
        "model": package.trace.models.get("language_model"),
        "digest": digest((chunk.chunk_hash, chunk.text, chunk.document_id, True) for chunk in chunks),
    }
    return json.dumps(lyrics, ensure_ascii=False, indent=1).encode() + b"\n"


def _section(name: str | None, text: str, hashes: dict[str, str]) -> dict[str, Any]:
    cited = [used.chunk_hash for used in classify(text, hashes).used]
    return {"section": name, "text": text, "chunk_hashes": cited}
