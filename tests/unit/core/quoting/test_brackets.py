"""Insertions in brackets that a quote may have: pronouns, articles, inflections, the chunk's names; nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import (
    PROSE,
    TEXTS,
    Made,
    Rule,
    Text,
    accepted,
    cases,
    check,
    is_broad,
    plant,
    refused,
)

from worker.core.citations.quoting.limits import counts, denies
from worker.core.citations.quoting.word_lists import word_lists

if TYPE_CHECKING:
    import random

# Tried by an attacker: words that deny, limit or count; and any others that the chunk does not have.
ENGLISH = """
not no never none neither nor nothing nobody nowhere cannot without except unless hardly barely scarcely rarely seldom
lacking absent denied refused rejected prohibited forbidden banned prevented impossible unable invalid illegal unlawful
unsafe untrue false wrong incorrect disallowed may might must shall should could would ought need required allowed
permitted if perhaps possibly probably likely unlikely maybe allegedly apparently supposedly reportedly presumably
about roughly approximately almost nearly virtually some most all every each any both either several many few fewer
much more less least half always ever mostly partly partially generally usually often sometimes occasionally frequently
typically largely mainly only merely solely just exclusively strictly maximum minimum limited exceeding above below
beyond within until entirely wholly fully completely totally exactly precisely once twice double triple first second
third single sole couple pair dozen percent hundred thousand
"""
GERMAN = """
nicht nichts kein keine nie niemals niemand nirgends ohne außer weder kaum selten keinesfalls unmöglich ungültig falsch
verboten untersagt nur darf soll muss kann könnte vielleicht wahrscheinlich möglicherweise angeblich etwa ungefähr fast
nahezu einige manche mehrere viele wenige mehr weniger alle jeder beide immer oft manchmal teilweise höchstens
mindestens lediglich ausschließlich maximal falls sofern genau völlig erlaubt halb doppelt einmal dutzend erste
"""
OTHERS = {
    "French": "jamais sans aucun peut doit seulement peut-être environ presque toujours souvent tous moins interdit",
    "Spanish": "nunca sin ningún puede debe solo quizás casi siempre todos menos primero prohibido máximo apenas",
    "Italian": "mai senza nessun può deve soltanto forse circa sempre tutti meno primo vietato massimo quasi",
    "Portuguese": "nunca sem nenhum pode deve apenas talvez quase sempre todos menos primeiro proibido máximo",
    "Dutch": "nooit zonder geen mag moet slechts misschien ongeveer altijd alle minder eerste verboden bijna",
    "Swedish": "aldrig utan ingen får måste endast kanske ungefär alltid alla mindre första förbjudet högst nästan",
    "Polish": "nigdy bez żaden może musi tylko prawdopodobnie około zawsze wszyscy mniej pierwszy zabroniony",
    "Czech": "nikdy bez žádný může musí pouze možná téměř vždy všichni méně první zakázáno maximálně několik",
    "Russian": "никогда без никакой может должен только возможно почти всегда все менее первый запрещено максимум",
    "Turkish": "asla değil hiçbir olabilir gerekli yalnızca belki yaklaşık daima bütün daha birinci yasak azami bazen",
    "Greek": "ποτέ χωρίς κανένα μπορεί πρέπει μόνο ίσως περίπου πάντα όλοι λιγότερο πρώτος απαγορεύεται σχεδόν σπάνια",
    "Hebrew": "לא בלי אף עשוי חייב רק אולי כמעט תמיד כל פחות ראשון אסור לפחות לפעמים",
    "Arabic": "أبدا بدون ليس يجوز يجب فقط ربما تقريبا دائما كل أقل أول ممنوع أكثر أحيانا",
    "Hindi": "कभी बिना नहीं सकता चाहिए केवल शायद लगभग हमेशा सभी कम पहला वर्जित अधिकतम अक्सर",
    "Chinese": "不 没有 未 可能 必须 只 也许 大约 全部 至少 超过 禁止 第一 两 半",
    "Japanese": "ない なく ません 可能 必ず だけ おそらく ほぼ 全て 以上 未満 禁止 半 約 常に",
    "Korean": "않 없 못 아마 반드시 뿐 거의 모든 항상 이상 미만 금지 하나 절반 최대",
    "Thai": "ไม่ ห้าม อาจ ต้อง เพียง ประมาณ เกือบ ทุก เสมอ เกิน หนึ่ง สอง ครึ่ง แรก น้อย",
    "Vietnamese": "không chẳng chưa chỉ phải nên khoảng gần luôn mọi ít hai cấm nửa tối",
}
ANYTHING = (
    "safely dangerous cheap nuclear Berlin Zyx slowly bought sells red tomorrow happily toxic competitor glücklich"
)
ANYTHING += " heureux barato pericoloso gevaarlijk опасный tehlikeli επικίνδυνος 危险 危険 위험 อันตราย nguy מסוכן خطير"


def words_of(language: str) -> list[str]:
    own = {"English": ENGLISH, "German": GERMAN, **OTHERS}.get(language, ENGLISH)
    return own.split() + ENGLISH.split()[:20]


def passage(rng: random.Random, text: Text) -> tuple[str, str, str]:
    """Words before, a word, words after: no number or bracket beside any, no sign cut from its number."""
    words = list(re.finditer(r"(?<!\S)[^\W\d_]{2,}(?!\S)", text.text))
    word = rng.choice(words[2:-2] if len(words) > 8 else [re.search(r"\w{2}", text.text)])
    start = max(0, text.text.rfind(" ", 0, max(0, word.start() - 40)) + 1)
    while text.text[:start].rstrip()[-1:] in {*"<>≤≥≈≠"}:
        start = text.text.rfind(" ", 0, len(text.text[:start].rstrip())) + 1
    stop = text.text.find(" ", word.end() + 40)
    return text.text[start : word.start()], word[0], text.text[word.end() : stop if stop > 0 else len(text.text)]


def put_in(words: str | None, how: str) -> Rule:
    """A rule that puts a word in brackets between words, for one, before or after them."""

    def rule(rng: random.Random, text: Text) -> Made | None:
        before, word, after = passage(rng, text)
        new = rng.choice(words.split() if words else words_of(text.language))
        if new.casefold() in re.split(r"\W+", text.text.casefold()) or new.casefold() in text.text.casefold():
            return None
        quote = {
            "between": f"{before}{word} [{new}]{after}",
            "for": f"{before}[{new}]{after}",
            "before": f"[{new}] {word}{after}",
            "after": f"{before}{word} [{new}]",
        }[how]
        return Made(quote, text.text)

    return rule


@pytest.mark.parametrize("how", ["between", "for", "before", "after"])
@pytest.mark.parametrize("words", [None, ANYTHING], ids=["limits", "anything"])
def test_nothing_else_is_put_in(words: str | None, how: str) -> None:
    """A denial, a limit, a number, or any other word that the chunk does not have, within a quote and at its edges."""
    made = cases(put_in(words, how))
    assert is_broad(made)
    assert accepted(made) == []


PRONOUNS = {
    "English": "she he they it them her him his their its",
    "German": "er sie es ihn ihm ihr sein",
    "French": "elle il elles lui",
    "Spanish": "ella él ellos",
    "Italian": "lei lui loro esso",
    "Portuguese": "ela ele eles",
    "Dutch": "zij hij ze hem",
    "Swedish": "hon han de den",
    "Polish": "ona on oni ją jej",
    "Czech": "ona on oni ho ji",
    "Russian": "она он они его её",
    "Turkish": "o onun onlar",
    "Vietnamese": "nó họ",
    "Korean": "그녀는 그는 그들은",
    "Danish": "hun han de den",
    "Norwegian": "hun han de den",
    "Finnish": "hän se he sitä",
}


def name_for_pronoun(rng: random.Random, text: Text) -> Made | None:
    """Say who or what a pronoun means, by a name that the text has."""
    words = "|".join(PRONOUNS[text.language].split())
    places = list(re.finditer(rf"(?<!\S)(?:{words})(?!\S)", text.text))
    if not places or not text.names:
        return None
    place = rng.choice(places)
    start = max(0, text.text.rfind(" ", 0, max(0, place.start() - rng.randint(5, 40))) + 1)
    stop = text.text.find(" ", place.end() + rng.randint(15, 50))
    before, after = text.text[start : place.start()], text.text[place.end() : stop if stop > 0 else len(text.text)]
    return Made(f"{before}[{rng.choice(text.names)}]{after}", text.text)


def name_added(rng: random.Random, text: Text) -> Made | None:
    """Add a name, a pronoun or an article between two words."""
    before, word, after = passage(rng, text)
    if text.language not in PRONOUNS or not text.names:
        return None
    return Made(f"{before}{word} [{rng.choice([*text.names, *PRONOUNS[text.language].split()])}]{after}", text.text)


def pronoun_for_pronoun(rng: random.Random, text: Text) -> Made | None:
    """Another pronoun, as in reported speech."""
    if text.language not in PRONOUNS:
        return None
    words = PRONOUNS[text.language].split()
    places = list(re.finditer(rf"(?<!\S)(?:{'|'.join(words)})(?!\S)", text.text))
    if not places:
        return None
    place = rng.choice(places)
    start = max(0, text.text.rfind(" ", 0, max(0, place.start() - rng.randint(20, 60))) + 1)
    stop = text.text.find(" ", place.end() + rng.randint(15, 50))
    before, after = text.text[start : place.start()], text.text[place.end() : stop if stop > 0 else len(text.text)]
    new = rng.choice([word for word in words if word != place[0]])
    return Made(f"{before}[{new}]{after}", text.text)


def note_added(rng: random.Random, text: Text) -> Made | None:
    """An editor's note after a passage."""
    before, word, after = passage(rng, text)
    return Made(f"{before}{word}{after} [{rng.choice(['emphasis added', 'sic', 'italics in original'])}]", text.text)


@pytest.mark.parametrize("rule", [name_for_pronoun, name_added, pronoun_for_pronoun, note_added])
def test_what_may_be_put_in(rule: Rule) -> None:
    """A name for a pronoun, a name or a pronoun between words, another pronoun, a note; at the edges too."""
    made = cases(rule, TEXTS if rule is note_added else PROSE)
    assert is_broad(made)
    assert len(refused(made)) <= 0.005 * len(made), refused(made)


INFLECTED = [
    ("the pump walks on", "walks", ["walk[ed]", "[walked]", "walk[ing]"]),
    ("she is here now", "is", ["[was]", "[were]"]),
    ("they have the keys", "have", ["[had]", "[has]"]),
    ("the pumps of it", "pumps", ["pump[ing]", "[pump]"]),
]


@pytest.mark.parametrize(("phrase", "word", "forms"), INFLECTED)
def test_an_inflection_is_put_in(phrase: str, word: str, forms: list[str]) -> None:
    """Another form of the chunk's own word."""
    text = f"It was said in the report of the year that {phrase} as before."
    for form in forms:
        quote = f"in the report of the year that {phrase.replace(word, form)} as before"
        assert check(quote, text).verdict == "elided", quote


@pytest.mark.parametrize(
    "quote",
    [
        "[Greta Oduya] opened the east gate at dawn",
        "Mara Lindholm opened the [west] gate at dawn",
        "and told [Greta Oduya] that it would not close",
        "[He] would not close again",
        "[they] would not close again. He asked her",
        "whether the pilot boats were [never] ready",
        "[ready] at dawn",
        "said that she had [always] seen a well-kept log",
    ],
)
def test_traps(quote: str) -> None:
    """A name does not stand for another name, nor anything for a denial beside it."""
    text = PROSE[0].text.replace("told the harbour master that it would", "told the harbour master that nobody would")
    finding = check(quote, text)
    assert finding.verdict == "not_found", finding


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("Elle a fermé la vanne avant la crue dans la ville.", "Elle [ne] a fermé la vanne avant la crue"),
        ("La pompe a été ouverte au printemps par le maire.", "La pompe a [ne] été ouverte au printemps"),
        ("La bomba de la casa arranca con la válvula abierta.", "La bomba de la casa [dos] arranca con la válvula"),
        ("Pumpen i det gamle hus starter når ventilen er åben.", "Pumpen i det gamle hus [to] starter når ventilen"),
        ("Pumpa i det gamle huset starter når ventilen er åpen.", "Pumpa i det gamle huset [ti] starter når ventilen"),
        ("Eski evdeki pompa bugün vana açıkken güvenli olur.", "Eski evdeki pompa bugün [on] vana açıkken güvenli"),
    ],
)
def test_a_pronoun_of_another_language_that_counts_here(text: str, quote: str) -> None:
    """Whether its language can be told or not, a word that denies or counts in it is not put in."""
    assert check(quote, text).verdict == "not_found"


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("La vecchia pompa della casa è sua e lui la usa.", "La vecchia pompa della casa [ne] è sua e lui"),
        ("A bomba da casa é dos homens que ele viu no porto.", "A bomba da casa é [dos] homens que ele viu"),
        ("Stara pompa jest w domu i ona działa w tej dolinie.", "Stara pompa jest w domu i [to] działa w tej"),
        ("The miller saw Mara Lind at dawn by the river.", "The miller saw [her] at dawn by the river"),
    ],
)
def test_a_pronoun_that_counts_in_another_language(text: str, quote: str) -> None:
    """In a text of its own language it is one."""
    assert check(quote, text).verdict == "elided"


# A number, a sign or a month, which no pronoun stands for.
REPLACED = ["5", "7", "½", "№5", "Ⅳ", "≥", "±", "–", "+", "&", "%", "☠", "May", "the 5", "5 the", "×", "√", "°"]


def counted_replaced(rng: random.Random, text: Text) -> Made:
    """Brackets with a pronoun or an article, or with a sign beside one, for what is no word of the chunk's."""
    replaced, new = rng.choice(REPLACED), rng.choice(["it", "the", "his", "she", "them", "the ≥", "it ±"])
    chunk, before, after = plant(rng, text, f"saw in the house {replaced} of the men there")
    return Made(f"{before}saw in the house [{new}] of the men there{after}", chunk)


def sign_put_in(rng: random.Random, text: Text) -> Made:
    """A sign in brackets, with a pronoun or an article, where the chunk has nothing."""
    new = rng.choice(["the", "it", "his"]) + rng.choice([" ≥", " ±", " √", " °", " №", " ≠", " ¬", " 5", " ½"])
    chunk, before, after = plant(rng, text, "saw in the house of the men there")
    return Made(f"{before}saw in the house [{new}] of the men there{after}", chunk)


@pytest.mark.parametrize("rule", [counted_replaced, sign_put_in])
def test_no_number_or_sign_is_put_in_or_replaced(rule: Rule) -> None:
    """A pronoun beside it does not make it a word; letters alone do."""
    made = cases(rule)
    assert is_broad(made)
    assert accepted(made) == []


# --- the word lists -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["English", "German", *OTHERS])
def test_words_that_deny_limit_or_count(name: str) -> None:
    """Every one of these is read as such, in a text of its language."""
    words = {"English": ENGLISH, "German": GERMAN, **OTHERS}[name].split()
    own = [language for language in word_lists().languages if language.name == name]
    assert [word for word in words if not denies(word, own) and not counts(word, own)] == []


ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
EINS = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn"
TEENS = {"English": f"{ONES} eighteen nineteen".split(), "German": f"{EINS} achtzehn neunzehn".split()}
TENS = {
    "English": ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"],
    "German": ["zwanzig", "dreißig", "vierzig", "fünfzig", "sechzig", "siebzig", "achtzig", "neunzig"],
    "Dutch": ["twintig", "dertig", "veertig", "vijftig", "zestig", "zeventig", "tachtig", "negentig"],
    "Swedish": ["tjugo", "trettio", "fyrtio", "femtio", "sextio", "sjuttio", "åttio", "nittio"],
    "Italian": ["vent", "trent", "quarant", "cinquant", "sessant", "settant", "ottant", "novant"],
    "Finnish": ["kaksikymmentä", "kolmekymmentä", "neljäkymmentä", "viisikymmentä", "kuusikymmentä"],
    "Hungarian": ["huszon", "harminc", "negyven", "ötven", "hatvan", "hetven", "nyolcvan", "kilencven"],
    "Danish": ["tyve", "tredive", "fyrre", "halvtreds", "tres", "halvfjerds", "firs", "halvfems"],
}
UNITS = {
    "Dutch": ["een", "twee", "drie", "vier", "vijf", "zes", "zeven", "acht", "negen"],
    "Swedish": ["ett", "två", "tre", "fyra", "fem", "sex", "sju", "åtta", "nio"],
    "Italian": ["uno", "due", "tre", "quattro", "cinque", "sei", "sette", "otto", "nove"],
    "Finnish": ["yksi", "kaksi", "kolme", "neljä", "viisi", "kuusi", "seitsemän", "kahdeksan", "yhdeksän"],
    "Hungarian": ["egy", "kettő", "három", "négy", "öt", "hat", "hét", "nyolc", "kilenc"],
    "Danish": ["en", "to", "tre", "fire", "fem", "seks", "syv", "otte", "ni"],
}


def number_words(language: str) -> list[str]:
    """Numbers up to a thousand, as one writes them in words."""
    if language == "English":
        below = (
            TEENS[language] + TENS[language] + [f"{ten}-{one}" for ten in TENS[language] for one in ONES.split()[:9]]
        )
        return below + [f"{one} hundred and {rest}" for one in ONES.split()[:9] for rest in below] + ["thousand"]
    if language == "German":
        ones = EINS.split()[:9]
        below = [*TEENS[language][1:], *TENS[language], *(f"{one}und{ten}" for ten in TENS[language] for one in ones)]
        return below + [f"{one}hundert{rest}" for one in ones for rest in below] + ["tausend"]
    join = {"Dutch": "{one}en{ten}", "Danish": "{one}og{ten}"}.get(language, "{ten}{one}")
    return [join.format(one=one, ten=ten) for ten in TENS[language] for one in UNITS[language]]


@pytest.mark.parametrize("language", TENS)
def test_number_words(language: str) -> None:
    """Numbers that are written together are read whole."""
    assert [word for word in number_words(language) if not counts(word)] == []


def test_the_languages_are_those_of_the_docs() -> None:
    """The page names each language that has a list."""
    from pathlib import Path

    page = (Path(__file__).parents[4] / "docs" / "quotes.md").read_text()
    assert [language.name for language in word_lists().languages if language.name not in page] == []


def test_no_pronoun_denies() -> None:
    """No word that may be inserted is, in the same language, one that denies."""
    for language in word_lists().languages:
        assert not language.common & (language.denying | language.counting), language.name
