"""Answers of `pinned_replay` and `build_citations`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict

from retrieval_client.contract.base import Answer, Result
from retrieval_client.contract.results import FailedQuery, Trace  # noqa: TC001 -- pydantic reads the annotations when it runs


class Pinned(Result):
    """Result of one pin.

    Attributes:
        chunk_hash: the pin's hash.
        verdict: its state; `tampered`: the text given with it does not have its hash.
        chunk_id: the chunk that matches it, that was edited, or that a tampered pin names; null if missing.
        document_id: that chunk's document.
        found_hash: that chunk's current hash.
        places: number of visible chunks with the same text now.
    """

    chunk_hash: str
    verdict: Literal["exact", "normalised", "moved", "ambiguous", "edited", "missing", "matched", "tampered"]
    chunk_id: str | None
    document_id: str | None
    found_hash: str | None
    places: int


class ReplayedChunk(Result):
    """A chunk of a replay; the fields from ``rank`` on exist if a corpus was searched."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    chunk_hash: str
    text: str
    source_id: str
    weight: float
    pinned: bool
    rank: int | None = None
    chunk_id: str | None = None
    document_id: str | None = None
    page: int | None = None
    section: str | None = None
    coordinates: Any = None
    metadata: dict[str, Any] | None = None
    hash_version: int | None = None


class Replay(Answer):
    """Answer of `pinned_replay`.

    Attributes:
        chunks: the pinned ones in the requested order, then the fill.
        pins: result of each pin.
        matched: pins answered with a chunk.
        missing: pins gone, or not visible to this caller.
        filled: chunks that were not pinned.
        truncated: pins beyond ``top_k``.
        skipped: inline chunks that are no text or blank, and inline sources without chunks.
        digest: two replays are the same if their digests are.
    """

    chunks: list[ReplayedChunk]
    pins: list[Pinned]
    matched: int
    missing: int
    filled: int
    truncated: int
    skipped: int
    digest: str
    trace: Trace


class ReplayBatch(Answer):
    """Answer of `pinned_replay` to ``runs``: one entry per run, in their order."""

    results: list[Replay | FailedQuery]
    trace: Trace


class CitationCheck(Result):
    """Verification of one citation.

    Attributes:
        chunk_hash: the citation's hash.
        integrity: true if its text matches its hash.
        authorised: true if this caller may see its source now; null if nothing was verified.
        verdict: state of the chunk, as in a replay; `tampered` if its text does not match its hash; `moved` also if it
            is in another document than the citation's `source_id`.
        document_id: its current document; null if it was not found.
    """

    chunk_hash: str
    integrity: bool
    authorised: bool | None
    verdict: str | None
    document_id: str | None = None


DifferenceKind = Literal[
    "white_space",
    "invisible",
    "line_break_hyphen",
    "typography",
    "spacing",
    "markup",
    "entity",
    "digits",
    "first_letter",
    "end_punctuation",
    "case_style",
    "dash",
    "joined",
    "punctuation",
    "case",
    "accents",
    "look_alike",
    "symbol",
    "cut",
    "words",
    "order",
]
"""The kinds of differences; docs/contract/difference-kinds.json says what each is, with an example."""


class Difference(Result):
    """A difference between a quote and the chunk.

    Attributes:
        kind: its kind.
        quoted: the quote's characters.
        source: the chunk's characters.
        quote_span: place of `quoted`, as (start, end) in code points of the quote.
        chunk_span: place of `source`, as (start, end) in code points of the chunk's own text.
    """

    kind: DifferenceKind
    quoted: str
    source: str
    quote_span: tuple[int, int]
    chunk_span: tuple[int, int]


class LeftOut(Result):
    """Text of the chunk that a quote omits with an ellipsis.

    Attributes:
        span: its place, as (start, end) in code points of the chunk's own text: all between two parts of the quote.
        text: the text.
        another_sentence: true if a sentence of the chunk ends in it.
    """

    span: tuple[int, int]
    text: str
    another_sentence: bool


class PutIn(Result):
    """Words in brackets that a quote has and the chunk does not.

    Attributes:
        text: the words, without their brackets.
        replaces: the chunk's words that they replace; empty if they were only added.
    """

    text: str
    replaces: str


class QuoteCheck(Result):
    """Check of one quote.

    Attributes:
        claimed_hash: the claimed chunk.
        quote: the words.
        verdict: result of the check: characters, not meaning.
        chunk_hash: the chunk that contains it; null if none does.
        citation: index in ``all_citations`` of that chunk's text (texts that differ only in white space have one hash).
        spans: its places, as (start, end) in code points of that text.
        differences: all differences from that text, in order.
        before: the rest of the chunk's sentence before it, at most 200 characters; null if it begins with a sentence.
        after: the rest of the chunk's sentence after it, at most 200 characters; null if it ends with a sentence.
        found_in: hashes of the chunks that contain it, if it is misattributed.
        reason: the reason why it was not checked; null if it was.
        left_out: of an elided quote, the text between its parts, one for each mark between two of them.
        put_in: of an elided quote, the words that it has in brackets.
    """

    claimed_hash: str
    quote: str
    verdict: Literal["verbatim", "normalised", "altered", "elided", "misattributed", "not_found", "not_checked"]
    chunk_hash: str | None
    citation: int | None
    spans: list[tuple[int, int]]
    differences: list[Difference]
    before: str | None
    after: str | None
    left_out: list[LeftOut]
    put_in: list[PutIn]
    found_in: list[str]
    reason: str | None


class UsedLabel(Result):
    """A label that the answer uses."""

    label: str
    chunk_hash: str
    spans: list[tuple[int, int]]


class UnknownLabel(Result):
    """A label in the answer that was not given."""

    text: str
    span: tuple[int, int]


class UnreadableLabels(Result):
    """Text in brackets, code, a tag or a comment that looks like a label but is in no form that is read."""

    text: str
    span: tuple[int, int]


class LabelCheck(Result):
    """Check of an answer's labels."""

    used: list[UsedLabel]
    unused: list[str]
    unknown: list[UnknownLabel]
    unreadable: list[UnreadableLabels] = []


class Citations(Answer):
    """Answer of `build_citations`.

    Attributes:
        citations: the document: ``by_section``, ``all_citations``, ``total_count``, ``source_ids``.
        verification: verification of each citation, in the order of ``all_citations``.
        quotes: check of each quote.
        labels: check of the answer's labels.
        conflicts: contradictions within or between citations.
        artifact: path of the stored document, with the conflicts, below `artifacts.url`; or null.
    """

    citations: dict[str, Any]
    verification: list[CitationCheck]
    quotes: list[QuoteCheck]
    labels: LabelCheck
    conflicts: list[dict[str, Any]]
    artifact: str | None
    trace: Trace
