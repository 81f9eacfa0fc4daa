"""Findings: the verdict on a quote, and the places where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from worker.core.citations.quoting.forms import Prepared, prepare
from worker.core.text.unicode_data import known, unknown

if TYPE_CHECKING:
    from worker.core.text.brackets import Span

Verdict = Literal["verbatim", "normalised", "elided", "misattributed", "not_found", "not_checked"]


@dataclass(frozen=True, slots=True)
class QuotedChunk:
    """One of the job's chunks, prepared once for all quotes.

    Attributes:
        chunk_hash: its hash.
        text: its text, with stand-ins (`worker.core.text.unicode_data.known`).
        unknown: the characters for which these stand.
    """

    chunk_hash: str
    text: Prepared
    unknown: frozenset[str] = frozenset()

    @classmethod
    def of(cls, chunk_hash: str, text: str) -> QuotedChunk:
        """A chunk from its raw text."""
        return cls(chunk_hash, prepare(known(text)), unknown(text))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Text of the chunk that a mark of omission stands for.

    Attributes:
        span: all between two parts of the quote, in code points of the chunk's own text.
        words: how many words that is.
        denies: whether a denial, a limit or a number is among it.
    """

    span: Span
    words: int
    denies: bool


@dataclass(frozen=True, slots=True)
class PutIn:
    """Words in brackets that the chunk does not have.

    Attributes:
        text: the words, without their brackets.
        replaces: the chunk's words that they stand for; empty where they were only added.
        denies: whether a denial, a limit or a number is among either.
    """

    text: str
    replaces: str
    denies: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a quote.

    Attributes:
        chunk: the chunk's index among those given.
        chunk_hash: its hash.
        how: ``verbatim``, ``normalised`` or ``elided``.
        spans: start and end of each part, in code points of the chunk's own text.
        normalised: what was normalised, in the order of `worker.core.citations.quoting.differences.KINDS`.
        left_out: what each mark between two parts left out.
        put_in: what was put in.
    """

    chunk: int
    chunk_hash: str
    how: Verdict
    spans: tuple[Span, ...]
    normalised: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    put_in: tuple[PutIn, ...] = ()


@dataclass(frozen=True, slots=True)
class QuoteFinding:
    """The verdict on a quote.

    Attributes:
        verdict: as `worker.core.citations.quoting` says.
        places: one in the chunk named; or, for ``misattributed``, one in each other chunk where it stands, in the
            order of the chunks; none for ``not_found`` and ``not_checked``.
    """

    verdict: Verdict
    places: tuple[Place, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """Its spans in the chunk named."""
        return () if self.verdict == "misattributed" or not self.places else self.places[0].spans

    @property
    def chunk(self) -> int | None:
        """Index of the chunk whose text the spans are of; several chunks may have the hash that was named."""
        return None if self.verdict == "misattributed" or not self.places else self.places[0].chunk

    @property
    def normalised(self) -> tuple[str, ...]:
        """The kinds of differences that were normalised to find it in the chunk named."""
        return () if self.verdict == "misattributed" or not self.places else self.places[0].normalised

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The text of the chunk named that each of its marks left out."""
        return () if self.verdict == "misattributed" or not self.places else self.places[0].left_out

    @property
    def put_in(self) -> tuple[PutIn, ...]:
        """The words that it has in brackets and the chunk named does not have."""
        return () if self.verdict == "misattributed" or not self.places else self.places[0].put_in

    @property
    def denies(self) -> bool:
        """Return whether a denial, a limit or a number is among what it left out or put in."""
        return any(mark.denies for mark in self.left_out) or any(mark.denies for mark in self.put_in)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Hashes of the other chunks where a misattributed quote stands, each once."""
        hashes = [place.chunk_hash for place in self.places] if self.verdict == "misattributed" else []
        return tuple(dict.fromkeys(hashes))


NOT_FOUND = QuoteFinding("not_found")
NOT_CHECKED = QuoteFinding("not_checked")
