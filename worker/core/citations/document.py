"""The citations document: what was used, grouped by section, with what a reader needs to check it.

Its keys and its order are those of the seed (`create_citations_json` of seed 001), so that a document
written by either can be read by both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import HASH_VERSION, NORMALISERS, WRITTEN, hash_chunk
from retrieval_client.json_values import as_integer, join_path
from worker.core.shape import same_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

UNKNOWN_SECTION = "unknown"
"""Key of ``by_section`` for citations without a section; the citation itself keeps its null."""

_DOCUMENT = ("by_section", "all_citations", "total_count", "source_ids")
CONFLICTS = "conflicts"
"""Key that only a stored document has: findings about its citations, which nothing is replayed by."""
_CITATION = ("chunk_hash", "source_id", "text", "weight", "section")
_OPTIONAL = ("hash_version", "chunk_id", "page", "coordinates")


class CitationRecord(NamedTuple):
    """A chunk that was used, and where. A tuple: a job has thousands, and a frozen dataclass takes five times as long.

    Attributes:
        chunk_hash: ``sha256:`` + hex that was recorded for the text; `is_intact` says whether it is so.
        source_id: the document it was cut from.
        text: what it says.
        weight: how much it counted, in [0, 1].
        section: the part of the output that used it; ``None`` where nobody said.
        hash_version: the normaliser of ``chunk_hash``; ``None`` in a document that does not name it: 1.
        chunk_id: the chunk it was.
        page: page number in the source.
        coordinates: where on the page, in whatever form the backend stores.
    """

    chunk_hash: str
    source_id: str
    text: str
    weight: float
    section: str | None = None
    hash_version: int | None = None
    chunk_id: str | None = None
    page: int | None = None
    coordinates: Any = None


def is_intact(record: CitationRecord) -> bool:
    """Return whether the record's text is what its hash was made of; a text that can't be hashed is not."""
    version = HASH_VERSION if record.hash_version is None else record.hash_version
    try:
        return hash_chunk(record.text, version) == record.chunk_hash
    except (KeyError, ValueError):
        return False


def create_citations_json(records: Sequence[CitationRecord]) -> dict[str, Any]:
    """The citations document of some records.

    A citation under ``by_section`` is the very object that stands in ``all_citations``.

    >>> document = create_citations_json([CitationRecord("sha256:…", "s1", "Salt letters", 0.9)])
    >>> document["by_section"] == {"unknown": document["all_citations"]}
    True
    >>> document["total_count"], document["source_ids"]
    (1, ['s1'])

    Returns:
        ``by_section`` (section → citations in the records' order; sections in order of appearance, those
        that are null or empty under ``unknown``), ``all_citations`` (the records' order), ``total_count``,
        ``source_ids`` (each once, by code point). A citation has all of the seed's five fields, and of the
        other four those that are known.
    """
    citations = [_citation(record) for record in records]
    by_section: dict[str, list[dict[str, Any]]] = {}
    for citation in citations:
        by_section.setdefault(citation["section"] or UNKNOWN_SECTION, []).append(citation)
    return {
        "by_section": by_section,
        "all_citations": citations,
        "total_count": len(citations),
        "source_ids": sorted({record.source_id for record in records}),
    }


def _citation(record: CitationRecord) -> dict[str, Any]:
    chunk_hash, source_id, text, weight, section, hash_version, chunk_id, page, coordinates = record
    citation = {"chunk_hash": chunk_hash, "source_id": source_id, "text": text, "weight": weight, "section": section}
    if hash_version is not None:
        citation["hash_version"] = hash_version
    if chunk_id is not None:
        citation["chunk_id"] = chunk_id
    if page is not None:
        citation["page"] = page
    if coordinates is not None:
        citation["coordinates"] = coordinates
    return citation


# --- the other way ------------------------------------------------------------------------------


def read_citations_json(document: Any, path: str = "citations") -> list[CitationRecord]:
    """The records that a citations document was made of, in their order.

    Whether texts match their hashes is not looked at: that is a finding (`is_intact`), not a malformed
    document. How deep and long the JSON is was bounded before (`worker.core.shape.check_shape`).

    Args:
        document: decoded JSON.
        path: where it stands in the job, for messages.

    Raises:
        InvalidJob: it isn't the document that `create_citations_json` writes of what ``all_citations`` holds; of
            ``conflicts`` only that they are a list.
    """
    _check_fields(document, path, required=_DOCUMENT, optional=(CONFLICTS,))
    if not isinstance(document.get(CONFLICTS, []), list):
        raise InvalidJob("expected a list", join_path(path, CONFLICTS))
    citations = document["all_citations"]
    if not isinstance(citations, list):
        raise InvalidJob("expected a list", join_path(path, "all_citations"))
    inside = join_path(path, "all_citations")
    records = [_record(citation, join_path(inside, i)) for i, citation in enumerate(citations)]
    derived = create_citations_json(records)
    for name in _DOCUMENT:
        if not same_json(document[name], derived[name]):
            raise InvalidJob("expected what follows from all_citations", join_path(path, name))
    return records


def _record(citation: Any, path: str) -> CitationRecord:
    _check_fields(citation, path, required=_CITATION, optional=_OPTIONAL)
    for name, (fits, expected) in _FIELDS.items():
        if name in citation and not fits(citation[name]):
            raise InvalidJob(f"expected {expected}", join_path(path, name))
    return CitationRecord(**citation)


def _check_fields(value: Any, path: str, *, required: Collection[str], optional: Collection[str] = ()) -> None:
    if not isinstance(value, dict):
        raise InvalidJob("expected an object", path)
    for name in required:
        if name not in value:
            raise InvalidJob("expected this field", join_path(path, name))
    for name in value:
        if name not in required and name not in optional:
            raise InvalidJob("this field is not known", join_path(path, name) if isinstance(name, str) else path)


def _is_text(value: Any) -> bool:
    """Return whether it is a string that Postgres can store."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and WRITTEN.fullmatch(value) is not None


def _is_weight(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _is_integer(value: Any) -> bool:
    return isinstance(as_integer(value), int) and not isinstance(value, bool)


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "chunk_hash": (_is_hash, "sha256: and 64 lower-case hex digits"),
    "source_id": (_is_text, "a string"),
    "text": (_is_text, "a string"),
    "weight": (_is_weight, "a number in [0, 1]"),
    "section": (lambda value: value is None or _is_text(value), "a string or null"),
    "hash_version": (lambda value: _is_integer(value) and value in NORMALISERS, "a known version of the hash"),
    "chunk_id": (_is_text, "a string"),
    "page": (_is_integer, "an integer"),
    "coordinates": (lambda value: value is not None, "a value or no such field"),
}
"""A check of each field and the words for it; the form of coordinates is the backend's own."""
