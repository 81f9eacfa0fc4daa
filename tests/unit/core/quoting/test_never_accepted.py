"""A number, a denial or a limit put into an honest quote, taken out of it or exchanged is never accepted.

Wherever it happens, at the edges too, in any script, and however the quote is written afterwards.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk

if TYPE_CHECKING:
    from collections.abc import Callable

FOUND = {"verbatim", "normalised", "elided"}


class Language(NamedTuple):
    """A text, and words of its language that change what it says."""

    text: str
    words: str
    spaces: bool = True


LANGUAGES = {
    "English": Language(
        "The pump may run for 12 hours, but not above 38.5 °C; either 0 or 15 litres are lost. It is not safe to open "
        "the third valve while −5 dB or 1,250 Pa is shown, and nobody should try it more than twice.",
        "not may never only about ten 7 3.5 −4 50% ½ hundred",
    ),
    "German": Language(
        "Die Pumpe darf 12 Stunden laufen, aber nicht über 38,5 °C; entweder 0 oder 15 Liter gehen verloren. Es ist "
        "nicht sicher, das dritte Ventil zu öffnen, solange −5 dB oder 1.250 Pa angezeigt werden.",
        "nicht kein nie nur darf vielleicht zehn 7 3,5 −4 50%",
    ),
    "French": Language(
        "La pompe peut tourner 12 heures, mais pas au-dessus de 38,5 °C ; soit 0 soit 15 litres sont perdus. Il n’est "
        "pas sûr d’ouvrir la troisième vanne tant que −5 dB ou 1 250 Pa sont affichés.",
        "pas jamais peut seulement environ dix 7 3,5 −4 50%",
    ),
    "Greek": Language(
        "Η αντλία μπορεί να λειτουργεί 12 ώρες, αλλά όχι πάνω από 38,5 °C· είτε 0 είτε μεγαλύτερο από 15 "
        "λίτρα χάνονται. "
        "Δεν είναι ασφαλές να ανοίξει η τρίτη βαλβίδα είτε μεγαλύτερο φορτίο δείχνει −5 dB ή 1.250 Pa.",
        "δεν όχι ποτέ μόνο ίσως μπορεί δέκα 7 3,5 −4 50%",
    ),
    "Russian": Language(
        "Насос может работать 12 часов, но не выше 38,5 °C; теряется либо 0, либо 15 литров. Открывать "
        "третий клапан не "
        "безопасно, пока показано −5 дБ или 1250 Па, и никто не должен пробовать это дважды.",
        "не никогда только может десять 7 3,5 −4 50%",
    ),
    "Arabic": Language(
        "يجوز أن تعمل المضخة ١٢ ساعة ولكن ليس فوق ٣٨٫٥ درجة، ويضيع إما 0 أو ١٥ لترا. لا يجوز فتح الصمام الثالث ما دامت "
        "القراءة ١٬٢٥٠ باسكال أو 3.5 بار، ولم يجرب ذلك أحد.",
        "لا لم ليس فقط ربما عشرة ٧ ٣٫٥ 7 ٥٠٪",
    ),
    "Hebrew": Language(
        "המשאבה עשויה לפעול 12 שעות, אך לא מעל 38.5 מעלות; אובדים 0 או 15 ליטרים. אין לפתוח את השסתום השלישי כל עוד "
        "מוצגים 1,250 פסקל, ואיש לא ניסה זאת.",
        "לא אין רק אולי עשר 7 3.5 50%",
    ),
    "Hindi": Language(
        "पंप १२ घंटे चल सकता है, लेकिन ३८.५ डिग्री से ऊपर नहीं; 0 या 15 लीटर खो जाते हैं। तीसरा वाल्व खोलना "
        "सुरक्षित नहीं है जब तक "
        "1,250 पास्कल दिखाया जाता है।",
        "नहीं मत केवल शायद दस ७ 3.5 50%",
    ),
    "Chinese": Language(
        "水泵可以连续运行12小时，但不得超过38.5摄氏度；损失0或15升。显示1250帕时打开第三个阀门并不安全，二〇二三年没有人试过三次。",
        "不 非 没有 可能 只 十 七 7 3.5",
        spaces=False,
    ),
    "Japanese": Language(
        "ポンプは12時間運転できますが、38.5度を超えてはいけません。0または15リットルが失われます。1250パスカルが表示されている"
        "間に第三の弁を開けるのは安全ではなく、二〇二三年には三回試されました。",
        "ない だけ かも 十 七 7 3.5",
        spaces=False,
    ),
    "code": Language(
        "def gain(x: float, low: float = -1.0) -> float:\n    if not low <= x <= 12:  # may not be 0\n"
        "        raise ValueError('not in range')\n    return [x * 3.5e-4, values[i - 1], 0x1F][0]\n",
        "not 7 -4 0.5 None ten",
    ),
    "table": Language(
        "| part | gain | loss |\n|------|-----:|-----:|\n| pump | 12.5 | −0.5 |\n| valve | 0 | 15 |\n| hose "
        "| ... | 1 250 |\n"
        "| not fitted | — | 38 % |\n",
        "not may 7 3.5 −4 50% ten",
    ),
    "list": Language(
        "- Open *two* valves, not three.\n- Wait 12 hours ... or **15** if it is cold.\n1. Do not open "
        "[valve 4](#valve).\n"
        "2. You may stop at 38.5 °C [see 7].\n   - never at `-5`\n",
        "not may never only 9 3.5 −4 50% ten",
    ),
}

WRITTEN: list[Callable[[str], str]] = [
    lambda text: text,
    str.upper,
    lambda text: text.replace(" ", "\n"),
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: f"… {text} …",
    lambda text: f"“{text}”",
]


def plain(text: str) -> str:
    """Keep of a text all that no honest change of writing alters; brackets add no word."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("−", "-")
    return re.sub(r"[\s…“”\[\]]|\.\.\.", "", folded)


def tokens(language: Language) -> list[str]:
    """Split a text into parts that can be rearranged: words with their spaces, or single characters."""
    return re.findall(r"\S+\s*", language.text) if language.spaces else re.findall(r"[\d.]+|.", language.text)


def passages(language: Language) -> st.SearchStrategy[list[str]]:
    """Neighbouring tokens, at least four words or eight characters."""
    all_of_it = tokens(language)
    least = 4 if language.spaces else 8
    return st.integers(0, len(all_of_it) - least).flatmap(
        lambda first: st.integers(first + least, len(all_of_it)).map(lambda stop: all_of_it[first:stop])
    )


def assert_refused(quote: str, language: Language) -> None:
    """That it is not found in the text, unless the text happens to say just this."""
    assume(plain(quote).strip(".") not in plain(language.text))
    finding = check_quote(quote, "own", [QuotedChunk.of("own", language.text)])
    assert finding.verdict not in FOUND, (quote, finding)


often = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


@pytest.mark.parametrize("name", LANGUAGES)
@often
@given(data=st.data())
def test_nothing_is_put_in(name: str, data: st.DataObject) -> None:
    """Anywhere in a quote, at its beginning and end too, with brackets around it or without."""
    language = LANGUAGES[name]
    passage = data.draw(passages(language))
    word = data.draw(st.sampled_from(language.words.split()))
    around = data.draw(st.sampled_from(["{}", "[{}]", "({})", "… {}", "{} …", "[{}] …", "[...] {}", "“{}”", "[{} Hz]"]))
    put_in = around.format(word) + (" " if language.spaces else "")
    place = data.draw(st.sampled_from([0, len(passage)]) | st.integers(0, len(passage)))
    before = "".join(passage[:place])
    gap = " " if language.spaces and before and not before[-1].isspace() else ""
    quote = before + gap + put_in + "".join(passage[place:])
    assert_refused(data.draw(st.sampled_from(WRITTEN))(quote.strip()), language)


@pytest.mark.parametrize("name", LANGUAGES)
@often
@given(data=st.data())
def test_nothing_is_taken_out(name: str, data: st.DataObject) -> None:
    """No word from within a quote; without a mark there is nothing honest about it."""
    language = LANGUAGES[name]
    passage = data.draw(passages(language))
    place = data.draw(st.integers(1, len(passage) - 2))
    lost = passage[:place] + passage[place + 1 :]
    assume(re.search(r"\w", passage[place]))
    assert_refused(data.draw(st.sampled_from(WRITTEN))("".join(lost).strip()), language)


@pytest.mark.parametrize("name", LANGUAGES)
@often
@given(data=st.data())
def test_nothing_is_exchanged(name: str, data: st.DataObject) -> None:
    """No word for a number, a denial or a limit, at the edges too; nor in brackets where the chunk has such a word."""
    language = LANGUAGES[name]
    passage = data.draw(passages(language))
    place = data.draw(st.sampled_from([0, len(passage) - 1]) | st.integers(0, len(passage) - 1))
    word = data.draw(st.sampled_from(language.words.split()))
    around = data.draw(st.sampled_from(["{}", "[{}]", "{}"]))
    old = passage[place]
    space = old[len(old.rstrip()) :]
    quote = "".join([*passage[:place], around.format(word) + space, *passage[place + 1 :]])
    assert_refused(data.draw(st.sampled_from(WRITTEN))(quote.strip()), language)


@pytest.mark.parametrize("name", LANGUAGES)
@often
@given(data=st.data())
def test_numbers_are_whole(name: str, data: st.DataObject) -> None:
    """No digit is taken from a number, added to it or changed, at the edges of the quote too."""
    language = LANGUAGES[name]
    text = language.text
    number = data.draw(st.sampled_from(list(re.finditer(r"[−-]?\d+(?:[.,٫٬]\d+)*", text))))
    digits = [i for i in range(*number.span()) if text[i].isdigit()]
    place = data.draw(st.sampled_from(digits))
    zero = chr(ord(text[place]) - unicodedata.digit(text[place]))
    other = chr(ord(zero) + data.draw(st.integers(0, 9)))
    new = data.draw(st.sampled_from(["", other, text[place] + other]))
    assume(new != text[place] and (new or len(digits) > 1))
    start = data.draw(st.sampled_from([number.start(), max(0, number.start() - 30)]))
    stop = data.draw(st.sampled_from([number.end(), min(len(text), number.end() + 30)]))
    quote = text[start:place] + new + text[place + 1 : stop]
    # What is left of the number stands in the text for itself: "5" of "15", if there is a 5.
    assume(not re.search(rf"(?<![\d.,−-]){re.escape(quote)}(?![.,]?\d)", text))
    finding = check_quote(quote, "own", [QuotedChunk.of("own", text)])
    assert finding.verdict not in FOUND, (quote, finding)


# In Chinese and Japanese a quote may not begin between a number and what it counts.
@pytest.mark.parametrize("name", [name for name, language in LANGUAGES.items() if language.spaces])
@often
@given(data=st.data())
def test_what_was_not_altered_is_found(name: str, data: st.DataObject) -> None:
    """The same passages, written in the same ways, are accepted: the tests above refuse what was altered in them."""
    language = LANGUAGES[name]
    quote = "".join(data.draw(passages(language))).strip()
    assume(len(re.findall(r"\w", quote)) >= 12 and quote[0] not in ".…" and quote[-1] not in ".…")
    assume(not (quote[0].isnumeric() or quote[-1].isnumeric() or re.search(r"[.…]{3}", quote)))
    written = data.draw(st.sampled_from(WRITTEN[:5]))(quote)
    finding = check_quote(written, "own", [QuotedChunk.of("own", language.text)])
    assert finding.verdict in FOUND, (written, finding)
