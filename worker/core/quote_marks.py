"""What a quote says of itself: marks of what was left out, and brackets around what was put in."""

from __future__ import annotations

import itertools
import re

from worker.core.characters import SOFT_HYPHEN, ZERO_WIDTH
from worker.core.normal_forms import Prepared, prepare

SHORTEST_PART = (3, 12)
"""Words, or letters and digits, of each part of a quote with something left out."""

LONGEST_REPLACED = (3, 60)
"""Words, and characters, that an insertion in brackets may stand for."""

Part = tuple[Prepared, ...]
"""A part between marks of omission: pieces of text with insertions between them, mostly one piece."""

Reading = tuple[Part, ...]


def readings(quote: str) -> tuple[Reading, ...]:
    """The ways to read a quote that has such marks, the most literal first; none if it has no marks.

    A mark may also be part of what is quoted: dots that the chunk has as well, or its own brackets.

    >>> [[piece.text for part in parts for piece in part] for parts in readings("It may stay [on] … until it fails")]
    [['It may stay [on]', 'until it fails'], ['It may stay', 'until it fails']]
    """
    texts = [
        *(_split(mark, [quote]) for mark in (_BRACKETED, _SIGNS, _DOTS, _OMISSION)),
        *(_split(_OMISSION, pieces) for pieces in _without_insertions(quote)),
    ]
    found = dict.fromkeys(parts for parts in texts if parts and parts != ((quote.strip(),),))
    return tuple(reading for reading in map(_prepared, found) if all(map(_long_enough, reading)))


def _prepared(parts: tuple[tuple[str, ...], ...]) -> Reading:
    return tuple(tuple(prepare(piece) for piece in part) for part in parts)


def _long_enough(part: Part) -> bool:
    """Whether a part means something by itself."""
    words, letters = SHORTEST_PART
    return sum(piece.words for piece in part) >= words or sum(piece.letters for piece in part) >= letters


# --- what was left out --------------------------------------------------------------------------

# Between the dots a little white space, and what can't be seen.
_GAP = "[\\s" + SOFT_HYPHEN + "".join(sorted(ZERO_WIDTH)) + "]{0,6}+"
_THREE_DOTS, _SIGN = rf"[.．](?:{_GAP}[.．]){{2,}}+", r"[…⋯][…⋯.．]*+"
_DOTS, _SIGNS = re.compile(_THREE_DOTS), re.compile(_SIGN)
_BRACKETED = re.compile(rf"[\[(［（]{_GAP}(?:{_SIGN}|{_THREE_DOTS}){_GAP}[\])］）]")
_OMISSION = re.compile(f"{_BRACKETED.pattern}|{_SIGN}|{_THREE_DOTS}")


def _split(mark: re.Pattern[str], pieces: list[str]) -> tuple[tuple[str, ...], ...]:
    """The parts between marks, each as its pieces; without what is only punctuation.

    Such are the quotation marks around a quote that begins with dots.
    """
    parts: list[list[str]] = [[]]
    for piece in pieces:
        first, *others = mark.split(piece)
        parts[-1].append(first)
        parts += [[text] for text in others]
    telling = (tuple(text.strip() for text in part if _LETTER.search(text)) for part in parts)
    return tuple(part for part in telling if part)


_LETTER = re.compile(r"[^\W_]")


# --- what was put in ----------------------------------------------------------------------------

# At most so long, so that no text makes the search for the closing bracket slow.
_INSERTION = re.compile(r"[\[［]([^\[\]［］]{1,80}+)[\]］]|[(（](sic!?)[)）]", re.IGNORECASE)

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
    """Whether an insertion may stand for this: few words, no number, no denial or limit."""
    words, length = LONGEST_REPLACED
    return len(text) <= length and len(text.split()) <= words and not counts(text) and not denies(text)


def _without_insertions(quote: str) -> list[list[str]]:
    """The ways to take insertions out: first one text, as it was before something was put in, then the pieces apart.

    Apart, since an insertion may stand for something. No way at all if there is no insertion. Letters in brackets
    (``[T]he``) are letters.
    """
    pieces: list[list[str]] = [[]]
    inserted: list[str] = []
    last = 0
    for match in _INSERTION.finditer(quote):
        inside = match[1] or match[2]
        around = quote[max(0, match.start() - 1) : match.start()], quote[match.end() : match.end() + 1]
        if _is_part_of_word(inside, around):
            pieces[-1] += [quote[last : match.start()], inside]
        elif _is_insertion(inside, around):
            pieces[-1].append(quote[last : match.start()])
            pieces.append([])
            inserted.append(inside)
        else:
            continue
        last = match.end()
    pieces[-1].append(quote[last:])
    return _ways(["".join(piece) for piece in pieces], inserted) if last else []


def _is_part_of_word(inside: str, around: tuple[str, str]) -> bool:
    return inside.isalpha() and any(map(str.isalpha, around)) and inside.casefold() != "sic"


def _is_insertion(inside: str, around: tuple[str, str]) -> bool:
    """Whether brackets hold an editor's words: none that deny, and not glued to a number."""
    return any(map(str.isalpha, inside)) and not denies(inside) and not any(map(str.isnumeric, around))


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
