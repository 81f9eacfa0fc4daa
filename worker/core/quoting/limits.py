"""Words that deny, limit or count: nobody may put them into a quote, nor replace them there by others.

They are read in the languages listed; numbers written in digits or signs count in every script.
"""

from __future__ import annotations

import re

from worker.core.normal_forms import normal_form


def _words(*lines: str) -> frozenset[str]:
    return frozenset(normal_form("NFC", word).casefold() for line in lines for word in line.split())


# Words of one language that are common ones of another (Italian "due", Danish "to", Turkish "on") are left out.
_DENYING = _words(
    # English, German
    "not no none never neither nor nothing nobody cannot without only except unless hardly barely rarely seldom",
    "may might must shall should can could would if perhaps possibly probably likely unlikely maybe allegedly",
    "about roughly approximately almost nearly some most all every always mostly partly",
    "nicht nichts kein keine keinen keinem keiner keines nie niemals niemand ohne nur kaum außer ausser selten etwa",
    "darf dürfen soll sollen sollte sollten muss müssen kann können könnte könnten vielleicht wahrscheinlich",
    # French, Spanish, Portuguese, Italian
    "ne pas non jamais rien personne sans aucun aucune sauf seulement peut peuvent pourrait doit doivent devrait",
    "environ presque probablement sin nunca jamás nada nadie ningún ninguna sólo excepto puede podría debe quizás",
    "quizá casi não sem nenhum nenhuma apenas talvez pode quase nessun nessuna mai senza niente nulla soltanto può",
    "forse potrebbe deve circa ni",
    # Dutch, Swedish, Danish, Norwegian, Polish, Czech
    "niet geen nooit zonder slechts alleen misschien moet inte ingen inget aldrig utan bara kanske får ikke aldri uten",
    "uden kun måske kanskje żaden nigdy bez tylko może musi není nikdy žádný pouze možná smí",
    # Turkish, Hungarian, Finnish, Vietnamese, Indonesian
    "değil yok hayır hiç asla yalnız yalnızca sadece belki olabilir nem nincs soha csak talán eivät koskaan vain ehkä",
    "không chẳng chưa tidak bukan jangan tanpa hanya mungkin boleh harus",
    # Russian, Ukrainian
    "не нет ни без никогда никто ничего нельзя только лишь кроме может могут можно должен должна должны возможно",
    "вероятно едва почти если примерно ні немає ніколи тільки лише мабуть",
    # Greek
    "δεν δε μη μην όχι ούτε ποτέ κανείς κανένα χωρίς μόνο εκτός μπορεί πρέπει ίσως πιθανώς περίπου σχεδόν αν",
    # Hebrew, Arabic, Persian
    "לא אין בלי אל מעולם ללא רק אולי עשוי עלול חייב מותר אסור כמעט אם",
    "لا لم لن ليس ليست غير بدون دون ما فقط إلا قد ربما يجب يمكن يجوز تقريبا أبدا إذا نه نیست شاید باید هرگز",
    # Hindi
    "नहीं न ना मत बिना कभी केवल सिर्फ शायद सकता सकती सकते चाहिए लगभग यदि अगर",
)
# Chinese, Japanese, Korean and Thai set no spaces around them, or endings on them.
_DENYING_PARTS = re.compile(
    "[不没沒非无無未勿别別莫否只仅僅须須必或若约約]|可能"
    "|ない|なく|なし|ません|なかった|だけ|のみ|しか(?!し)|かも|べき|おそらく|たぶん|もし"
    "|않|없|아니|못|수 있|아마|ไม่|ห้าม|เพียง|อาจ|ต้อง|เท่านั้น"
)
_NUMBERS = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen",
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion dozen",
    "hundreds thousands millions half third quarter double twice thrice once per percent",
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig fünfzig",
    "sechzig siebzig",
    "achtzig neunzig hundert tausend million millionen halb dutzend zweimal prozent",
    "zéro deux trois quatre cinq sept huit neuf dix onze douze treize quatorze quinze seize vingt trente quarante",
    "cinquante soixante cent cents mille millions milliard demi moitié",
    "cero dos tres cuatro cinco seis siete ocho nueve diez once doce veinte treinta cien ciento mil millón",
    "dois três quatro sete oito nove dez vinte metade tre quattro cinque sette otto dieci dodici venti cento mezzo",
    "twee drie vijf zeven acht negen honderd duizend två fyra åtta nio hundra tusen seks syv otte hundrede",
    "dwa trzy cztery pięć sześć siedem osiem dziewięć dziesięć sto tysiąc dva tři čtyři pět šest sedm osm devět deset",
    "sıfır iki üç dört beş altı yedi sekiz dokuz yirmi otuz yüz milyon yarım kettő három négy nyolc kilenc száz ezer",
    "yksi kaksi kolme neljä viisi kuusi kymmenen tuhat satu dua tiga empat lima enam tujuh delapan sembilan sepuluh",
    "ноль нуль один одна одно два две три четыре пять шесть семь восемь девять десять одиннадцать двенадцать двадцать",
    "тридцать сорок пятьдесят сто двести тысяча тысячи миллион миллиард половина процент процентов двух трёх",
    "дві чотири шість сім вісім тисяча мільйон",
    "μηδέν δύο δυο τρία τρεις τέσσερα τέσσερις πέντε έξι επτά εφτά οκτώ οχτώ εννέα εννιά δέκα έντεκα δώδεκα είκοσι",
    "τριάντα σαράντα πενήντα εκατό χίλια χιλιάδες εκατομμύριο μισό",
    "אפס אחד אחת שניים שתיים שני שתי שלוש שלושה ארבע ארבעה חמש חמישה שש שישה שבע שבעה שמונה תשע תשעה עשר עשרה",
    "עשרים מאה אלף מיליון חצי רבע כפול",
    "صفر واحد واحدة اثنان اثنين ثلاثة ثلاث أربعة أربع خمسة خمس ستة ست سبعة سبع ثمانية ثمان تسعة تسع عشرة عشر عشرون",
    "عشرين ثلاثون مائة مئة ألف مليون نصف ربع ضعف یک دو سه چهار پنج شش هفت هشت ده صد هزار",
    "शून्य दो तीन चार पांच पाँच छह छः सात आठ नौ दस ग्यारह बारह बीस तीस चालीस पचास सौ हज़ार हजार लाख करोड़ आधा",
)
_NUMBER_PARTS = re.compile(
    "하나|둘|셋|넷|다섯|여섯|일곱|여덟|아홉|스물|ศูนย์|หนึ่ง|สอง|สาม|สี่|ห้า|หก|เจ็ด|แปด|เก้า|สิบ|ร้อย|พัน|หมื่น|แสน|ล้าน"
    "|ひとつ|ふたつ|みっつ|半|倍|两|兩"
)

_MONTH = "May"
# Of Hebrew, Arabic and Indian words: to a regular expression they are no letters.
_MARKS = "\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
_WORD = re.compile(rf"(?:[^\W\d_]|'(?=\w)|[{_MARKS}])+")


def _words_of(text: str) -> list[str]:
    words = _WORD.findall(normal_form("NFC", text.replace("’", "'")))
    return [word.casefold() for word in words if word != _MONTH]


def denies(text: str) -> bool:
    """Whether a text denies or limits something, by the word lists above.

    >>> denies("can't"), denies("does NOT"), denies("ikke"), denies("不可"), denies("the mayor")
    (True, True, True, True, False)
    """
    if _DENYING_PARTS.search(text):
        return True
    return any(word in _DENYING or word.endswith("n't") for word in _words_of(text))


def counts(text: str) -> bool:
    """Whether a text has a number in it.

    >>> counts("ten dB"), counts("№ 5"), counts("δέκα"), counts("the mayor")
    (True, True, True, False)
    """
    if any(map(str.isnumeric, text)) or _NUMBER_PARTS.search(text):
        return True
    return any(word in _NUMBERS for word in _words_of(text))
