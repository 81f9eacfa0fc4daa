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
        shown: signs that entities show, by their places.
    """

    def __init__(self, text: str) -> None:
        self.text, self.known = text, known(text)
        self.shown: dict[int, str] = {}
        classes, keys, position = "", "", 0
        for start, end, is_block, shown in markup_of(self.known):
            if start >= position:
                before = self.known[position:start]
                kind = known(shown).translate(CLASSES)[0] if shown else chars.BLOCK if is_block else chars.MARKUP
                classes += before.translate(CLASSES) + kind + chars.WITHIN * (end - start - 1)
                keys += before.translate(_KEYS_ALONE) + known(shown).translate(KEYS)
                position = end
                if shown:
                    self.shown[start] = shown
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
        signs = (known(self.shown[i]) if i in self.shown else self.known[i] for i in self.places)
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

    def are_letters(self, first: int, last: int) -> bool:
        """Return whether signs are letters and digits of one character and one key each, with nothing between them."""
        start, count = self.places[first], last - first
        is_one_each = self.key_starts[last] - self.key_starts[first] == count == self.sign_end(last - 1) - start
        return is_one_each and _LETTERS.fullmatch(self.classes, start, start + count) is not None

    @cached_property
    def words(self) -> Sequence[int]:
        """Signs at which words begin, and how many signs there are; in scripts without spaces each sign is a word."""
        return [0, *accumulate(map(len, _WORD.findall(self.classes.translate(_INSIDE_WORDS))))]

    @cached_property
    def word_keys(self) -> Sequence[str]:
        """The key of each word."""
        starts = self.key_starts
        return [self.key[starts[first] : starts[last]] for first, last in pairwise(self.words)]

    @cached_property
    def word_places(self) -> dict[str, list[int]]:
        """The numbers of the words of each key."""
        found: dict[str, list[int]] = {}
        for i, key in enumerate(self.word_keys):
            found.setdefault(key, []).append(i)
        return found

    def visible(self, start: int, end: int) -> str:
        """Return what a reader sees of a part: without markup, entities as their signs, blocks as blanks."""
        if not _NOT_AS_IT_IS.search(self.classes, start, end):
            return self.text[start:end]
        parts = []
        for run in _RUN.finditer(self.classes, start, end):
            first, last = run.span()
            if run["block"]:
                parts.append(" ")
            elif last - 1 in self.shown:
                parts += [self.text[first : last - 1], self.shown[last - 1]]
            else:
                parts.append(self.text[first:last])
        return "".join(parts)

    def signs_shown(self, start: int, end: int) -> str:
        """Return what signs show, with what stands between them, as of one Unicode version."""
        if self.shown and any(place in self.shown for place in range(start, end)):
            return known(self.visible(start, end))
        return self.known[start:end]

    # --- ends of words, numbers and sentences -------------------------------------------------------

    def is_cut(self, place: int) -> bool:
        """Return whether a quote that begins or ends here cuts a word, a number, or what belongs to one."""
        sides = self.classes[place - 1 : place + 1] if place else ""
        if sides in _NO_CUT or len(sides) == 1:
            return False
        return sides[1] in chars.CONTINUED or _CUT.search(self.around(place, place)) is not None

    def around(self, start: int, end: int) -> str:
        """Return what is seen on both sides of a part, with a NUL in its place, a sign of `_CUT` for each character."""
        if self._is_as_it_is_near(start, end):
            before, after = self.known[max(0, start - _SEEN) : start], self.known[end : end + _SEEN]
        else:
            before = known(self.visible(max(0, start - _NEAR), start)[-_SEEN:])
            after = known(self.visible(end, min(len(self.text), end + _NEAR))[:_SEEN])
        return cased(f"{before}\0{after}").translate(_SIGNS_OF_CUT)

    def _is_as_it_is_near(self, start: int, end: int) -> bool:
        return _NOT_AS_IT_IS.search(self.classes, max(0, start - _SEEN), end + _SEEN) is None

    def has_digit_near(self, start: int, end: int) -> bool:
        """Return whether a digit is seen on a side of a part, or the fourth sign from it."""
        reach = _BESIDE if self._is_as_it_is_near(start, end) else _NEAR
        return chars.DIGIT in self.classes[max(0, start - reach) : end + reach]

    @cached_property
    def _sentence_ends(self) -> Sequence[int]:
        """Where sentences end; as a guess it is generous: what may go on goes on."""
        ends = _SENTENCE_END.finditer(self.known)
        return [match.end() for match in ends if match["block"] or not self._goes_on(match)]

    def _goes_on(self, match: re.Match[str]) -> bool:
        if match["stop"][0] != ".":
            return False
        after = cased(self.known[match.end() : match.end() + 4]).lstrip()[:1]
        if after.islower() or after.isdigit():
            return True
        word = _LAST_WORD.findall(cased(self.known[max(0, match.start() - _SEEN) : match.start()]))[0]
        return len(word) <= _SHORT and (word[:1].isupper() or word.isdigit() or len(word) == 1)

    def has_sentence_end(self, start: int, end: int) -> bool:
        """Return whether a sentence ends in a part."""
        return bisect_right(self._sentence_ends, start) < bisect_right(self._sentence_ends, end)

    def rest_before(self, place: int) -> str | None:
        """Return the beginning of the sentence before a place; None where a sentence begins there."""
        at = bisect_right(self._sentence_ends, place)
        ends = self._sentence_ends[max(0, at - 1) : at]
        rest = self.text[max(0, place - MOST_AROUND, *ends) : place].lstrip()
        return rest if _SAYS_SOMETHING.search(self.classes, place - len(rest), place) else None

    def rest_after(self, place: int) -> str | None:
        """Return the rest of the sentence after a place; None where the sentence ends there."""
        at = bisect_left(self._sentence_ends, place)
        ends = self._sentence_ends[at : at + 1]
        rest = self.text[place : min(len(self.text), place + MOST_AROUND, *ends)].rstrip()
        says_something = _SAYS_SOMETHING.search(self.classes, place, place + len(rest)) or _ASKS.search(rest)
        return rest if says_something else None

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
_NO_CUT = frozenset({"", "as", "an", "sa", "na", "ps", "pn"})
_SAYS_SOMETHING = re.compile("[acdryt]")

MOST_AROUND = 200
"""Characters of the rest of a sentence at most."""

_NEAR, _SEEN, _BESIDE, _SHORT = 64, 12, 4, 4
_LAST_WORD = re.compile(r"\w*\Z")
_ASKS = re.compile("[?!？！؟]")
_NEXT_BLOCK = r"\n[ \t\r]*+(?:\n|[-*+•>|#])"
_SENTENCE_END = re.compile(
    r"(?=[.!?…؟।॥。！？｡\n])(?:(?P<stop>[.!?…؟।॥]++[\"'’”»)\]*_]{0,4}(?=\s|\Z)|[。！？｡]++[」』”）】]{0,4})"
    rf"|(?P<block>{_NEXT_BLOCK}))"
)
_CLAUSE_END = re.compile(rf"[\"'’”»)\]*_」』]{{0,4}}(?:[.,;:。।॥，；：、،؛]|\s*+\Z|[ \t\r]*+{_NEXT_BLOCK})")

_OF_CUT = {
    **dict.fromkeys(chars.HYPHENS, "-"),
    **dict.fromkeys(chars.MINUSES + "\u2012\u2013", "~"),
    **dict.fromkeys("'’ʼ", "'"),
    **dict.fromkeys("%‰‱°º˚′″℃℉\u066a％", "%"),
    **dict.fromkeys("+±<>≤≥≈~＋＜＞", "+"),
    **dict.fromkeys("$€£¥￥₹₽", "$"),
    **{sign: sign for sign in ".,:/_#"},
    "٫": ".",
    "٬": ",",
}


def _as_cut(character: str) -> str:
    one = CLASSES[ord(character)]
    if one == "a":
        return "a" if character.islower() or not character.isupper() else "A"
    if one in "cdr" or character == "\0":
        return one if character != "\0" else character
    return _OF_CUT.get(character) or (" " if one in chars.BLANKS else "p")


_SIGNS_OF_CUT = Table(_as_cut)

# A NUL is where a quote begins or ends: inside a word, beside a hyphen or an apostrophe in one, inside a domain's name;
# inside a number, its groups of three digits, after its sign or before its per cent, degree or currency sign.
_CUT = re.compile(
    r"[aAd]\0[aAdr]|r\0[aAdr]"
    r"|[aAd]['_-]\0[aAd]|[aAd]\0['_-][aAd]"
    r"|[aA]\.\0a|[aA]\0\.a|[aA]\0[+#]|[\#%]\0[aAd]"
    r"|d[.,:/'~]\0d|d\0[.,:/'~]d"
    r"|(?<!d)d{1,3}(?:\0[ ]|[ ]\0)ddd(?!d)"
    r"|(?<![aAcd])[-~]\$?\0\$?d|[+$]\0[ ]?d|\+[ ]\0d"
    r"|d\0[ ]?[%$]|d[ ]\0[%$]"
)
