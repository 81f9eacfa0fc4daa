"""Text of other kinds than the sample: law, doses, code, formulas, ten scripts; and text made to be slow."""

from __future__ import annotations

import random
import unicodedata

import pytest
from tests.unit.core.quoting.corpus import KINDS_OF_TEXT as TEXTS

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk, QuoteFinding


def check(quote: str, kind: str) -> QuoteFinding:
    """A quote that claims to stand in the text of one kind, among all of them."""
    return check_quote(quote, kind, CHUNKS)


CHUNKS = [QuotedChunk.of(kind, text) for kind, text in TEXTS.items()]

HONEST = [
    ("legal", "The Licensee shall not, without the prior written consent of the Licensor, assign", "verbatim"),
    ("legal", "THE LICENSEE SHALL NOT, without the prior\nwritten consent", "normalised"),
    ("legal", '"Affiliate" means any entity holding at least 50.1 % of the vot-\ning shares', "normalised"),
    ("legal", "within thirty (30) days - not business days - of the Effective Date", "normalised"),
    ("legal", "[T]he Licensee shall not … assign, sub-license or otherwise transfer any right", "elided"),
    ("legal", "consent [of the Licensor] may not be unreasonably withheld", "elided"),
    ("dosage", "2.5 mg/kg i.v. every 8-12 h, not exceeding 400 mg/day (0.4 g)", "normalised"),
    ("dosage", "otherwise 1 1/2 tablets b.i.d. may be continued for 10–14 days", "normalised"),
    ("dosage", "Adults: 2.5 mg/kg i.v. [...] not exceeding 400 mg/day", "elided"),
    ("dosage", "Re-treat after 6–8 weeks; never re-use vials.", "normalised"),
    ("code", "def clamp(x: float, lo: float = -1.0, hi: float = 1.0) -> float:", "verbatim"),
    ("code", "raise ValueError(f“not a number: {x!r}”)", "normalised"),
    ("code", 'if x != x: raise ValueError(f"not a number: {x!r}") return max(lo, min(hi, x))', "normalised"),
    ("code", "a[i] += b[i-1] << 2;", "verbatim"),
    ("maths", "n ≥ 10⁵. Then |f(−1)| = 6", "verbatim"),
    ("maths", "f(x) = 3x² - 2x + 1 and n ≥ 10⁵", "normalised"),
    ("maths", "Let f(x) = 3x² − 2x + 1 … With ε = 1.5 × 10⁻⁶ the error", "elided"),
    ("german", "DIE MESSUNG VOM 3. MÄRZ 2024 ERGAB 1.234,56 €", "normalised"),
    ("german", '"in Maßen" heißt nicht "in Massen"', "normalised"),
    ("german", "Groß-Gerau und Haupt- und Neben-\nanlagen dürfen nur", "normalised"),
    ("german", "Der Rundfunkbeitrag beträgt […] für 2. Wohnsitze entfällt er", "elided"),
    ("turkish", "IŞIK BOŞLUKTA YAVAŞLAMAZ", "normalised"),
    ("turkish", "istanbul'da 3 mayıs 2023'te ölçülen sıcaklık 21,5 °c idi", "normalised"),
    ("turkish", "“ISITICI AÇILMAMALIDIR” yazıyor", "normalised"),
    ("greek", "Η ΘΕΡΜΟΚΡΑΣΊΑ ΔΕΝ ΠΡΈΠΕΙ ΝΑ ΥΠΕΡΒΑΊΝΕΙ", "normalised"),
    ("greek", "“Οὖτις ἐμοί γ' ὄνομα”", "normalised"),
    ("arabic", "لا يجوز استخدام الجهاز … بلغت التكلفة 1,250 ريالًا في", "elided"),
    ("arabic", "درجة حرارة تزيد على ٤٠ درجة", "verbatim"),
    ("chinese", "不得在超过40摄氏度的环境中使用", "verbatim"),
    ("chinese", "操作人员应每隔6小时\n检查一次，\n并将结果写入日志", "normalised"),
    ("chinese", "二〇二三年共记录一百二十五次故障……操作人员应每隔6小时检查一次", "elided"),
    ("japanese", "操作者は6時間ごとに点検し", "normalised"),
    ("thai", "มีการบันทึกข้อขัดข้อง 125 ครั้ง", "verbatim"),
    ("russian", "ПРИБОР НЕ СЛЕДУЕТ ИСПОЛЬЗОВАТЬ", "normalised"),
    ("russian", "Прибop нe слeдуeт испoльзoвaть", "normalised"),
    ("french", 'dont " trois seulement " liées à l\'alimentation', "normalised"),
    ("french", "on a relevé 1\u202f250 pannes en 2023", "normalised"),
    ("hebrew", "רק 3 קשורות לאספקת החשמל", "verbatim"),
    ("science", "The CO2 flux was (-0.45 ± 0.12) μmol m⁻² s⁻¹", "normalised"),
    ("science", "We used 1 mW at 532 nm rather than 1 MW pulses", "verbatim"),
    ("finance", "the Q4 dividend of £0.085/share may be cut", "verbatim"),
    ("finance", "net debt fell by €40-45m; EBITDA was (12.3)m", "normalised"),
]

ALTERED = [
    ("legal", "The Licensee shall, without the prior written consent of the Licensor, assign"),
    ("legal", "consent may be unreasonably withheld"),
    ("legal", "at least 501 % of the voting shares"),
    ("legal", "within thirty (30) days — business days — of the Effective Date"),
    ("legal", "within thirteen (30) days"),
    ("legal", "The Licensee shall not assign, sub-license or otherwise transfer any right"),
    ("legal", "The Licensee [may] without the prior written consent"),
    ("legal", "sublicense or otherwise transfer"),
    ("dosage", "25 mg/kg i.v. every 8–12 h"),
    ("dosage", "5 mg/kg i.v. every 8–12 h"),
    ("dosage", "2.5 mg i.v. every 8–12 h"),
    ("dosage", "2.5 g/kg i.v. every 8–12 h"),
    ("dosage", "every 812 h, not exceeding 400 mg/day"),
    ("dosage", "exceeding 400 mcg/day"),
    ("dosage", "otherwise 11/2 tablets b.i.d."),
    ("dosage", "otherwise ½ tablets b.i.d."),
    ("dosage", "to neonates > 1.5 kg"),
    ("dosage", "clearance is ≥ 30 mL/min"),
    ("dosage", "K falls below 3.0 mmol/L"),
    ("dosage", "Retreat after 6-8 weeks"),
    ("dosage", "Do give more than 5 mL of the 0.9 % solution"),
    ("code", "lo: float = 1.0, hi: float = 1.0"),
    ("code", "xmin <= x <= xmax"),
    ("code", "x_min < x <= x_max"),
    ("code", "if x == x:"),
    ("code", "a[i] = b[i-1] << 2;"),
    ("code", "grep -rn -include='*.py'"),
    ("maths", "f(x) = 3x2 − 2x + 1"),
    ("maths", "n ≥ 105"),
    ("maths", "Then |f(1)| = 6"),
    ("maths", "1.5 × 106 the error"),
    ("maths", "10⁻⁶ the error is"),
    ("maths", "the error is O(n log 2 n)"),
    ("maths", "For a ∈ (0, ½]"),
    ("maths", "we have p(A) < 1"),
    ("maths", "≤ 10² unless A = 0"),
    ("german", "1.23456 € Gesamtkosten"),
    ("german", "bei 12,5 °C bis +40 °C"),
    ("german", "Groß-Gerau und Haupt- oder Nebenanlagen"),
    ("german", "für 2 Wohnsitze entfällt er"),
    ("german", "keinesfalls innerhalb"),
    ("turkish", "isik boslukta yavaslamaz"),
    ("turkish", "ışik boşlukta"),
    ("turkish", "299792 km/sn"),
    ("greek", "Η θερμοκρασία πρέπει να υπερβαίνει"),
    ("greek", "1204 περιστατικά"),
    ("arabic", "يجوز لا استخدام الجهاز في درجة حرارة تزيد على"),
    ("arabic", "بلغت التكلفة 1250 ريالًا"),
    ("arabic", "تزيد على ٤ درجة مئوية"),
    ("chinese", "本设备得在超过40摄氏度的环境中使用"),
    ("chinese", "五次故障，其中只有三次"),
    ("chinese", "超过4摄氏度的环境"),
    ("chinese", "每隔60小时检查一次"),
    ("japanese", "摂氏40度を超える環境では使用してください"),
    ("russian", "Прибор следует использовать"),
    ("russian", "не менее 470 мФ"),
    ("french", "on a relevé 1250 pannes"),
    ("french", "250 pannes en 2023"),
    ("french", "deux opérateurs"),
    ("science", "(0.45 ± 0.12) µmol"),
    ("science", "We used 1 MW at 532 nm"),
    ("science", "10 MB of sequence"),
    ("science", "the 14C age 2,310"),
    ("science", "β-synuclein bound with"),
    ("finance", "Revenue rose 35% to $1.25bn"),
    ("finance", "Revenue rose 3.5% to $1.25m"),
    ("finance", "fell by €4045m"),
    ("finance", "the Q4 dividend may be cut"),
    ("finance", "5% of capital, were bought back"),
]


@pytest.mark.parametrize(("kind", "quote", "verdict"), HONEST)
def test_honest_quotes_of_other_texts(kind: str, quote: str, verdict: str) -> None:
    """Honest changes are survived in every kind of text and every script."""
    finding = check(quote, kind)
    assert finding.verdict == verdict
    if verdict == "verbatim":
        assert [TEXTS[kind][start:end] for start, end in finding.spans] == [quote]


@pytest.mark.parametrize(("kind", "quote"), ALTERED)
def test_altered_quotes_of_other_texts(kind: str, quote: str) -> None:
    """A quote that says something else is found in no kind of text, and in no other chunk."""
    assert check(quote, kind).verdict == "not_found"


@pytest.mark.parametrize("kind", TEXTS)
def test_whole_texts(kind: str) -> None:
    """A whole text is its own quote: as it is, rewrapped, decomposed; and of another chunk it is misattributed."""
    text = TEXTS[kind]
    assert check(text, kind).verdict == "verbatim"
    for changed in (text.replace(" ", "\n") + "\n", unicodedata.normalize("NFD", text) + "\n", f"\t{text}"):
        finding = check(changed, kind)
        assert finding.verdict == "normalised"
        assert finding.spans[0] == (0, len(text))
    other = next(name for name in TEXTS if name != kind)
    assert check(text, other).elsewhere == (kind,)


@pytest.mark.parametrize("kind", ["legal", "dosage", "german", "greek", "russian", "finance", "science", "turkish"])
def test_words_of_other_texts(kind: str) -> None:
    """A word lost, two words exchanged or a word doubled inside a passage is never found."""
    rng = random.Random(kind)
    words = TEXTS[kind].split()
    for _ in range(40):
        first = rng.randrange(len(words) - 8)
        passage = words[first : first + 8]
        lost = passage[:3] + passage[4:]
        swapped = [*passage[:3], passage[4], passage[3], *passage[5:]]
        doubled = passage[:4] + passage[3:]
        for altered in (lost, swapped, doubled):
            if altered != passage:
                assert check(" ".join(altered), kind).verdict == "not_found"


# --- text made to be slow -----------------------------------------------------------------------

N = 10_000
SLOW = {
    "one letter": ("a" * (N // 2), "a" * N),
    "one letter, a word of it": ("a" * (N // 2), "a" * N + " " + "a" * (N // 2)),
    "words that repeat": ("ab " * (N // 6) + "a", "ab " * (N // 3)),
    "words that repeat, in capitals": ("AB " * (N // 6) + "A", "ab " * (N // 3)),
    "hyphens that repeat": ("a-a " * (N // 8) + "aa", "a-a " * (N // 4)),
    "candidates that fail late": ("ab " * (N // 6) + "a-b", "ab " * (N // 3)),
    "ellipses": ("… " * (N // 2), "x " * (N // 2)),
    "parts": ("one two three … " * (N // 16), "one two three four " * (N // 19)),
    "parts with look-alikes": ("оne two three … " * (N // 16), "one two three four " * (N // 19)),
    "dots": (". " * (N // 2) + "one two three", "one two three"),
    "marks": ("a" + "\u0315\u0300" * (N // 2), "a" + "\u0300\u0315" * (N // 2)),
    "soft hyphens": ("\u00ad\n" * (N // 2) + "abc def", "abc def" + "\u00ad" * N),
    "white space": (" " * N + "abc  def", "abc def" + "\n" * N),
    "dashes": ("-" * N + "abc def", "a- " * (N // 3)),
    "broken words": ("a-\n" * (N // 3) + "b", "a" * (N // 3) + "b"),
    "brackets": ("[" * N, "abc [def] " * (N // 10)),
    "insertions": ("ab cd ef [b] " * (N // 13), "ab cd ef gh " * (N // 12)),
    "letters in brackets": ("a[b]" * (N // 4), "ab" * (N // 2)),
    "digits": ("1 " * (N // 2), "1 " * N + "2"),
    "signs": ("+" * N + "5 dB is", "x 5 dB is"),
    "Chinese": ("中\n" * (N // 2), "中" * N),
    "ligatures": ("k" + "㏍" * (N // 4), "㏍" * (N // 4) + "k"),
    "Greek": ("ab" + "ν" * (N // 2), "abv" * (N // 3)),
}


@pytest.mark.parametrize("name", SLOW)
def test_no_text_is_slow(name: str) -> None:
    """A search or a comparison that takes quadratic time would be noticed by anyone who runs this."""
    quote, text = SLOW[name]
    chunks = [QuotedChunk.of("own", text), QuotedChunk.of("other", text[::-1])]
    assert check_quote(quote, "own", chunks).verdict in {
        "verbatim",
        "normalised",
        "elided",
        "not_found",
        "misattributed",
    }
    assert check_quote(text, "own", chunks).verdict in {"verbatim", "not_found"}
