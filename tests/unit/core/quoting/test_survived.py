"""Honest quotes that were refused once, by class: at least 200 of each, and as many beside them that say otherwise."""

from __future__ import annotations

import itertools
import random
import re

import pytest
from tests.unit.core.quoting.corpus import (
    TEXTS,
    Case,
    Made,
    Text,
    accepted,
    both_ways,
    cases,
    is_broad,
    plant,
    refused,
    swap_planted,
)

Pair = tuple[str, str]


# --- pairs: what the chunk says, what the quote says --------------------------------------------

MARKUP = both_ways(
    [
        ("the **red** lamp", "the red lamp"),
        ("the *red* lamp is on", "the red lamp is on"),
        ("the _red_ lamp", "the red lamp"),
        ("the __Red Lamp__ is on", "the Red Lamp is on"),
        ("the __red__ lamp", "the red lamp"),
        ("the __red__ lamp", "the **red** lamp"),
        ("the _red_ lamp", "the __red__ lamp"),
        ("it is __nicht__ safe", "it is nicht safe"),
        ("it is __не__ safe", "it is не safe"),
        ("**the red lamp** is on", "the red lamp is on"),
        ("the ***red*** lamp", "the red lamp"),
        ("the **very *red* lamp**, mostly", "the very red lamp, mostly"),
        ("(*the red lamp*)", "(the red lamp)"),
        ("the “*red*” lamp", "the “red” lamp"),
        ("call `reset --hard` first", "call reset --hard first"),
        ("call `maxRetries`, then", "call maxRetries, then"),
        ("the ``a`b`` sign", "the a`b sign"),
        ("`x_1 * y_1` is the sum", "x_1 * y_1 is the sum"),
        ("see [the manual](https://example.org/a_b?c=1#d) first", "see the manual first"),
        ("see [the *long* manual](../manual.md), then", "see the long manual, then"),
        ("see [`reset`](#reset) there", "see reset there"),
        ("see <https://example.org/a> there", "see https://example.org/a there"),
        ("der **rote** Knopf", "der rote Knopf"),
        ("la *lampe rouge* du fond", "la lampe rouge du fond"),
        ("**красная** лампа горит", "красная лампа горит"),
        ("这是**重要**的规定", "这是重要的规定"),
        ("المصباح **الأحمر** هنا", "المصباح الأحمر هنا"),
        ("**not** before noon", "not before noon"),
        ("at **5 dB** or less", "at 5 dB or less"),
    ]
)
OTHER_MARKUP = [
    *both_ways(
        [
            ("about 2*3*4 lamps", "about 234 lamps"),
            ("about 2*3*4 lamps", "about 2 3 4 lamps"),
            ("the lamp a_b_c is on", "the lamp abc is on"),
            ("call f(*lamps, *rooms) first", "call f(lamps, rooms) first"),
            ("call f(*lamps, **rooms) first", "call f(lamps, rooms) first"),
            ("it is ~~not~~ safe there", "it is not safe there"),
            ("it is ~~not~~ safe there", "it is safe there"),
            ("the lamp x ** 2 ** 3 there", "the lamp x 2 3 there"),
            ("its __init__ method runs", "its init method runs"),
            ("its __dict__ and __slots__ there", "its dict and slots there"),
            ("its __name__ and __file__ there", "its **name** and _file_ there"),
            ("the __red_lamp__ is there", "the red_lamp is there"),
            ("a __FILE__ or __LINE__ there", "a FILE or LINE there"),
            ("call __red__() there", "call red() there"),
            ("the lamp.__red__ is there", "the lamp.red is there"),
            ("the `__red__` lamp", "the red lamp"),
            ("it is __not__ safe", "it is safe"),
            ("the char *lamp, *room there", "the char lamp, room there"),
            ("the lamp src/* and lib/* there", "the lamp src/ and lib/ there"),
            ("the lamps *.py and *.txt there", "the lamps .py and .txt there"),
            ("the lamp f[i](x) there", "the lamp fi there"),
            ("see [lamp](https://a.org/x) there", "see [lamp](https://b.org/x) there"),
            ("see [a lamp](https://a.org/x) there", "see [the lamp](https://a.org/x) there"),
            ("see [a lamp](https://a.org/x) there", "see the lamp there"),
            ("at **5** dB or less", "at 6 dB or less"),
            ("at **5** dB or less", "at dB or less"),
            ("**only** before noon", "before noon"),
            ("the **red** lamp", "the **green** lamp"),
            ("the `red` lamp", "the green lamp"),
            ("a non-*toxic* lamp there", "a toxic lamp there"),
            ("the lamp 5 * 3 * 2 there", "the lamp 5 3 2 there"),
            ("x=`date` runs the lamp", "x=date runs the lamp"),
        ]
    ),
]

SYMBOLS = "dB dBu mA kHz GHz MB km m mm µF °C °F mL mg mg/day kg kWh km/h % ‰ Ω kΩ ms min h rpm Pa V W Nm m² s⁻¹"
UNIT_NAMES = SYMBOLS.split()
UNITS = both_ways(
    [
        *((f"at {n} {unit} or so", f"at {n}{unit} or so") for unit in UNIT_NAMES for n in ("5", "3.5", "−12")),
        *((f"costs {sign} {n} or so", f"costs {sign}{n} or so") for sign in "€$£¥" for n in ("5", "3.50", "1,200")),
        *((f"costs {n} {sign} or so", f"costs {n}{sign} or so") for sign in "€£" for n in ("5", "3,50", "1.200")),
        ("at 40\u202f°C or so", "at 40°C or so"),
        ("at 5\u00a0dB or so", "at 5dB or so"),
        ("at 5 mCi or so", "at 5mCi or so"),
        ("at 5 Å or so", "at 5Å or so"),
        ("at 5 mEq or so", "at 5mEq or so"),
        ("at ٤٠ °C or so", "at ٤٠°C or so"),
    ]
)
OTHER_UNITS = [
    *both_ways(
        [
            *((f"at 5 {unit} or so", f"at 50{unit} or so") for unit in UNIT_NAMES),
            *((f"at 15 {unit} or so", f"at 1 5{unit} or so") for unit in UNIT_NAMES),
            *((f"at 3.5 {unit} or so", f"at 35{unit} or so") for unit in UNIT_NAMES),
            *((f"at 3.5 {unit} or so", f"at 3. 5{unit} or so") for unit in UNIT_NAMES),
            *((f"at −5 {unit} or so", f"at 5{unit} or so") for unit in UNIT_NAMES),
            ("at 5 mW or so", "at 5MW or so"),
            ("at 5 dB or so", "at 5 d B or so"),
            ("at 5 dB or so", "at 5dBu or so"),
            ("in 5 days or so", "in 5d ays or so"),
            ("in the 1990s or so", "in the 1990 s or so"),
            ("at 0x1F or so", "at 0 x1F or so"),
            ("at 2e3 or so", "at 2 e3 or so"),
            ("costs € 5 or so", "costs $5 or so"),
            ("costs 5 €6 or so", "costs 5€ 7 or so"),
            ("at 5 m 20 or so", "at 5m20 or so"),
        ]
    ),
]

WIDE = both_ways(
    [
        ("使用Python语言", "使用 Python 语言"),
        ("在2023年共有125件", "在 2023 年共有 125 件"),
        ("第3章说明API接口", "第 3 章说明 API 接口"),
        ("温度为38.5度以下", "温度为 38.5 度以下"),
        ("この装置はUSBで動く", "この装置は USB で動く"),
        ("約40度を超える環境", "約 40 度を超える環境"),
        ("比例为2.4%左右", "比例为 2.4% 左右"),
        ("使用GPU时不得关机", "使用 GPU 时不得关机"),
        ("ใช้Python3ได้ที่นี่", "ใช้ Python3 ได้ที่นี่"),
        ("전체 20분 동안 쓴다", "전체 20 분 동안 쓴다"),
    ]
)
OTHER_WIDE = both_ways(
    [
        ("使用Python语言", "使用 Py thon 语言"),
        ("在2023年共有125件", "在 20 23 年共有125件"),
        ("第3章说明API接口", "第 3 章说明 API2 接口"),
        ("温度为38.5度以下", "温度为 38 .5 度以下"),
        ("温度为38.5度以下", "温度为 385 度以下"),
        ("温度为−5度以下", "温度为 5 度以下"),
        ("他说的话是真的吗", "他说 的话是真的吗"),
        ("約40度を超える環境", "約 4 度を超える環境"),
        ("約40度を超える環境", "約 40 度を 超える環境"),
        ("使用GPU时不得关机", "使用 GPU 时得关机"),
        ("ใช้Python3ได้ที่นี่", "ใช้ Python 3 ได้ที่นี่"),
        ("ตากลมอยู่ที่นี่", "ตาก ลมอยู่ที่นี่"),
        ("사용자는 USB를 쓴다", "사 용자는 USB를 쓴다"),
    ]
)

POINTS = both_ways(
    [
        ("كَتَبَ الطَّالِبُ الدَّرْسَ", "كتب الطالب الدرس"),
        ("كَتَبَ الطالب الدرس", "كتب الطالب الدرس"),
        ("ولم تُسجَّل أي أعطال", "ولم تسجل أي أعطال"),
        ("تبلغ الكلفة ألف ريالًا", "تبلغ الكلفة ألف ريالا"),
        ("هٰذَا كِتَابٌ جَدِيدٌ", "هذا كتاب جديد"),
        ("المـحـطـة الشـمالية", "المحطة الشمالية"),
        ("الـــسلام علـيكم", "السلام عليكم"),
        ("مُحَـمَّد رسول", "محمد رسول"),
        ("عام 1445هـ في", "عام 1445ه في"),
        ("بِسْمِ اللَّهِ الرَّحْمَٰنِ", "بسم الله الرحمن"),
        ("שָׁלוֹם לְכֻלָּם", "שלום לכולם".replace("לכולם", "לכלם")),
        ("בְּרֵאשִׁית בָּרָא אֱלֹהִים", "בראשית ברא אלהים"),
        ("בְּרֵאשִׁ֖ית בָּרָ֣א", "בראשית ברא"),
        ("הַמַּכְשִׁיר הַחָדָשׁ", "המכשיר החדש"),
        ("دانِش‌آموز کِتاب", "دانش‌آموز کتاب"),
    ]
)
OTHER_POINTS = both_ways(
    [
        ("كَتَبَ الطالب الدرس", "كُتِبَ الطالب الدرس"),
        ("كتب الطالب الدرس", "كتب الطالبة الدرس"),
        ("كَتَب الطالب الدرس", "كُتب الطالب الدرس"),
        ("كُتب الطالب الدرس", "كتِب الطالب الدرس"),
        ("المدرَّس في المحطة", "المدرِّس في المحطة"),
        ("تبلغ الكلفة ألف ريالًا", "تبلغ الكلفة مئة ريالا"),
        ("أن تعمل المضخة", "ان تعمل المضخة"),
        ("في القرآن الكريم", "في القران الكريم"),
        ("على مدرسة قديمة", "على مدرسه قديمة"),
        ("من 5ـ10 أيام", "من 510 أيام"),
        ("من ٥ـ١٠ أيام", "من ٥١٠ أيام"),
        ("שָׁלוֹם לכלם", "שִׁלוֹם לכלם"),
        ("הַסֵּפֶר החדש", "הַסַּפָּר החדש"),
        ("בראשית ברא", "בראשית קרא"),
        ("résumé of it all", "resume of it all"),
        ("qu\u0307een of it all", "queen of it all"),
    ]
)

CAPITALS = both_ways(
    [
        ("une école privée est là", "UNE ECOLE PRIVEE EST LA"),
        ("École normale supérieure", "Ecole normale supérieure"),
        ("À Paris il pleut", "A Paris il pleut"),
        ("Être ou avoir, ça compte", "ETRE OU AVOIR, CA COMPTE"),
        ("le garçon naïf de Noël", "LE GARCON NAIF DE NOEL"),
        ("la Señora está aquí mañana", "LA SEÑORA ESTA AQUI MAÑANA"),
        ("Último día de reunión", "ULTIMO DIA DE REUNION"),
        ("Índice de capítulos", "Indice de capítulos"),
        ("la città è più bella", "LA CITTA E PIU BELLA"),
        ("È sempre così vicino", "E sempre così vicino"),
        ("θερμοκρασία που δεν πρέπει", "ΘΕΡΜΟΚΡΑΣΙΑ ΠΟΥ ΔΕΝ ΠΡΕΠΕΙ"),
        ("Ο Όμηρος και η Αθήνα", "Ο Ομηρος και η Αθήνα"),
        ("Ὀδυσσεὺς ὁ πολύτροπος", "ΟΔΥΣΣΕΥΣ Ο ΠΟΛΥΤΡΟΠΟΣ"),
        ("não há água na comporta", "NÃO HA AGUA NA COMPORTA"),
    ]
)
OTHER_CAPITALS = both_ways(
    [
        ("l’école privée est là", "l’ecole privée est là"),
        ("École privée normale", "Ecole privee normale"),
        ("École privée normale", "Ècole privée normale"),
        ("der große Führer über uns", "DER GROSSE FUHRER UBER UNS"),
        ("Über die Bäume hinweg", "Uber die Bäume hinweg"),
        ("la señora de mañana", "LA SENORA DE MANANA"),
        ("Östra åsen är hög", "OSTRA ASEN AR HOG"),
        ("Ångström och Öberg", "Angström och Oberg"),
        ("não há mais portões", "NAO HA MAIS PORTOES"),
        ("η θερμοκρασία δεν πρέπει", "η θερμοκρασια δεν πρεπει"),
        ("la pêche en mer", "LA PÉCHE EN MER"),
        ("Žena pije kávu ráno", "ZENA PIJE KAVU RANO"),
        ("Hídőr és kőműves kór", "Hídőr és kőműves KOR"),
        ("cô ấy sẽ không đóng nó", "CO AY SE KHONG DONG NO"),
        ("l’école privée est là", "L’ECOLE PUBLIQUE EST LA"),
    ]
)

PLANTED: dict[str, tuple[list[Pair], list[Pair]]] = {
    "markup": (MARKUP, OTHER_MARKUP),
    "units": (UNITS, OTHER_UNITS),
    "wide": (WIDE, OTHER_WIDE),
    "points": (POINTS, OTHER_POINTS),
    "capitals": (CAPITALS, OTHER_CAPITALS),
}


# In a text with letters of other languages an accent makes another letter, on capitals too.
TEXTS_FOR_ACCENTS = [text for text in TEXTS if not re.search("[ąđěğřśşž]", text.text)]


def of_all(pairs: list[Pair], texts: list[Text]) -> list[Case]:
    """Quotes of every pair, as many of each, the texts taken in turn."""
    each = 1 + 260 // len(pairs)
    made: list[Case] = []
    for turn, pair in enumerate(pairs):
        rule, turned = swap_planted([pair]), texts[turn % len(texts) :] + texts[: turn % len(texts)]
        for text in itertools.islice(itertools.cycle(turned), each):
            quote = rule(random.Random(f"{turn} {len(made)}"), text)
            made += [Case(*quote, text.name, text.language)] if quote else []
    assert is_broad(made)
    return made


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_written_otherwise_is_found(name: str) -> None:
    """The same words with or without Markdown, spaces, points and accents on capitals."""
    made = of_all(PLANTED[name][0], TEXTS_FOR_ACCENTS if name == "capitals" else TEXTS)
    assert refused(made) == []


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_said_otherwise_is_not_found(name: str) -> None:
    """Beside each of them: another number, sign, letter or word, written in the same ways."""
    made = of_all(PLANTED[name][1], TEXTS)
    assert accepted(made) == []


# --- a full stop or comma that the writer added -------------------------------------------------

STOPS = {"Chinese": "。，、", "Japanese": "。，、", "Arabic": ".،", "Hindi": "।"}


WORD_BEGINS, WORD_ENDS = r"(?<=\s)(?=[^\W\d_]{2})", r"(?<=[^\W\d_]{2})(?=[\s,;])"
WITHOUT_SPACES = {"Chinese", "Japanese", "Thai"}


def passage(rng: random.Random, text: Text) -> tuple[str, str] | None:
    """A passage that ends at a word, and what comes after it."""
    spaces = text.language not in WITHOUT_SPACES
    begin, end = (WORD_BEGINS, WORD_ENDS) if spaces else (r"(?<=[，。、；])", r"(?=[，。、；])")
    starts = [match.start() for match in re.finditer(begin, text.text)]
    start = rng.choice(starts or [0])
    ends = [match.start() for match in re.finditer(end, text.text) if start + 12 <= match.start() <= start + 150]
    if not ends:
        return None
    stop = rng.choice(ends)
    return text.text[start:stop], text.text[stop:]


def with_stop(rng: random.Random, text: Text) -> Made | None:
    """The writer's own sentence ends, or goes on, where the quote does."""
    found = passage(rng, text)
    if not found or found[1].strip()[:1] in {"?", "!"}:
        return None
    return Made(found[0] + rng.choice(STOPS.get(text.language, ".,")), text.text)


def with_stop_and_mark(rng: random.Random, text: Text) -> Made | None:
    """The same with words left out before."""
    found = passage(rng, text)
    words = found[0].split() if found else []
    kept = rng.randint(3, 5)
    if len(words) <= 2 * kept or not all(
        re.match(r"[^\W\d]{2,}[,;]?\Z", word) for word in words[:kept] + words[-kept:]
    ):
        return None
    quote = " ".join(words[:kept]) + " … " + " ".join(words[-kept:]) + rng.choice(".,")
    return Made(quote, text.text)


def with_other_end(rng: random.Random, text: Text) -> Made | None:
    """Another sign, or another word before the stop."""
    found = passage(rng, text)
    if not found:
        return None
    quote = found[0]
    ends = ["?", "!", ";", ":", "?.", " not.", "5.", ".5", "-.", "s.", "%."]
    ends = [end for end in ends if not found[1].startswith(end[:1])]
    made = rng.choice([quote + rng.choice(ends), quote[:-1] + ".", quote[1:] + "."])
    return Made(made, text.text) if made.rstrip(".") not in text.text.replace("-", " ") else None


def with_stop_for_a_question(rng: random.Random, text: Text) -> Made | None:
    """The chunk asks or exclaims, the quote states."""
    found = passage(rng, text)
    if not found:
        return None
    asked = rng.choice(["?", "!", "?!", "！", "？", "؟", "”?"])
    chunk = text.text.replace(found[0] + found[1], f"{found[0]}{asked} Ah. {found[1]}")
    return Made(found[0] + rng.choice(".,。"), chunk)


def with_stop_in_a_number(rng: random.Random, text: Text) -> Made | None:
    """The stop is the beginning of the chunk's decimals or thousands."""
    number = rng.choice(["3.5", "1,250", "0.25", "12.75", "7,5", "2.000,5", "10:30"])
    chunk, before, _ = plant(rng, text, f"about {number}")
    return Made(before + "about " + re.split("[.,:]", number)[0] + rng.choice(".,"), chunk)


# --- dots at the end ----------------------------------------------------------------------------


DOTS = [("...", "…"), ("…", "..."), ("...", " …"), (" ...", "…"), ("....", "…"), ("......", "……")]


def with_dots(rng: random.Random, text: Text) -> Made | None:
    """Three dots of the chunk are one sign in the quote, or the other way round, with or without a space before."""
    found = passage(rng, text)
    if not found:
        return None
    dots, quoted = rng.choice(DOTS)
    chunk = text.text.replace(found[0] + found[1], found[0] + dots + found[1])
    words = found[0].split(" ")
    short = " ".join(words[-rng.choice([2, 3, len(words)]) :])
    return Made(short + quoted, chunk) if len(short) > 5 and short[0].isalpha() else None


def with_dots_for_words(rng: random.Random, text: Text) -> Made | None:
    """Dots at the end excuse no other word, number or half of a word."""
    found = passage(rng, text)
    if not found or text.language in WITHOUT_SPACES:
        return None
    other = rng.choice([found[0][:-1], found[0] + " not", found[0] + "s", found[0] + " 7", found[0][1:]])
    chunk = text.text.replace(found[0] + found[1], found[0] + "..." + found[1])
    return Made(other + rng.choice(["…", " …", "..."]), chunk) if f"{other} " not in f"{chunk} " else None


# --- another place ------------------------------------------------------------------------------


def with_another_place(rng: random.Random, text: Text) -> Made | None:
    """Pairs whose first part stands in the chunk more than once, first where dots of the chunk's own follow."""
    chunk, _, _ = plant(rng, text, "the green lamp is lit ... then off again for long, and")
    chunk = f"{chunk} Later the green lamp is lit by two guards who come at night and it stays so."
    mark = rng.choice(["…", "...", " ... "])
    return Made(f"the green lamp is lit {mark} come at night and it", chunk)


def with_brackets_at_another_place(rng: random.Random, text: Text) -> Made | None:
    """Words in brackets stand for a pronoun at a later place than the first of what is before them."""
    chunk, _, _ = plant(rng, text, "and so the lamp is lit [by hand] and then")
    chunk = f"{chunk} Later the green lamp and so the lamp is lit because the harbour sleeps while the harbour rests."
    return Made(f"and so the lamp is lit {rng.choice(['...', '…', '[...]'])} the harbour sleeps while", chunk)


def with_parts_out_of_order(rng: random.Random, text: Text) -> Made | None:
    """However often a part stands there, the order counts."""
    chunk, _, _ = plant(rng, text, "the green lamp is lit and the green lamp is lit again")
    chunk = "Two guards who come at night are here. " + chunk
    return Made(f"the green lamp is {rng.choice(['…', '...', '[...]'])} who come at night are", chunk)


# --- numbers cut at the end of a line -----------------------------------------------------------

NUMBERS = [("25", "000"), ("1", "250"), ("340", "000"), ("7", "050"), ("12 500", "000"), ("٢٥", "٠٠٠")]
BREAKS = ["\n", "\r\n", " \n", "\n   ", "\u2028"]


def with_a_number_cut(rng: random.Random, text: Text) -> Made | None:
    """A quote ends or begins inside a number that goes on in the next line."""
    head, tail = rng.choice(NUMBERS)
    chunk, before, after = plant(rng, text, f"some {head}{rng.choice(BREAKS)}{tail} of them")
    cut = rng.choice([f"{before}some {head}", f"{tail} of them{after}", f"{before}some {head}."])
    return Made(rng.choice([cut, cut.upper(), cut.replace(" ", "\n")]), chunk)


def with_a_number_over_lines(rng: random.Random, text: Text) -> Made | None:
    """The whole number, in two lines or, of a chunk that has it in one, in one."""
    head, tail = rng.choice(NUMBERS)
    space = rng.choice([" ", *BREAKS])
    chunk, before, after = plant(rng, text, f"some {head}{space}{tail} of them")
    spaces = [" ", "\u00a0", *BREAKS] if space == " " else BREAKS
    return Made(f"{before}some {head}{rng.choice(spaces)}{tail} of them{after}", chunk)


# --- columns that look like one number ----------------------------------------------------------


def table(rng: random.Random, text: Text) -> list[list[str]]:
    """Rows of numbers with a name before each, one of which is no number when read as one."""
    names = re.findall(r"[^\W\d_]{3,}", text.text)[:40] or ["row"]
    numbers = [[rng.randint(100, 999) for _ in range(3)] for _ in range(rng.randint(2, 4))]
    numbers.insert(rng.randrange(len(numbers)), [rng.randint(10, 99) for _ in range(3)])
    return [[rng.choice(names), *map(str, row)] for row in numbers]


def with_columns(rng: random.Random, text: Text) -> Made | None:
    """A quote begins or ends between two columns."""
    between = rng.choice([" ", "\t", "   ", " | "])
    rows = table(rng, text)
    lines = [between.join(row) for row in rows]
    i = rng.randrange(len(rows))
    chunk = f"{text.text}\n\n" + "\n".join(lines) + "\n"
    above, below = lines[i - 1] + "\n" if i else "", "".join(lines[i + 1 : i + 2])
    quote = rng.choice([above + between.join(rows[i][:3]), between.join(rows[i][2:]) + "\n" + below])
    return Made(quote, chunk)


def with_columns_of_one(rng: random.Random, text: Text) -> Made | None:
    """Numbers below each other, one a line."""
    numbers = [str(rng.randint(100, 999)) for _ in range(6)]
    chunk = f"{text.text}\n\n" + "\n".join(numbers) + "\n"
    i = rng.randrange(1, 4)
    return Made("\n".join(numbers[i : i + 2]), chunk)


def with_columns_changed(rng: random.Random, text: Text) -> Made | None:
    """A digit more, fewer or another, or two columns exchanged."""
    rows = table(rng, text)
    between = rng.choice([" ", "\t", "   ", " | "])
    chunk = f"{text.text}\n\n" + "\n".join(between.join(row) for row in rows) + "\n"
    row = rng.choice(rows)
    changed = rng.choice([
        [row[0], row[1], row[2][:-1]],
        [row[0], row[1], row[2] + "0"],
        [row[0], row[2], row[1]],
        [row[0], row[1] + row[2]],
        [row[1][1:], row[2], row[3]],
    ])  # fmt: skip
    quote = between.join(changed)
    return Made(quote, chunk) if not re.search(rf"(?<!\w){re.escape(quote)}(?!\w)", chunk) else None


def with_a_spaced_number(rng: random.Random, text: Text) -> Made | None:
    """One number in groups of three is no table: nothing of it is cut off."""
    groups = [str(rng.randint(1, 999)), *(f"{rng.randint(0, 999):03}" for _ in range(rng.randint(1, 2)))]
    space = rng.choice([" ", "\u00a0", "\u202f", "\u2009"])
    chunk, before, after = plant(rng, text, f"some {space.join(groups)} of them")
    cut = rng.randrange(1, len(groups))
    return Made(
        rng.choice([f"{before}some {space.join(groups[:cut])}", f"{space.join(groups[cut:])} of them{after}"]), chunk
    )


RULES = {
    "a stop": (with_stop, with_other_end),
    "a stop for a question": (with_stop, with_stop_for_a_question),
    "a stop in a number": (with_stop, with_stop_in_a_number),
    "a stop after a mark": (with_stop_and_mark, with_other_end),
    "dots": (with_dots, with_dots_for_words),
    "another place": (with_another_place, with_parts_out_of_order),
    "another place beside brackets": (with_brackets_at_another_place, with_parts_out_of_order),
    "numbers over lines": (with_a_number_over_lines, with_a_number_cut),
    "columns": (with_columns, with_columns_changed),
    "columns of one": (with_columns_of_one, with_a_spaced_number),
}


@pytest.mark.parametrize("name", RULES)
def test_honest_rules(name: str) -> None:
    """Every quote by the honest rule of a class is found."""
    made = cases(RULES[name][0])
    assert is_broad(made)
    assert refused(made) == []


@pytest.mark.parametrize("name", RULES)
def test_rules_that_alter(name: str) -> None:
    """No quote by the rule beside it is found."""
    made = cases(RULES[name][1])
    assert is_broad(made)
    assert accepted(made) == []
