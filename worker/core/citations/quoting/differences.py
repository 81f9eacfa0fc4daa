"""Differences between a quote and a passage of the same keys: a closed list of kinds, each with both spans."""

from __future__ import annotations

import functools
import re
from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.quoting import characters as chars
from worker.core.citations.quoting.characters import digits_of, unmarked, without_typography
from worker.core.text.unicode_data import cased, is_numeric, known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worker.core.citations.quoting.reading import Reading
    from worker.core.text.spans import Span

KINDS: dict[str, tuple[str, str, str]] = {
    "white_space": ("blanks and line breaks for one another", "the  pump", "the pump"),
    "invisible": ("characters that are not seen", "the pu\u200bmp", "the pump"),
    "line_break_hyphen": ("a hyphen at the end of a line", "the pro-\ncess", "the process"),
    "typography": ("another glyph of the same sign", "the “pump”", 'the "pump"'),
    "spacing": ("blanks beside punctuation or a dash", "yes —no", "yes — no"),
    "markup": ("signs of Markdown or HTML, bullets, footnote marks, labels", "the **pump**", "the pump"),
    "entity": ("a sign written as an entity of HTML", "Tom &amp; Jerry", "Tom & Jerry"),
    "digits": ("the same number in another script", "page ٢٥", "page 25"),
    "first_letter": ("the case of the first letter", "The pump runs", "the pump runs"),
    "end_punctuation": ("one sign at the end, where a clause ends", "it runs, and", "it runs."),
    "case_style": ("the whole quote in capitals, small letters or title case", "the pump runs", "THE PUMP RUNS"),
    "dash": ("another dash, or one more or less", "man—eating", "man-eating"),
    "joined": ("a word divided, or two joined", "can not", "cannot"),
    "punctuation": ("other punctuation", "Wait; stop", "Wait, stop"),
    "case": ("the case of letters", "the NOT gate", "the not gate"),
    "accents": ("marks of letters", "tué", "tue"),
    "look_alike": ("a letter that looks like another", "ρgh", "pgh"),
    "symbol": ("another symbol, or one more or less", "a = b", "a < b"),
    "cut": ("an end inside a word or a number", "cannot", "can"),
    "words": ("other words or numbers", "it was a success", "it was no success"),
    "order": ("the same words in another order", "a big red door opens", "a red big door opens"),
}
"""Each kind: in words, and an example of a source and a quote."""

ACCEPTED = frozenset(list(KINDS)[:11])
NEVER_ACCEPTED = frozenset({"cut", "words", "order", "symbol"})


class Difference(NamedTuple):
    """Difference at one place.

    Attributes:
        kind: one of `KINDS`.
        quoted, source: the characters of each; either may be empty.
        quote_span, chunk_span: where they stand, in code points.
    """

    kind: str
    quoted: str
    source: str
    quote_span: Span
    chunk_span: Span


class Pair(NamedTuple):
    """A quote and a source, read."""

    quote: Reading
    source: Reading

    def difference(self, kind: str, quote_span: Span, chunk_span: Span) -> Difference:
        """Return a difference of two parts."""
        return Difference(
            kind, self.quote.text[slice(*quote_span)], self.source.text[slice(*chunk_span)], quote_span, chunk_span
        )


# --- signs of equal keys ----------------------------------------------------------------------------


def compare(pair: Pair, quote_signs: Span, source_signs: Span) -> Iterator[Difference]:
    """Yield what differs between two runs of signs whose keys are the same; both begin and end with such a sign.

    Word by word, and only in words that differ sign by sign.
    """
    quote, source = pair
    (i, last), (j, end) = quote_signs, source_signs
    shift = source.key_starts[j] - quote.key_starts[i]
    ends = quote.sign_end(last - 1), source.sign_end(end - 1)
    if quote.text[quote.places[i] : ends[0]] == source.text[source.places[j] : ends[1]]:
        return
    words = quote.words
    for word in (*words[bisect_right(words, i) : bisect_left(words, last)], last):
        other = source.sign_at(quote.key_starts[word] + shift)
        if other is None:
            continue
        start, other_start = quote.places[i], source.places[j]
        until = (quote.places[word], source.places[other]) if word < last else ends
        if quote.text[start : until[0]] != source.text[other_start : until[1]]:
            word_end, other_end = (quote.sign_end(word - 1), source.sign_end(other - 1)) if word < last else ends
            if quote.text[start:word_end] != source.text[other_start:other_end]:
                yield from _compare_signs(pair, (i, word), (j, other))
            if word < last:
                yield from gap(pair, (word_end, until[0]), (other_end, until[1]))
        i, j = word, other


def _compare_signs(pair: Pair, quote_signs: Span, source_signs: Span) -> Iterator[Difference]:
    """Yield what differs sign by sign: groups of signs after which the keys of both begin anew, and between these."""
    quote, source = pair
    starts, others = quote.key_starts, source.key_starts
    (i, last), (j, _) = quote_signs, source_signs
    while i < last:
        first, other, shift = i, j, others[j] - starts[i]
        i, j = i + 1, j + 1
        while starts[i] + shift != others[j]:
            if starts[i] + shift < others[j]:
                i += 1
            else:
                j += 1
        spans = (quote.places[first], quote.sign_end(i - 1)), (source.places[other], source.sign_end(j - 1))
        if quote.text[slice(*spans[0])] != source.text[slice(*spans[1])]:
            yield pair.difference(_kind_of_signs(pair, *spans), *spans)
        if i < last:
            yield from gap(pair, (spans[0][1], quote.places[i]), (spans[1][1], source.places[j]))


def _kind_of_signs(pair: Pair, asked: Span, found: Span) -> str:
    texts = pair.quote.signs_shown(*asked), pair.source.signs_shown(*found)
    if texts[0] == texts[1]:
        return "entity"
    kind = _kind_of_texts(*texts)
    is_other = kind == "typography" and (_beside_digit(pair.quote, *asked) or _beside_digit(pair.source, *found))
    return "words" if is_other else kind


@functools.lru_cache(maxsize=1 << 14)
def _kind_of_texts(asked: str, found: str) -> str:
    plain = without_typography(asked), without_typography(found)
    if plain[0] == plain[1]:
        return "typography"
    if (digits := digits_of(asked)) and digits == digits_of(found):
        return "digits"
    if any(map(is_numeric, asked + found)):
        return "words"
    if {*plain} in _CASES_OF_I:
        return "case"
    if plain[0].casefold() == plain[1].casefold() and not all(cased(one).islower() for one in plain):
        return "case"
    return "accents" if unmarked(asked) == unmarked(found) else "look_alike"


_CASES_OF_I = ({"İ", "i"}, {"I", "ı"})


def _beside_digit(reading: Reading, start: int, end: int) -> bool:
    """Return whether a number that is written otherwise (½, ₂) touches another digit."""
    if chars.DIGIT not in reading.classes[start:end] or reading.known[start:end].isdecimal():
        return False
    return chars.DIGIT in reading.classes[max(0, start - 1) : start] + reading.classes[end : end + 1]


# --- what stands between signs ----------------------------------------------------------------------


class Sign(NamedTuple):
    """A visible sign of a gap; ``plain`` is how it is compared."""

    plain: str
    kind: str
    span: Span


def gap(pair: Pair, asked: Span, found: Span) -> Iterator[Difference]:
    """Yield what differs between two signs: punctuation and symbols in pairs, then what is between those."""
    quote, source = pair
    texts = quote.text[slice(*asked)], source.text[slice(*found)]
    if texts[0] == texts[1]:
        return
    if f".{texts[0]}.".split() == f".{texts[1]}.".split():
        for one, other in zip(_BLANKS.finditer(quote.text, *asked), _BLANKS.finditer(source.text, *found), strict=True):
            yield from _filling(pair, one.span(), other.span())
        return
    if _is_line_end(quote, asked, source, found) or _is_line_end(source, found, quote, asked):
        yield pair.difference("line_break_hyphen", asked, found)
        return
    before = asked[0], found[0]
    signs, others = signs_of(quote, asked), signs_of(source, found)
    for run, other_run, after in _in_pairs(signs, others, (asked[1], found[1])) if signs or others else ():
        spans = _spans_of_run(pair, run, other_run, before, after)
        yield from _filling(pair, (before[0], spans[0][0]), (before[1], spans[1][0]))
        if kind := _kind_of_pair(pair, run, other_run, spans):
            yield pair.difference(kind, *spans)
        before = spans[0][1], spans[1][1]
    yield from _filling(pair, (before[0], asked[1]), (before[1], found[1]))


def _in_pairs(
    signs: Sequence[Sign], others: Sequence[Sign], end: Span
) -> Iterator[tuple[Sequence[Sign], Sequence[Sign], Span]]:
    """Yield equal signs from both ends in pairs, and between these what differs; each with where the next begin."""
    head = count_equal(signs, others)
    tail = count_equal(signs[head:][::-1], others[head:][::-1])
    last, other_last = len(signs) - tail, len(others) - tail
    for one, other in zip(signs[:head], others, strict=False):
        yield [one], [other], end
    if head < max(last, other_last):
        after = (signs[last].span[0], others[other_last].span[0]) if tail else end
        yield signs[head:last], others[head:other_last], after
    for one, other in zip(signs[last:], others[other_last:], strict=True):
        yield [one], [other], end


def count_equal(signs: Sequence[Sign], others: Sequence[Sign]) -> int:
    """Return how many signs from the first on are the same."""
    for i, (one, other) in enumerate(zip(signs, others, strict=False)):
        if one.plain != other.plain:
            return i
    return min(len(signs), len(others))


def _kind_of_pair(pair: Pair, run: Sequence[Sign], others: Sequence[Sign], spans: tuple[Span, Span]) -> str:
    """Return the kind of the difference of some signs; nothing if they are written the same."""
    (asked, found), (quote, source) = spans, pair
    if len(run) != len(others) or count_equal(run, others) < len(run):
        return kind_of_run(pair, run, others, *spans)
    if quote.text[slice(*asked)] == source.text[slice(*found)]:
        return ""
    return "entity" if asked[0] in quote.shown or found[0] in source.shown else "typography"


_BLANKS = re.compile(r"\s++")


def _spans_of_run(
    pair: Pair, run: Sequence[Sign], others: Sequence[Sign], before: Span, after: Span
) -> tuple[Span, Span]:
    """Return where signs stand that both have, or only one of the two.

    A blank of the other is the one before them, where there is one; a second one goes with them.
    """
    if run and others:
        return (run[0].span[0], run[-1].span[1]), (others[0].span[0], others[-1].span[1])
    having, signs, side = (pair.quote, run, 0) if run else (pair.source, others, 1)
    start, end = signs[0].span[0], signs[-1].span[1]
    is_after = _is_blank(having.classes[before[side] : start])
    lacking = after[1 - side] if is_after else before[1 - side]
    if is_after and _is_blank(having.classes[end : after[side]]):
        end = after[side]
    return ((start, end), (lacking, lacking)) if run else ((lacking, lacking), (start, end))


_DOTS = "..."
# A mark after something unseen is a sign of its own.
_VISIBLE = re.compile("[^snBihMx]")


def signs_of(reading: Reading, span: Span) -> list[Sign]:
    """Return the visible signs of a part between two signs with keys."""
    classes, text, shown = reading.classes, reading.text, reading.shown
    found: list[Sign] = []
    start, end = span
    while sign := _VISIBLE.search(classes, start, end):
        start = place = sign.start()
        place = reading.end_of(start, len(_DOTS) if text.startswith(_DOTS, start, end) else 1)
        seen = reading.visible(start, place) if start in shown else text[start:place]
        plain = without_typography(seen) if reading.known[start:place] == text[start:place] else seen
        if (
            seen in "«‹"
            and classes[place : place + 1] in chars.BLANKS
            and classes[start - 1 : start] in ("", *chars.BLANKS, chars.WITHIN)
        ):
            place = reading.end_of(place)
        elif (
            seen in "»›"
            and classes[max(span[0], start - 1)] == chars.BLANK
            and classes[place : place + 1] not in chars.KEYED
        ):
            start -= 1
        found.append(Sign(plain, sign[0], (start, place)))
        start = place
    return found


def kind_of_run(pair: Pair, run: Sequence[Sign], others: Sequence[Sign], asked: Span, found: Span) -> str:
    """Return the kind of signs that are not the same."""
    kinds = {one.kind for one in (*run, *others)}
    if kinds & {chars.SYMBOL, "r", "m"}:
        return "symbol"
    if chars.DASH in kinds:
        return "symbol" if are_other_numbers(pair, asked, found) else "dash"
    return "words" if are_other_numbers(pair, asked, found) else "punctuation"


def are_other_numbers(pair: Pair, asked: Span, found: Span) -> bool:
    """Return whether two parts make other numbers of the digits beside them: 3.5 and 35, −5 and 5, "3 .5" and "3.5"."""
    places = pair.quote.places or [0]
    ends = {"is_first": asked[0] < places[0], "is_last": asked[1] > places[-1]}
    return pair.quote.numbers(*asked, **ends) != pair.source.numbers(*found, **ends)


def _filling(pair: Pair, asked: Span, found: Span) -> Iterator[Difference]:
    """Yield what differs where nothing visible stands: blanks, markup and invisible characters."""
    if pair.quote.text[slice(*asked)] != pair.source.text[slice(*found)]:
        yield pair.difference(_kind_of_filling(pair, asked, found), asked, found)


def _kind_of_filling(pair: Pair, asked: Span, found: Span) -> str:
    one, other = pair.quote.classes[slice(*asked)], pair.source.classes[slice(*found)]
    both, has_blank = one + other, _is_blank(one)
    if (chars.MARKUP in one or chars.BLOCK in one) and says_other(
        pair.quote.text[slice(*asked)], pair.source.text[slice(*found)]
    ):
        return "words"
    if has_blank != _is_blank(other):
        kind = _kind_of_blank(pair, asked, found)
        return "markup" if kind == "spacing" and chars.MARKUP in both else kind
    if chars.MARKUP in both or chars.BLOCK in both:
        return "markup"
    if not has_blank:
        return "line_break_hyphen" if chars.SOFT in both and chars.BREAK in both else "invisible"
    return "invisible" if chars.INVISIBLE in both or chars.SOFT in both else "white_space"


_TARGET = re.compile(r"""\]\([^()]*\)|=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]++)""")
_MAY_LEAD = re.compile(r"[\[(=0-9¹²³⁰⁴-⁹]")
_NOTE = re.compile(r"[\[【［][^\[\]【】［］]*+[\]】］]|[¹²³⁰⁴-⁹]{2,}+|[¹⁰⁴-⁹]")
_NUMBER = re.compile("[0-9]++|[¹²³⁰⁴-⁹]++|[–-]")


def says_other(quoted: str, source: str) -> bool:
    """Return whether markup of a quote leads elsewhere than the source's, or notes another number."""
    if not _MAY_LEAD.search(quoted):
        return False
    place = 0
    for target in _TARGET.findall(quoted):
        if (place := source.find(target, place)) < 0:
            return True
    notes, others = (
        [number for note in _NOTE.findall(_TARGET.sub("", text)) for number in _NUMBER.findall(note)]
        for text in (quoted, source)
    )
    return bool(notes and others and notes != others)


def _is_blank(classes: str) -> bool:
    """Return whether a blank is seen; not at a line that a soft hyphen ends."""
    return chars.SOFT not in classes and not chars.BLANKS.isdisjoint(classes)


# Texts of Korean in PDFs are broken inside words.
_BROKEN = re.compile("[가-힣]\r?\n[가-힣]")


def _kind_of_blank(pair: Pair, asked: Span, found: Span) -> str:
    """Return the kind of a blank that only one of the two has."""
    around = _neighbours(pair.quote, asked), _neighbours(pair.source, found)
    left, right = around[0][0] or around[1][0], around[0][1] or around[1][1]
    is_broken = any(
        _BROKEN.fullmatch(reading.known, start - 1, end + 1)
        for reading, (start, end) in zip(pair, (asked, found), strict=True)
    )
    if is_broken or (chars.UNSPACED in (left, right) and "" not in (left, right)):
        return "white_space"
    is_joined = (left in "adr" and right in "adr") or are_other_numbers(pair, asked, found)
    return "joined" if is_joined else "spacing"


def _neighbours(reading: Reading, span: Span) -> tuple[str, str]:
    """Return the classes of the visible signs on both sides of a part; empty at an end of the text."""
    before, after = span[0] - 1, span[1]
    while before >= 0 and reading.classes[before] in "xmMihsnB":
        before -= 1
    while after < len(reading.classes) and reading.classes[after] in "xmMihsnB":
        after += 1
    return reading.classes[before : before + 1] if before >= 0 else "", reading.classes[after : after + 1]


_AT_LINE_END = re.compile(r"-[ihM]*+[snB][snBihM]*+|h[ihM]*+n[snBihM]*+|n?h[nihM]*+|n[ihM]*+h[snBihM]*+")
_LINE_END_HYPHENS = "-\u2010\u00ad\n"


def _is_line_end(reading: Reading, span: Span, other: Reading, other_span: Span) -> bool:
    """Return whether all between two letters is a hyphen at the end of a line, and nothing in the other text."""
    if not _AT_LINE_END.fullmatch(reading.classes, *span) or other.visible(*other_span):
        return False
    return reading.text[span[0]] in _LINE_END_HYPHENS and _neighbours(reading, span) == ("a", "a")


# --- the case of a whole quote ----------------------------------------------------------------------


def merged(pair: Pair, differences: Sequence[Difference]) -> list[Difference]:
    """Join neighbours of one kind inside a word."""
    runs: list[tuple[str, Span, Span]] = []
    for kind, _, _, asked, source in differences:
        last = runs[-1] if runs else None
        if last and (last[0], last[1][1], last[2][1]) == (kind, asked[0], source[0]):
            runs[-1] = kind, (last[1][0], asked[1]), (last[2][0], source[1])
        else:
            runs.append((kind, asked, source))
    return [pair.difference(*run) for run in runs]


def with_order(differences: list[Difference]) -> list[Difference]:
    """Tell words that stand elsewhere in the quote from words that are lost and others that are put in."""
    words = [one for one in differences if one.kind == "words"]
    moved = [
        {id(one), id(other)}
        for one, other in pairwise(words)
        if (one.quoted.split(), other.quoted.split()) == (other.source.split(), one.source.split())
        and not (one.quoted and one.source)
    ]
    among = set().union(*moved)
    return [one._replace(kind="order") if id(one) in among else one for one in differences]


def with_case(pair: Pair, differences: list[Difference], passage: Span, first: int) -> list[Difference]:
    """Tell the case of the first letter, and of the whole quote, from the case of some letters."""
    cases = [one for one in differences if one.kind == "case"]
    if not cases:
        return differences
    if len(cases) == 1 and cases[0].quote_span[0] == first and _is_first_letter(pair, cases[0]):
        kind = "first_letter"
    elif _has_style(pair, passage):
        kind = "case_style"
    else:
        return differences
    return [one._replace(kind=kind) if one.kind == "case" else one for one in differences]


_LETTER_BESIDE_DIGIT = re.compile(r"\d\s*+[^\W\d_]|[^\W\d_]\s*+\d")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SENTENCE_START = re.compile(r"(?:\A|[.!?。]\s++|\n)\W{0,8}\w")
_LONGEST_UNIT, _BEFORE_SENTENCE, _FEWEST_CASED, _SMALL_WORDS = 3, 8, 2, 4


def _is_first_letter(pair: Pair, one: Difference) -> bool:
    """Return whether a letter is one, and not of a unit after a number, which letter case tells from another."""
    place = one.chunk_span[0]
    word = _WORD.match(known(pair.source.text[place : place + _LONGEST_UNIT + 1]))
    is_unit = word and len(word[0]) <= _LONGEST_UNIT and chars.DIGIT in pair.source.classes[max(0, place - 2) : place]
    return len(one.source) == 1 and not is_unit


def _has_style(pair: Pair, passage: Span) -> bool:
    """Return whether all of a quote is in one style, and no word of its passage has a case of its own."""
    asked, found = _plain(pair.quote.visible(0, len(pair.quote.text))), _plain(pair.source.text[slice(*passage)])
    words = _WORD.findall(asked)
    if len(words) < _FEWEST_CASED or any(map(_is_caseless, words)) or _LETTER_BESIDE_DIGIT.search(asked):
        return False
    is_title = all(map(_is_title, words)) and 2 * sum(word[0].isupper() for word in words) >= len(words)
    if not (is_title or asked in (asked.upper(), asked.lower())):
        return False
    before = _plain(pair.source.text[max(0, passage[0] - _BEFORE_SENTENCE) : passage[0]])
    small = _SENTENCE_START.sub(lambda start: start[0].lower(), before + found)[len(before) :]
    return found == found.upper() or small == small.lower()


def _plain(text: str) -> str:
    """Return a text whose letters all have a case that `str` knows: 𝐔 is U."""
    return cased("".join(map(chars.plain, known(text))))


def _is_caseless(word: str) -> bool:
    return word.upper() == word.lower()


def _is_title(word: str) -> bool:
    return word == word[:1].upper() + word[1:].lower() or (len(word) <= _SMALL_WORDS and word == word.lower())
