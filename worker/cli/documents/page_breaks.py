"""Sentences that go on over a page's end: their rest is moved to the page where they begin. No text is lost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from worker.core.text.sentences import split_sentences

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_RUNNING = 2
"""Lines of a header, and of a footer."""
_NEAR = (-2, -1, 1, 2)
"""Pages that have the same ones: left and right pages may differ."""
_SAME_LETTERS = 12
"""That such lines begin with."""
_LONGEST_REST = 600
"""Characters of a sentence's rest."""
_FULL = 0.7
"""Share of a page's longest line that a line inside a paragraph has."""

_STOPPED = re.compile(r"(?:(?<!\s)[.…]|[!?:;。！？：；])[\"'”’»)\]」』]*+\s*+\Z")
_LEADERS = re.compile(r"(?:\. ?){4}")  # dots of a table of contents
_BEGINS = re.compile(r"[\w\"'“‘«„(\[「『]")
_JOINED = re.compile("[\x02\ufffe]")  # where PDFium joins two lines
_NUMBER = re.compile(r"\A\d{1,5}\b|\b\d{1,5}\Z")


def join_page_breaks(texts: Sequence[str]) -> list[str]:
    r"""Return pages whose last sentence is whole, before the footer.

    >>> join_page_breaks(["It hums.\nIt hums, and the\n- 1 -\nNotes", "noise stays. It is\nloud.\n- 2 -\nNotes"])
    ['It hums.\nIt hums, and the\nnoise stays.\n- 1 -\nNotes', 'It is\nloud.\n- 2 -\nNotes']
    """
    pages = [text.strip("\n").split("\n") for text in texts]
    heads = [*_running([page[:_MOST_RUNNING] for page in pages])]
    feet = [*_running([page[: -_MOST_RUNNING - 1 : -1] for page in pages])]
    joined = [*texts]
    for i in range(len(pages) - 1):
        current_page, next_page = pages[i], pages[i + 1]
        end = max(len(current_page) - feet[i], heads[i])
        rest = _rest(current_page[heads[i] : end], next_page[heads[i + 1] : len(next_page) - feet[i + 1]])
        if rest:
            remainder = "\n".join(next_page[heads[i + 1] :])[len(rest) :].strip()
            pages[i] = [*current_page[:end], rest, *current_page[end:]]
            pages[i + 1] = [*next_page[: heads[i + 1]], *remainder.split("\n")]
            joined[i : i + 2] = ["\n".join(pages[i]), "\n".join(pages[i + 1])]
    return joined


def _running(edges: Sequence[Sequence[str]]) -> Iterator[int]:
    """Yield how many lines at each page's edge are those of a header or footer; the outermost line comes first."""
    for i, lines in enumerate(edges):
        near = [(step, edges[i + step]) for step in _NEAR if 0 <= i + step < len(edges)]
        count = 0
        for n, line in enumerate(lines):
            if not any(len(near_lines) > n and _is_running(line, near_lines[n], step) for step, near_lines in near):
                break
            count += 1
        yield count


def _is_running(line: str, other_line: str, step: int) -> bool:
    """Return whether a line and one some pages on begin with the same letters, or count the pages."""
    key, other_key = (_letters(text)[:_SAME_LETTERS] for text in (line, other_line))
    if key and key == other_key:
        return True
    numbers, other_numbers = (
        {int(number) for number in _NUMBER.findall(text.strip(" -–—|"))} for text in (line, other_line)
    )
    return any(number + step in other_numbers for number in numbers)


def _letters(line: str) -> str:
    return "".join(filter(str.isalpha, line.casefold()))


def _rest(lines: Sequence[str], following: Sequence[str]) -> str:
    """Return the rest of the last sentence of lines at the beginning of others; empty if it does not go on there."""
    if not lines or not following or _STOPPED.search(lines[-1]) or not _goes_on(lines, following):
        return ""
    text = "\n".join(following)[:_LONGEST_REST]
    end = next((end for _, end in split_sentences(text)), 0)
    rest = text[:end]
    is_sentence = _STOPPED.search(rest) and not _LEADERS.search(rest)
    return rest if is_sentence and all(_is_full(line, following) for line in rest.split("\n")[:-1]) else ""


def _goes_on(lines: Sequence[str], following: Sequence[str]) -> bool:
    """Return whether a paragraph goes on: with a small letter, or from a full line to another."""
    first_line = following[0].lstrip()
    if first_line[:1].islower():
        return True
    return bool(_BEGINS.match(first_line)) and _is_full(lines[-1], lines) and _is_full(first_line, following)


def _is_full(line: str, lines: Sequence[str]) -> bool:
    """Return whether a line is about as long as the longest."""
    return len(line) >= _FULL * max(
        len(printed_line) for page_line in lines for printed_line in _JOINED.split(page_line)
    )
