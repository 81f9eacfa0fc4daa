"""What `pinned_replay` and `build_citations` are answered with."""

from __future__ import annotations

from typing import Any, Literal

from worker.contract.base import Answer, Result
from worker.contract.results import FailedQuery, Trace  # noqa: TC001 -- pydantic reads the annotations when it runs


class Pinned(Result):
    """What became of one pin.

    Attributes:
        chunk_hash: the pin's hash.
        verdict: what became of it; `tampered`: the text given with it does not have its hash.
        chunk_id: the chunk that answers it, that was edited, or that a tampered pin names; null if missing.
        document_id: that chunk's document.
        found_hash: what that chunk's hash is now.
        places: how many visible chunks say the same now.
    """

    chunk_hash: str
    verdict: Literal["exact", "normalised", "moved", "ambiguous", "edited", "missing", "matched", "tampered"]
    chunk_id: str | None
    document_id: str | None
    found_hash: str | None
    places: int


class ReplayedChunk(Result):
    """A chunk of a replay; the fields from ``rank`` on are there where a corpus was asked."""

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
        chunks: the pinned ones in the order asked, then the fill.
        pins: what became of each pin.
        matched: pins answered with a chunk.
        missing: pins gone, or not visible to this caller.
        filled: chunks that nobody pinned.
        truncated: pins beyond ``top_k``.
        skipped: inline chunks that were no text or blank, and inline sources without chunks.
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
    """Answer of `pinned_replay` to ``runs``: one entry a run, in their order."""

    results: list[Replay | FailedQuery]
    trace: Trace


class CitationCheck(Result):
    """What became of one citation.

    Attributes:
        chunk_hash: the citation's hash.
        integrity: whether its text is what its hash says.
        authorised: whether this caller may see its source now; null where nothing was verified.
        verdict: what became of the chunk, as in a replay; `tampered` where its text is not what its hash says; `moved`
            also where it stands in another document than the citation's `source_id`.
        document_id: the document in which it stands now; null where it was not found.
    """

    chunk_hash: str
    integrity: bool
    authorised: bool | None
    verdict: str | None
    document_id: str | None = None


class LeftOut(Result):
    """Text of the chunk that a mark of omission in a quote stands for.

    Attributes:
        span: where, as (start, end) in code points of the chunk's own text: all between two parts of the quote.
        words: how many words that is.
        denies: whether a denial, a limit or a number is among it.
    """

    span: tuple[int, int]
    words: int
    denies: bool


class PutIn(Result):
    """Words in brackets that a quote has and the chunk does not.

    Attributes:
        text: the words, without their brackets.
        replaces: the chunk's words that they stand for; empty where they were only added.
        denies: whether a denial, a limit or a number is among either.
    """

    text: str
    replaces: str
    denies: bool


class QuoteCheck(Result):
    """Where a quote stands.

    Attributes:
        chunk_hash: the chunk that it was said to be from.
        quote: the words.
        verdict: how it stands there.
        normalised: what had to be normalised for it.
        spans: where, as (start, end) in code points of the chunk's own text.
        citation: index in ``all_citations`` of that text (texts that differ only in white space have one hash);
            null where it does not stand in the chunk named.
        found_in: hashes of the other chunks that it stands in, where it is misattributed.
        reason: why it was not checked; null where it was.
        left_out: of an elided quote, the text between its parts, one for each mark between two of them.
        put_in: of an elided quote, the words that it has in brackets.
    """

    chunk_hash: str
    quote: str
    verdict: Literal["verbatim", "normalised", "elided", "misattributed", "not_found", "not_checked"]
    normalised: list[str]
    spans: list[tuple[int, int]]
    citation: int | None = None
    found_in: list[str]
    left_out: list[LeftOut]
    put_in: list[PutIn]
    reason: str | None = None


class UsedLabel(Result):
    """A label that the answer uses."""

    label: str
    chunk_hash: str
    spans: list[tuple[int, int]]


class UnknownLabel(Result):
    """What looks like a label, and was not given."""

    text: str
    span: tuple[int, int]


class UnreadableLabels(Result):
    """A bracket that looks like a list of labels and could not be read whole, with its signs."""

    text: str
    span: tuple[int, int]


class LabelCheck(Result):
    """What an answer did with its labels."""

    used: list[UsedLabel]
    unused: list[str]
    unknown: list[UnknownLabel]
    unreadable: list[UnreadableLabels] = []


class Citations(Answer):
    """Answer of `build_citations`.

    Attributes:
        citations: the document: ``by_section``, ``all_citations``, ``total_count``, ``source_ids``.
        verification: what became of each citation, in the order of ``all_citations``.
        quotes: where each quote stands.
        labels: what the answer did with its labels.
        conflicts: what contradicts itself or each other among the citations.
        artifact: where the document is kept, with the conflicts in it: a path below `artifacts.url`; or null.
    """

    citations: dict[str, Any]
    verification: list[CitationCheck]
    quotes: list[QuoteCheck]
    labels: LabelCheck
    conflicts: list[dict[str, Any]]
    artifact: str | None
    trace: Trace
