"""TREC run and qrels files: the lines that trec_eval and ranx read.

A run's line is ``query Q0 item rank score tag``, a judgement's ``query 0 item grade``, with white space between.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from retrieval_client.errors import InvalidJob
from worker.core.ranking.total_order import descending

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NumberT = TypeVar("NumberT", int, float)

_RUN_FIELDS, _QRELS_FIELDS = 6, 4
_UNWRITABLE = re.compile(r"[\s%]")
_LARGEST_GRADE = 1_000_000
_LARGEST = 1e30
"""Scores beyond it are cut: below it float32 has room for any number of falling ones."""


def run_lines(rankings: Mapping[str, Sequence[tuple[str, float | None]]], tag: str) -> Iterator[str]:
    """Yield the lines of a run.

    Readers order a query's lines by score alone, and each breaks ties in its own way. So the scores are made to fall
    strictly, see `falling`.

    Args:
        rankings: query → its items with their scores, best first.
        tag: name of the run.

    >>> list(run_lines({"q1": [("a", 0.5), ("b", 0.5)]}, "sparse"))
    ['q1 Q0 a 1 0.5 sparse', 'q1 Q0 b 2 0.49999997 sparse']
    """
    for query, ranked in rankings.items():
        scores = falling([score for _, score in ranked])
        for rank, ((item, _), score) in enumerate(zip(ranked, scores, strict=True), 1):
            yield f"{word(query)} Q0 {word(item)} {rank} {score:.9g} {word(tag)}"


def qrels_lines(grades: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield the lines of judgements: query → item → grade.

    >>> list(qrels_lines({"q1": {"a": 2}}))
    ['q1 0 a 2']
    """
    for query, judged in grades.items():
        for item, grade in judged.items():
            yield f"{word(query)} 0 {word(item)} {grade}"


def falling(scores: Sequence[float | None]) -> list[float]:
    """Return scores that fall strictly, in float32 too: trec_eval keeps no more.

    A score that is not below the one before it, or is unknown, becomes the next float32 below that.

    >>> falling([2.0, 1.0, 1.0, None])
    [2.0, 1.0, 0.9999999403953552, 0.9999998807907104]
    """
    fallen: list[float] = []
    below = np.float32(math.inf)
    for score in scores:
        known_score = (0.0 if math.isinf(below) else float(below)) if score is None else score
        float32_score = np.float32(max(-_LARGEST, min(known_score, _LARGEST)))
        below = float32_score if float32_score < below else np.nextafter(below, np.float32(-math.inf))
        fallen.append(float(below))
    return fallen


def word(text: str) -> str:
    """Return an id as one word: white space and ``%`` as in a URL; no two ids become the same word.

    >>> word("report 1"), word("50%")
    ('report%201', '50%25')
    """
    return _UNWRITABLE.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text) or "%"


def read_run(lines: Iterable[str]) -> dict[str, list[str]]:
    """Read a run: query → its items by score descending, then by id; the rank column has no effect.

    Raises:
        InvalidJob: the first wrong line, with its number and field.

    >>> read_run(["q1 Q0 b 1 0.5 x", "q1 Q0 a 2 0.5 x", "q1 Q0 c 3 0.9 x"])
    {'q1': ['c', 'a', 'b']}
    """
    scores: dict[str, dict[str, float]] = {}
    for number, fields in _fields(lines, _RUN_FIELDS, "query Q0 id rank score tag"):
        query, _, item, _, score, _ = fields
        _put(scores.setdefault(query, {}), item, _score(score, number), number)
    return {
        query: sorted(of_items, key=lambda item: (descending(of_items[item]), item))
        for query, of_items in scores.items()
    }


def read_qrels(lines: Iterable[str]) -> dict[str, dict[str, int]]:
    """Read judgements: query → item → grade; a negative grade is 0, as for trec_eval.

    Raises:
        InvalidJob: the first wrong line, with its number and field.

    >>> read_qrels(["q1 0 a 2", "q1 0 b 0"])
    {'q1': {'a': 2, 'b': 0}}
    """
    grades: dict[str, dict[str, int]] = {}
    for number, fields in _fields(lines, _QRELS_FIELDS, "query 0 id grade"):
        query, _, item, grade = fields
        _put(grades.setdefault(query, {}), item, _grade(grade, number), number)
    return grades


def _fields(lines: Iterable[str], count: int, form: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, 1):
        fields = line.split()
        if not fields:
            continue
        if len(fields) != count:
            raise InvalidJob(f"expected {count} fields ({form}), got {len(fields)}", f"line {number}")
        yield number, fields


def _put(of_query: dict[str, NumberT], item: str, value: NumberT, number: int) -> None:
    if item in of_query:
        raise InvalidJob("expected each id once for a query", f"line {number}: id")
    of_query[item] = value


def _score(text: str, number: int) -> float:
    try:
        score = float(text)
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise InvalidJob("expected a finite number", f"line {number}: score")
    return score


def _grade(text: str, number: int) -> int:
    if not re.fullmatch(r"-?[0-9]{1,9}", text) or int(text) > _LARGEST_GRADE:
        raise InvalidJob(f"expected an integer of at most {_LARGEST_GRADE}", f"line {number}: grade")
    return max(0, int(text))
