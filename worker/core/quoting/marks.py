"""What a quote says of itself: marks of what was left out, and brackets around what was put in."""

from __future__ import annotations

import itertools
import re
import unicodedata
from dataclasses import dataclass

from worker.core.quoting.characters import SOFT_HYPHEN, ZERO_WIDTH
from worker.core.quoting.forms import BRACKETS, Prepared, prepare

SHORTEST_PART = (3, 12)
"""Words, or letters and digits, of each part of a quote with something left out."""

LONGEST_REPLACED = (3, 60)
"""Words, and characters, that an insertion in brackets may stand for."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part between marks of omission.

    Attributes:
        pieces: its text, with insertions between the pieces; mostly one piece.
        bracketed: the mark before it is in brackets, and so is an editor's for sure.
    """

    pieces: tuple[Prepared, ...]
    bracketed: bool


Reading = tuple[Part, ...]


def readings(quote: str, own: frozenset[str] = frozenset()) -> tuple[Reading, ...]:
    """The ways to read a quote that has such marks, the most literal first; none if it has no marks.

    A mark may also be part of what is quoted: dots that the chunk has as well, or its own brackets.

    Args:
        quote: the quote.
        own: what stands in brackets in the chunk itself, and so is no insertion.

    >>> [[piece.text for part in parts for piece in part.pieces] for parts in readings("It may stay on … if it works")]
    [['It may stay on', 'if it works']]
    """
    if not (_ANY_MARK.search(quote) or _INSERTION.search(quote)):
        return ()
    texts = [[quote], *_without_insertions(quote, own)]
    split = [_split(mark, pieces) for pieces in texts for mark in _MARKS]
    glued = [parts for pieces in texts if len(pieces) == 1 for parts in _glued(pieces[0])]
    found = dict.fromkeys(parts for parts in (*split, *glued) if parts and parts != (((quote.strip(),), False),))
    return tuple(reading for reading in map(_prepared, found) if all(map(_long_enough, reading)))


_RawPart = tuple[tuple[str, ...], bool]


def _prepared(parts: tuple[_RawPart, ...]) -> Reading:
    return tuple(Part(tuple(prepare(piece) for piece in pieces), bracketed) for pieces, bracketed in parts)


def _long_enough(part: Part) -> bool:
    """Whether a part means something by itself."""
    words, letters = SHORTEST_PART
    return sum(piece.words for piece in part.pieces) >= words or sum(piece.letters for piece in part.pieces) >= letters


# --- what was left out --------------------------------------------------------------------------

# Between the dots a little white space, and what can't be seen.
_GAP = "[\\s" + SOFT_HYPHEN + "".join(sorted(ZERO_WIDTH)) + "]{0,6}+"
_DOTS, _SIGN = rf"[.．](?:{_GAP}[.．]){{2,}}+", r"[…⋯][…⋯.．]*+"
_BRACKETED = rf"[\[(［（]{_GAP}(?:{_SIGN}|{_DOTS}){_GAP}[\])］）]"
_KINDS_OF_MARKS = (_BRACKETED, _SIGN, _DOTS)
# No mark at all, marks of one kind, of two, of all three: the others are part of what is quoted.
_MARKS = [
    re.compile("|".join(f"({mark})" for mark in marks) or r"(?!)")
    for count in range(len(_KINDS_OF_MARKS) + 1)
    for marks in itertools.combinations(_KINDS_OF_MARKS, count)
]
_ANY_MARK = _MARKS[-1]
_OPENING = "[(［（"


def _between(mark: re.Pattern[str], text: str) -> list[tuple[int, int, bool]]:
    """Start and end of each text between marks, and whether the mark before it is in brackets."""
    between, start, bracketed = [], 0, False
    for match in mark.finditer(text):
        between.append((start, match.start(), bracketed))
        start, bracketed = match.end(), match[0][0] in _OPENING
    return [*between, (start, len(text), bracketed)]


def _split(mark: re.Pattern[str], pieces: list[str]) -> tuple[_RawPart, ...]:
    """The parts between marks, each as its pieces; without what is only punctuation.

    Such are the quotation marks around a quote that begins with dots.
    """
    parts: list[tuple[list[str], bool]] = [([], False)]
    for piece in pieces:
        (start, end, _), *others = _between(mark, piece)
        parts[-1][0].append(piece[start:end])
        parts += [([piece[start:end]], bracketed) for start, end, bracketed in others]
    telling = ((tuple(text.strip() for text in part if _LETTER.search(text)), bracketed) for part, bracketed in parts)
    return tuple((part, bracketed) for part, bracketed in telling if part)


def _glued(text: str) -> list[tuple[_RawPart, ...]]:
    """Split at every mark but those beside what is too short for a part: they may be the chunk's own.

    Once each short text goes with the part before it, once with the one after.
    """
    between = [part for part in _between(_ANY_MARK, text) if _LETTER.search(text, part[0], part[1])]
    short = [not _long_enough(Part((prepare(text[start:end]),), bracketed=False)) for start, end, _ in between]
    if not any(short) or all(short):
        return []
    to_the_left: list[tuple[int, int, bool]] = []
    for (start, end, bracketed), is_short in zip(between, short, strict=True):
        if to_the_left and is_short:
            to_the_left[-1] = (to_the_left[-1][0], end, to_the_left[-1][2])
        else:
            to_the_left.append((start, end, bracketed))
    to_the_right: list[tuple[int, int, bool]] = []
    for (start, end, bracketed), is_short in zip(reversed(between), reversed(short), strict=True):
        if to_the_right and is_short:
            to_the_right[-1] = (start, to_the_right[-1][1], bracketed)
        else:
            to_the_right.append((start, end, bracketed))
    ways = to_the_left, to_the_right[::-1]
    return [tuple(((text[start:end].strip(),), bracketed) for start, end, bracketed in way) for way in ways]


def hides_words(gap: str) -> bool:
    """Whether dots in the quote are the chunk's own, so that a word or two beside them are left out without a mark."""
    bare = gap.strip()
    if len(bare) > LONGEST_REPLACED[1] or len(bare.split()) > LONGEST_REPLACED[0]:
        return False
    return bool(_LETTER.search(bare) and (_ANY_MARK.match(bare) or bare.endswith(("...", "…"))))


_LETTER = re.compile(r"[^\W_]")


# --- what was put in ----------------------------------------------------------------------------

_SIC = re.compile(r"[\[(［（]sic!?[\])］）]", re.IGNORECASE)
_INSERTION = re.compile(f"{BRACKETS.pattern}|{_SIC.pattern}", re.IGNORECASE)

_DENYING = frozenset(
    word
    for line in (
        "not no none never neither nor nothing nobody cannot without only except unless hardly barely rarely seldom",
        "may might must shall should can could would if",
        "nicht kein keine keinen keiner keines nie niemals ohne nur kaum ausser außer darf soll muss kann",
        "ne pas non jamais sans aucun aucune sin nunca ni nessun mai senza değil yok hayır не нет ни без никогда",
        "δεν δε μη μην όχι χωρίς לא אין בלי لا لم لن ليس غير بدون 不 没 沒 非 无 無 未 勿 别 別",
    )
    for word in line.split()
)
_NUMBER_WORDS = frozenset(
    word
    for line in (
        "zero one two three four five six seven eight nine ten eleven twelve dozen twenty thirty forty fifty sixty",
        "seventy eighty ninety hundred thousand million billion half third quarter double twice once per percent",
        "null eins ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf hundert tausend million halb prozent",
    )
    for word in line.split()
)
_MONTH = "May"
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text.replace("’", "'")) if word != _MONTH]


def denies(text: str) -> bool:
    """Whether a text denies or limits something, by the word list above.

    >>> denies("can't"), denies("does NOT"), denies("the mayor")
    (True, True, False)
    """
    return any(word in _DENYING or word.endswith("n't") for word in _words(text)) or any(c in _DENYING for c in text)


def counts(text: str) -> bool:
    """Whether a text has a number in it.

    >>> counts("ten dB"), counts("№ 5"), counts("the mayor")
    (True, True, False)
    """
    return any(map(str.isnumeric, text)) or any(word in _NUMBER_WORDS for word in _words(text))


def may_be_replaced(text: str) -> bool:
    """Whether an insertion may stand for this: few words, no number, denial, limit or bracket."""
    words, length = LONGEST_REPLACED
    short = len(text) <= length and len(text.split()) <= words and "[" not in text and "]" not in text
    return short and not counts(text) and not denies(text)


def _without_insertions(quote: str, own: frozenset[str]) -> list[list[str]]:
    """The ways to take insertions out: first one text, as it was before something was put in, then the pieces apart.

    Apart, since an insertion may stand for something; but not ``[sic]``. No way at all if there is no insertion.
    Letters in brackets (``[T]he``) are letters.
    """
    text = quote if "sic" in own else _joined(_SIC.split(quote))
    pieces: list[list[str]] = [[]]
    inserted: list[str] = []
    last = 0
    for match in BRACKETS.finditer(text):
        inside, around = (
            match[1],
            (text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]),
        )
        if inside in own:
            continue
        if all(map(_is_letter, inside)) and any(map(_is_letter, around)):
            pieces[-1] += [text[last : match.start()], inside]
        elif _is_insertion(inside, around):
            pieces[-1].append(text[last : match.start()])
            pieces.append([])
            inserted.append(inside)
        else:
            continue
        last = match.end()
    pieces[-1].append(text[last:])
    return _ways(["".join(piece) for piece in pieces], inserted) if last or text != quote else []


def _is_letter(text: str) -> bool:
    """Whether a character is a letter or the mark of one."""
    return text.isalpha() or unicodedata.category(text or " ")[0] == "M"


def _is_insertion(inside: str, around: tuple[str, str]) -> bool:
    """Whether brackets hold an editor's words: none that deny, not glued to a number, and not the text of a link."""
    glued = any(map(str.isnumeric, around)) or around[1] in _LINKED
    return any(map(str.isalpha, inside)) and not denies(inside) and not glued


_LINKED = ("(", "[", ":")


def _ways(pieces: list[str], inserted: list[str]) -> list[list[str]]:
    numbers = [i for i, text in enumerate(inserted) if counts(text)]
    joined = [_joined(pieces)]
    if not numbers:
        return [joined, pieces] if inserted else [joined]
    # A number may be put in only between words that follow on each other: nowhere may it stand for another number.
    telling = [i for i, piece in enumerate(pieces) if _LETTER.search(piece)]
    between = telling and telling[0] <= numbers[0] and numbers[-1] < telling[-1]
    beside_number = any(counts(pieces[i][-_NEAR:] + " " + pieces[i + 1][:_NEAR]) for i in numbers)
    return [joined] if between and not beside_number else []


_NEAR = 20


def _joined(pieces: list[str]) -> str:
    """One text of the pieces between insertions, with the spaces that stood around them."""
    texts = [pieces[0].rstrip()]
    for before, piece in itertools.pairwise(pieces):
        apart = piece[:1].isspace() or (before[-1:].isspace() and piece[:1].isalnum())
        texts.append((" " if apart else "") + piece.strip())
    return "".join(texts) + (" " if pieces[-1][-1:].isspace() else "")
