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
    (i, quote_end), (j, end) = quote_signs, source_signs
    shift = source.key_starts[j] - quote.key_starts[i]
    ends = quote.sign_end(quote_end - 1), source.sign_end(end - 1)
    if quote.text[quote.places[i] : ends[0]] == source.text[source.places[j] : ends[1]]:
        return
    words = quote.words
    for word in (*words[bisect_right(words, i) : bisect_left(words, quote_end)], quote_end):
        other_word = source.sign_at(quote.key_starts[word] + shift)
        if other_word is None:
            continue
        start, other_start = quote.places[i], source.places[j]
        until = (quote.places[word], source.places[other_word]) if word < quote_end else ends
        if quote.text[start : until[0]] != source.text[other_start : until[1]]:
            word_end, other_end = (
                (quote.sign_end(word - 1), source.sign_end(other_word - 1)) if word < quote_end else ends
            )
            if quote.text[start:word_end] != source.text[other_start:other_end]:
                yield from _compare_signs(pair, (i, word), (j, other_word))
            if word < quote_end:
                yield from gap(pair, (word_end, until[0]), (other_end, until[1]))
        i, j = word, other_word


def _compare_signs(pair: Pair, quote_signs: Span, source_signs: Span) -> Iterator[Difference]:
    """Yield what differs sign by sign: groups of signs after which the keys of both begin anew, and between these."""
    quote, source = pair
    starts, source_starts = quote.key_starts, source.key_starts
    (i, quote_end), (j, _) = quote_signs, source_signs
    while i < quote_end:
        begin, source_begin, shift = i, j, source_starts[j] - starts[i]
        i, j = i + 1, j + 1
        while starts[i] + shift != source_starts[j]:
            if starts[i] + shift < source_starts[j]:
                i += 1
            else:
                j += 1
        spans = (quote.places[begin], quote.sign_end(i - 1)), (source.places[source_begin], source.sign_end(j - 1))
        if quote.text[slice(*spans[0])] != source.text[slice(*spans[1])]:
            yield pair.difference(_kind_of_signs(pair, *spans), *spans)
        if i < quote_end:
            yield from gap(pair, (spans[0][1], quote.places[i]), (spans[1][1], source.places[j]))


def _kind_of_signs(pair: Pair, quote_span: Span, source_span: Span) -> str:
    texts = pair.quote.signs_shown(*quote_span), pair.source.signs_shown(*source_span)
    if texts[0] == texts[1]:
        return "entity"
    kind = _kind_of_texts(*texts)
    is_other = kind == "typography" and (
        _beside_digit(pair.quote, *quote_span) or _beside_digit(pair.source, *source_span)
    )
    return "words" if is_other else kind


@functools.lru_cache(maxsize=1 << 14)
def _kind_of_texts(quote_text: str, source_text: str) -> str:
    plain = without_typography(quote_text), without_typography(source_text)
    if plain[0] == plain[1]:
        return "typography"
    if (digits := digits_of(quote_text)) and digits == digits_of(source_text):
        return "digits"
    if any(map(is_numeric, quote_text + source_text)):
        return "words"
    if {*plain} in _CASES_OF_I:
        return "case"
    if plain[0].casefold() == plain[1].casefold() and not all(cased(text).islower() for text in plain):
        return "case"
    return "accents" if unmarked(quote_text) == unmarked(source_text) else "look_alike"


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


def gap(pair: Pair, quote_span: Span, source_span: Span) -> Iterator[Difference]:
    """Yield what differs between two signs: punctuation and symbols in pairs, then what is between those."""
    quote, source = pair
    texts = quote.text[slice(*quote_span)], source.text[slice(*source_span)]
    if texts[0] == texts[1]:
        return
    if f".{texts[0]}.".split() == f".{texts[1]}.".split():
        for quote_blank, source_blank in zip(
            _BLANKS.finditer(quote.text, *quote_span), _BLANKS.finditer(source.text, *source_span), strict=True
        ):
            yield from _filling(pair, quote_blank.span(), source_blank.span())
        return
    if _is_line_end(quote, quote_span, source, source_span) or _is_line_end(source, source_span, quote, quote_span):
        yield pair.difference("line_break_hyphen", quote_span, source_span)
        return
    previous_ends = quote_span[0], source_span[0]
    signs, source_signs = signs_of(quote, quote_span), signs_of(source, source_span)
    for run, other_run, next_starts in (
        _in_pairs(signs, source_signs, (quote_span[1], source_span[1])) if signs or source_signs else ()
    ):
        spans = _spans_of_run(pair, run, other_run, previous_ends, next_starts)
        yield from _filling(pair, (previous_ends[0], spans[0][0]), (previous_ends[1], spans[1][0]))
        if kind := _kind_of_pair(pair, run, other_run, spans):
            yield pair.difference(kind, *spans)
        previous_ends = spans[0][1], spans[1][1]
    yield from _filling(pair, (previous_ends[0], quote_span[1]), (previous_ends[1], source_span[1]))


def _in_pairs(
    signs: Sequence[Sign], source_signs: Sequence[Sign], end: Span
) -> Iterator[tuple[Sequence[Sign], Sequence[Sign], Span]]:
    """Yield equal signs from both ends in pairs, and between these what differs; each with where the next begin."""
    head = count_equal(signs, source_signs)
    tail = count_equal(signs[head:][::-1], source_signs[head:][::-1])
    tail_start, source_tail_start = len(signs) - tail, len(source_signs) - tail
    for quote_sign, source_sign in zip(signs[:head], source_signs, strict=False):
        yield [quote_sign], [source_sign], end
    if head < max(tail_start, source_tail_start):
        next_starts = (signs[tail_start].span[0], source_signs[source_tail_start].span[0]) if tail else end
        yield signs[head:tail_start], source_signs[head:source_tail_start], next_starts
    for quote_sign, source_sign in zip(signs[tail_start:], source_signs[source_tail_start:], strict=True):
        yield [quote_sign], [source_sign], end


def count_equal(signs: Sequence[Sign], other_signs: Sequence[Sign]) -> int:
    """Return how many signs from the first on are the same."""
    for i, (sign, other_sign) in enumerate(zip(signs, other_signs, strict=False)):
        if sign.plain != other_sign.plain:
            return i
    return min(len(signs), len(other_signs))


def _kind_of_pair(pair: Pair, run: Sequence[Sign], other_run: Sequence[Sign], spans: tuple[Span, Span]) -> str:
    """Return the kind of the difference of some signs; nothing if they are written the same."""
    (quote_span, source_span), (quote, source) = spans, pair
    if len(run) != len(other_run) or count_equal(run, other_run) < len(run):
        return kind_of_run(pair, run, other_run, *spans)
    if quote.text[slice(*quote_span)] == source.text[slice(*source_span)]:
        return ""
    return "entity" if quote_span[0] in quote.entity_signs or source_span[0] in source.entity_signs else "typography"


_BLANKS = re.compile(r"\s++")


def _spans_of_run(
    pair: Pair, run: Sequence[Sign], other_run: Sequence[Sign], previous_ends: Span, next_starts: Span
) -> tuple[Span, Span]:
    """Return where signs stand that both have, or only one of the two.

    A blank of the other is the one before them, where there is one; a second one goes with them.
    """
    if run and other_run:
        return (run[0].span[0], run[-1].span[1]), (other_run[0].span[0], other_run[-1].span[1])
    having, signs, side = (pair.quote, run, 0) if run else (pair.source, other_run, 1)
    start, end = signs[0].span[0], signs[-1].span[1]
    is_after = _is_blank(having.classes[previous_ends[side] : start])
    lacking = next_starts[1 - side] if is_after else previous_ends[1 - side]
    if is_after and _is_blank(having.classes[end : next_starts[side]]):
        end = next_starts[side]
    return ((start, end), (lacking, lacking)) if run else ((lacking, lacking), (start, end))


_DOTS = "..."
# A mark after something unseen is a sign of its own.
_VISIBLE = re.compile("[^snBihMx]")


def signs_of(reading: Reading, span: Span) -> list[Sign]:
    """Return the visible signs of a part between two signs with keys."""
    classes, text, entity_signs = reading.classes, reading.text, reading.entity_signs
    signs: list[Sign] = []
    start, end = span
    while sign := _VISIBLE.search(classes, start, end):
        start = place = sign.start()
        place = reading.end_of(start, len(_DOTS) if text.startswith(_DOTS, start, end) else 1)
        seen = reading.visible(start, place) if start in entity_signs else text[start:place]
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
        signs.append(Sign(plain, sign[0], (start, place)))
        start = place
    return signs


def kind_of_run(pair: Pair, run: Sequence[Sign], other_run: Sequence[Sign], quote_span: Span, source_span: Span) -> str:
    """Return the kind of signs that are not the same."""
    kinds = {sign.kind for sign in (*run, *other_run)}
    if kinds & {chars.SYMBOL, "r", "m"}:
        return "symbol"
    if chars.DASH in kinds:
        return "symbol" if are_other_numbers(pair, quote_span, source_span) else "dash"
    return "words" if are_other_numbers(pair, quote_span, source_span) else "punctuation"


def are_other_numbers(pair: Pair, quote_span: Span, source_span: Span) -> bool:
    """Return whether two parts make other numbers of the digits beside them: 3.5 and 35, −5 and 5, "3 .5" and "3.5"."""
    places = pair.quote.places or [0]
    ends = {"is_first": quote_span[0] < places[0], "is_last": quote_span[1] > places[-1]}
    return pair.quote.numbers(*quote_span, **ends) != pair.source.numbers(*source_span, **ends)


def _filling(pair: Pair, quote_span: Span, source_span: Span) -> Iterator[Difference]:
    """Yield what differs where nothing visible stands: blanks, markup and invisible characters."""
    if pair.quote.text[slice(*quote_span)] != pair.source.text[slice(*source_span)]:
        yield pair.difference(_kind_of_filling(pair, quote_span, source_span), quote_span, source_span)


def _kind_of_filling(pair: Pair, quote_span: Span, source_span: Span) -> str:
    quote_classes, source_classes = pair.quote.classes[slice(*quote_span)], pair.source.classes[slice(*source_span)]
    classes, has_blank = quote_classes + source_classes, _is_blank(quote_classes)
    if (chars.MARKUP in quote_classes or chars.BLOCK in quote_classes) and says_other(
        pair.quote.text[slice(*quote_span)], pair.source.text[slice(*source_span)]
    ):
        return "words"
    if has_blank != _is_blank(source_classes):
        kind = _kind_of_blank(pair, quote_span, source_span)
        return "markup" if kind == "spacing" and chars.MARKUP in classes else kind
    if chars.MARKUP in classes or chars.BLOCK in classes:
        return "markup"
    if not has_blank:
        return "line_break_hyphen" if chars.SOFT in classes and chars.BREAK in classes else "invisible"
    return "invisible" if chars.INVISIBLE in classes or chars.SOFT in classes else "white_space"


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
    notes, source_notes = (
        [number for note in _NOTE.findall(_TARGET.sub("", text)) for number in _NUMBER.findall(note)]
        for text in (quoted, source)
    )
    return bool(notes and source_notes and notes != source_notes)


def _is_blank(classes: str) -> bool:
    """Return whether a blank is seen; not at a line that a soft hyphen ends."""
    return chars.SOFT not in classes and not chars.BLANKS.isdisjoint(classes)


# Texts of Korean in PDFs are broken inside words.
_BROKEN = re.compile("[가-힣]\r?\n[가-힣]")


def _kind_of_blank(pair: Pair, quote_span: Span, source_span: Span) -> str:
    """Return the kind of a blank that only one of the two has."""
    around = _neighbours(pair.quote, quote_span), _neighbours(pair.source, source_span)
    left_class, right_class = around[0][0] or around[1][0], around[0][1] or around[1][1]
    is_broken = any(
        _BROKEN.fullmatch(reading.known, start - 1, end + 1)
        for reading, (start, end) in zip(pair, (quote_span, source_span), strict=True)
    )
    if is_broken or (chars.UNSPACED in (left_class, right_class) and "" not in (left_class, right_class)):
        return "white_space"
    is_joined = (left_class in "adr" and right_class in "adr") or are_other_numbers(pair, quote_span, source_span)
    return "joined" if is_joined else "spacing"


def _neighbours(reading: Reading, span: Span) -> tuple[str, str]:
    """Return the classes of the visible signs on both sides of a part; empty at an end of the text."""
    start, end = span[0] - 1, span[1]
    while start >= 0 and reading.classes[start] in "xmMihsnB":
        start -= 1
    while end < len(reading.classes) and reading.classes[end] in "xmMihsnB":
        end += 1
    return reading.classes[start : start + 1] if start >= 0 else "", reading.classes[end : end + 1]


_AT_LINE_END = re.compile(r"-[ihM]*+[snB][snBihM]*+|h[ihM]*+n[snBihM]*+|n?h[nihM]*+|n[ihM]*+h[snBihM]*+")
_LINE_END_HYPHENS = "-\u2010\u00ad\n"


def _is_line_end(reading: Reading, span: Span, other_reading: Reading, other_span: Span) -> bool:
    """Return whether all between two letters is a hyphen at the end of a line, and nothing in the other text."""
    if not _AT_LINE_END.fullmatch(reading.classes, *span) or other_reading.visible(*other_span):
        return False
    return reading.text[span[0]] in _LINE_END_HYPHENS and _neighbours(reading, span) == ("a", "a")


# --- the case of a whole quote ----------------------------------------------------------------------


def merged(pair: Pair, differences: Sequence[Difference]) -> list[Difference]:
    """Join neighbours of one kind inside a word."""
    runs: list[tuple[str, Span, Span]] = []
    for kind, _, _, quote_span, source_span in differences:
        last_run = runs[-1] if runs else None
        if last_run and (last_run[0], last_run[1][1], last_run[2][1]) == (kind, quote_span[0], source_span[0]):
            runs[-1] = kind, (last_run[1][0], quote_span[1]), (last_run[2][0], source_span[1])
        else:
            runs.append((kind, quote_span, source_span))
    return [pair.difference(*run) for run in runs]


def with_order(differences: list[Difference]) -> list[Difference]:
    """Tell words that stand elsewhere in the quote from words that are lost and others that are put in."""
    words = [difference for difference in differences if difference.kind == "words"]
    moved = [
        {id(difference), id(next_difference)}
        for difference, next_difference in pairwise(words)
        if (difference.quoted.split(), next_difference.quoted.split())
        == (next_difference.source.split(), difference.source.split())
        and not (difference.quoted and difference.source)
    ]
    among = set().union(*moved)
    return [difference._replace(kind="order") if id(difference) in among else difference for difference in differences]


def with_case(pair: Pair, differences: list[Difference], passage: Span, first_place: int) -> list[Difference]:
    """Tell the case of the first letter, and of the whole quote, from the case of some letters."""
    cases = [difference for difference in differences if difference.kind == "case"]
    if not cases:
        return differences
    if len(cases) == 1 and cases[0].quote_span[0] == first_place and _is_first_letter(pair, cases[0]):
        kind = "first_letter"
    elif _has_style(pair, passage):
        kind = "case_style"
    else:
        return differences
    return [difference._replace(kind=kind) if difference.kind == "case" else difference for difference in differences]


_LETTER_BESIDE_DIGIT = re.compile(r"\d\s*+[^\W\d_]|[^\W\d_]\s*+\d")
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_SENTENCE_START = re.compile(r"(?:\A|[.!?。]\s++|\n)\W{0,8}\w")
_LONGEST_UNIT, _BEFORE_SENTENCE, _FEWEST_CASED, _SMALL_WORDS = 3, 8, 2, 4


def _is_first_letter(pair: Pair, difference: Difference) -> bool:
    """Return whether a letter is one, and not of a unit after a number, which letter case tells from another."""
    place = difference.chunk_span[0]
    word = _WORD.match(known(pair.source.text[place : place + _LONGEST_UNIT + 1]))
    is_unit = word and len(word[0]) <= _LONGEST_UNIT and chars.DIGIT in pair.source.classes[max(0, place - 2) : place]
    return len(difference.source) == 1 and not is_unit


def _has_style(pair: Pair, passage: Span) -> bool:
    """Return whether all of a quote is in one style, and no word of its passage has a case of its own."""
    quoted, source = _plain(pair.quote.visible(0, len(pair.quote.text))), _plain(pair.source.text[slice(*passage)])
    words = _WORD.findall(quoted)
    if len(words) < _FEWEST_CASED or any(map(_is_caseless, words)) or _LETTER_BESIDE_DIGIT.search(quoted):
        return False
    is_title = all(map(_is_title, words)) and 2 * sum(word[0].isupper() for word in words) >= len(words)
    if not (is_title or quoted in (quoted.upper(), quoted.lower())):
        return False
    text_before = _plain(pair.source.text[max(0, passage[0] - _BEFORE_SENTENCE) : passage[0]])
    small = _SENTENCE_START.sub(lambda start: start[0].lower(), text_before + source)[len(text_before) :]
    return source == source.upper() or small == small.lower()


def _plain(text: str) -> str:
    """Return a text whose letters all have a case that `str` knows: 𝐔 is U."""
    return cased("".join(map(chars.plain, known(text))))


def _is_caseless(word: str) -> bool:
    return word.upper() == word.lower()


def _is_title(word: str) -> bool:
    return word == word[:1].upper() + word[1:].lower() or (len(word) <= _SMALL_WORDS and word == word.lower())
