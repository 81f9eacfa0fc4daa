"""Searching: find a text in another, whole words, as it is or with differences that may be normalised."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from worker.core.citations.quoting.budget import spend
from worker.core.citations.quoting.characters import DASHES
from worker.core.citations.quoting.differences import SAME, Kinds, dash_kinds, kinds_needed, trimmed_kinds
from worker.core.citations.quoting.forms import ONE_SCRIPT, UNMARKED, Passage, Prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from worker.core.citations.quoting.forms import Form
    from worker.core.text.brackets import Span

_TRIED = 8
"""So often `str.find` is started again before a slower search that never has to be."""

_PATIENCE = 8
"""Candidates are compared in full for as long as that is so many times the text passed."""

_LONGEST_DASH = 3

# Steps (`budget`) that it takes to start `str.find`, characters that it passes in one step, and steps to compare one
# character in full.
_FINDING, _PASSED, _COMPARING = 20, 32, 10


@dataclass(frozen=True, slots=True)
class Match:
    """A place of a text, in code points, and what was normalised."""

    span: Span
    kinds: Kinds


def find_verbatim(quote: Prepared, chunk: Prepared, after: int, before: int) -> Match | None:
    """The first place between ``after`` and ``before`` where the quote stands character for character."""
    for start in _occurrences(chunk.text, quote.text, after, before):
        stop = start + len(quote.text)
        if chunk.cuts[start] and chunk.cuts[stop]:
            return Match((start, stop), SAME)
    return None


def _find_normalised(quote: Prepared, chunk: Prepared, after: int, before: int) -> Match | None:
    return _find_form(quote, quote.core, chunk, chunk.form, (after, before))


def _find_look_alike(quote: Prepared, chunk: Prepared, after: int, before: int) -> Match | None:
    core = quote.one_script_core or quote.core
    return _find_form(quote, core, chunk, chunk.one_script_form or chunk.form, (after, before))


def _find_unmarked(quote: Prepared, chunk: Prepared, after: int, before: int) -> Match | None:
    """The first place without the Markdown of both; a link of the quote leads where the chunk's does."""
    asked, wanted = quote.unmarked or (quote, None)
    plain, unmarked = chunk.unmarked or (chunk, None)
    pipes = wanted.count_pipes(asked.core.starts[0], asked.core.ends[-1]) if wanted and wanted.pipes else 0
    if unmarked is None:
        match = None if pipes else _find_normalised(asked, plain, after, before)
        return match and Match(match.span, match.kinds | {"markup"})
    places = unmarked.places
    match = _find_normalised(asked, plain, bisect_left(places, after), bisect_left(places, before))
    if match is None or pipes > unmarked.count_pipes(*match.span):
        return None
    start, stop = places[match.span[0]], places[match.span[1] - 1] + 1
    own = [target for place, target in unmarked.links if start <= place < stop]
    targets = [target for _, target in wanted.links] if wanted else []
    return None if own and targets and own != targets else Match((start, stop), match.kinds | {"markup"})


Find = Callable[[Prepared, Prepared, int, int], Match | None]


def ways_to_normalise(chunk: Prepared, *quotes: Prepared) -> tuple[Find, ...]:
    """Return the ways to find quotes by normalising; look-alikes and Markdown only where there are any."""
    other_forms = chunk.other_forms
    for quote in quotes:
        other_forms |= quote.other_forms
    return _WAYS[other_forms]


_WAYS: dict[int, tuple[Find, ...]] = {
    0: (_find_normalised,),
    UNMARKED: (_find_normalised, _find_unmarked),
    ONE_SCRIPT: (_find_normalised, _find_look_alike),
    ONE_SCRIPT | UNMARKED: (_find_normalised, _find_look_alike, _find_unmarked),
}


def _find_form(quote: Prepared, core: Form, chunk: Prepared, form: Form, within: Span) -> Match | None:
    """The first place where the folded quote stands, whole words, with differences that may be normalised."""
    text = core.text
    before, after = int(text[:1] == "-"), int(text[-1:] == "-")
    found = _find_core(quote, core, chunk, form, within)
    if found or not (before or after):
        return found
    # Between letters a dash is left out of folded text: "Haupt-" of "Haupt- und Nebenfach", "—the" of "desk—the".
    inner = core.slice(before, len(text) - after)
    match = _find_core(quote, inner, chunk, form, within)
    if match is None:
        return None
    edges = quote.text[core.starts[0] : inner.starts[0]], quote.text[inner.ends[-1] : core.ends[-1]]
    return _with_dashes(match, edges, chunk)


def _with_dashes(match: Match, edges: tuple[str, str], chunk: Prepared) -> Match | None:
    """The match with the dashes around it, if they are there and a quote may begin and end beside them."""
    start, stop = match.span
    before, after = chunk.text[max(0, start - _LONGEST_DASH) : start], chunk.text[stop : stop + _LONGEST_DASH]
    own = before[len(before.rstrip(DASHES)) :], after[: len(after) - len(after.lstrip(DASHES))]
    kinds = [dash_kinds(edge, dash) if edge else SAME for edge, dash in zip(edges, own, strict=True)]
    start, stop = start - len(own[0] if edges[0] else ""), stop + len(own[1] if edges[1] else "")
    if None in kinds or not (chunk.cuts[start] and chunk.cuts[stop]):
        return None
    return Match((start, stop), match.kinds.union(*filter(None, kinds)))


def _find_core(quote: Prepared, core: Form, chunk: Prepared, form: Form, within: Span) -> Match | None:
    after, before = within
    begin = form.position(after) if after else 0
    end = form.position(before) if before < len(chunk.text) else len(form.text)
    compared = 0
    for start in _occurrences(form.text, core.text, begin, end):
        stop = start + len(core.text)
        if not _whole(chunk, form, start, stop):
            continue
        spend(_COMPARING * len(core.text))
        passage = Passage(chunk.text, form.slice(start, stop))
        kinds = kinds_needed(Passage(quote.text, core), passage)
        if kinds is not None:
            return Match(passage.span, kinds | _outer_kinds(quote.text, core, passage))
        compared += len(core.text)
        if compared > _PATIENCE * (stop - begin):
            break
    return None


def _whole(chunk: Prepared, form: Form, start: int, stop: int) -> bool:
    """Return whether a place of the folded text begins and ends where a quote may."""
    if not (form.opens(start) and form.opens(stop)):
        return False
    return bool(chunk.cuts[form.starts[start]] and chunk.cuts[form.ends[stop - 1]])


def _outer_kinds(quote: str, core: Form, found: Passage) -> Kinds:
    """Return what was trimmed off the quote, unless the chunk has the same there."""
    before, after = quote[: core.starts[0]], quote[core.ends[-1] :]
    start, stop = found.span
    kinds: Kinds = frozenset()
    if found.text[max(0, start - len(before)) : start] != before:
        kinds |= trimmed_kinds(before)
    if found.text[stop : stop + len(after)] != after:
        kinds |= trimmed_kinds(after)
    return kinds


# --- searching ----------------------------------------------------------------------------------


def _occurrences(text: str, wanted: str, start: int, stop: int) -> Iterable[int]:
    """Return the places of a string in a part of a text, overlapping too, in linear time; an empty one has none."""
    if not wanted:
        return ()
    first = _find(text, wanted, start, stop)
    return () if first < 0 else _occurrences_from(first, text, wanted, stop)


def _find(text: str, wanted: str, start: int, stop: int) -> int:
    found = text.find(wanted, start, stop)
    spend(_FINDING + ((stop if found < 0 else found) - start) // _PASSED)
    return found


def _occurrences_from(place: int, text: str, wanted: str, stop: int) -> Iterator[int]:
    for _ in range(_TRIED):
        yield place
        start, place = place + 1, _find(text, wanted, place + 1, stop)
        if place < 0:
            return
    yield from _all_occurrences(text, wanted, start, stop)


def _all_occurrences(text: str, wanted: str, start: int, stop: int) -> Iterator[int]:
    """The same by Knuth, Morris and Pratt, "Fast Pattern Matching in Strings", SIAM J. Comput. 6 (1977)."""
    spend(len(wanted) + stop - start)
    borders = _borders(wanted)
    matched = 0
    for i in range(start, min(stop, len(text))):
        while matched and (matched == len(wanted) or text[i] != wanted[matched]):
            matched = borders[matched - 1]
        if text[i] == wanted[matched]:
            matched += 1
        if matched == len(wanted):
            yield i + 1 - matched


def _borders(wanted: str) -> list[int]:
    """For each prefix, how long its longest border is."""
    borders, matched = [0], 0
    for character in wanted[1:]:
        while matched and character != wanted[matched]:
            matched = borders[matched - 1]
        if character == wanted[matched]:
            matched += 1
        borders.append(matched)
    return borders
