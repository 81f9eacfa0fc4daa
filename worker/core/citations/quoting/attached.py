"""Signs, paths and prefixes: they belong to a word or a number although white space or punctuation stands between.

Each function gives spans of positions, both ends included, at which no quote may begin or end.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from worker.core.citations.quoting.characters import CLASSES, UNSPACED, compatible
from worker.core.citations.quoting.word_lists import word_lists
from worker.core.citations.tables import read_tables

if TYPE_CHECKING:
    from collections.abc import Iterator

Held = tuple[int, int]


def held_together(text: str, classes: str) -> Iterator[Held]:
    """Yield spans in which a quote may neither begin nor end, beside what `forms` knows by the classes of characters.

    >>> list(held_together("at ≥ 18 kg", "LLs+sDDsLL")), list(held_together("rm /tmp", "LLs/LLL"))
    ([(4, 5)], [(4, 4)])
    """
    if "+" in classes:
        yield from _signs(text, classes)
    if any(sign in text for sign in ")]*`"):
        yield from ((match.start(), match.end()) for match in _IN_WORD.finditer(text))
    if "!" in text or "¬" in text:
        yield from ((match.start() + 1, match.end()) for match in _DENIED.finditer(text))
    if "/" in classes:
        yield from _paths(text)
    if "-" in classes:
        yield from _options(text)
    if "." in classes:
        yield from _dotted_names(text)
    if "K" in classes:
        yield from _wide_signs(text)
    if "C" in classes or "N" in classes:
        yield from _without_spaces(text)
    if "D" in classes:
        yield from _numbers_and_words(text)


# --- signs before numbers -----------------------------------------------------------------------

_SIGN_AND_GAP = re.compile(r"\+(?P<gap>s*+(?>(?:n(?!s*+n)s*+)?))(?=[-dm]?\$?(?P<point>[.K]?)[DF])")
# Na+, A+.
_PLUS_AFTER = re.compile(r"\+(?<=[^\W\d_]\+)(?=[\s,;:.!?)\]]|\Z)")
_COMPARE = frozenset("<>!~")
_LONGEST_TAG, _AROUND = 200, 8


def _signs(text: str, classes: str) -> Iterator[Held]:
    """Between a sign or a comparison and its number: ``≥ 18``, ``+ 6``; and inside a comparison: ``!= 7``."""
    yield from ((match.start(), match.start()) for match in _PLUS_AFTER.finditer(text))
    for match in _SIGN_AND_GAP.finditer(classes):
        place = match.start()
        if match["point"] == "K" and text[match.start("point")] != "．":
            continue
        if text[place] == "=" and text[place - 1 : place] in _COMPARE:
            yield place, match.end()
        elif match["gap"] and _is_sign_of_number(text, place):
            yield place + 1, match.end()


def _is_sign_of_number(text: str, place: int) -> bool:
    """Return whether the sign at a place, with white space after it, says something of the number.

    Not a plus or ± between terms, an equals sign, a tag or an arrow; nor at the beginning of a line, where Markdown has
    bullets and quoted text.
    """
    sign, before = compatible(text[place]), text[max(0, place - _AROUND) : place]
    if sign == "=" or (sign in "+>" and _BEGINS_LINE.search(before)):
        return False
    if sign in "+±∓":
        return _BEFORE_PLUS.search(before) is None
    if sign == ">":
        opened = text.rfind("<", max(0, place - _LONGEST_TAG), place)
        return before[-1:] not in _ARROWS and (opened < 0 or _TAG.fullmatch(text, opened, place) is None)
    return not (sign == "~" and before[-1:] == "~")


_WIDE_SIGN = re.compile(
    r"[＜＞＋]＝?(?P<gap>[^\S\n]*+(?>(?:\n[^\S\n]*+)?))(?=[-−－]?[$＄￥]?[.．]?\d)|＄(?=\d)|(?<=\d)％"
)


def _wide_signs(text: str) -> Iterator[Held]:
    """Yield spans between full-width signs, which Chinese and Japanese have, and their numbers: ``＜ 5``, ``5％``."""
    if "．" in text:
        yield from (
            (match.start() + 1, match.end())
            for match in _WIDE_POINT.finditer(text)
            if match[0][0] != "＞" or not _closes_title(text, match.start())
        )
    for match in _WIDE_SIGN.finditer(text):
        place, before = match.start(), text[max(0, match.start() - _AROUND) : match.start()]
        if match[0] == "％":
            yield place, place
        elif match[0][0] == "＞" and (_BEGINS_LINE.search(before) or _closes_title(text, place)):
            continue
        elif (
            match[0][0] != "＋" or not match["gap"] or not (_BEFORE_PLUS.search(before) or _BEGINS_LINE.search(before))
        ):
            yield place + 1, match.end()


# After a word it is a full stop.
_WIDE_POINT = re.compile(r"(?:[<>=≤≥≦≧≪≫⩽⩾≲≳≈~±+＜＞＝＋\-−－$＄€￥¥£]{1,8}+|(?<![^\s（(「『]))．(?=\d)")


def _closes_title(text: str, place: int) -> bool:
    """Return whether a full-width sign closes a bracket, as in ``＜注意＞ 5月から``."""
    opened = text.rfind("＜", max(0, place - _LONGEST_TAG), place)
    return opened >= 0 and _TITLE.fullmatch(text, opened, place) is not None


_TITLE = re.compile(r"＜(?!\d)[^\s＜＞，、。；：,;]+")
_ARROWS = frozenset("-=~|>")
_BEGINS_LINE = re.compile(r"(?:\A(?=.{0,7}\Z)|[\n\r])[ \t>]*\Z")
_TAG = re.compile(r"<[A-Za-z/!][^<>\n]*")
# A term of a sum, a variable too; or a sign that the word before ends with: C++, K+.
_BEFORE_PLUS = re.compile(r"(?:[\w)\]²³⁰-⁹%°'\"+]|(?:[\d)\]²³⁰-⁹½]|(?<![^\W\d_])[^\W\d_])\s{1,4})\Z")

_LETTER = rf"[^\W\d_{UNSPACED}]"
# **un**safe, (s)he, **5**.5.
_IN_WORD = re.compile(rf"[)\]`*](?:(?<={_LETTER}.)\*{{0,2}}(?=(?![A-Z]){_LETTER})|(?<=\d[*`])\*{{0,2}}(?=[.,]?\d))")
# In code and logic: !ready, ¬p.
_DENIED = re.compile(r"!(?<![^\s(!&|=,]!)(?=[\w(])|¬[^\S\n]?(?=[\w(])")

# --- words beside numbers -----------------------------------------------------------------------


def _numbers_and_words(text: str) -> Iterator[Held]:
    """Between a number and a word that changes it: ``minus 5``, ``5 million``, ``&lt;5``."""
    for match in _BEFORE_NUMBER.finditer(text):
        word = _LAST_WORD.search(text, max(0, match.start() - _LONGEST_SIGN), match.start())
        if word and word[0].casefold() in _SIGN_WORDS:
            yield word.start() + 1, match.end()
    for match in _WORD_AFTER.finditer(text):
        if _multiplies(match[1].casefold(), text):
            yield match.start() + 1, match.end() - 1
    if any(word in text for word in _SIGNS_ATTACHED):
        yield from ((match.start() + 1, match.end()) for match in _ATTACHED_SIGN.finditer(text))
    if "&" in text:
        yield from ((match.start() + 1, match.end()) for match in _ENTITY.finditer(text))


def _multiplies(word: str, text: str) -> bool:
    """Return whether a word multiplies the number before it, in a text of whatever language."""
    if word not in _MULTIPLIERS or word not in _ORDINARY:
        return word in _MULTIPLIERS
    languages = word_lists().languages_of(text)
    return not languages or any(language.name not in _ORDINARY[word] for language in languages)


_NUMBER_WORDS = read_tables(__package__, "number_words.toml")
_SIGN_WORDS = frozenset(word.casefold() for word in _NUMBER_WORDS.words("signs"))
_MULTIPLIERS = frozenset(word.casefold() for word in _NUMBER_WORDS.words("multipliers"))
_ORDINARY = {word: frozenset(names.split()) for word, names in _NUMBER_WORDS.texts("ordinary").items()}
_SIGNS_ATTACHED = tuple(_NUMBER_WORDS.words("signs_attached"))
_NUMBER_WORDS.close()
_LETTERS = r"(?:[^\W\d_]|[\u0300-\u036f\u0900-\u097f\u0980-\u09ff\u0e00-\u0e7f])"
_SPACE_OR_LINE_END = r"(?:[^\S\n]{1,3}(?!\s)|[^\S\n]{0,3}\n[^\S\n]*+)"
_BEFORE_NUMBER = re.compile(rf"(?<=\S){_SPACE_OR_LINE_END}(?=[-−+]?[$€£¥₹]?\d)")
_LONGEST_SIGN = 12
_LAST_WORD = re.compile(rf"(?<!{_LETTERS})(?>{_LETTERS}{{2,{_LONGEST_SIGN}}})\Z")
_WORD_AFTER = re.compile(rf"\d{_SPACE_OR_LINE_END}((?>{_LETTERS}{{1,15}}))")
_ATTACHED_SIGN = re.compile(rf"(?:{'|'.join(_SIGNS_ATTACHED)})\s?(?=\d)")
_ENTITY = re.compile(r"&(?:lt|gt|le|ge|ne|minus|plusmn|asymp|sim);\s?(?=[-−+]?\d)")

# --- names in code ------------------------------------------------------------------------------

_SLASH = re.compile(r"[/\\](?=[\w.*?~{$%-])")
_ADDRESS = re.compile(r":/{2,3}(?:[!#-&*-;=?@~\w-]*[\w/])?", re.ASCII)
_JOINED_BEFORE = re.compile(r"[^\W_]|[_~.:*]")


def _paths(text: str) -> Iterator[Held]:
    """Inside paths and addresses: ``/tmp``, ``~/notes``, ``src/*``, ``https://example.org/?a=b``."""
    for match in _SLASH.finditer(text):
        place = match.start()
        before = text[max(0, place - 2) : place]
        if before[-1:] not in _CLOSING:
            drive = before[-1:] == ":" and before[0].isalpha()
            yield place + 1 - drive - (_JOINED_BEFORE.match(before[-1:]) is not None), place + 1
    if "://" in text:
        yield from ((match.start(), match.end() - 1) for match in _ADDRESS.finditer(text))


_CLOSING = frozenset("<>)]}")
_NO_OPTION = r"[^\s(\[{\"'`=|,:]"
_VALUE = r"(?:=[^\s`\"')\]}|;,]*[\w/])?"
# Two hyphens may be a dash: "he left --the old man-- and".
_LONG_OPTION = re.compile(rf"--(?<!{_NO_OPTION}--)[A-Za-z][\w-]*+{_VALUE}(?![^\n]{{0,120}}[\w.,!?]--(?!\w))")
# One hyphen may be the item of a list, or a dash.
_SHORT_OPTION = re.compile(
    rf"-(?<!{_NO_OPTION}-)(?<=[^\n\r]-)(?:[A-Za-z]{{1,3}}(?![\w'’-]){_VALUE}|[A-Za-z]\w{{1,30}}{_VALUE[:-1]})"
)


def _options(text: str) -> Iterator[Held]:
    """Inside options: ``--force``, ``-rf``, ``--color=auto``."""
    for pattern in (_LONG_OPTION, _SHORT_OPTION):
        yield from ((match.start() + 1, match.end() - 1) for match in pattern.finditer(text))


_DOT = re.compile(r"\.(?=[A-Za-z_]\w)")
_CHAIN_BEFORE = re.compile(r"(?<!\w)[a-z_]\w+(?:\.[a-z_]\w+)+\Z")
_CALL_AFTER = re.compile(r"\w{1,60}\(")
_GLOB = re.compile(r"\*(?<![^\s/\"'`(]\*)\.(?=\w)")
_LONGEST_CHAIN = 80


def _dotted_names(text: str) -> Iterator[Held]:
    """Inside names with dots that no sentence has: ``.bashrc``, ``*.log``, ``java.util.List``."""
    for match in _DOT.finditer(text):
        place = match.start()
        before, capital = text[max(0, place - _LONGEST_CHAIN) : place], text[match.end()].isupper()
        if not capital and (not before or before[-1].isspace() or before[-1] in _OPENING):
            yield place + 1, place + 1
        elif capital and before and (_CHAIN_BEFORE.search(before) or _CALL_AFTER.match(text, place + 1)):
            yield place, place + 1
    yield from ((match.start() + 1, match.end()) for match in _GLOB.finditer(text))


_OPENING = frozenset("([{\"'`=|,/")

# --- scripts without spaces between words -------------------------------------------------------


def after_denials(text: str, classes: str) -> Iterator[Held]:
    """Yield spans right after a word that denies what follows, from its second sign on: 不能|打开, ไม่|ปลอดภัย.

    A quote that began there would leave the denial out without a mark. A part of one may, after a mark that says so.
    """
    if "C" not in classes and "N" not in classes:
        return
    for match in word_lists().leading.finditer(text):
        following = text[match.end() : match.end() + 1]
        if match["denial"] and following and CLASSES[ord(following)] in "CNULD" and not _HIRAGANA.match(following):
            yield match.start() + 1, match.end()


# After it 不要 and the like are words of Japanese: 不要という.
_HIRAGANA = re.compile("[ぁ-ゖ]")


def _without_spaces(text: str) -> Iterator[Held]:
    """Between a prefix or an ending that denies and its word: 未|成年, でき|ません; inside a unit: 5毫|克.

    Also inside a word of which only a part denies: 能|不|能, 特|别.
    """
    lists = word_lists()
    for match in lists.attached.finditer(text):
        if match["prefix"] and CLASSES[ord(text[match.end() : match.end() + 1] or " ")] in "CN":
            yield match.end("prefix"), match.end()
        elif match["ending"] and CLASSES[ord(text[match.start() - 1])] in "CN":
            yield match.start(), match.end() - 1
        elif match["whole"]:
            yield match.start() + 1, match.end() - 1
    for match in lists.units.finditer(text):
        yield match.start("unit") + 1, match.end() - 1
