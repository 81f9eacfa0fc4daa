"""Evidence that a source holds the answer to a question: its similarity to it, and its share of the question's words.

Neither is enough alone: where the subject is there and the answer is not, the similarity is high and words are missing;
where the answer is said in other words, few are shared. `benchmarks/results/no_answer.md` has the measurements.

A code that the question names, such as `INC-4711`, is no word like others: a source that names none of the question's
codes is about another one, however alike, and is no evidence.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from worker.core.ranking.bm25 import idf
from worker.core.text.codes import codes, named, numbers, without_codes
from worker.core.text.names import names, unnamed, writes_nouns_so
from worker.core.text.terms import search_terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SHARED = 0.4
"""Weight of the share of words, beside a similarity of 1."""

LENGTH, LONGEST = 0.03, 8
"""Deduction for each word of the question, and for how many at most: a long one says much, so its answer is nearer."""

UNSEEN_TEXTS = 10
"""Texts without any word that count beside the sources: of one source alone no word would be rare."""

_PLACES = 12
"""Decimal places of a result: the last bit of a logarithm may differ between machines."""


def evidence(questions: Iterable[str], texts: Sequence[str], similarities: Sequence[float]) -> float:
    """Return the highest evidence of a source: similarity + 0.4 * share of the words - 0.03 * their number, at most 8.

    >>> manual = ["Phantom power can tear the ribbon.", "Brass shines."]
    >>> evidence(["Does phantom power tear a ribbon?"], manual, [0.6, 0.1])
    0.88
    >>> round(evidence(["Who sells ribbons for phantom power?"], manual, [0.6, 0.1]), 3)
    0.746

    A source that has no code of the question has none, which counts as -1.

    Args:
        questions: the question, and the same with what was asked before it: the better counts.
        texts: of the sources, with titles and headings; at least one.
        similarities: of each source to the question, -1 to 1.
    """
    question, *wider = questions
    question_codes = codes(question)
    are_named = [not question_codes or bool(named(text, question_codes)) for text in texts]
    return max(_evidence(version, texts, similarities, are_named) for version in (question, *wider))


def missing_codes(question: str, texts: Iterable[str]) -> list[str]:
    """Return the codes of a question that none of its sources names, as the question writes them.

    >>> missing_codes("Do E-4010 and E-4012 differ?", ["E-4010: overheated.", "E-4013: no water."])
    ['E-4012']
    """
    asked_codes = codes(question)
    return sorted(code.written for code in asked_codes.difference(*(named(text, asked_codes) for text in texts)))


def missing_numbers(question: str, texts: Iterable[str]) -> list[str]:
    """Return the numbers of a question, its codes aside, that stand in none of its sources, as they are written there.

    >>> missing_numbers("Is E-4010 on form No. 6 of port 8444?", ["See form No. 5.", "Port 8,444"])
    ['6']
    """
    asked_numbers = numbers(without_codes(question, codes(question)))
    for text in texts if asked_numbers else ():
        for number in numbers(text):
            asked_numbers.pop(number, None)
    return [*asked_numbers]


def missing_names(question: str, texts: Sequence[str]) -> list[str]:
    """Return the names in a question, its codes aside, that none of its sources has in any form, as written there.

    >>> missing_names("Is the torque of the Lyra that of the Draco?", ["The torque of a Lyra is 64 Nm."])
    ['Draco']

    None where the sources write all nouns with capitals, as German does.
    """
    missing = names(without_codes(question, codes(question)))
    if not missing or writes_nouns_so(texts):
        return []
    for text in texts:
        missing = unnamed(missing, text)
    return missing


def _evidence(question: str, texts: Sequence[str], similarities: Sequence[float], are_named: Sequence[bool]) -> float:
    sources = zip(similarities, shares_of_words(question, texts), are_named, strict=True)
    length = min(len({*search_terms(question)}), LONGEST)
    return max(
        round(similarity + SHARED * share - LENGTH * length, _PLACES) if is_named else -1.0
        for similarity, share, is_named in sources
    )


def shares_of_words(question: str, texts: Sequence[str]) -> list[float]:
    """Return each text's share of the question's distinct words, weighted by idf among the texts, 0-1.

    >>> shares_of_words("ribbon", ["A ribbon", "Brass"]), shares_of_words("who?", ["A ribbon"])
    ([1.0, 0.0], [0.0])
    """
    words = [frozenset(search_terms(text)) for text in texts]
    weights = idf(sorted({*search_terms(question)}), [*words, *[frozenset[str]()] * UNSEEN_TEXTS])
    everything = math.fsum(weights.values()) or 1.0
    return [round(math.fsum(weights[word] for word in weights.keys() & of) / everything, _PLACES) for of in words]
