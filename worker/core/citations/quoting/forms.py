"""Texts made ready for the comparison of quotes: folded, with the way back to the text's own characters.

Everything takes time in proportion to the text, whatever the text: no pattern here can backtrack far, and marks are
folded thirty at a time (sorting them takes quadratic time; Unicode Standard Annex 15 has the same bound).
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from worker.core.citations.quoting.attached import after_denials, held_together
from worker.core.citations.quoting.characters import CLASSES, FOLDS, VANISHING, fold, one_script, without_formatting
from worker.core.citations.quoting.columns import Columns
from worker.core.citations.quoting.markup import Unmarked, without_markup
from worker.core.citations.quoting.spacing import optional_spaces
from worker.core.citations.quoting.word_lists import word_lists

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from worker.core.citations.quoting.word_lists import Language


@dataclass(frozen=True, slots=True)
class Form:
    """A folded text.

    Attributes:
        text: the folded characters.
        starts: for each of them, where in the raw text that stands from which it was folded.
        ends: for each of them, where that ends. Between an end and the next start is what folding left out.
    """

    text: str
    starts: array[int]
    ends: array[int]

    def slice(self, start: int, stop: int) -> Form:
        """Some of the folded characters."""
        return Form(self.text[start:stop], self.starts[start:stop], self.ends[start:stop])

    def trimmed(self) -> Form:
        """Without the white space around it."""
        stripped = self.text.lstrip(" ")
        start = len(self.text) - len(stripped)
        return self.slice(start, start + len(stripped.rstrip(" ")))

    def opens(self, i: int) -> bool:
        """Return whether folded character ``i`` is the first of what it was folded from (the f of ﬁ, not the i)."""
        if i in (0, len(self.text)) or self.starts[i] != self.starts[i - 1]:
            return True
        # After a space that folding put in.
        return self.text[i - 1] == " " and (i == 1 or self.starts[i - 1] != self.starts[i - 2])

    def position(self, offset: int) -> int:
        """The first folded character from ``offset`` of the raw text on."""
        return bisect_left(self.starts, offset)


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text: the raw text it stands in, and the part's folded form with places in that text."""

    text: str
    form: Form

    @property
    def span(self) -> tuple[int, int]:
        """The place of the part in the raw text."""
        return self.form.starts[0], self.form.ends[-1]

    def core(self, start: int, stop: int) -> str:
        """From what some of the folded text was folded."""
        return self.text[self.form.starts[start] : self.form.ends[stop - 1]]

    def piece(self, start: int, stop: int) -> tuple[str, str]:
        """Return from what some of the folded text was folded, and what folding left out after it."""
        form, end = self.form, self.form.ends[stop - 1]
        tail = "" if stop == len(form.text) else self.text[end : form.starts[stop]]
        return self.text[form.starts[start] : end], tail


@dataclass(frozen=True)
class Prepared:
    """A text and, once asked for, its forms: a chunk is prepared once and compared with any number of quotes."""

    text: str

    @cached_property
    def form(self) -> Form:
        """The text folded."""
        return self._form(self._visible)

    @cached_property
    def one_script_form(self) -> Form | None:
        """The same with each word in one script; None where each is anyway."""
        text = one_script(self._visible)
        return None if text == self._visible else self._form(text)

    @cached_property
    def core(self) -> Form:
        """The text folded, without the white space around it: what is searched for."""
        return self.form.trimmed()

    @cached_property
    def one_script_core(self) -> Form | None:
        """The same of the form with each word in one script."""
        return self.one_script_form and self.one_script_form.trimmed()

    @cached_property
    def unmarked(self) -> tuple[Prepared, Unmarked] | None:
        """The text without its Markdown, prepared; None if it has none."""
        unmarked = without_markup(self.text)
        return None if unmarked is None else (Prepared(unmarked.text), unmarked)

    @cached_property
    def other_forms(self) -> int:
        """The forms that it has besides the folded one, as flags: `ONE_SCRIPT`, `UNMARKED`."""
        return ONE_SCRIPT * (self.one_script_form is not None) | UNMARKED * (self.unmarked is not None)

    @cached_property
    def cuts(self) -> bytes:
        """For each position of the text and its end: where a quote may begin or end.

        1, or `AFTER_DENIAL` where only a later part of a quote may begin; 0 inside words and numbers.
        """
        cuts = _cuts(self._visible, self.classes)
        if self._places is None:
            return bytes(cuts)
        # What can't be seen belongs to the position after it.
        stretched = bytearray()
        for place, cut in zip((*self._places, len(self.text)), cuts, strict=True):
            stretched += bytes([cut]) * (place + 1 - len(stretched))
        return bytes(stretched)

    @cached_property
    def classes(self) -> str:
        """The class of each visible character (`worker.core.citations.quoting.characters.CLASSES`)."""
        return self._all_classes if self._places is None else _HIDDEN.sub("", self._all_classes)

    @cached_property
    def letters(self) -> int:
        """The count of letters and digits; a sign of a script without spaces counts as two letters."""
        return sum(map(self.classes.count, "ULDFPB")) + 2 * sum(map(self.classes.count, "CN"))

    @cached_property
    def words(self) -> int:
        """The count of words; two signs of a script without spaces count as one word."""
        return len(_WORD.findall(self.classes)) + sum(map(self.classes.count, "CN")) // 2

    @cached_property
    def signs(self) -> int:
        """The count of visible characters, white space aside."""
        return len(self.classes) - self.classes.count("s") - self.classes.count("n")

    @cached_property
    def says_something(self) -> bool:
        """Return whether there is a letter, a digit or a symbol at all."""
        return self.letters > 0 or "S" in self.classes

    @cached_property
    def bracketed(self) -> frozenset[str]:
        """The texts in square brackets."""
        return frozenset(match[1] for match in BRACKETS.finditer(self.text))

    @cached_property
    def languages(self) -> tuple[Language, ...]:
        """The languages that it is in, by its common words; none if that can't be told."""
        return word_lists().languages_of(self.text)

    @cached_property
    def shared_words(self) -> frozenset[str]:
        """Words of other languages too that deny, limit or count in it."""
        return word_lists().shared_of(self.text)

    @cached_property
    def _all_classes(self) -> str:
        classes = self.text.replace("\r\n", " \n").translate(CLASSES)  # one end of a line
        if "H" in classes:
            classes = _BROKEN_SOFT_HYPHEN.sub("-", classes)
        return _KASHIDA.sub(lambda match: "I" * len(match[0]), classes).replace("T", "L") if "T" in classes else classes

    @cached_property
    def _places(self) -> array[int] | None:
        """The places of the visible characters in the text; None if all are visible."""
        if "H" not in self._all_classes and "I" not in self._all_classes:
            return None
        return array("l", (i for i, name in enumerate(self._all_classes) if name not in "HI"))

    @cached_property
    def _visible(self) -> str:
        return self.text if self._places is None else "".join([self.text[place] for place in self._places])

    def _form(self, visible: str) -> Form:
        form = _folded(visible, self.classes)
        if (places := self._places) is None:
            return form
        starts, ends = (places[start] for start in form.starts), (places[end - 1] + 1 for end in form.ends)
        return Form(form.text, array("l", starts), array("l", ends))


def prepare(text: str) -> Prepared:
    r"""Make a text ready to be compared with quotes. What is needed is made when first needed, and kept.

    >>> prepare("An “exam-\nple”, Nº 5").form.text
    'an "example", no 5'
    """
    return Prepared(text)


ONE_SCRIPT, UNMARKED = 1, 2

# At most so long, so that no text makes the search for the closing bracket slow.
BRACKETS = re.compile(r"[\[［]([^\[\]［］]{1,80}+)[\]］]")

# --- what is hidden -----------------------------------------------------------------------------

_HIDDEN = re.compile("[HI]+")
# Before the end of a line a soft hyphen shows, and is a hyphen.
_BROKEN_SOFT_HYPHEN = re.compile("H(?=s*+n)")
# Elsewhere than beside a letter, between numbers say, it is a sign of its own.
_KASHIDA = re.compile(r"(?<=[LM])T++|T++(?=L)")
_WORD = re.compile(r"[ULDFPB][ULDFPBM'.,:/\-dm]*+")

# --- folding ------------------------------------------------------------------------------------

# Patterns over classes. A dash between two letters is left out of the folded text, with the white space after it:
# whether "well-known" may be "well-\nknown" or "wellknown" is judged where two texts are compared.
_PIECE = re.compile(
    r"""
    (?P<left_out> (?<=[ULM])[-dme]{1,3}+[sn]*+(?=[UL]) | (?<=[Ko.,:/'+*#])[sn]++(?=[CN])
                | (?: (?<=[CN]) | (?<=[CN]M) )[sn]++(?=[CNKo.,:/'+*#]) )
  | (?P<gap>      [sn]++ )
  | (?P<rule>     [-dme]{4,}+ )
  | (?P<joint>    (?<=[ULDMPBFCN])[-dme]{1,3}+[sn]*+(?=[ULDPBFCN]) )
  | (?P<sign>     (?<![ULDMPBFCN])[-dme]{1,3}+(?=[DF.$+]) )
  | (?P<dash>     [-dme]{1,3}+ )
  | (?P<cluster>  [^Msn]M{1,30}+ | M{1,30}+ )
  | (?P<lowered>  (?<=[UL])B++(?![DF]) )
  | (?P<fraction> (?<=D)F )
  | (?P<plain>    (?>(?:[^sn\-dmeMBF]++s(?=[ULDS$](?!M))){0,40})[^sn\-dmeMBF]+(?!M) | [BF] )
    """,
    re.VERBOSE,
)


def _folded(text: str, classes: str) -> Form:
    pieces: list[str] = []
    starts, ends = array("l"), array("l")
    for start, end, folded, sign_by_sign in _fold_pieces(text, classes):
        pieces.append(folded)
        if sign_by_sign:
            starts += _counted(start, end)
            ends += _counted(start + 1, end + 1)
        else:
            starts.extend([start] * len(folded))
            ends.extend([end] * len(folded))
    return _with_spaces(Form("".join(pieces), starts, ends), optional_spaces(text, classes))


_FIRST_PLACES = array("l", range(10_000))


def _counted(start: int, end: int) -> array[int]:
    """Return the places from one to another; those of most texts are copied, which takes a tenth of the time."""
    return _FIRST_PLACES[start:end] if end <= len(_FIRST_PLACES) else array("l", range(start, end))


def _with_spaces(form: Form, places: Sequence[int]) -> Form:
    """The form with a space before some places of the text, which rise, so that there always is one."""
    parts: list[str] = []
    starts, ends = array("l"), array("l")
    last = 0
    for place in places:
        i = form.position(place)
        if 0 < i < len(form.text) and form.starts[i] == place and form.opens(i) and form.text[i - 1] != " ":
            parts += [form.text[last:i], " "]
            starts += form.starts[last:i] + form.starts[i : i + 1]
            ends += form.ends[last:i] + form.ends[i : i + 1]
            last = i
    if not parts:
        return form
    return Form("".join(parts) + form.text[last:], starts + form.starts[last:], ends + form.ends[last:])


def _fold_pieces(text: str, classes: str) -> Iterator[tuple[int, int, str, bool]]:
    """Start, end and folded text of one piece after another, and whether it was folded sign by sign."""
    for match in _PIECE.finditer(classes):
        start, end = match.span()
        name, raw = str(match.lastgroup), text[start:end]
        if name == "plain":
            folded = raw.translate(FOLDS)
            if len(folded) == len(raw):
                yield start, end, folded, True
            else:
                yield from ((i, i + 1, FOLDS[ord(character)], False) for i, character in enumerate(raw, start))
        elif name == "rule":
            yield start, end, "-" * len(raw), True
        elif name == "joint":
            yield start, start + len(match[0].rstrip("sn")), "-", False
        elif name != "left_out":
            yield start, end, _FOLD[name](raw), False


def _fold_sign(raw: str) -> str:
    """Dashes before a number: a long one is no minus, and two are not one."""
    return "".join("-" if CLASSES[ord(c)] != "e" else "—" for c in raw)


_FOLD: dict[str, Callable[[str], str]] = {
    "gap": lambda _: " ",
    "sign": _fold_sign,
    "dash": lambda _: "-",
    "cluster": fold,
    "lowered": without_formatting,
    "fraction": lambda raw: " " + FOLDS[ord(raw)],  # 1½ is 1 1/2, never 11/2
}

# --- where a quote may begin and end ------------------------------------------------------------

AFTER_DENIAL = 2
"""Of a position: a quote may end there, but not begin; a part of it may, after a mark of omission."""

# Words and numbers, whole: well-known, don't, km/h, 3.5, 10:30, -5, £312, US$5, ≤5, 10^-3, 5%, 5°C, F#. A sentence
# glued to the next one ("end.The") may be cut. Each part is possessive, so that no text can make them try again.
_WHOLE = re.compile(
    r"""
    (?>(?: [+$\-dm.]{1,4}+(?=[DF]) | %(?=[ULD]) | m(?=[UL]) )?)
    [ULDMPBF]++
    (?>(?: (?: ['\-dm/x] | \*[-dm+]? | (?<![LM])\.(?=U) | \.(?=[LDMPBF]) | (?<=[DN])[,:K](?=D) | \+(?=[DF])
          | (?<=U)\$(?=D) | (?<=[ULM])-s*+n[sn]*+(?=[UL]) | (?<=D)e(?=D) )
        [ULDMPBF]++
      | (?<=[DPF])[%$+]{1,3}+[ULDMPBF]*+
      | (?<=[ULD])(?: \# | \+\+ )
    )*)
    """,
    re.VERBOSE,
)

# Where nothing may be cut off although words end there: 3 × 10⁵, a range that a line end divides, a minus sign and its
# number (but not in x − 2), 1 000 (at the end of a line too), 1 1/2, a number and its Chinese unit, a Chinese number,
# a character and its marks; also 3 x 10⁵ with a letter.
_HELD = re.compile(
    r"""
    (?<=D)(?: [sn]*+x[sn]*+(?=D) | (?P<times>s?+[UL]s?+)(?=DD[P*]) | (?<!DDDD)(?P<group>s | s*+n[sn]*+)(?=DDD(?!D))
            | (?P<point>[.,]s*+n[sn]*+ | s*+n[sn]*+[.,])(?=D) | [sn](?=F|D{1,3}/D) | (?=[CN]) )
  | (?<=[DF])[-dm/]s*+n(?!s*+n)s*+(?=[DF]) | (?<=m)(?<![DPFBo]sm)(?<![^ULM][UL]sm)[sn]++(?=D)
  | (?<=N)(?=N) | (?<![sn])(?=M)
    """,
    re.VERBOSE,
)


# "Haupt-\nund Nebenfach": what follows the hyphen is no half of a word.
_SUSPENDED = re.compile(rf"[{re.escape(VANISHING)}]\s++(?=(?:und|oder|and|or|et|ou)\b)")


def _cuts(text: str, classes: str) -> bytearray:
    cuts = bytearray(b"\1") * (len(classes) + 1)
    for match in _WHOLE.finditer(classes):
        start, end = match.span()
        cuts[start + 1 : end] = bytes(end - start - 1)
    columns = Columns(text)
    for match in _HELD.finditer(classes):
        start, end = match.span()
        if match.lastgroup == "times":
            if text[start:end].strip() not in "xX":
                continue
        elif match.lastgroup and not columns.is_one_number(start, end):
            continue
        cuts[start : end + 1] = bytes(end + 1 - start)
    for start, end in held_together(text, classes):
        cuts[start : end + 1] = bytes(end + 1 - start)
    for start, end in after_denials(text, classes):
        for place in range(start, end + 1):
            cuts[place] = AFTER_DENIAL if cuts[place] else 0
    for match in _SUSPENDED.finditer(text):
        cuts[match.start()] = cuts[match.start() + 1] = cuts[match.end()] = 1
    cuts[0] = cuts[-1] = 1
    return cuts
