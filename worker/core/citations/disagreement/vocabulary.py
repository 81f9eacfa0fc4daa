"""The words that reading a sentence takes notice of, as data."""

from __future__ import annotations


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Never part of a skeleton: with and without them a sentence says the same, or negates the same.
AUXILIARIES = _words(
    "am is are was were be been do does did have has had will would shall should can could may might must cannot",
    "isn't aren't wasn't weren't don't doesn't didn't haven't hasn't hadn't won't wouldn't shan't shouldn't can't",
    "couldn't mustn't",
)
DROPPED = AUXILIARIES | _words(
    "a an the being doing done having any some all ever always yet still already",
    "also now just only currently usually normally generally typically often about around approximately approx",
    "roughly nearly almost exactly precisely probably certainly however therefore thus indeed moreover",
)
# Part of a skeleton, and in every text: they don't make two sentences alike.
FUNCTION_WORDS = _words(
    "above across after against along although among and as at because before behind below beneath beside besides",
    "between beyond both but by despite down during each either else ever every few for from he her here hers him",
    "his how i if in inside into it its itself least less like many me mine more most much my near neither next of",
    "off on once one onto or other our ours out outside over own per person place quite rather same she since so",
    "such than that their theirs them then there these they thing this those though through till to too toward",
    "towards under until up upon us very we what when where whereas whether which while who whom whose why with",
    "within yes you your yours number",
)
PRONOUNS = _words("he her his i it its my our she that their these they this those we you your")
CLAUSE_WORDS = _words("and but or while whereas although though because if since when so")
CLAUSE_SIGNS = frozenset(",;:()—")
CONNECTORS = _words("and or to through & – - ,")

# After these a single capital is no initial.
BEGINNINGS = _words("a an the if in on at no not for with from when it he she they we i you this that these those")

# What a word says of a skeleton once its negation is taken out of it; "" is nothing.
NEGATED = {
    **dict.fromkeys(_words("not never none cannot"), ""),
    "nobody": "person",
    "nothing": "thing",
    "nowhere": "place",
    "without": "with",
    "unless": "if",
    "neither": "either",
    "nor": "or",
    "needn't": "need",
    **{
        word: word[2:]
        for word in _words(
            "unable unaffected unavailable unbalanced uncertain unchanged unclear undamaged unfit unlikely unlocked",
            "unnecessary unpaid unreliable unsafe unsound unsuitable unused unusual impossible improbable inaccurate",
            "inactive incomplete incorrect insufficient invalid irregular illegal",
        )
    },
}
INDEFINITE = {
    **dict.fromkeys(_words("anybody anyone somebody someone everybody everyone"), "person"),
    **dict.fromkeys(_words("anything something everything"), "thing"),
    **dict.fromkeys(_words("anywhere somewhere everywhere"), "place"),
}
# Past forms that no ending betrays: "did not come", "came".
BASES = {
    past: base
    for pair in (
        "began begin;bought buy;broke break;brought bring;built build;came come;caught catch;chose choose;drew draw",
        "drove drive;fell fall;felt feel;found find;gave give;goes go;grew grow;held hold;kept keep;knew know",
        "led lead;lost lose;made make;meant mean;met meet;paid pay;ran run;rang ring;rose rise;said say;sang sing",
        "sent send;showed show;sold sell;spent spend;stood stand;stuck stick;swept sweep;taught teach;thought think",
        "told tell;took take;understood understand;used use;went go;won win;wore wear;wrote write",
    )
    for past, base in (words.split() for words in pair.split(";"))
}

_ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
CARDINALS = {
    **{word: n for n, word in enumerate((_ONES + " seventeen eighteen nineteen").split())},
    **{
        word: 10 * n
        for n, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2)
    },
}
MULTIPLIERS = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
ORDINALS = {
    word: n
    for n, word in enumerate(
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"], 1
    )
}
MONTHS = {
    name: n
    for n, names in enumerate(
        [
            "january jan",
            "february feb",
            "march mar",
            "april apr",
            "may",
            "june jun",
            "july jul",
            "august aug",
            "september sept sep",
            "october oct",
            "november nov",
            "december dec",
        ],
        1,
    )
    for name in names.split()
}
WEEKDAYS = {
    name: n
    for n, day in enumerate(["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"], 1)
    for name in (day, day + "s")
}
# Before a month or a year that stands alone.
DATE_LEADS = _words(
    "in since of until till from by before after during between every last next early late mid around circa year",
    "spring summer autumn fall winter",
)
YEAR_LEADS = _words("the this that my our his her their its")
# A number after one of these is part of a name.
NAMED = _words(
    "appendix article bar batch bus bay chapter channel clause exhibit figure fig flight floor gate grade group",
    "input item level line lot model no number nos output page paragraph part phase platform point port question",
    "room route rule scene section serial slot song stage step table track type unit verse version volume",
)

# A full stop after these ends no sentence.
ABBREVIATIONS = _words(
    "dr mr mrs ms prof st jr sr e.g eg i.e ie cf vs approx ca dept est ltd al resp incl viz z.b d.h u.a bzw ca",
)
# Abbreviations before a number, words elsewhere.
BEFORE_NUMBERS = _words("no nos p pp fig figs vol ch sec art eq ref jan feb mar apr jun jul aug sep sept oct nov dec")

ORDINAL_SUFFIXES = frozenset({"st", "nd", "rd", "th"})
NUMBER_WORDS = frozenset({*CARDINALS, *MULTIPLIERS, *ORDINALS, "half"})
# Perhaps part of a number or a date, or what joins two: read with what stands around it.
SPECIAL = frozenset({*NUMBER_WORDS, *MONTHS, *WEEKDAYS, *CLAUSE_WORDS, *CONNECTORS, "no"})
