"""Changes that a quote survives on its way; exactly the kinds that were needed are listed."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.quoting.corpus import check

from worker.core.citations.quoting.differences import FINAL_STOP, KINDS

# (the chunk, the quote, what is needed); the same with chunk and quote exchanged.
SAME = [
    # white space
    ("the noise floor is low", "the  noise\nfloor\tis low", "white_space"),
    ("the noise floor is low", "the\u00a0noise\u2009floor\u3000is\u2028low", "white_space"),
    ("a\r\n\r\n  b c d", "a b c d", "paragraphs"),
    ("本设备不得在超过", "本设备\n不得在\r\n超过", "white_space"),
    ("温度，不得使用", "温度，\n不得使用", "white_space"),
    # quotes
    ("“It isn't,” she said", '"It isn’t," she said', "quotes"),
    ("„in Maßen“ heißt", "»in Maßen« heißt", "quotes"),
    ("he said ‚no‘ to it", "he said 'no' to it", "quotes"),
    ("it's 5′ 10″ tall", "it's 5' 10\" tall", "quotes"),
    ("geht´s gut heute", "geht's gut heute", "quotes"),
    ("Hawaiʻi is far", "Hawai'i is far", "quotes"),
    # dashes
    ("the desk — the old one — hums", "the desk - the old one - hums", "dashes"),
    ("the desk—the old one—hums", "the desk--the old one--hums", "dashes"),
    ("the desk–the old one–hums", "the desk-the old one-hums", "dashes"),
    ("channels 7–9 and −84 dBu", "channels 7-9 and -84 dBu", "dashes"),
    ("a well-known tune", "a well‑known tune", "dashes"),
    ("a minus of –5 °C", "a minus of −5 °C", "dashes"),
    ("run --verbose now", "run ‐‐verbose now", "dashes"),
    ("Haupt- und Nebenfach", "Haupt‐ und Nebenfach", "dashes"),
    # compatibility forms
    ("the ﬁrst oﬃce ﬂoor", "the first office floor", "compatibility"),
    ("No. Ⅳ and № 5 at 20 ℃", "No. IV and No 5 at 20 °C", "compatibility"),
    ("470 µF and 5 ㎏ of it", "470 μF and 5 kg of it", "compatibility"),
    ("ＡＢＣ１２３ Ｈｚ！", "ABC123 Hz!", "compatibility"),
    ("wait… and listen", "wait... and listen", "compatibility"),
    ("½ of it and 1½ of that", "1/2 of it and 1 1/2 of that", "compatibility"),
    ("CO₂ and H₂O levels", "CO2 and H2O levels", "compatibility"),
    ("the 1ª and the 2º", "the 1a and the 2o", "compatibility"),
    ("ﻻ ﻳﺠﻮﺯ ذلك", "لا يجوز ذلك", "compatibility"),
    ("ｲﾔﾎﾝ を使う", "イヤホン を使う", "compatibility"),
    ("𝐛𝐨𝐥𝐝 and 𝟑.𝟓 dB", "bold and 3.5 dB", "compatibility"),
    # composition
    ("café Übersteuerung", "cafe\u0301 U\u0308bersteuerung", "composition"),
    ("한국어 문장입니다", unicodedata.normalize("NFD", "한국어 문장입니다"), "composition"),
    ("Ἀθῆναι καὶ ἄλλα", unicodedata.normalize("NFD", "Ἀθῆναι καὶ ἄλλα"), "composition"),
    ("q\u0307\u0323 is a letter", "q\u0323\u0307 is a letter", "composition"),
    ("5 \u212b and 3 \u2126", "5 Å and 3 Ω", "composition"),
    # soft hyphens and what can't be seen
    ("the frequency response", "the fre\u00adquen\u00adcy re\u00adsponse", "soft_hyphen"),
    ("the frequency response", "\ufeffthe fre\u200bquency\u2060 res\u200dponse\u200e", "zero_width"),
    ("🎚\ufe0f the level slider", "🎚 the level slider", "zero_width"),
    ("نمی\u200cخواهم بروم", "نمیخواهم بروم", "zero_width"),
    # hyphenation
    ("for example the desk", "for exam-\nple the desk", "hyphenation"),
    ("for example the desk", "for exam-\r\n    ple the desk", "hyphenation"),
    ("for example the desk", "for exam‐ \n ple the desk", "hyphenation"),
    ("for example the desk", "for exam\u00ad\nple the desk", "hyphenation"),
    ("a well-known tune", "a well-\nknown tune", "hyphenation"),
    ("Rundfunkbeitragsstaatsvertrag", "Rundfunk-\nbeitrags-\nstaats-\nvertrag", "hyphenation"),
    ("the desk—the old one", "the desk—\nthe old one", "hyphenation"),
    # letter case
    ("The Desk hums", "THE DESK HUMS", "case"),
    ("Straße und Größe", "STRASSE UND GRÖSSE", "case"),
    ("Straße und Größe", "STRAẞE UND GRÖẞE", "case"),
    ("Ὀδυσσεύς, λόγος", "ὈΔΥΣΣΕΎΣ, ΛΌΓΟΣ", "case"),
    ("ışık ve ısı", "IŞIK VE ISI", "case"),
    ("İstanbul'da ilk", "istanbul'da ilk", "case"),
    ("İstanbul'da ilk", "i\u0307stanbul'da ilk", "case"),
    ("Ёмкость не менее", "ёмкость НЕ МЕНЕЕ", "case"),
    ("at 20 kHz and 5 dB", "AT 20 KHZ AND 5 DB", "case"),
    ("470 µF capacitor", "470 ΜF CAPACITOR", "case"),
    # look-alikes
    ("noise of the scope", "nоisе оf thе sсоpе", "look_alike"),
    ("noise of volume", "nοise οf vοlume", "look_alike"),
    ("The HUM and the BUZZ", "Тhе НUМ аnd thе ВUΖΖ", "look_alike"),
    ("a name of value", "a nαme of vαlue", "look_alike"),
    ("море и рассол", "мopе и paссoл", "look_alike"),
    ("Οδυσσέας και Νίκη", "Oδυσσέας και Nίκη", "look_alike"),
    ("naïve Noël here", "nаїve Nоёl here", "look_alike"),
    # vowel marks, kashida
    ("كَتَبَ الطَّالِبُ", "كتب الطالب", "vowel_marks"),
    ("בְּרֵאשִׁית בָּרָא", "בראשית ברא", "vowel_marks"),
    ("المـحـطـة الشـمالية", "المحطة الشمالية", "kashida"),
    # accents of capitals
    ("École normale ici", "Ecole normale ici", "accents"),
    ("η Αθήνα Όμηρος", "η Αθήνα Ομηρος", "accents"),
    # Markdown
    ("the **red** lamp", "the red lamp", "markup"),
    ("call `reset --hard` first", "call reset --hard first", "markup"),
    ("see [the lamp](https://example.org/a) first", "see the lamp first", "markup"),
    # spaces that may be or not
    ("a gain of 5 dB here", "a gain of 5dB here", "white_space"),
    ("请使用 GPU 时注意", "请使用GPU时注意", "white_space"),
]


@pytest.mark.parametrize(("text", "quote", "kind"), SAME, ids=range(len(SAME)))
def test_each_kind(text: str, quote: str, kind: str) -> None:
    """One kind of difference is survived and listed alone, whichever side it is on."""
    for asked, chunk in ((quote, text), (text, quote)):
        finding = check(asked, f"Before this. {chunk} – after that.")
        assert (finding.verdict, finding.normalised) == ("normalised", (kind,))
        (start, end) = finding.spans[0]
        assert f"Before this. {chunk} – after that."[start:end].strip(" \n\ufeff\u200e") == chunk.strip(
            " \n\ufeff\u200e"
        )


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("追加情報を 表示 （activation, inlines）する", "追加情報を 表示 (activation, inlines)する"),
        ("構文は apt.conf(5) に詳述されています", "構文は apt.conf（５） に詳述されています"),
        ("空白行\nで終了 しますが\nない", unicodedata.normalize("NFD", "空白行\nで終了 しますが\nない")),
        ("シェルが\nファイルの ワイルド カード", unicodedata.normalize("NFD", "シェルがファイルの ワイルド カード")),
    ],
)
def test_white_space_beside_scripts_without_it(text: str, quote: str) -> None:
    """Wide and narrow punctuation, composed and decomposed signs have the same white space around them."""
    assert check(quote, text).verdict == "normalised"


def test_every_kind_has_an_example() -> None:
    """The list of kinds is what the table shows."""
    assert {kind for _, _, kind in SAME} | {FINAL_STOP} == {*KINDS}


@pytest.mark.parametrize(
    ("text", "quote", "kinds"),
    [
        ("The “ﬁrst” desk — hums", 'THE  "first" desk -\nhums', "white_space quotes dashes compatibility case"),
        ("“Übersteuerung”, aber", "“U\u0308BERSTEUERUNG”, aber", "composition case"),
        ("the frequency of it", "the FRE\u00adquen-\ncy of it", "soft_hyphen hyphenation case"),
        ("the noise floor", "thе\u200b NOISE floor", "zero_width case look_alike"),
        ("a well-known tune", "a well–\nknown  tune", "white_space dashes hyphenation"),
        ("the ﬁrst", "the FIRST", "compatibility case"),
        ("ﾀﾞｲﾔﾙ を回す", "ダイヤル を回す", "compatibility composition"),
        ("noise floor", " noise floor\n", "white_space"),
        ("noise floor", "\u00ad noise floor\u200b", "white_space soft_hyphen zero_width"),
    ],
)
def test_kinds_add_up(text: str, quote: str, kinds: str) -> None:
    """All that were needed are listed, in a fixed order, and none that was not."""
    assert check(quote, text).normalised == tuple(kinds.split())


@pytest.mark.parametrize(
    ("quote", "verdict"),
    [
        ("It Draws 5 Mg Of 10 Kb", "normalised"),
        ("it draws 5 mg of 10 kb", "normalised"),
        ("IT DRAWS 5 MG OF 10 KB", "normalised"),
        ("It draws 5 Mg of 10 kB", "not_found"),
        ("It draws 5 mg of 10 kb", "not_found"),
        ("5 Mg Of", "not_found"),
    ],
)
def test_units_in_capitals(quote: str, verdict: str) -> None:
    """Where all words are small or capitalised, letter case says nothing of a unit; else Mg is no mg, kb no kB."""
    assert check(quote, "It draws 5 mg of 10 kB").verdict == verdict


def test_what_both_have_is_not_listed() -> None:
    """Curly quotes, dashes and ligatures that chunk and quote share need nothing."""
    assert check("“the ﬁrst — DESK”", "“the ﬁrst — desk”").normalised == ("case",)


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("and Nebenfach", "Haupt-\nund Nebenfach"),
        ("und Nebenfach", "Haupt-\nund Nebenfach"),
        ("pre- and post-war", "pre-\nand post-war"),
        ("Haupt-", "Haupt- und Nebenfach"),
        ("the desk —", "the desk — the old one"),
        ("THE DESK—", "the desk—the old one"),
        ("—THE OLD one", "the desk—the old one"),
        ("exam- ple of it", "exam-\nple of it"),
    ],
)
def test_beside_hyphens(quote: str, text: str) -> None:
    """Suspended hyphens, dashes at the ends of a quote, hyphens whose line break became a space."""
    expected = "not_found" if quote.startswith("and") else ("normalised", "verbatim")
    assert check(quote, text).verdict in expected


@pytest.mark.parametrize(
    ("quote", "text"),
    [
        ("ışık", "işik"),
        ("sıkıldım bugün", "sikildim bugün"),
        ("İSPARTA ŞEHRİ", "ISPARTA ŞEHRİ"),
        ("resume the work", "résumé the work"),
        ("Jurgen Gross war", "Jürgen Groß war"),
    ],
)
def test_accents_and_dots_are_letters(quote: str, text: str) -> None:
    """An accent, or the dot of an i, is no matter of letter case."""
    assert check(quote, text).verdict == "not_found"


# Letters of several scripts, with what changes when they are folded, and none of the hyphens. A single letter may be a
# variable, and a word with capitals inside an identifier.
alphabet = [*"abcdeijklnoprstuvwxyzäßñøπλσςшжяéﬁﬂ中文あ한ไ", "e\u0301", "q\u0323\u0307"]
letters = st.lists(st.sampled_from(alphabet), min_size=3, max_size=8).map("".join)
written = st.tuples(letters, st.booleans()).map(lambda word: word[0][:1].upper() + word[0][1:] if word[1] else word[0])
sentences = st.lists(written, min_size=4, max_size=10).map(" ".join)


@given(sentences, st.sampled_from(["NFC", "NFD", "upper", "lower", "title", "spaces", "shy"]))
def test_honest_changes_are_survived(text: str, change: str) -> None:
    """A quote, and all of its passage, is found after any program's changes to a whole text of any script."""
    changed = {
        "NFC": unicodedata.normalize("NFC", text),
        "NFD": unicodedata.normalize("NFD", text),
        "spaces": text.replace(" ", "\n \u00a0"),
        "shy": text.replace("an", "a\u00adn").replace("es", "e\u200bs"),
    }
    quote = changed.get(change) or getattr(text, change)()
    finding = check(quote, f"So: {text} .")
    assert finding.verdict in ("verbatim", "normalised")
    (start, end) = finding.spans[0]
    assert f"So: {text} ."[start:end].split() == text.split()
