"""A text as a reader sees it: its signs and their keys, what is markup, where words, numbers and sentences end."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import accumulate, compress, pairwise
from typing import TYPE_CHECKING

from worker.core.citations.quoting import characters as chars
from worker.core.citations.quoting.characters import CLASSES, KEYS, Table
from worker.core.text.markup import markup_of
from worker.core.text.unicode_data import cased, known

if TYPE_CHECKING:
    from collections.abc import Sequence


class Reading:
    """A text, read once.

    Attributes:
        text: its own characters.
        known: these, as of one Unicode version.
        classes: a class for each, as `characters` names them.
        key: the keys of all signs, without anything between.
        entity_signs: signs that entities show, by their places.
    """

    def __init__(self, text: str, *, begins_line: bool = True) -> None:
        self.text, self.known = text, known(text)
        self.entity_signs: dict[int, str] = {}
        classes, keys, position = "", "", 0
        for start, end, is_block, sign in markup_of(self.known, begins_line=begins_line):
            if start >= position:
                prose = self.known[position:start]
                kind = known(sign).translate(CLASSES)[0] if sign else chars.BLOCK if is_block else chars.MARKUP
                classes += prose.translate(CLASSES) + kind + chars.WITHIN * (end - start - 1)
                keys += prose.translate(_KEYS_ALONE) + known(sign).translate(KEYS)
                position = end
                if sign:
                    self.entity_signs[start] = sign
        rest = self.known[position:] if position else self.known
        self.classes = classes + rest.translate(CLASSES)
        self.key = keys + rest.translate(_KEYS_ALONE)

    @cached_property
    def places(self) -> Sequence[int]:
        """Where each sign that has a key begins."""
        return [*compress(range(len(self.classes)), self.classes.translate(_IS_KEYED).encode())]

    @cached_property
    def key_starts(self) -> Sequence[int]:
        """Where the key of each sign begins in `key`; then its length."""
        if len(self.key) == len(self.places):
            return range(len(self.places) + 1)
        signs = (known(self.entity_signs[i]) if i in self.entity_signs else self.known[i] for i in self.places)
        return [0, *accumulate(len(sign.translate(KEYS)) for sign in signs)]

    def sign_at(self, place: int) -> int | None:
        """Return the sign whose key begins at a place of `key`, or how many there are at its end; None inside a key."""
        starts = self.key_starts
        if isinstance(starts, range):
            return place
        sign = bisect_left(starts, place)
        return sign if starts[sign] == place else None

    def sign_end(self, sign: int) -> int:
        """Return where a sign ends, given by its number: after its marks."""
        end = self.places[sign] + 1
        return self.end_of(end - 1) if self.classes[end : end + 1] in chars.CONTINUED else end

    def end_of(self, place: int, count: int = 1) -> int:
        """Return where some characters end that begin at a place: after their marks."""
        end = place + count
        return (
            next(_CONTINUED.finditer(self.classes, end)).end()
            if self.classes[end : end + 1] in chars.CONTINUED
            else end
        )

    @cached_property
    def words(self) -> Sequence[int]:
        """Signs at which words begin, and how many signs there are; in scripts without spaces each sign is a word."""
        return [0, *accumulate(map(len, _WORD.findall(self.classes.translate(_INSIDE_WORDS))))]

    @cached_property
    def word_keys(self) -> Sequence[str]:
        """The key of each word."""
        starts = self.key_starts
        return [self.key[starts[first_sign] : starts[end_sign]] for first_sign, end_sign in pairwise(self.words)]

    @cached_property
    def word_places(self) -> dict[str, list[int]]:
        """The numbers of the words of each key."""
        words_by_key: dict[str, list[int]] = {}
        for i, key in enumerate(self.word_keys):
            words_by_key.setdefault(key, []).append(i)
        return words_by_key

    def visible(self, start: int, end: int) -> str:
        """Return what a reader sees of a part: without markup, entities as their signs, blocks as blanks."""
        if not _NOT_AS_IT_IS.search(self.classes, start, end):
            return self.text[start:end]
        pieces = []
        for run in _RUN.finditer(self.classes, start, end):
            run_start, run_end = run.span()
            if run["block"]:
                pieces.append(" ")
            elif run_end - 1 in self.entity_signs:
                pieces += [self.text[run_start : run_end - 1], self.entity_signs[run_end - 1]]
            else:
                pieces.append(self.text[run_start:run_end])
        return "".join(pieces)

    def signs_shown(self, start: int, end: int) -> str:
        """Return what signs show, with what stands between them, as of one Unicode version."""
        if self.entity_signs and any(place in self.entity_signs for place in range(start, end)):
            return known(self.visible(start, end))
        return self.known[start:end]

    # --- ends of words, numbers and sentences -------------------------------------------------------

    def is_cut(self, place: int) -> bool:
        """Return whether a quote that begins or ends here cuts a word, a number, or what belongs to one."""
        sides = self.classes[place - 1 : place + 1] if place else ""
        if len(sides) <= 1:
            return False
        if sides not in _NO_CUT and (sides[1] in chars.CONTINUED or _CUT.search(self._cut(place))):
            return True
        near = f"{self.known[max(0, place - _NEAR) : place]}\0{self.known[place : place + _NEAR]}"
        return "\n" in near and any("\0" in match[0] for match in _DIVIDED.finditer(near))

    def _cut(self, place: int) -> str:
        """Return what is seen on both sides of a place, with a NUL there, a sign of `_CUT` for each character."""
        return cased("\0".join(self._around(place, place))).translate(_SIGNS_OF_CUT)

    def numbers(self, start: int, end: int, *, is_first: bool, is_last: bool) -> list[str]:
        """Return the forms of numbers from the sign before a part to the one after it: ``-d.d`` of −3.5."""
        left_side, right_side = (side.translate(_SIGNS_OF_CUT) for side in self._around(start, end))
        middle = known(self.visible(start, end)).translate(_SIGNS_OF_CUT)
        left_side, right_side = _BEFORE[is_first].findall(left_side)[0], _AFTER[is_last].findall(right_side)[0]
        return _NUMBERS.findall(f"{left_side}{middle}{right_side}".replace("~", "-"))

    def _around(self, start: int, end: int) -> tuple[str, str]:
        """Return what is seen on both sides of a part."""
        if _NOT_AS_IT_IS.search(self.classes, max(0, start - _SEEN), end + _SEEN) is None:
            return self.known[max(0, start - _SEEN) : start], self.known[end : end + _SEEN]
        near = _NEAR
        while len(left_side := self.visible(max(0, start - near), start)) < _SEEN and near < start:
            near *= 4
        while len(right_side := self.visible(end, end + near)) < _SEEN and end + near < len(self.text):
            near *= 4
        return known(left_side[-_SEEN:]), known(right_side[:_SEEN])

    @cached_property
    def _sentence_ends(self) -> Sequence[int]:
        """Where sentences end; as a guess it is generous: what may go on goes on."""
        return [match.end() for match in _SENTENCE_END.finditer(self.known) if self._is_end(match)]

    def _is_end(self, match: re.Match[str], *, is_sure: bool = True) -> bool:
        """Return whether a sentence ends, or may end where a question, a cry or a quotation does."""
        if match["block"]:
            # A bullet that is none is a sign.
            return self.classes[match.end() - 1] in (*chars.BLANKS, chars.WITHIN)
        if self.classes[match.start()] == chars.WITHIN:
            return False
        stop, text_after = match["stop"], cased(self.known[match.end() : match.end() + 4])
        following = text_after.lstrip()[:1]
        if stop[0] != ".":
            is_joined = stop[-1] in _WIDE_CLOSING and text_after[:1].isalnum()
            return not (is_sure and (is_joined or following.islower()))
        if following.islower() or following.isdigit():
            return False
        word = _LAST_WORD.findall(cased(self.known[max(0, match.start() - _SEEN) : match.start()]))[0]
        return not (len(word) <= _SHORT and (word[:1].isupper() or word.isdigit() or len(word) == 1))

    def has_sentence_end(self, start: int, end: int) -> bool:
        """Return whether a sentence ends in a part, or may end there."""
        stops = _SENTENCE_END.finditer(self.known, max(0, start - _CLOSING - 1), end + 2)
        return any(start <= match.end() <= end and self._is_end(match, is_sure=False) for match in stops)

    def rest_before(self, place: int) -> str | None:
        """Return the beginning of the sentence before a place; None where a sentence begins there."""
        at, earliest = bisect_right(self._sentence_ends, place), max(0, place - MOST_AROUND)
        start = max([earliest, *self._sentence_ends[max(0, at - 1) : at]])
        if earliest == start > 0:
            if not self.visible(start, place).strip():
                # All that is near is unseen.
                seen = len(self.classes[:place].rstrip(_UNSEEN))
                return self.text[max(0, seen + 1 - MOST_AROUND) : seen + 1].lstrip() if seen else None
        elif not self._says_something(start, place):
            is_number = self.classes[place : place + 1] not in (chars.LETTER, chars.UNSPACED)
            return self.text[start:place].lstrip() if is_number and chars.DASH in self.classes[start:place] else None
        return self.text[start:place].lstrip()

    def rest_after(self, place: int) -> str | None:
        """Return the rest of the sentence after a place; None where the sentence ends there."""
        at, latest = bisect_left(self._sentence_ends, place), min(len(self.text), place + MOST_AROUND)
        end = min([latest, *self._sentence_ends[at : at + 1]])
        if end == latest < len(self.text):
            if not self.visible(place, end).strip():
                # All that is near is unseen.
                place = _UNSEEN_RUN.match(self.classes, place).end() - 1  # type: ignore[union-attr] # all is unseen
                return self.text[place : place + MOST_AROUND].rstrip() or None
        elif not self._says_something(place, end):
            return None
        return self.text[place:end].rstrip()

    def _says_something(self, start: int, end: int) -> bool:
        """Return whether a word, a number or a question stands in a part."""
        return bool(_IS_WORD.search(self.classes, start, end) or _ASKS.search(self.visible(start, end)))

    def asks_in_greek(self, place: int) -> bool:
        """Return whether a Greek question mark, which is a semicolon elsewhere, stands at a place."""
        question = _GREEK_QUESTION.search(self.text, max(0, place - _CLOSING - 1), place + _CLOSING + 1)
        return question is not None and question.end() > place

    def ends_clause(self, place: int) -> bool:
        """Return whether a clause or its text ends at a place, after closing signs."""
        seen = self.text[place : place + _NEAR]
        return bool(_CLAUSE_END.match(seen)) or (place + len(seen) >= len(self.text) and not seen.strip())


_KEYS_ALONE = Table(lambda character: KEYS[ord(character)] or None)
_IS_KEYED = {code: "\1" if chr(code) in chars.KEYED else "\0" for code in range(128)}
_INSIDE_WORDS = dict.fromkeys(map(ord, (*chars.UNSEEN, *chars.CONTINUED)))
_WORD, _LETTERS = re.compile("c|[adt]+"), re.compile("[acd]++")
_CONTINUED = re.compile("[xm]*+")
_NOT_AS_IT_IS = re.compile("[BihMx]")
# An entity is one of the last signs of what is seen, as the rest of it continues that sign.
_RUN = re.compile("(?P<block>B)|[^BihMx]+")
_NO_CUT = frozenset({"as", "an", "sa", "na", "ps", "pn"})
_UNSEEN = "snBihMx"
_UNSEEN_RUN, _IS_WORD = re.compile(f"[{_UNSEEN}]*+"), re.compile("[acdryt]")
# A word that a line divides; a NUL is where a quote begins or ends.
_DIVIDED = re.compile(r"[^\W\d_]\0?[-\u2010\u00ad]\0?[^\S\n]*+\0?\n\s*+\0?\s*+[^\W\d_]")

MOST_AROUND = 200
"""Characters of the rest of a sentence at most."""

_NEAR, _SEEN, _SHORT, _CLOSING = 64, 12, 4, 4
_LAST_WORD = re.compile(r"\w*\Z")
_ASKS = re.compile("[?!？！؟¿¡;\u037e՞፧‽]")
_WIDE_CLOSING = "」』”）】"
_NEXT_BLOCK = r"\n[ \t\r]*+(?:\n|[-*+•>|#])"
# Of a long run of stops, not each is tried.
_SENTENCE_END = re.compile(
    r"(?=[.!?…؟।॥。！？｡\n])(?:(?P<stop>(?<![.!?…؟।॥]{16})[.!?…؟।॥]++[\"'’”»)\]*_]{0,4}(?=\s|\Z)"
    rf"|[。！？｡]++[{_WIDE_CLOSING}]{{0,4}})|(?P<block>{_NEXT_BLOCK}))"
)
_GREEK_QUESTION = re.compile("[\u0370-\u03ff\u1f00-\u1fff][\"'’”»)]{0,4}[ ]?;|\u037e")
_CLAUSE_END = re.compile(rf"[\"'’”»)\]*_」』]{{0,4}}(?:[.,;:。।॥，；：、،؛]|\s*+\Z|[ \t\r]*+{_NEXT_BLOCK})")

_OF_CUT = {
    **dict.fromkeys(chars.HYPHENS, "-"),
    **dict.fromkeys(chars.MINUSES + "\u2012\u2013", "~"),
    **dict.fromkeys("'’ʼ", "'"),
    **dict.fromkeys("%‰‱°º˚′″℃℉\u066a％", "%"),
    **dict.fromkeys("+±<>≤≥≈~＋＜＞", "+"),
    **dict.fromkeys("$€£¥￥₹₽", "$"),
    **{sign: sign for sign in ".,:/_#\0"},
    "٫": ".",
    "٬": ",",
}


def _as_cut(character: str) -> str:
    char_class = CLASSES[ord(character)]
    if char_class == "a":
        return "a" if character.islower() or not character.isupper() else "A"
    if char_class in "cdrm":
        return char_class
    return _OF_CUT.get(character) or (" " if char_class in chars.BLANKS else "p")


_SIGNS_OF_CUT = Table(_as_cut)
_BEFORE = re.compile("[aAcdr]?[^aAcdr]*\\Z"), re.compile("[^aAcdr]*\\Z")
_AFTER = re.compile("[^aAcdr]*[aAcdr]?"), re.compile("[^aAcdr]*")
# A dash after a blank or a bracket is a sign, and so is a dot.
_NUMBERS = re.compile(r"(?:(?<![aAcdr])-|(?<![^ ])\.)?d+(?:[.,:/']d+)*")

# A NUL is where a quote begins or ends: inside a word, beside a hyphen or an apostrophe in one, inside a domain's name;
# inside a number, its groups of three digits, after its sign or before its per cent, degree or currency sign.
_CUT = re.compile(
    r"[aAd]\0[aAdr]|r\0[aAdr]|[aAcdr]\0m"
    r"|[aAd]['_-]\0[aAd]|[aAd]\0['_-][aAd]"
    r"|[aA]\.\0a|[aA]\0\.a|[aA]\0[+#]|[\#%]\0[aAd]"
    r"|d[.,:/'~]\0d|d\0[.,:/'~]d"
    r"|(?<!d)d{1,3}(?:\0[ ]|[ ]\0)ddd(?!d)"
    r"|(?<![aAcd])[-~]\$?\0\$?d|[+$]\0[ ]?d|\+[ ]\0d"
    r"|d\0[ ]?[%$]|d[ ]\0[%$]"
)
