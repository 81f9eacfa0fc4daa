"""Quotes that must not be found: other numbers, signs and units, other words, halves joined; each row is a trap."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.core.quoting.corpus import check

from worker.core.citations.quoting.characters import fold

# (the chunk, the quote)
NUMBERS = [
    # decimal points and separators
    ("a gain of 3.5 dB was set", "a gain of 35 dB was set"),
    ("a gain of 3.5 dB was set", "a gain of 3 5 dB was set"),
    ("a gain of 3.5 dB was set", "a gain of 3,5 dB was set"),
    ("a gain of 3.5 dB was set", "a gain of 3-5 dB was set"),
    ("a gain of 3.5 dB was set", "a gain of 3.50 dB was set"),
    ("a gain of 3.5 dB was set", "a gain of 3·5 dB was set"),
    ("about 1,000 people came", "about 1000 people came"),
    ("about 1 000 people came", "about 1000 people came"),
    ("about 1.000 people came", "about 1,000 people came"),
    ("channels 1, 2 and 3 hum", "channels 12 and 3 hum"),
    ("from 10 12 people came", "from 1012 people came"),
    ("about 12 people came", "about 1\u20092 people came"),
    ("about 12 people came", "about 1\n2 people came"),
    ("about 12 people came", "about 1-\n2 people came"),
    ("about 12 people came", "about 1\u00ad\n2 people came"),
    ("about 12 people came", "about 1\u20642 people came"),
    # signs
    ("it was at -5 degrees", "it was at 5 degrees"),
    ("it was at −5 degrees", "it was at 5 degrees"),
    ("it was at 5 degrees", "it was at -5 degrees"),
    ("it was at 5 degrees", "it was at —5 degrees"),
    ("it was at -5 degrees", "it was at —5 degrees"),
    ("it was at -5 degrees", "it was at --5 degrees"),
    ("it was at -5 degrees", "it was at - 5 degrees"),
    ("it was at -5 degrees", "it was at -\n5 degrees"),
    ("it was at −5 degrees", "it was at ⁻5 degrees"),
    ("it was at +5 degrees", "it was at 5 degrees"),
    ("it was at ±5 degrees", "it was at +5 degrees"),
    ("channels 1-2 are off", "channels 12 are off"),
    ("channels 1–2 are off", "channels 1 2 are off"),
    ("channels 1 - 2 are off", "channels 1-2 are off"),
    # powers, fractions, signs of a list
    ("about 10² cells grew", "about 102 cells grew"),
    ("about 10^2 cells grew", "about 102 cells grew"),
    ("about 102 cells grew", "about 10² cells grew"),
    ("about 10⁻³ of all cells", "about 10-3 of all cells"),
    ("in base 10₂ it is so", "in base 102 it is so"),
    ("the log₂8 of all cells", "the log28 of all cells"),
    ("an area of 5 m² was cut", "an area of 5 m2 was cut"),
    ("an area of 5 ㎡ was cut", "an area of 5 m2 was cut"),
    ("let xⁿ be the power", "let xn be the power"),
    ("add 1½ cups of water", "add 11/2 cups of water"),
    ("add 1½ cups of water", "add 1/2 cups of water"),
    ("add ½ cups of water", "add 12 cups of water"),
    ("in step ①5 people came", "in step 15 people came"),
    ("in step ⒈5 people came", "in step 1.5 people came"),
    ("in the year 二〇二三年", "in the year 二〇二年"),
    ("the number is ٣٥ here", "the number is 35 here"),
    ("at 10:30 it was over", "at 1030 it was over"),
    ("it is 5′ long in all", "it is 5″ long in all"),
    # units and comparisons
    ("470 µF of capacity", "470 mF of capacity"),
    ("a size of 5 μm in all", "a size of 5 mm in all"),
    ("a size of 5 μm in all", "a size of 5 um in all"),
    ("the motor draws 5 mW now", "the motor draws 5 MW now"),
    ("the motor draws 5 mW now", "the motor draws 5 M\u200bW now"),
    ("the motor draws 5 mW now", "the motor draws 5 МW now"),
    ("the motor draws 5 mW now", "the motor draws 5 ＭＷ now"),
    ("THE MOTOR draws 5mV now", "the motor draws 5MV now"),
    ("a file of 10 Mb is sent", "a file of 10 MB is sent"),
    ("a torque of 5 Nm is set", "a torque of 5 nm is set"),
    ("a dose of 5 mg a day", "a dose of 5 Mg a day"),
    ("less than < 5 % of all", "less than > 5 % of all"),
    ("less than ≤5 % of all", "less than <5 % of all"),
    ("it costs £5 at most", "it costs €5 at most"),
    ("it rose by 5 % again", "it rose by 5 ‰ again"),
    ("the constant ρ = 5 here", "the constant p = 5 here"),
    ("the speed ν is 5 here", "the speed v is 5 here"),
    ("an α-particle is seen", "an a-particle is seen"),
]

CUTS = [
    ("a level of 15 dB is set", "5 dB is set"),
    ("a level of 3.5 dB is set", "5 dB is set"),
    ("a level of 3.5 dB", "a level of 3"),
    ("a level of 1,500 dB", "a level of 1"),
    ("a level of −84 dBu is set", "84 dBu is set"),
    ("a level of − 84 dBu is set", "84 dBu is set"),
    ("a level of ≤5 dB is set", "5 dB is set"),
    ("a price of £312 to pay", "312 to pay"),
    ("it rose by 5% again", "it rose by 5"),
    ("it rose to 5°C again", "it rose to 5"),
    ("it was 3 × 10⁵ cells", "10⁵ cells"),
    ("it was 3 × 10⁵ cells", "it was 3"),
    ("about 1 250 people came", "250 people came"),
    ("about 1\u202f250 people came", "250 people came"),
    ("about 1½ cups of it", "½ cups of it"),
    ("about 1 1/2 cups of it", "1/2 cups of it"),
    ("at 10:30 it was over", "30 it was over"),
    ("in thirty-two rooms", "two rooms"),
    ("a non-toxic paint was used", "toxic paint was used"),
    ("a non-\ntoxic paint was used", "toxic paint was used"),
    ("they can't be used here", "they can"),
    ("a speed of 5 km/h is set", "a speed of 5 km"),
    ("this party was over", "art"),
    ("this party was over", "arty was over"),
    ("this is unsafe to use", "safe to use"),
    ("this is un\u00adsafe to use", "safe to use"),
    ("this is un\u200bsafe to use", "safe to use"),
    ("the ﬁnd of the day", "ind of the day"),
    ("in F# minor it is", "in F"),
    ("the old pin\u0303 is here", "the old pin"),
    ("共25公里的路程在此", "共25"),
    ("第二十五公里的路程", "五公里的路程"),
    ("it is -5 or so now", "5 or so now"),
    ("a b x^2 + y of all", "2 + y of all"),
]

WORDS = [
    ("the desk may stay in service", "the desk must stay in service"),
    ("the desk may stay in service", "the desk stay in service"),
    ("the desk may stay in service", "the desk may not stay in service"),
    ("the desk may not stay here", "the desk may stay here"),
    ("the desk isn't in service", "the desk is in service"),
    ("they are not able to stay", "they are notable to stay"),
    ("they are notable to stay", "they are not able to stay"),
    ("they are notable to stay", "they are not\u00a0able to stay"),
    ("they will resign the deal", "they will re-sign the deal"),
    ("they will re-sign the deal", "they will resign the deal"),
    ("they will re-sign the deal", "they will re sign the deal"),
    ("they will resign the deal", "they will re- sign the deal"),
    ("they will resign the deal", "they will re–sign the deal"),
    ("they will resign the deal", "they will re—\nsign the deal"),
    ("the large desk is here", "the big desk is here"),
    ("the desk and the room", "the room and the desk"),
    ("the desk, and the room", "the desk and the room"),
    ("Is the desk in service?", "Is the desk in service."),
    ("the “desk” is in service", "the desk is in service"),
    ("the desk's in service", "the desks in service"),
    ('the "desk" is here', "the 'desk' is here"),
    ("Alice Marrin measured it", "Ines Okafor measured it"),
    ("It hums. It is not a fault. It stays.", "It hums. It stays."),
    ("The desk hums a lot. The room is dry now.", "The desk hums the room is dry now."),
    ("the desk is in service", "the\u202edesk\u202c is in service"),
    ("run --verbose right now", "run -verbose right now"),
    ("if a && b then it stops", "if a & b then it stops"),
    ("if x != y then it stops", "if x == y then it stops"),
    ("use C++ for all of this", "use C for all of this"),
    ("Ο λόγος δεν είναι αυτός", "Ο λόγος είναι αυτός"),
    ("本设备不得在此使用", "本设备得在此使用"),
    ("他说的话是真的吗", "他说 的话是真的吗"),
    ("لا يجوز استخدام الجهاز", "يجوز لا استخدام الجهاز"),
    ("ein Maß für alle", "ein Mas für alle"),
    ("die Büste im Haus", "die Buste im Haus"),
    ("🏴\U000e0067\U000e0062\U000e007f flag is up", "🏴 flag is up"),
]


@pytest.mark.parametrize(("text", "quote"), NUMBERS)
def test_another_number_is_not_found(text: str, quote: str) -> None:
    """No normalisation makes two numbers, signs or units equal, neither way round."""
    assert check(quote, f"So {text} then.").verdict == "not_found"
    assert check(text, f"So {quote} then.").verdict == "not_found"


@pytest.mark.parametrize(("text", "quote"), CUTS)
def test_a_cut_inside_is_not_found(text: str, quote: str) -> None:
    """A quote begins and ends where words and numbers do, even if it is a substring."""
    assert quote in text or not text.isascii()
    assert check(quote, text).verdict == "not_found"
    assert check(quote.upper(), text).verdict == "not_found"


@pytest.mark.parametrize(("text", "quote"), WORDS)
def test_other_words_are_not_found(text: str, quote: str) -> None:
    """A word changed, lost, added, moved, split, joined, or another sign between words."""
    assert check(quote, f"So {text} then.").verdict == "not_found"


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("a level of 15 dB is set", "15 dB is set"),
        ("a level of −84 dBu is set", "−84 dBu is set"),
        ("if x² − 2x is zero", "2x is zero"),
        ("- 5 mg twice daily", "5 mg twice daily"),
        ("in 2019 500 people came", "500 people came"),
        ("it rose by 5 % again", "it rose by 5"),
        ("the desk—the old one—hums", "the old one"),
        ("the room ends.The desk hums", "The desk hums"),
        ("(the desk) hums", "the desk"),
        ("“the desk” hums", "the desk"),
        ("他说的话是真的吗", "的话是真"),
        ("it is #5 of all", "5 of all"),
    ],
)
def test_a_cut_between_words_is_no_cut(text: str, quote: str) -> None:
    """Punctuation, white space and scripts without spaces let a quote begin and end."""
    assert check(quote, text).verdict == "verbatim"


def test_an_accent_that_makes_a_letter_in_the_language_around() -> None:
    """Even if the words quoted have no letter by which to tell the language."""
    text = "Šestý den žena přišla. DRAHÁ LAMPA stála u řeky."
    assert check("DRAHA LAMPA", text).verdict == "not_found"
    assert check("DRAHA LAMPA", "La voilà. DRAHÁ LAMPA stála, dit Dvořák.").verdict == "normalised"


def test_no_character_turns_into_a_digit() -> None:
    """Of all of Unicode only digits of another width or typeface, and vulgar fractions, fold to digits."""
    folded = {chr(code) for code in range(sys.maxunicode + 1) if unicodedata.decomposition(chr(code))}
    turned = {c for c in folded if any("0" <= sign <= "9" for sign in fold(c))}
    tags = {unicodedata.decomposition(c).partition(" ")[0] for c in turned}
    assert tags == {"<wide>", "<font>", "<fraction>"}
    assert all(unicodedata.digit(c) == int(fold(c)) for c in turned if "/" not in fold(c))


def test_what_is_one_character_to_a_reader_is_not_cut() -> None:
    """An emoji stays with its skin tone, a letter with its accent."""
    assert check("done 👍", "done 👍🏽 today").verdict == "not_found"
    assert check("done 👍🏽", "done 👍🏽 today").verdict == "verbatim"
    assert check("the cafe", "the cafe\u0301").verdict == "not_found"


numbers = st.from_regex(
    re.compile(r"[-−–+±<≤]?[0-9]{1,3}([.,][0-9]{1,3})?(\s?[%²³½‰]|[⁰-⁹]|e-?[0-9])?", re.ASCII), fullmatch=True
)


def value(number: str) -> str:
    """A number as a reader reads it; white space and the sign's shape aside."""
    return re.sub(r"\s", "", re.sub("[−–]", "-", number)).replace("½", "&1/2")


@given(numbers, numbers)
def test_only_equal_numbers_are_equal(one: str, other: str) -> None:
    """Any two numbers that a reader tells apart are told apart."""
    assume(value(one) != value(other))
    assert check(f"the level is {one} on average", f"the level is {other} on average").verdict == "not_found"


@given(numbers, st.sampled_from(["\n", "\u00ad", "\u200b", "-\n", " ", ".", ",", "…", "—", "\u00a0"]), st.data())
def test_nothing_visible_comes_into_a_number(number: str, inserted: str, data: st.DataObject) -> None:
    """A character between two digits counts, unless it can't be seen."""
    places = [m.start() for m in re.finditer(r"(?<=[0-9])(?=[0-9])", number)]
    assume(places)
    place = data.draw(st.sampled_from(places))
    quote = f"the level is {number[:place]}{inserted}{number[place:]} on average"
    found = check(quote, f"the level is {number} on average").verdict
    assert found == ("normalised" if inserted in "\u00ad\u200b" else "not_found")
