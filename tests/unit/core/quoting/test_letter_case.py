"""Letter case where it is the meaning: units, options, identifiers, variables, words that it tells apart."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import (
    TEXTS,
    Made,
    Rule,
    Text,
    accepted,
    both_ways,
    cases,
    check,
    is_broad,
    plant,
    refused,
    swap_planted,
)

if TYPE_CHECKING:
    import random

UNITS = [
    *("ms Ms", "mm Mm", "mA MA", "nm Nm", "mg Mg", "mAh MAh", "K k", "kB KB", "Kb kb", "mW MW", "μm μM", "pF PF"),
    *("m M", "s S", "h H", "g G", "L l", "dB Db", "Hz hz", "mmol Mmol", "mPa MPa", "cm Cm", "GHz gHz", "Tb tb"),
    *("TB Tb", "mol Mol", "pH PH", "kV KV", "bar Bar", "mL ML", "Gy gy", "eV EV", "ps Ps", "t T", "ft Ft"),
]
AMOUNTS = ["5 {}", "12{}", "3.5 {}", "1,250 {}", "½ {}", "10⁻³ {}", "40 mg/{}", "−7 {}"]
OPTIONS = ["cp -r|cp -R", "ls -a|ls -A", "tar -x|tar -X", "grep -v|grep -V", "ssh -l|ssh -L", "sort -n|sort -N"]
OPTIONS += ["curl -o|curl -O", "ls -la|ls -lA", "tar -xzf|tar -xZf", "git --hard|git --Hard", "rm -i|rm -I"]
IDENTIFIERS = [
    *("maxRetries maxretries", "maxRetries MaxRetries", "aB3dE9xQ aB3De9xQ", "API_KEY api_key", "user_id User_Id"),
    *("x86 X86", "getURL getUrl", "iPhone IPhone", "GmbH Gmbh", "b2B B2b", "sha256 SHA256", "0x1F 0X1f", "PhD PHD"),
    *("np.Array np.array", "userName username", "readMe readme", "N95 n95", "utf8 UTF8", "fooBar foobar", "k8s K8s"),
    *("mRNA MRNA", "Os.path os.path"),
]
KEYS = [
    *("X-Request-ID X-Request-Id", "X-Request-ID x-request-id", "Content-Type Content-type", "ETag-Weak Etag-Weak"),
    *("AB-12 ab-12", "PX-20-Cd PX-20-CD", "ISO-8859-1 Iso-8859-1", "X-Frame-Options X-frame-Options", "12-AB 12-Ab"),
    *("SKU-Blue-XL SKU-Blue-Xl", "Сеть-ИД Сеть-Ид", "Κωδ-ΑΒ Κωδ-Αβ", "IDs IDS", "PCs Pcs", "URLs urls"),
    *("/etc/Hosts /etc/hosts", "~/Notes/Daily ~/Notes/daily", "@Override @override", "$HOME $Home", "#Urgent #urgent"),
    *("${HOME} ${Home}", "%PATH% %Path%", "Redis::Cluster redis::Cluster", "Na+ NA+", "co-US-2 co-us-2"),
    *("Foo:Bar:Baz Foo:bar:Baz", "foo::Lamp foo::lamp", "proxy=Lamp proxy=lamp", "Lamp(Room) Lamp(room)"),
]
CODES = ["codes DE, NO and|codes DE, No and", "in SE or NO FI|in SE or No FI", "the EU US pact|the EU us pact"]
CODES += ["call GET PUT here|call GET Put here", "EUR, CHF, SEK or|EUR, Chf, SEK or", "from IS IN NO|from IS in NO"]
CODES += ["the IN (US) rate|the In (US) rate", "an AND OR gate|an AND or gate", "by AM FM|by am FM"]
WORDS = [
    "US-led us-led",
    "non-US non-us",
    "IT-girl it-girl",
    "us US",
    "it IT",
    "who WHO",
    "aids AIDS",
    "Co CO",
    "polish Polish",
    "march March",
    "may May",
    "turkey Turkey",
]
SHARP_S = ["in Maßen|in Massen", "die Buße|die Busse", "weißes Maß|weisses Mass", "die Floße|die Flosse"]
SHARP_S += ["auf dem Fuße|auf dem Fusse", "eine große Muße|eine grosse Musse", "heißen|heissen", "Straße|Strasse"]
DOTS = [
    "ısıl|isıl",
    "sıkı|siki",
    "kır|kir",
    "ılık|ilık",
    "ﬁrın|fırın",
    "ｉsı|ısı",
    "ＫＩＲ|kır",
    "𝚤sı|isı",
    "Iğdır|İğdır",
]
LETTERS = ["let n be|let N be", "of 𝐱 and|of x and", "over ℝ with|over R with", "the p of|the P of", "in 𝔽 as|in F as"]
LETTERS += ["a set 𝒩 of|a set N of", "to 𝖃 then|to X then", "the X axis|the x axis", "with ℓ terms|with ℒ terms"]

ALTERED = {
    "units": [(amount.format(a), amount.format(b)) for amount in AMOUNTS for a, b in map(str.split, UNITS)],
    "options": [tuple(pair.split("|")) for pair in OPTIONS],
    "identifiers": [tuple(pair.split()) for pair in IDENTIFIERS],
    "keys": [tuple(pair.split()) for pair in KEYS],
    "codes": [tuple(pair.split("|")) for pair in CODES],
    "words": [tuple(pair.split()) for pair in WORDS],
    "sharp s": [tuple(pair.split("|")) for pair in SHARP_S],
    "dotless i": [tuple(pair.split("|")) for pair in DOTS],
    "letters": [tuple(pair.split("|")) for pair in LETTERS],
}
# ＫＩＲ is ours in capitals and KİR is not, so that one is honest.
HONEST_PAIRS = {("ＫＩＲ", "kır")}


@pytest.mark.parametrize("name", ALTERED)
def test_case_that_says_something_else(name: str) -> None:
    """A unit, an option, an identifier, a variable or a word in another case is not accepted, in any language."""
    pairs = [pair for pair in ALTERED[name] if pair not in HONEST_PAIRS]
    # A writer may stress a plain word: only a code that loses its capitals is another word for certain.
    made = cases(swap_planted(pairs if name == "codes" else both_ways(pairs)))
    assert is_broad(made)
    assert accepted(made) == []


@pytest.mark.parametrize("name", ALTERED)
def test_the_same_words_in_their_own_case(name: str) -> None:
    """The neighbours: the same units, options and identifiers as the chunk has them, rewrapped and in other dashes."""
    words = [word for pair in ALTERED[name] for word in pair]

    def rule(rng: random.Random, text: Text) -> Made:
        made = swap_planted([(word, word) for word in words])(rng, text)
        return Made(made.quote.replace(" ", rng.choice([" ", "\n", "  "])), made.chunk)

    made = cases(rule)
    assert is_broad(made)
    assert refused(made) == []


IN_BRACKETS = [tuple(pair.split()) for pair in [*KEYS[:6], *IDENTIFIERS, *WORDS] if pair[0] not in "/~@#$1"]
SAME_IN_BRACKETS = [
    "so they went|so [They] went",
    "the wheel turns|[The] wheel turns",
    "it turns well|it [turned] well",
]


def in_brackets(rng: random.Random, text: Text) -> Made:
    """A unit, a key or a word in another case stands in brackets for the chunk's, or a pronoun for a code."""
    one, other = rng.choice(both_ways(IN_BRACKETS))
    chunk, before, after = plant(rng, text, f"a {one} or 5 mW")
    changed = [f"a [{other}] or 5 mW", f"a {one} or 5 [MW]", f"a {one} or [MW]"]
    if one in {"IT", "US", "WHO"}:
        changed.append("a [they] or 5 mW")
    return Made(before + rng.choice(changed) + after, chunk)


def test_another_case_in_brackets() -> None:
    """Brackets allow a plain word in another case, and no other word by its case."""
    altered, honest = cases(in_brackets), cases(swap_planted([tuple(pair.split("|")) for pair in SAME_IN_BRACKETS]))
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert [case for case, _ in refused(honest) if case.language == "English"] == []


def uniform(change: str) -> Rule:
    """A rule: a passage with a unit, an option or an identifier, all of it in one case."""

    def rule(rng: random.Random, text: Text) -> Made | None:
        phrase = rng.choice(["5 kHz", "3 dB", "12 mm", "maxRetries", "ls -la", "sha256", "let n be", "the US"])
        chunk, before, after = plant(rng, text, phrase)
        quote = before + phrase + after
        words = re.findall(r"(?<!\S)[a-zà-ÿA-Zα-ωа-я]{3,}(?!\S)", before + after)
        changed = [word for word in words if getattr(word, change)() != word and (word.islower() or word.istitle())]
        # A reader must see it; mA and MA, mW and MW are two units in capitals too; and what a program makes of Turkish
        # capitals is no Turkish.
        if not changed or len(quote.split()) < 4 or re.search(r"\bm[AW]\b|\bMb\b", quote) or text.language == "Turkish":
            return None
        return Made(getattr(quote, change)(), chunk)

    return rule


@pytest.mark.parametrize("change", ["upper", "lower"])
def test_all_in_one_case(change: str) -> None:
    """Where a whole quote is in capitals or in small letters, its case says nothing of a unit or an identifier."""
    made = cases(uniform(change))
    assert is_broad(made)
    assert refused(made) == []


PRONOUNS = [
    "and I wrote it there",
    "that I may not",
    "if I am late",
    "so I can measure it",
    "; I bought one",
    "when I was there",
]
SYMBOLS = [
    "the I of it",
    "when I is here",
    "a current I may flow",
    "with I and n there",
    "if I = n then",
    "where I exceeds it",
]


def in_small_letters(phrases: list[str]) -> Rule:
    """A rule: a passage in small letters but for an I, all of it quoted in small letters."""

    def rule(rng: random.Random, text: Text) -> Made | None:
        phrase = rng.choice(phrases)
        lower = Text(text.name, text.language, re.sub(r"(?<!\w)[^\W\d_](?!\w)|[\d_]", "", text.text).lower())
        chunk, before, after = plant(rng, lower, phrase)
        quote = (before + phrase + after).lower()
        return Made(quote, chunk) if quote == quote.lower() and text.language != "Turkish" else None

    return rule


def test_the_pronoun_in_small_letters() -> None:
    """Of a quote in small letters an i is the chunk's I if that is the English pronoun, but not if it is a variable."""
    honest, altered = cases(in_small_letters(PRONOUNS)), cases(in_small_letters(SYMBOLS))
    assert is_broad(honest)
    assert is_broad(altered)
    assert refused(honest) == []
    assert accepted(altered) == []


def other_word(rng: random.Random, text: Text) -> Made | None:
    """One word in capitals, capitalised or in small letters, as a writer stresses it or begins a sentence with it."""
    words = [match for match in re.finditer(r"(?<!\S)[^\W\d_]{5,}(?!\S)", text.text) if match[0].islower()]
    if not words or text.language == "Turkish":
        return None
    word = rng.choice(words)
    around = max(0, text.text.rfind(" ", 0, max(0, word.start() - 20))), text.text.find(" ", word.end() + 10)
    before, after = text.text[around[0] : word.start()].lstrip(), text.text[word.end() : around[1]]
    if "ß" in word[0] or re.search(r"[\d(=+−×<>≤≥*_/\"']", before + after):
        return None
    return Made(before + rng.choice([str.upper, str.capitalize])(word[0]) + after, text.text)


def test_a_stressed_word() -> None:
    """A plain word in capitals or with a capital is the same word."""
    made = cases(other_word)
    assert len(made) >= 200
    assert len({case.name for case in made}) >= 20
    assert refused(made) == []


COMPOUNDS = [
    ("the non-vocal lamp", "the NON-VOCAL lamp"),
    ("the well-known lamp", "the WELL-KNOWN lamp"),
    ("the NON-VOCAL lamp", "the non-vocal lamp"),
    ("the Jean-Luc lamp", "the JEAN-LUC lamp"),
    ("the non-GMO lamp", "the NON-GMO lamp"),
    ("the Top-10 lamp", "the top-10 lamp"),
    ("a Well-Known Lamp here", "a well-known lamp here"),
    ("a Sender/Reader Lamp here", "a sender/reader lamp here"),
    ("the lamp must NO longer", "the lamp must no longer"),
    ("the EU and US pact", "the EU AND US pact"),
    ("the lamp is not here", "the lamp is NOT here"),
    ("the NATO lamp", "the Nato lamp"),
]


def test_compounds_and_stress() -> None:
    """The neighbours: compounds in capitals or title case, a stressed word, a long abbreviation."""
    made = cases(swap_planted(COMPOUNDS))
    assert is_broad(made)
    assert refused(made) == []


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("for each 5 Ms of it", "FOR EACH 5 MW of it"),
        ("the motor draws 5 mW now", "THE MOTOR DRAWS 5 MW NOW"),
        ("İşte SINIR burada, ılık", "İşte sinir burada, ılık"),
        ("five of 5 mW here", "five of 5 ㎿ here"),
        ("run cp -r here", "run cp –R here"),
        ("a pump for us, the makers", "a pump for US, the makers"),
    ],
)
def test_traps(text: str, quote: str) -> None:
    """Each is one that slipped, or might."""
    assert check(quote, text).verdict == "not_found"


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("In 2019 a pump failed", "in 2019 a pump failed"),
        ("a pump failed in May", "A pump failed in May"),
        ("may be opened by us", "May be opened by us"),
        ("post-COVID rules apply here", "Post-COVID rules apply here"),
        ("The Content-Type of X-Ray", "THE CONTENT-TYPE OF X-RAY"),
        ("The Content-Type of it", "the content-type of it"),
        ("NO ENTRY TO STAFF and guests", "No entry to staff and guests"),
        ("WARNING: NO US ENTRY", "Warning: no US entry"),
        ("the rule. a pump failed", "The rule. A pump failed"),
        ("THIS IS A HEADING and more", "This is a heading and more"),
        ("𝐛𝐨𝐥𝐝 words and 𝑥 is 3", "bold words and x is 3"),
        ("the width ℎ of 𝑛 lines", "the width h of n lines"),
        ("DER FUSS UND DIE STRASSE", "der Fuß und die Straße"),
        ("İSTANBUL ve IŞIK", "İstanbul ve ışık"),
    ],
)
def test_neighbours(text: str, quote: str) -> None:
    """The first letter of a quote or a sentence, a heading in capitals, words in bold, a variable in italics."""
    assert check(quote, text).verdict == "normalised"


VARIABLES = [
    ("where n is the count and N the sum", "N is the count and N the sum"),
    ("where n is the count and N the sum", "[N] is the count and N the sum"),
    ("where n is the count and N the sum", "where [N] is the count and N the sum"),
    ("where n is the count and N the sum", "N is the count"),
    ("N is the count and n the sum of it", "n is the count and n the sum of it"),
    ("price m is in EUR; M is the mass.", "M is in EUR"),
    ("price m is in EUR; M is the mass.", "m is the mass"),
    ("the sum is k. K is the count of it", "k is the count of it"),
    ("the x axis of the plot is here", "X axis of the plot is here"),
    ("the T cell of the mouse is here", "t cell of the mouse is here"),
    ("let v be the speed of the wheel", "V be the speed of the wheel"),
    ("sei n die Zahl der Räder und das", "N die Zahl der Räder und das"),
    ("où n est le nombre de roues du moulin", "N est le nombre de roues du moulin"),
    ("donde n es el número de la rueda y de", "N es el número de la rueda y de"),
    ("где x это число колёс, и оно мало", "X это число колёс, и оно мало"),
    ("όπου n είναι ο αριθμός των τροχών", "N είναι ο αριθμός των τροχών"),
    ("gdzie n to liczba kół tego młyna", "N to liczba kół tego młyna"),
    ("ahol n az a szám, amely az adott", "N az a szám, amely az adott"),
    ("the s of the wheel is the space of it", "S of the wheel is the space of it"),
]
ONE_LETTER_WORDS = [
    ("so a pump of the mill failed", "A pump of the mill failed"),
    ("A pump of the mill failed", "a pump of the mill failed"),
    ("and then I said it to them", "i said it to them"),
    ("la bomba y la rueda del molino", "Y la rueda del molino"),
    ("la pompa e le ruote del mulino", "E le ruote del mulino"),
    ("disse que o moinho da serra", "O moinho da serra"),
    ("il va à la ville et au moulin", "À la ville et au moulin"),
    ("насос и колесо в этом доме", "И колесо в этом доме"),
    ("насос и колесо в этом доме", "В этом доме"),
    ("η αντλία και ο τροχός του μύλου", "Ο τροχός του μύλου"),
    ("pompa i koło są w tym domu", "I koło są w tym domu"),
    ("čerpadlo a kolo jsou v tom domě", "V tom domě"),
    ("azt mondta a malom ura az este", "A malom ura az este"),
    ("насос і колесо в цьому домі", "І колесо в цьому домі"),
    ("pumpen og hjulet i det huset", "I det huset"),
]


@pytest.mark.parametrize(("text", "quote"), VARIABLES)
def test_a_variable_at_the_beginning(text: str, quote: str) -> None:
    """The case of a single letter is its meaning where a quote or a sentence begins, and in brackets, too."""
    assert check(quote, text).verdict == "not_found"


@pytest.mark.parametrize(("text", "quote"), ONE_LETTER_WORDS)
def test_a_word_of_one_letter_at_the_beginning(text: str, quote: str) -> None:
    """It may begin a sentence of the writer's."""
    assert check(quote, text).verdict == "normalised"


def test_an_article_in_brackets() -> None:
    """As a writer begins a sentence with it."""
    text = "so a pump of the mill failed in the night"
    finding = check("[A] pump of the mill failed in the night", text)
    assert finding.verdict == "elided"


def test_the_texts_are_as_many_as_the_classes_need() -> None:
    """Texts of twenty kinds and eight languages at least."""
    assert len(TEXTS) >= 20
    assert len({text.language for text in TEXTS}) >= 8
