from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.text.sentences import split_sentences

STOPS = [". ", ".", "! ", "… ", "?” ", "。", "\n", "\n\n", "\n- ", "\n| ", "\n# ", " ", ", ", "\ud800", "\0"]
PIECES = ["Dr", "3", "3.5", "May", "e.g", "J", "V", "the reels", "Blue reels", "“It hums", "进行", "é"]
texts = st.lists(st.sampled_from([*STOPS, *PIECES]), max_size=25).map("".join) | st.text(st.characters(), max_size=15)


@pytest.mark.parametrize(
    "sentences",
    [
        ["It hums.", "It hums!", "Does it hum?", "It hums…", "It hums?!"],
        ["Dr. Groß measured 0.5 kHz, e.g. twice.", "Then he left."],
        ["J. S. Bach wrote it for St. Thomas.", "He played it."],
        ["It is by J. A. Hobson (c. 1902).", "It sold."],
        ["The desk stands in Room A.", "The other does not."],
        ["It needs 9 V.", "With less it hums."],
        ["The choir sang on 3. May 2024.", "It was in tune."],
        ["The choir sang in 2024.", "May it sing again."],
        ["See fig. 3 and no. 5 on p. 7.", "No.", "Yes."],
        ["He left at 7 p.m.", "She stayed."],
        ["Patients of the U.S. Air Force, e.g. Sgt. Miller, pay.", "The S.S. Orion is in the U.S.", "It sails."],
        ["Art. 3 para. 2 exempts Lt. Col. Hayes, Gen. Ito and Capt. Brandt.", "Rev. Ann Moss pays."],
        ["The board of Bauer GmbH & Co. KG meets in St. James Str. 9 with Prof. Dr.\nmed. Lund.", "It is new."],
        ["Mt. Ararat is Nr. 3.", "It is high.", "Mr. J. R. Okafor Jr. keeps it.", "He knows."],
        ["It takes 5 ms.", "It weighs 3 kg.", "Play the DVD.", "It hums at 50 Hz.", "All is in Hz.", "The lid is red."],
        ["It is empty.", "err-77c is a fault.", "x9k3 is none, cf. b2 and no. a4.", "It hums."],
        ["He said: “It hums.”", "She nodded (it did.)", "Then silence."],
        ["Version 1.2.3 costs £2.15 at example.org today.", "It is new."],
        ["A line\nthat is wrapped\nin the middle.", "And another."],
        ["# Findings", "The bus hums."],
        ["One paragraph", "Another one"],
        ["| a | b |", "| c. D | e |", "Text."],
        ["- one item", "- another, 3 of them", "2) a third"],
        ["完了しました。", "次に進む。"],
        ["Die Sitzung ist am 14. Juni in Raum 2. OG links.", "Der 2. Stock ist zu.", "Prof. Dr.-Ing. Maier kommt."],
        [
            "Nach § 5 Abs. 2 z. B. am Montag.",
            "Soit env. 2 h.",
            "Завод в г. Орле (см. гл. 4).",
            "Rev. B. is out (ext. 22).",
        ],
        ["Der Kessel steht.", "Am 3. Mai prüft Hr. Ing. Weber den Kessel.", "So will es T. Kuhn.", "Er geht."],
        ["Der Spalt misst ca. 3 mm, vgl. Abb. 7 und S. 12.", "Leitern hängen in Halle 3 bzw. Halle 4."],
        ["Le jeu est d’env. 3 mm, voir fig. 7 et p. 12.", "Le filtre, réf. AX-550, se change une fois par an."],
        ["See Fig. 7 and p. 12.", "Valve v. 2 is used, cf. Art. 5 of the rules."],
        ["См. Рис. 5 на стр. 12.", "Клапан открыт."],
        ["The lid is red.", "E17 is a fault of the host's.", "Turn it off.", "It doesn't.", "Try again."],
    ],
)
def test_sentences_end_where_they_end(sentences: list[str]) -> None:
    """Not after abbreviations, initials and ordinals, not inside numbers; at headings, rows, items, blank lines."""
    structural = ("#", "|", "-", "2)")
    text = ""
    for one, following in zip(sentences, [*sentences[1:], ""], strict=True):
        line = one.startswith(structural) or following.startswith(structural)
        text += one + ("\n" if line else "\n\n" if one[-1].isalpha() else " ")
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


@given(texts)
def test_sentences_cover_a_text_but_for_white_space(text: str) -> None:
    """In order, none inside another, without white space around them, and nothing left out."""
    spans = list(split_sentences(text))
    places = [0, *(place for span in spans for place in span), len(text)]
    assert places == sorted(places)
    assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)
    assert all(text[end:start].isspace() or end == start for end, start in zip(places[::2], places[1::2], strict=True))
