"""Wording: what pages, terminal and printed reports say of verdicts, answers and scores; one closed vocabulary.

A verdict is a fact that was checked, of characters, hashes or rights. Whether a text answers a question is checked by
nothing here, so nothing here says so, and only what was compared with a recorded hash is `good`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from worker.core.citations.quoting.differences import KINDS
from worker.inspector.view.pieces import whole_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from worker.inspector.view.answer import AnswerText
    from worker.inspector.view.pieces import Change

Kind = Literal["status", "reason", "quote", "pin", "drift", "outcome", "decision", "difference", "kind"]
Tone = Literal["good", "fair", "odd", "bad", "plain"]


STYLES: Mapping[Tone, str] = {"good": "green", "fair": "yellow", "odd": "magenta", "bad": "bold red", "plain": ""}
"""Tone → style of its words in a terminal."""

MARKS: Mapping[str, str] = {
    "quoted": "underline black on bright_yellow",
    "left_out": "dim strike",
    "differs": "bold underline yellow",
    "around": "dim",
}
"""Role of a part of a text → its style in a terminal; the first of several counts."""

CHANGES: Mapping[Change, tuple[str, str]] = {
    "same": ("{}", ""),
    "removed": ("[-{}-]", "red"),
    "added": ("{{+{}+}}", "green"),
}
"""Change of a piece of a word diff → how it is written, as git does, and its style in a terminal."""

LABEL, QUIET = "bold cyan", "dim"
"""Styles of a source's label, and of what stands beside the facts."""


@dataclass(frozen=True, slots=True)
class Said:
    """Words of a verdict, and their tone: the name of the colours that go with them, never without them."""

    words: str
    tone: Tone = "plain"


VOCABULARY: Mapping[Kind, Mapping[str, Said]] = {
    "status": {
        "ok": Said("sources found"),
        "short": Said("fewer sources than asked for"),
        "empty": Said("no sources found"),
        "degraded": Said("degraded", "fair"),
    },
    "reason": {
        "max_distance": Said("others are farther than max distance"),
        "filters": Said("filters were given"),
        "visible_rows": Said("no more were found"),
        "changed": Said("a source changed or is hidden", "fair"),
    },
    "quote": {
        "verbatim": Said("copied word for word"),
        "normalised": Said("copied but for accepted differences"),
        "altered": Said("differs from the source", "fair"),
        "elided": Said("copied with words left out or put in", "fair"),
        "misattributed": Said("stands in another source", "bad"),
        "not_found": Said("not found in the sources", "bad"),
        "not_checked": Said("not checked", "fair"),
    },
    "pin": {
        "exact": Said("exact", "good"),
        "matched": Said("matched", "good"),
        "normalised": Said("normalised"),
        "moved": Said("moved", "fair"),
        "ambiguous": Said("ambiguous", "fair"),
        "edited": Said("edited", "odd"),
        "missing": Said("missing", "bad"),
        "tampered": Said("tampered", "bad"),
    },
    "drift": {"same": Said("same", "good"), "drifted": Said("drifted", "bad"), "unchecked": Said("unchecked")},
    "outcome": {"kept": Said("kept"), "withheld": Said("withheld", "fair"), "dropped": Said("dropped")},
    "decision": {"accepted": Said("accepted"), "dismissed": Said("dismissed")},
    "difference": {
        "better": Said("better"),
        "worse": Said("worse", "fair"),
        "same": Said("same"),
        "undecided": Said("undecided"),
    },
    "kind": {kind: Said(words) for kind, (words, *_) in KINDS.items()},
}
"""Kind of verdict → code → what is said."""


JOINS = "the end of a sentence: the quote joins two"
"""Of what a quote leaves out."""


def said(kind: str, code: str) -> Said:
    """Return what is said of a code; a code without an entry is said as it is, in no colour.

    >>> said("quote", "verbatim").words, said("pin", "exact").tone, said("", "same_text").words
    ('copied word for word', 'good', 'same text')
    """
    return VOCABULARY.get(kind, {}).get(code) or Said(code.replace("_", " "))  # type: ignore[call-overload] # any kind


QUESTION_WIDTH = 200
"""Characters of a question that are repeated."""


def short(text: str | None, length: int = 280) -> str:
    """Return a text on one line, cut to a length, at a word's end."""
    text = text or ""
    flat = " ".join(text[: 4 * length].split())
    if len(flat) <= length and len(text) <= 4 * length:
        return flat
    return flat[slice(*whole_words(flat, 0, min(length, len(flat)) - 1))] + "…"


def clamped(requested: int, used: int) -> str:
    """Return a number of chunks, and that which was asked for where it was clamped.

    >>> clamped(3, 10), clamped(12, 12)
    ('10 (asked for 3)', '12')
    """
    return str(used) if requested == used else f"{used} (asked for {requested})"


# --- answers ------------------------------------------------------------------------------------

NOT_JUDGED = "whether it answers the question is not judged"


def wording(answer: AnswerText) -> str:
    """Return the sentence that says how much of an answer is copied from its sources, and that no more is known."""
    if answer.is_refusal:
        return (
            "There is not enough evidence that the sources answer the question. "
            "That does not show that they have no answer."
        )
    if not answer.sentences:
        return f"Not compared with the sources, because it has no sentence; {NOT_JUDGED}."
    if answer.copied == answer.sentences:
        return f"Copied word for word; {NOT_JUDGED}."
    if not answer.copied:
        return f"Not copied from the sources: in words of its own, whose truth is not judged; {NOT_JUDGED}."
    count = f"{answer.copied} of {answer.sentences} sentences"
    return f"{count} copied word for word, the truth of the others is not judged; {NOT_JUDGED}."


# --- nearness -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Band:
    """Range of the similarity of the nearest source.

    Attributes:
        below: its upper end, excluded; None for the last.
        words: its name.
        answerable, unanswerable: share of the labelled questions with and without an answer in it, 0-1.
    """

    below: float | None
    words: str
    answerable: float
    unanswerable: float


MEASURED_WITH = "all-MiniLM-L6-v2-int8"
BANDS = (
    Band(0.21, "far from the question", 0.04, 0.27),
    Band(0.4, "neither near nor far", 0.36, 0.55),
    Band(None, "near the question", 0.60, 0.18),
)
"""Ranges for the default model: the table of questions with and without an answer in benchmarks/results/quality.md."""


def nearness(similarity: float | None, embedder: str) -> str:
    """Return how near the best source is to the question, and what that is worth.

    >>> nearness(0.1, "lexical 1")
    'Nearest source: cosine similarity 0.10 of at most 1, by shared words, not by meaning.'
    >>> nearness(0.1, f"{MEASURED_WITH} 1").rpartition("without ")[2]  # in another language they may be otherwise
    'on English labelled sets.'

    Args:
        similarity: the highest cosine similarity of a source to the question; None if it is not known.
        embedder: name and version of the model of both; empty if unknown.
    """
    if similarity is None:
        return "How near the sources are to the question is not known."
    similarity_words = f"Nearest source: cosine similarity {similarity:.2f} of at most 1"
    name = embedder.partition(" ")[0]
    if name == "lexical":
        return f"{similarity_words}, by shared words, not by meaning."
    if name != MEASURED_WITH:
        return f"{similarity_words}; how near that is was not measured for this model."
    band = next(band for band in BANDS if band.below is None or similarity < band.below)
    shares = f"{band.answerable:.0%} of questions with an answer and {band.unanswerable:.0%} of those without"
    return f"{similarity_words}, {band.words}: so were {shares} on English labelled sets."


# --- scores -------------------------------------------------------------------------------------

SCORES = (("similarity", "similarity"), ("fused", "fused"), ("rerank", "rerank"), ("temporal", "recency"))
"""Fields of a candidate that are scores, and their names for readers."""

SCALES: Mapping[str, str] = {
    "similarity": "cosine to the question, -1 to 1",
    "fused": "orders this list only: from ranks, or from scores scaled to this list",
    "rerank": "orders this list only: the reranker's, or its sum with fused, scaled to this list",
    "recency": "0 to 1, 1 is new",
    "dense": "cosine, -1 to 1",
    "sparse": "BM25, 0 or more, compares within one search only",
}
"""Name of a score → what it is, and on what scale it stands. A leg that is not `sparse` is a dense one."""


def scale(name: str) -> str:
    """Return what a score is, and on what scale it stands.

    >>> scale("contextual")
    'cosine, -1 to 1'
    """
    return SCALES.get(name, SCALES["dense"])


def scales(names: Iterable[str]) -> str:
    """Return what scores are, in one line.

    >>> scales(("recency",))
    'recency: 0 to 1, 1 is new'
    """
    return "; ".join(f"{name}: {scale(name)}" for name in names)
