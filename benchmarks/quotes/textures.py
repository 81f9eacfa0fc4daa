"""Changes of how a text is written that leave its words as they are."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from benchmarks.quotes.words import WORDS

if TYPE_CHECKING:
    import random


def rewrapped(rng: random.Random, text: str) -> str:
    """White space of other kinds and lengths between words: line breaks, tabs, no-break and thin spaces."""
    spaces = ["\n", "\r\n", "  ", "\t", "\n    ", "\u00a0", "\u2009", "\u3000", "\u2028", " \n "]
    return "".join(rng.choice(spaces) if part.isspace() else part for part in re.split(r"(\s+)", text))


def other_quotes(_: random.Random, text: str) -> str:
    """Straight quotes curly, curly ones straight."""
    curly = re.sub(r"(?<=\w)'", "’", re.sub(r'"(?=\w)', "“", text).replace('"', "”"))
    return curly if curly != text else text.translate(str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'"}))


def other_dashes(rng: random.Random, text: str) -> str:
    """Hyphens, dashes and minus signs as a keyboard or a typesetter has them."""
    of = {"-": "‐‑–", "–": "-‒—", "—": "–-", "−": "-–"}
    changed = "".join(rng.choice(of[c]) if c in of else c for c in text)
    # A long dash is no minus sign.
    changed = re.sub(r"(?<![\w.])—(?=[.\d])", "–", changed) if "—" not in text else changed
    # A long dash typed as two hyphens.
    return changed if rng.random() < 0.7 else text.replace("—", "--")


def nfd(_: random.Random, text: str) -> str:
    """Accents apart (or together, where they were apart)."""
    other = unicodedata.normalize("NFD", text)
    return other if other != text else unicodedata.normalize("NFC", text)


def nfkc(_: random.Random, text: str) -> str:
    """Compatibility forms replaced, by any program that normalises; not where 10² would be 102, or ⒈5 1.5."""
    flattens = ("<super>", "<sub>", "<fraction>", "<circle>")
    if any(unicodedata.decomposition(c).startswith(flattens) or _hides_a_number(c) for c in text):
        return text
    return unicodedata.normalize("NFKC", text)


def _hides_a_number(c: str) -> bool:
    return unicodedata.decomposition(c).startswith("<compat>") and bool(
        re.search(r"\d", unicodedata.normalize("NFKC", c))
    )


def ligatures(_: random.Random, text: str) -> str:
    """The ligatures of a typeset page."""
    for plain_form, ligature in (("ffi", "ﬃ"), ("ffl", "ﬄ"), ("ff", "ﬀ"), ("fi", "ﬁ"), ("fl", "ﬂ")):
        text = text.replace(plain_form, ligature)
    return text


def full_width(rng: random.Random, text: str) -> str:
    """Some words in the wide forms of East Asian typesetting."""
    wide = {code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)}
    return "".join(part.translate(wide) if rng.random() < 0.3 else part for part in re.split(r"(\s+)", text))


def soft_hyphens(rng: random.Random, text: str) -> str:
    """Soft hyphens inside words, as web pages have them."""
    return re.sub(r"(?<=[^\W\d_]{2})(?=[^\W\d_]{2})", lambda _: "\u00ad" if rng.random() < 0.3 else "", text)


def zero_width(rng: random.Random, text: str) -> str:
    """Zero-width spaces, joiners and marks of direction anywhere."""
    hidden = "\u200b\u200c\u200d\u2060\ufeff\u200e"
    return "".join(c + (rng.choice(hidden) if rng.random() < 0.1 else "") for c in text)


def hyphenated(rng: random.Random, text: str) -> str:
    """Words broken at the end of lines; also at a hyphen that they have anyway."""
    broken = re.sub(r"(?<=[a-z]{2})(?=[a-z]{2})", lambda _: "-\n" if rng.random() < 0.1 else "", text)
    return re.sub(r"(?<=[a-z]{2}-)(?=[a-z]{2})", lambda _: "\n" if rng.random() < 0.5 else "", broken)


def upper_case(_: random.Random, text: str) -> str:
    """In capitals."""
    return text.upper()


def lower_case(_: random.Random, text: str) -> str:
    """In small letters."""
    return text.lower()


def title_case(_: random.Random, text: str) -> str:
    """With each word capitalised."""
    return text.title()


def first_letter(_: random.Random, text: str) -> str:
    """The first letter in the other case, as a quote at the beginning or in the middle of a sentence has it."""
    # A word, and no unit: Mg is not mg.
    return text[:1].swapcase() + text[1:] if re.match(r"[^\W\d_]{4}", text) else text


CYRILLIC, GREEK = (dict(zip(*WORDS["look_alikes"][script], strict=True)) for script in ("cyrillic", "greek"))


def look_alikes(rng: random.Random, text: str) -> str:
    """Some letters as the Cyrillic or Greek ones that look like them."""
    of = rng.choice([CYRILLIC, GREEK])
    return "".join(of[c] if c in of and rng.random() < 0.4 else c for c in text)


TEXTURES = (rewrapped, other_quotes, other_dashes, nfd, nfkc, ligatures, full_width, soft_hyphens, zero_width)
TEXTURES += (hyphenated, upper_case, lower_case, title_case, first_letter, look_alikes)
CASES = (upper_case, lower_case, title_case, first_letter)


def several(rng: random.Random, text: str, count: int) -> str:
    """Several of the changes above, in the order in which they happen to a text, and one change of case at most."""
    chosen = rng.sample([*(change for change in TEXTURES if change not in CASES), rng.choice(CASES)], count)
    # Words are broken after white space and dashes have changed: "exam-\tple" and "exam–\nple" are broken no more.
    order = (*CASES, look_alikes, other_quotes, other_dashes, rewrapped, hyphenated)
    for change in sorted(chosen, key=lambda change: order.index(change) if change in order else len(order)):
        text = change(rng, text)
    return text
