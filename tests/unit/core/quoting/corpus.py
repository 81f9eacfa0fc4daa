"""Texts of many languages and kinds, and the tools with which generators make quotes of them.

A rule makes one quote of one text, or nothing where it finds nothing to do; `cases` takes the texts in turn until it
has as many quotes as wanted. Nothing here uses the code under test to make a quote.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from worker.core.citations.quoting import check_quote
from worker.core.citations.quoting.findings import QuotedChunk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from worker.core.citations.quoting.findings import QuoteFinding

FOUND = {"verbatim", "normalised", "elided"}
LEAST_CASES, LEAST_TEXTS, LEAST_LANGUAGES = 200, 20, 8

KINDS_OF_TEXT = {
    "legal": (
        "§ 12(3)(b) The Licensee shall not, without the prior written consent of the Licensor, "
        "assign, sub-license or otherwise transfer any right under this Agreement; provided that "
        "consent may not be unreasonably withheld. “Affiliate” means any entity holding at least "
        "50.1 % of the voting shares. Notice must be given within thirty (30) days — not business "
        "days — of the Effective Date (1 July 2021), failing which Clause 7.2 applies mutatis "
        "mutandis."
    ),
    "dosage": (
        "Adults: 2.5 mg/kg i.v. every 8–12 h, not exceeding 400 mg/day (0.4 g). Do not give more "
        "than 5 mL of the 0.9 % solution to neonates < 1.5 kg. If creatinine clearance is ≤ 30 "
        "mL/min, halve the dose; otherwise 1½ tablets b.i.d. may be continued for 10–14 days. Stop "
        "if temperature exceeds 38.5 °C or K+ falls below 3.0 mmol/L. Re-treat after 6-8 weeks; "
        "never re-use vials."
    ),
    "code": (
        "def clamp(x: float, lo: float = -1.0, hi: float = 1.0) -> float:\n    # x_min <= x <= "
        'x_max; never returns NaN\n    if x != x:\n        raise ValueError(f"not a number: '
        '{x!r}")\n    return max(lo, min(hi, x))\n\n$ grep -rn --include=\'*.py\' "clamp(" src/ | wc '
        "-l  # 42\nfor (int i = 0; i < n; i++) { a[i] += b[i-1] << 2; }"
    ),
    "maths": (
        "Let f(x) = 3x² − 2x + 1 and n ≥ 10⁵. Then |f(−1)| = 6, ∑ᵢ aᵢ ≤ 2⁻³, and x₁ + x₂ = −b/2a. "
        "With ε = 1.5 × 10⁻⁶ the error is O(n log₂ n), not O(n²); √2 ≈ 1.41421 and π ≠ 22/7. For α "
        "∈ (0, ½] we have ρ(A) < 1 and ‖A‖₂ ≤ 10^2 unless A = 0."
    ),
    "german": (
        "Die Messung vom 3. März 2024 ergab 1.234,56 € Gesamtkosten; „in Maßen“ heißt nicht „in "
        "Massen“. Groß-Gerau und Haupt- und Nebenanlagen dürfen nur bei −12,5 °C bis +40 °C "
        "betrieben werden, d. h. keinesfalls außerhalb. Der Rundfunkbeitrag beträgt 18,36 € je "
        "Wohnung, für 2. Wohnsitze entfällt er u. U. ganz."
    ),
    "turkish": (
        "Işığın hızı yaklaşık 299.792 km/sn’dir; ışık boşlukta yavaşlamaz. İstanbul’da 3 Mayıs "
        "2023’te ölçülen sıcaklık 21,5 °C idi ve sıkıntı yaşanmadı. Kılavuzda “ısıtıcı "
        "açılmamalıdır” yazıyor, ancak Iğdır’daki istasyon bunu 2 kez yaptı."
    ),
    "greek": (
        "Η θερμοκρασία δεν πρέπει να υπερβαίνει τους 38,5 °C. Ο Οδυσσέας είπε: «Οὖτις ἐμοί γ’ "
        "ὄνομα». Το 2019 καταγράφηκαν 1.204 περιστατικά, εκ των οποίων μόνο 17 (1,4 %) ήταν "
        "σοβαρά· τα υπόλοιπα αντιμετωπίστηκαν χωρίς νοσηλεία."
    ),
    "arabic": (
        "لا يجوز استخدام الجهاز في درجة حرارة تزيد على ٤٠ درجة مئوية. بلغت التكلفة 1,250 ريالًا في "
        "عام ٢٠٢٣، ولم تُسجَّل أي أعطال خلال 12 شهرًا من التشغيل المتواصل في المحطة الشمالية."
    ),
    "chinese": (
        "本设备不得在超过40摄氏度的环境中使用。二〇二三年共记录一百二十五次故障，其中只有三次（2.4%）与电源有关。操作人员应"
        "每隔6小时检查一次，并将结果写入日志；未经许可，任何人不得打开机箱。"
    ),
    "japanese": (
        "この装置は摂氏40度を超える環境では使用しないでください。2023年には125件の故障が記録され、そのうち電源に関するも"
        "のは3件だけでした。操作者は６時間ごとに点検し、結果をログに記入する必要があります。"
    ),
    "thai": (
        "ห้ามใช้อุปกรณ์นี้ในอุณหภูมิสูงกว่า 40 องศาเซลเซียส ในปี 2566 มีการบันทึกข้อขัดข้อง 125 ครั้ง ซึ่งมีเพียง 3 ครั้งที่เกี่ยวข้องกับแหล่งจ่ายไฟ"
    ),
    "russian": (
        "Прибор не следует использовать при температуре выше 40 °C. В 2023 году зафиксировано 125 "
        "отказов, из них только 3 (2,4 %) связаны с питанием; всё остальное — ошибки операторов. "
        "Ёмкость конденсатора должна быть не менее 470 мкФ."
    ),
    "french": (
        "L’appareil ne doit pas être utilisé au-delà de 40 °C ; on a relevé 1 250 pannes en 2023, "
        "dont « trois seulement » liées à l’alimentation. Vingt-deux opérateurs — c’est-à-dire "
        "presque tous — l’ont confirmé le 1er août. Œuvres complètes, t. IV, p. 12-15."
    ),
    "hebrew": (
        "אין להשתמש במכשיר בטמפרטורה העולה על 40 מעלות. בשנת 2023 נרשמו 125 תקלות, מתוכן רק 3 "
        "קשורות לאספקת החשמל; דו״ח מפורט יפורסם ע״י צה״ל."
    ),
    "science": (
        "The CO₂ flux was (−0.45 ± 0.12) µmol m⁻² s⁻¹, and the ¹⁴C age 2,310 ± 35 yr BP. "
        "α-Synuclein bound with K_d = 5 nM, whereas β-synuclein did not (p > 0.05; n = 12). We "
        "used 1 mW at 532 nm rather than 1 MW pulses; 10 Mb of sequence, not 10 MB of storage, was "
        "kept."
    ),
    "finance": (
        "Revenue rose 3.5% to $1.25bn (2022: $1.21bn), while net debt fell by €40–45m; EBITDA was "
        "(12.3)m. Guidance of 5–7 % growth is unchanged, but the Q4 dividend of £0.085/share may "
        "be cut. Sterling at $1.2745 ± 0.002. Up to 1,000,000 shares, i.e. <0.5% of capital, were "
        "bought back @ 98p."
    ),
}


class Text(NamedTuple):
    """A text, what language it is in, and names of people and things that it speaks of."""

    name: str
    language: str
    text: str
    names: tuple[str, ...] = ()


_IN_ENGLISH = {"legal", "dosage", "code", "maths", "science", "finance"}

PROSE = [
    Text(
        "harbour",
        "English",
        "Mara Lindholm opened the east gate at dawn — she had done so for years — and told the harbour master that it "
        "would not close again. He asked her whether the pilot boats were ready; they were, but their crews had gone "
        "home.\n\nThe harbour master wrote this down in his log. Later that week he sent it to Greta Oduya, who said "
        "that she had never seen a well-kept log like it.",
        ("Mara Lindholm", "the harbour master", "Greta Oduya"),
    ),
    Text(
        "studio",
        "English",
        "The tape machine runs at 15 ips and draws 80 mA while it is idle. Its owner, Tobias Renn, cleans the heads "
        "every day: he says that they collect dust within 20 hours. Never lift the lid (it is heavy) before the reels "
        "have stopped.\nThe engineers keep *blue-dot* reels in the `vault/` room, because those may not be baked at "
        "the low setting. See [the manual](https://example.org/manual) for more.",
        ("Tobias Renn", "the tape machine", "the engineers"),
    ),
    Text(
        "letter",
        "English",
        "Dear Ms Okafor, we thank you for your letter of 4 March. Our surveyors visited the mill twice — once in rain, "
        "once in frost — and they found its roof in good order. You asked us about the wheel; it turns, but it must "
        "not be driven by more than one stream.\n\nThey also left a note for the miller, Peter Crane, who keeps the "
        "keys. He may lend them to your workers if they ask.",
        ("Ms Okafor", "Peter Crane", "the miller", "the mill"),
    ),
    Text(
        "manual",
        "English",
        "To copy a folder, run `cp -r source target`; it keeps nothing but the files. With `tar -xzf archive.tgz` the "
        "files are unpacked where you are, and `ls -lA` shows them. The variable `maxRetries` is read once; "
        "`API_KEY` is not logged, nor is the key aB3dE9xQ. Unless you set `umask 022`, they belong to the user who "
        "called it. The daemon forks when it starts: its children keep the old limits.",
        ("the variable", "the daemon"),
    ),
    Text(
        "manual in German",
        "German",
        "Der Regler ist in Maßen belastbar; er darf höchstens 20 mA liefern. Die Buße beträgt 40 €, und sie wird nicht "
        "erlassen. Wer ihn öffnet, verliert die Garantie — so steht es im Vertrag — und haftet selbst.\n\nAnna "
        "Weißkopf prüfte das Gerät im März. Sie fand keinen Fehler, doch der Meister wollte es noch einmal sehen. Er "
        "schrieb ihr, dass die Masse des Kerns 12 kg beträgt und dass man sie nur zu zweit heben soll.",
        ("Anna Weißkopf", "der Meister", "das Gerät"),
    ),
    Text(
        "story in German",
        "German",
        "Am Fluß stand eine alte Mühle, und sie gehörte dem Müller Jakob Rauschenbach. Er hatte drei Söhne, aber kein "
        "Geld; darum mußte er seinen Esel verkaufen. „Das ist schade“, sagte der jüngste, „denn er trägt mehr als "
        "wir.“ Sein Bruder lachte — er lachte immer — und ging in die Stadt.\n\nDort traf er eine Händlerin, die ihm "
        "zehn Münzen gab. Man weiß nicht, was sie mit dem Tier vorhatte.",
        ("Jakob Rauschenbach", "eine Händlerin", "dem Müller"),
    ),
    Text(
        "letter in French",
        "French",
        "Claire Dumont a visité le moulin deux fois — une fois sous la pluie — et elle a trouvé le toit en bon état. "
        "Le meunier lui a dit qu’il ne faut jamais ouvrir la vanne avant midi. Il garde les clés ; elles ouvrent "
        "peut-être aussi la grange.\n\nElle a noté que la roue pèse 250 kg et que les ouvriers peuvent la démonter "
        "sans outil. Ils l’ont fait en 20 min, mais seulement par temps sec.",
        ("Claire Dumont", "le meunier", "les ouvriers"),
    ),
    Text(
        "report in Spanish",
        "Spanish",
        "Lucía Herrera revisó la bomba el 3 de mayo y dijo que ella no la había encendido. El ingeniero anotó una "
        "presión de 12 kPa; él no recomienda subirla sin permiso. Los técnicos llegaron tarde — nadie los llamó — y "
        "ellos cerraron la válvula.\n\nLa bomba consume 40 mW en reposo. Si se calienta, puede que su eje se doble, y "
        "entonces solo el ingeniero puede abrirla.",
        ("Lucía Herrera", "el ingeniero", "los técnicos"),
    ),
    Text(
        "report in Italian",
        "Italian",
        "Giulia Ferrante controllò il forno e disse che esso non era sicuro. Il custode le mostrò le chiavi; lui le "
        "tiene in una scatola che pesa 3 kg. Gli operai arrivarono alle otto — loro abitano lontano — e aprirono la "
        "porta senza chiedere.\n\nIl forno consuma 25 MJ ogni giorno. Secondo lei si può ripararlo, ma soltanto se "
        "qualcuno trova i pezzi. Il custode non li ha mai visti.",
        ("Giulia Ferrante", "il custode", "gli operai"),
    ),
    Text(
        "report in Portuguese",
        "Portuguese",
        "Teresa Vilaça abriu a comporta ao amanhecer e disse que ela não fecharia mais. O guarda anotou tudo no livro; "
        "ele escreve devagar, mas não esquece nada. Os barqueiros esperaram 20 min — eles tinham pressa — e depois "
        "partiram sem pagar.\n\nA comporta pesa 800 kg e só pode ser movida com água alta. Talvez o guarda peça ajuda, "
        "se a encontrar.",
        ("Teresa Vilaça", "o guarda", "os barqueiros"),
    ),
    Text(
        "report in Dutch",
        "Dutch",
        "Saskia de Boer opende de sluis om zes uur en zei dat zij hem niet meer zou sluiten. De wachter schreef het in "
        "zijn boek; hij vergeet nooit iets. De schippers wachtten 20 min — ze hadden haast — en voeren daarna weg "
        "zonder te betalen.\n\nDe sluis weegt 800 kg en mag alleen bij hoog water worden bewogen. Misschien vraagt de "
        "wachter om hulp, als hij die vindt.",
        ("Saskia de Boer", "de wachter", "de schippers"),
    ),
    Text(
        "report in Polish",
        "Polish",
        "Agata Nowicka sprawdziła pompę i powiedziała, że ona nie jest bezpieczna. Strażnik zapisał to w swojej "
        "książce; on nigdy niczego nie zapomina. Robotnicy czekali 20 min — oni mieszkają daleko — i poszli do domu "
        "bez pieniędzy.\n\nPompa waży 80 kg i może być otwarta tylko zimą. Jeśli się zagrzeje, trzeba ją wyłączyć, a "
        "potem jej nie dotykać.",
        ("Agata Nowicka", "Strażnik", "Robotnicy"),
    ),
    Text(
        "report in Swedish",
        "Swedish",
        "Ingrid Sjöholm öppnade slussen klockan sex och sade att hon inte skulle stänga den igen. Vakten skrev det i "
        "sin bok; han glömmer aldrig något. Båtarna väntade i 20 min — de hade bråttom — och for sedan utan att "
        "betala.\n\nSlussen väger 800 kg och får bara röras vid högvatten. Kanske ber vakten om hjälp, om han hittar "
        "någon. Den som öppnar den ensam kan skada sig.",
        ("Ingrid Sjöholm", "Vakten"),
    ),
    Text(
        "report in Russian",
        "Russian",
        "Анна Белова открыла шлюз на рассвете и сказала, что она не закроет его снова. Сторож записал это в свою "
        "книгу; он никогда ничего не забывает. Лодочники ждали 20 минут — они спешили — и уплыли, не заплатив.\n\n"
        "Шлюз весит 800 кг, и его можно двигать только при высокой воде. Возможно, сторож попросит о помощи, если он "
        "её найдёт.",
        ("Анна Белова", "Сторож", "Лодочники"),
    ),
    Text(
        "report in Turkish",
        "Turkish",
        "Ayşe Yıldırım kapağı sabah açtı ve onun bir daha kapanmayacağını söyledi. Bekçi bunu defterine yazdı; o "
        "hiçbir şeyi unutmaz. Kayıkçılar 20 dakika bekledi — onlar acele ediyordu — ve para vermeden gitti.\n\nKapak "
        "800 kg ağırlığındadır ve yalnızca yüksek suda kaldırılabilir. Belki bekçi yardım ister, eğer birini bulursa.",
        ("Ayşe Yıldırım", "Bekçi"),
    ),
    Text(
        "report in Korean",
        "Korean",
        "김서연은 새벽에 수문을 열었고 그녀는 다시 닫지 않겠다고 말했다. 경비원은 그것을 장부에 적었다. 그는 아무것도 "
        "잊지 않는다. 뱃사공들은 20분을 기다렸다 — 그들은 바빴다 — 그리고 돈을 내지 않고 떠났다.\n\n수문의 무게는 "
        "800 kg이며 만조 때에만 움직일 수 있다. 아마 경비원이 도움을 청할 것이다.",
        ("김서연", "경비원"),
    ),
    Text(
        "report in Vietnamese",
        "Vietnamese",
        "Nguyễn Thị Lan mở cửa cống lúc bình minh và nói rằng cô ấy sẽ không đóng nó nữa. Người gác ghi điều đó vào "
        "sổ; ông ấy chưa bao giờ quên điều gì. Những người lái đò đợi 20 phút — họ đang vội — rồi đi mà không trả "
        "tiền.\n\nCửa cống nặng 800 kg và chỉ có thể di chuyển khi nước lên.",
        ("Nguyễn Thị Lan", "Người gác"),
    ),
    Text(
        "report in Czech",
        "Czech",
        "Jana Dvořáková otevřela stavidlo za úsvitu a řekla, že ona ho už nezavře. Hlídač to zapsal do své knihy; on "
        "nikdy nic nezapomene. Lodníci čekali 20 min — oni spěchali — a odpluli bez placení.\n\nStavidlo váží 800 kg a "
        "smí se hýbat jen za vysoké vody. Možná hlídač požádá o pomoc, pokud ji najde.",
        ("Jana Dvořáková", "Hlídač"),
    ),
    Text(
        "report in Danish",
        "Danish",
        "Karen Lindgaard åbnede slusen klokken seks og sagde, at hun ikke ville lukke den igen. Vagten skrev det i sin "
        "bog; han glemmer aldrig noget. Bådene ventede i 20 min — de havde travlt — og sejlede så uden at betale.\n\n"
        "Slusen vejer 800 kg og må kun flyttes ved højvande. Måske beder vagten om hjælp, hvis han finder nogen.",
        ("Karen Lindgaard", "Vagten"),
    ),
    Text(
        "report in Norwegian",
        "Norwegian",
        "Solveig Brekke åpnet slusen klokken seks og sa at hun ikke ville stenge den igjen. Vakten skrev det i sin "
        "bok; han glemmer aldri noe. Båtene ventet i 20 min — de hadde dårlig tid — og seilte så uten å "
        "betale.\n\nSlusen veier 800 kg og kan bare flyttes ved høyvann. Kanskje ber vakten om hjelp, hvis han "
        "finner noen.",
        ("Solveig Brekke", "Vakten"),
    ),
    Text(
        "report in Finnish",
        "Finnish",
        "Aino Lehtonen avasi sulun aamulla ja sanoi, että hän ei sulje sitä enää. Vartija kirjoitti sen kirjaan; hän "
        "ei unohda mitään. Veneilijät odottivat 20 min — heillä oli kiire — ja lähtivät maksamatta.\n\nSulku painaa "
        "800 kg ja sitä voi siirtää vain korkealla vedellä. Ehkä vartija pyytää apua, jos hän löytää sen.",
        ("Aino Lehtonen", "Vartija"),
    ),
]

TEXTS = [
    *(
        Text(name, "English" if name in _IN_ENGLISH else name.capitalize(), text)
        for name, text in KINDS_OF_TEXT.items()
    ),
    *PROSE,
]


# --- making quotes ------------------------------------------------------------------------------


class Case(NamedTuple):
    """A quote, the chunk that it is said to stand in, and the text and language that it was made of."""

    quote: str
    chunk: str
    name: str
    language: str


class Made(NamedTuple):
    """A quote, and the chunk where the rule changed that as well."""

    quote: str
    chunk: str


Rule = Callable[[random.Random, Text], Made | None]


def cases(rule: Rule, texts: Iterable[Text] = (), seed: int = 17) -> list[Case]:
    """At least `LEAST_CASES` different quotes by a rule, the texts taken in turn."""
    of = list(texts) or TEXTS
    found: dict[tuple[str, str], Case] = {}
    for turn in range(200):
        for text in of:
            made = rule(random.Random(f"{seed} {turn} {text.name}"), text)
            if made:
                found.setdefault(made, Case(*made, text.name, text.language))
        if len(found) >= LEAST_CASES and turn >= 5:
            break
    return list(found.values())


def check(quote: str, text: str) -> QuoteFinding:
    """The finding for a quote in its own chunk, with no other."""
    return check_quote(quote, "own", [QuotedChunk.of("own", text)])


def accepted(made: Collection[Case]) -> list[Case]:
    """The quotes that were found."""
    return [case for case in made if check(case.quote, case.chunk).verdict in FOUND]


def refused(made: Collection[Case]) -> list[tuple[Case, QuoteFinding]]:
    """The quotes that were not found."""
    return [(case, finding) for case in made if (finding := check(case.quote, case.chunk)).verdict not in FOUND]


def is_broad(made: Collection[Case], texts: int = LEAST_TEXTS, languages: int = LEAST_LANGUAGES) -> bool:
    """Whether there are as many quotes, texts and languages as every class of quotes needs."""
    names, spoken = {case.name for case in made}, {case.language for case in made}
    return len(made) >= LEAST_CASES and len(names) >= texts and len(spoken) >= languages


class Planted(NamedTuple):
    """A text with a phrase put in, and the words around it."""

    chunk: str
    before: str
    after: str


def plant(rng: random.Random, text: Text, phrase: str) -> Planted:
    """Put a phrase between two words of a text; ``before`` and ``after`` are a few of the words around it.

    Not beside a number, a sign or a bracket, with which the phrase would be one; nor does it begin inside code, or end
    between a sign and its number.
    """
    places = [match.start() for match in re.finditer(r"(?<=[^\W\d_]{2}) (?=[^\W\d_]{2})", text.text)]
    place = rng.choice(places or [len(text.text)])
    starts = [match.end() for match in re.finditer(r"\A|\s+(?=[^\W\d_]{2})", text.text[:place])]
    start = rng.choice([place for place in starts if text.text.count("`", 0, place) % 2 == 0][-6:])
    stops = [match.start() + place for match in re.finditer(r"(?<![<>≤≥≈≠])\s|\Z", text.text[place:])]
    stop = rng.choice(stops[1:6] or stops)
    before, after = text.text[start:place] + " ", text.text[place:stop]
    return Planted(f"{text.text[:place]} {phrase}{text.text[place:]}", before, after)


def swap_planted(pairs: Collection[tuple[str, str]]) -> Rule:
    """A rule: the chunk says the first of a pair, the quote the second, with words of the text around it."""
    of = list(pairs)

    def rule(rng: random.Random, text: Text) -> Made:
        one, other = rng.choice(of)
        chunk, before, after = plant(rng, text, one)
        return Made(before + other + after, chunk)

    return rule


def both_ways(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Each pair, and each turned round."""
    return list(itertools.chain.from_iterable(((one, other), (other, one)) for one, other in pairs))
