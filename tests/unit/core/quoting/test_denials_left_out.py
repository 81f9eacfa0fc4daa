"""Denials and limits that a mark of omission stands for, in every language of the word lists, in short chunks too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import Made, Rule, Text, accepted, cases, check, is_broad, plant, refused

from worker.core.citations.quoting import limits
from worker.core.citations.quoting.word_lists import word_lists

if TYPE_CHECKING:
    import random

# Words before, what is left out, words after.
DENIED = [
    ("Pumppu tässä vanhassa talossa", "ei", "saa käydä ulkona yöllä"),
    ("Pumppu tässä vanhassa talossa", "en", "saa käydä ulkona yöllä"),
    ("Talon vanha pumppu", "älä", "avaa venttiiliä yöllä"),
    ("Talon vanha pumppu", "Älä", "avaa venttiiliä yöllä"),
    ("Talon vanha pumppu", "älkää", "avatko venttiiliä yöllä"),
    ("이 펌프는 밤에", "안", "돌아가고 낮에 돌아갑니다"),
    ("이 펌프는 밤에", "못", "돌아가고 낮에 돌아갑니다"),
    ("이 펌프는 밤에", "켜지 마십시오 그리고", "낮에 켜고 쓰십시오"),
    ("Den gamle pumpa skal", "ikkje", "køyre ute om natta"),
    ("Du kan i dette huset", "bare", "bruke pumpen om natten"),
    ("Den gamle pumpen går", "bare", "ute om natten nå"),
    ("Den gamle pumpa går", "berre", "ute om natta no"),
    ("Den gamle pumpe går", "bare", "ude om natten nu"),
    ("Stara pompa w nocy", "ledwo", "działa na dworze zimą"),
    ("Stara pompa w nocy", "bynajmniej", "działa na dworze zimą"),
    ("この機械は水を使", "わずに", "運転できます毎日ここで"),
    ("この機械は水を使", "わず電気で", "運転できます毎日ここで"),
    ("これは昔の彼が知ら", "ぬ", "話であります昔のことで"),
    ("この部屋には三人", "しか", "入れると言う人がいます"),
    ("ปั๊มเครื่องนี้เมื่อวาน", "มิควร", "เดินเครื่องในเวลากลางคืน"),
    ("ปั๊มเครื่องนี้เมื่อวาน", "มิได้", "เดินเครื่องในเวลากลางคืน"),
    ("The tank may hold", "up to", "the brim of oil today"),
    ("The tank may hold", "Up  to", "the brim of oil today"),
    ("The tank is today", "free of", "the oil and the dirt"),
    ("Le vieux réservoir contient", "jusqu'à", "la limite du bord"),
    ("本机的旧阀门在夜里", "没有", "打开过一次的记录"),
    ("本机的旧阀门在夜里", "不能", "打开或者拆下来看"),
    ("本機的舊閥門在夜裡", "無法", "打開或者拆下來看"),
    ("ปั๊มเครื่องนี้เมื่อวาน", "ไม่", "เดินเครื่องในเวลากลางคืน"),
    ("ปั๊มเครื่องนี้เมื่อวาน", "ไม่ได้", "เดินเครื่องในเวลากลางคืน"),
    ("La bomba vieja funciona", "sin", "agua en el patio"),
    ("La vecchia pompa gira", "mai", "sotto il tetto grande"),
    ("De oude pomp draait", "tot", "de rand van water"),
    ("Staré čerpadlo tam běží", "až", "do plného sudu vody"),
]
SAID = [
    ("Pumppu tässä vanhassa talossa", "hyvin", "käy ulkona joka yö"),
    ("이 펌프는 밤에", "잘", "돌아가고 낮에 돌아갑니다"),
    ("Den gamle pumpen går", "fint", "ute om natten nå"),
    ("Stara pompa w nocy", "cicho", "działa na dworze zimą"),
    ("まずこの機械の電源", "を入れて", "水を流す人がここに来る"),
    ("この町のみずほさん", "がみずから", "話をする日であります"),
    ("อุณหภูมิของเครื่องนี้", "ในมิถุนายนที่อุณหภูมิ", "เดินเครื่องในเวลากลางคืน"),
    ("The pump of the", "mill on the", "hill is open to the"),
    ("The pump of the mill", "turns on the wheel and", "the hill is to the"),
    ("The group of the", "wheel to the", "left of the mill is"),
    ("Die Pumpe ist da", "und ich bin hier", "bei der Mühle am Fluss"),
    ("Le moulin du village", "est ouvert en été et", "il tourne le soir dehors"),
    ("Il mulino della valle", "gira per la gente ma", "si ferma la sera"),
    ("El molino de la", "aldea en el valle para", "la gente de la costa"),
    ("Pompen er i huset", "og den", "kjelen er i det rommet"),
    ("Młyn jest w tej", "dolinie i jest", "to koło od tego roku"),
]


def denies(before: str, gap: str, after: str) -> bool:
    """Whether a quote with a mark for the words between says that they deny."""
    spaces = before.isascii() or " " in before
    space = " " if spaces else ""
    text = f"{before}{space}{gap}{space}{after}."
    finding = check(f"{before} … {after}", text)
    assert finding.verdict == "elided"
    return [one.denies for one in finding.left_out] == [True]


@pytest.mark.parametrize(("before", "gap", "after"), DENIED)
def test_what_denies_is_said(before: str, gap: str, after: str) -> None:
    """A denial of any language, unless it is an ordinary word in the language that the chunk is in."""
    assert denies(before, gap, after)


@pytest.mark.parametrize(("before", "gap", "after"), SAID)
def test_what_does_not_deny_is_not(before: str, gap: str, after: str) -> None:
    """Ordinary words that deny in another language, and words that a denial is a part of."""
    assert not denies(before, gap, after)


# Less common words that deny or limit.
LESS_COMMON = {
    "English": "doubts|a myth that|far from|disproved|retracted|in lieu of|apart from|purported|insufficient",
    "German": "nimmer|bezweifelt|dementierte|widerlegt|weit davon entfernt|abgesehen von|sogenannte|aufgehoben",
    "French": "aucunement|loin de|loin d’être|au lieu d’être|doute|réfute|soi-disant|faute de|à l’exception|prétendu",
    "Spanish": "lejos de|en lugar de|duda|desmiente|presunto",
    "Italian": "lontano da|invece di|dubita|smentisce|anziché",
    "Portuguese": "longe de|duvida|desmente|suposto|improvável",
    "Dutch": "nimmer|niks|amper|verre van|betwijfelt|in plaats van|mits|vermeende",
    "Swedish": "långt ifrån|tvivlar|förnekar|istället|misslyckas|påstådd",
    "Danish": "langt fra|tvivler|benægter|i stedet for|undgår",
    "Norwegian": "langt fra|tviler|benekter|unngår|usannsynlig",
    "Polish": "wątpi|zamiast|zabrania|rzekomy|z wyjątkiem",
    "Czech": "nemůže|nikoli|pochybuje|namísto|údajný|dvaceti",
    "Turkish": "yerine|şüphe|yalanladı|yasaklar",
    "Hungarian": "kétli|helyett|megtagadja|állítólagos",
    "Finnish": "kiistää|epäilee|sijaan|muka|lukuun ottamatta|kahden|kolmea|sadan",
    "Vietnamese": "thay vì|nghi ngờ|phủ nhận|từ chối",
    "Indonesian": "jauh dari|menyangkal|gagal|melarang|selain",
    "Russian": "отнюдь|вовсе|сомневается|опровергает|вместо|за исключением|одиннадцати",
    "Ukrainian": "ледве|аж ніяк|замість|відмовляється|двадцяти",
    "Greek": "ουδέποτε|ουδόλως|αμφιβάλλει|διαψεύδει|αντί|τριών",
    "Hebrew": "איננו|בקושי|מכחיש|במקום|לכאורה",
    "Arabic": "يشك|باستثناء|بدلا من|على الأقل",
    "Persian": "تکذیب|به جای|ندارد|غیر",
    "Hindi": "संदेह|विफल|के बजाय|कथित",
    "Chinese": "怀疑|謠言|据称|失败|很少|代替",
    "Japanese": "決して|まったく|めったに|代わりに|疑わしく",
    "Korean": "전혀|별로|대신|의심|이른바",
    "Thai": "แทน|นอกจาก|สงสัย|ปลอม|หยุด",
}


@pytest.mark.parametrize("language", LESS_COMMON)
def test_less_common_words_deny(language: str) -> None:
    """In a chunk of that language or of any other, between words that say nothing of it."""
    own = next(one for one in word_lists().languages if one.name == language)
    between = LESS_COMMON[language].split("|")
    assert [one for one in between if not limits.denies(one, [own]) and not limits.counts(one, [own])] == []
    assert [one for one in between if not denies("The pump of the", f"mill {one} on", "the hill is to the")] == []


def test_every_language_has_less_common_words() -> None:
    """Whoever adds a language adds its words here."""
    assert set(LESS_COMMON) == {language.name for language in word_lists().languages}


SAYING_NOTHING = [
    *("ferry", "lampen", "Lampe", "lanterne", "linterna", "fenerle", "tornet"),
    *("лампа", "λάμπα", "المصباح", "מנורה", "दीपक", "램프"),
]


def over_a_denial(rng: random.Random, text: Text) -> Made:
    """A quote with a mark for some words, one of which denies or limits."""
    word = rng.choice(LESS_COMMON[rng.choice([*LESS_COMMON])].split("|"))
    chunk, before, after = plant(rng, text, f"kept the lamps {word} {rng.choice(SAYING_NOTHING)} at the harbour wall")
    return Made(f"{before}kept the lamps … at the harbour wall{after}", chunk)


def over_other_words(rng: random.Random, text: Text) -> Made:
    """A quote with a mark for words that say nothing of the rest."""
    words = " ".join(rng.sample(SAYING_NOTHING, 2))
    chunk, before, after = plant(rng, text, f"kept the lamps {words} at the harbour wall")
    return Made(f"{before}kept the lamps … at the harbour wall{after}", chunk)


@pytest.mark.parametrize(("rule", "denies"), [(over_a_denial, True), (over_other_words, False)])
def test_a_mark_says_whether_it_denies(rule: Rule, denies: bool) -> None:
    """In every text, whatever the language of the word; two words are left out each time, and counted."""
    made = cases(rule)
    assert is_broad(made)
    marks = {case: check(case.quote, case.chunk).left_out for case in made}
    assert [case for case, left_out in marks.items() if [one.denies for one in left_out] != [denies]] == []
    if not denies:
        assert {one.words for left_out in marks.values() for one in left_out} == {2}


@pytest.mark.parametrize("word", ["ei", "älä", "ikkje", "ledwo", "안", "nicht", "ikke", "не", "δεν", "không"])
def test_a_denial_counts_in_a_text_of_another_language(word: str) -> None:
    """A chunk may quote, or be of two languages."""
    assert denies("The pump of the mill is", f"in the {word} of", "the house by the river and it hums")


# A denial of a script without spaces, and what it denies.
LEADING = [
    *((word, "打开这个阀门") for word in ("没有", "不是", "不能", "不会", "无法", "不可以", "不应该", "不必", "未能")),
    *((word, "打開這個閥門") for word in ("沒有", "不會", "無法", "不應該", "無需", "不再", "難以", "不許")),
    *((word, "危险的旧阀门") for word in ("并非", "不是", "绝不", "没有")),
    *((word, "เปิดวาล์วตัวนี้") for word in ("ไม่", "ไม่ได้", "ไม่ควร", "ไม่ต้อง", "ไม่สามารถ", "ห้าม", "อย่า", "มิได้")),
]
# Their second sign is a prefix, which no quote cuts off its word, at neither end.
BEFORE_PREFIXES = ("并非", "绝不")
# What no denial stands before, although it looks so.
NOT_DENIED = [
    ("有没有", "打开这个阀门"),
    ("能不能", "打开这个阀门"),
    ("会不会", "打开这个阀门"),
    ("可以", "打开这个阀门"),
    ("特别", "危险的旧阀门"),
    ("หรือไม่", "เปิดวาล์วตัวนี้"),
    ("อย่างนั้น", "เปิดวาล์วตัวนี้"),
    ("ควร", "เปิดวาล์วตัวนี้"),
    ("彼は不要", "という話をした人"),
    ("ห้า", "มิลลิเมตรของวาล์ว"),
]
EMPHASIS = ["", "", "**", "\n"]


def cut_off(rng: random.Random, text: Text) -> Made:
    """A quote that begins right after a denial, perhaps with a mark before it that does not say what it left out."""
    denial, denied = rng.choice(LEADING)
    between = rng.choice(EMPHASIS)
    chunk, _, after = plant(rng, text, f"阀门{denial}{between}{denied}{between.strip()}")
    return Made(rng.choice(["", "", "…", "... ", "[...] "]) + denied + after, chunk)


def not_cut_off(rng: random.Random, text: Text) -> Made:
    """A quote that begins with the denial, or that ends after it, or where nothing is denied."""
    denial, denied = rng.choice(LEADING)
    chunk, before, after = plant(rng, text, f"阀门{denial}{denied}")
    kind = rng.randrange(3)
    if kind == 0:
        return Made(f"{denial}{denied}{after}", chunk)
    if kind == 1 and denial not in BEFORE_PREFIXES:
        return Made(f"{before}阀门{denial}", chunk)
    lead, said = rng.choice(NOT_DENIED)
    chunk, _, after = plant(rng, text, f"{lead}{said}")
    return Made(f"{said}{after}", chunk)


def test_a_quote_does_not_begin_after_a_denial() -> None:
    """In scripts without spaces too, whatever the text around it is in."""
    altered, honest = cases(cut_off), cases(not_cut_off)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []


def left_out(rng: random.Random, text: Text) -> Made:
    """A quote with a mark for a denial."""
    denial, denied = rng.choice([pair for pair in LEADING if pair[0] not in BEFORE_PREFIXES])
    chunk, before, after = plant(rng, text, f"这里的阀门 {denial}{denied}")
    return Made(f"{before}这里的阀门 … {denied}{after}", chunk)


def test_a_mark_over_a_denial_says_so() -> None:
    """The quote is elided, and denies."""
    made = cases(left_out)
    assert is_broad(made)
    assert {(finding.verdict, finding.denies) for finding in (check(case.quote, case.chunk) for case in made)} == {
        ("elided", True)
    }


def test_a_quote_is_looked_for_behind_the_denial() -> None:
    """The same words may stand elsewhere without it."""
    text = "阀门不能打开这里的门。然后打开这里的门。"
    finding = check("打开这里的门", text)
    assert (finding.verdict, finding.spans) == ("verbatim", ((13, 19),))
