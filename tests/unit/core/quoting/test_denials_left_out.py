"""Denials and limits that a mark of omission stands for, in every language of the word lists, in short chunks too."""

from __future__ import annotations

import pytest

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk

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
    finding = check_quote(f"{before} … {after}", "own", [QuotedChunk.of("own", text)])
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


@pytest.mark.parametrize("word", ["ei", "älä", "ikkje", "ledwo", "안", "nicht", "ikke", "не", "δεν", "không"])
def test_a_denial_counts_in_a_text_of_another_language(word: str) -> None:
    """A chunk may quote, or be of two languages."""
    assert denies("The pump of the mill is", f"in the {word} of", "the house by the river and it hums")
