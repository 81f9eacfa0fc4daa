"""Signs before numbers, paths and options, prefixes and units of scripts without spaces: they are not cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.unit.core.quoting.corpus import Made, Text, accepted, cases, check, is_broad, plant, refused
from tests.unit.growth import assert_linear

from worker.core.citations.quoting.forms import prepare

if TYPE_CHECKING:
    import random

AGE = "Age ≥ 18 years, dose < 5 mg, gain + 6 dB, x ≠ 7 here, − 5 °C"

SIGNS = [
    ("arızaların %5 oranında olduğu", "5 oranında olduğu"),
    ("كانت ٪٥ من الأعطال هنا", "٥ من الأعطال هنا"),
    ("so −x² is less than it", "x² is less than"),
    ("it is **un**safe to use it", "safe to use it"),
    ("it is (un)safe to use it", "safe to use it"),
    ("it is [un]safe to use it", "safe to use it"),
    ("it is `un`safe to use it", "safe to use it"),
    ("about **5**.5 dB of it", "about **5**"),
    ("about `5`.5 dB of it", "about `5`"),
    ("if Na+ is found in it", "if Na"),
    ("he got an A+ for it", "he got an A"),
    ("at 3 x 10⁵ Pa of it", "10⁵ Pa of it"),
    ("at 3 x 10^5 Pa of it", "10^5 Pa of it"),
    ("at 3x10⁵ Pa of it", "10⁵ Pa of it"),
    ("от 5—7 мВ до этого", "7 мВ до этого"),
    ("от 5—7 мВ до этого", "от 5"),
    ("毎日5〜7回は確認する", "7回は確認する"),
    ("a cube ∛8 of all here", "8 of all here"),
    ("it takes 5 ½ hours of it", "it takes 5"),
    ("모두 5만 원이 들었다고", "모두 5"),
    ("run if !ready && open or not", "ready && open or not"),
    ("run while (!done || late) here", "done || late) here"),
    ("so ¬p holds for all q here", "p holds for all q"),
    ("so ¬ p holds for all q here", "p holds for all q"),
    ("so q holds and ¬p does not", "so q holds and ¬"),
    *((AGE, quote) for quote in ("18 years, dose", "5 mg", "6 dB", "7 here", "5 °C", "Age ≥", "gain +")),
    ("if x != 7 of them", "7 of them"),
    ("if x != 7 of them", "= 7 of them"),
    ("if x <= 7 of them", "= 7 of them"),
    ("if x >= 7 of them", "7 of them"),
    ("if x !=7 of them", "=7 of them"),
    ("Age ≥\n18 years or more", "18 years or more"),
    ("Age ≥\r\n18 years or more", "18 years or more"),
    ("Age ≥ \r\n 18 years or more", "18 years or more"),
    ("a dose of +\r\n5 mg or so", "5 mg or so"),
    ("Age ≥\u00a018 years or more", "18 years or more"),
    ("at ≥ −5 degrees", "−5 degrees"),
    ("it costs US$5 or so", "$5 or so"),
    ("it costs US$5 or so", "5 or so"),
    ("it costs HK$12.5 or so", "$12.5 or so"),
    ("it costs > $5 or so", "$5 or so"),
    ("a dose of ± 5 mg or so", "5 mg or so"),
    ("a dose of ~ 5 mg or so", "5 mg or so"),
    ("a dose of ≈ 5 mg or so", "5 mg or so"),
    ("a dose of ≪ 5 mg or so", "5 mg or so"),
    ("a dose of ⩽ 5 mg or so", "5 mg or so"),
    ("a dose of ⩽5 mg or so", "5 mg or so"),
    ("a dose of ≦ 5 mg or so", "5 mg or so"),
    ("a dose of < .5 mg or so", ".5 mg or so"),
    ("a root of √ 5 or so", "5 or so"),
    ("bei einer Dosis < 5 mg täglich", "5 mg täglich"),
    ("à partir de ≥ 18 ans révolus", "18 ans révolus"),
    ("при дозе > 5 мг в сутки", "5 мг в сутки"),
    ("عند جرعة > ٥ ملغ يوميا", "٥ ملغ يوميا"),
    ("用量 ≤ 5 毫克每日", "5 毫克每日"),
]
NO_SIGNS = [
    ("arızaların %5 oranında olduğu", "%5 oranında olduğu"),
    ("so −x² is less than it", "−x² is less than"),
    ("so 5 − x² is less than", "x² is less than"),
    ("it is **un**safe to use it", "**un**safe to use"),
    ("这是**重要**的规定在此处", "的规定在此处"),
    ("it (the lamp)The pump here", "The pump here"),
    ("if Na+ is found in it", "if Na+"),
    ("so a + b is all here", "so a"),
    ("at 3 x 10 Pa of it all", "10 Pa of it"),
    ("от 5—7 мВ до этого", "5—7 мВ"),
    ("it was late—in 2019—for it", "in 2019"),
    ("it takes 5 ½ hours of it", "5 ½ hours"),
    ("run if !ready && open or not", "!ready && open"),
    ("so ¬p holds for all q here", "¬p holds for all q"),
    ("Stop! The lamp is on here", "The lamp is on"),
    ("Stop!The lamp is on here", "The lamp is on"),
    ("see ![red lamp](a.png) there", "red lamp"),
    *((AGE, quote) for quote in ("≥ 18 years", "< 5 mg", "+ 6 dB", "≠ 7 here", "− 5 °C", "Age", "gain", "years, dose")),
    ("so 3 + 5 is 8", "5 is 8"),
    ("it costs US$5 or so", "US$5 or so"),
    ("so x + 2 is 8", "2 is 8"),
    ("an age of 2,310 ± 35 yr", "35 yr"),
    ("an age of 2,310 ± 35 yr", "an age of 2,310 ±"),
    ("so (a) + 2 is 8", "2 is 8"),
    ("so x = 7 it is", "7 it is"),
    ("+ 5 mg twice daily", "5 mg twice daily"),
    ("a list:\n  + 5 mg twice daily", "5 mg twice daily"),
    ("> 5 mg twice daily", "5 mg twice daily"),
    ("> > 5 mg twice daily", "5 mg twice daily"),
    ("it is <b> 5 mg </b> daily", "5 mg"),
    ("a step -> 5 of them", "5 of them"),
    ("in C++ 5 of them", "5 of them"),
    ("~~old~~ 5 of them", "5 of them"),
    ("in rooms 3 - 5 of it", "5 of it"),
    ("in rooms 3 − 5 of it", "5 of it"),
    ("we had - 5 items of it", "5 items of it"),
    ("more +\n\n5 mg twice daily", "5 mg twice daily"),
]

# In full width, as in Chinese and Japanese, with white space or without.
WIDE_SIGNS = ["＜", "＞", "≦", "≧", "＜＝", "＞＝", "≤", "≥"]
WIDE_NUMBERS = ["5", "18", "2.5", "５", "-5", "18.5", "．5", "．５", "-．5"]
WIDE_ALTERED = [
    ("用量＜ 5 毫克每日", "5 毫克每日"),
    ("用量＜5 毫克每日", "5 毫克每日"),
    ("用量 ＞\u3000５ 毫克每日", "５ 毫克每日"),
    ("年齢≧ 18 歳の人", "18 歳の人"),
    ("気温は ＋5 度です", "5 度です"),
    ("費用は ＄5 です", "5 です"),
    ("濃度は 5％ です", "濃度は 5"),
    ("用量≦ ．5 毫克每日", "．5 毫克每日"),
    ("用量≦．5 毫克每日", "．5 毫克每日"),
    ("用量 ．5 毫克每日", "5 毫克每日"),
    ("気温は －．5 度です", "．5 度です"),
    ("気温は －．5 度です", "5 度です"),
    ("費用は ＄．5 です", "．5 です"),
]
WIDE_HONEST = [
    ("用量＜ 5 毫克每日", "＜ 5 毫克每日"),
    ("用量＜ 5 毫克每日", "< 5 毫克每日"),
    ("＜注意＞ 5月から開く", "5月から開く"),
    ("＜注意＞5月から開く", "5月から開く"),
    ("＞ 5 毫克每日服用", "5 毫克每日服用"),
    ("3＋ 5 は 8 です", "5 は 8 です"),
    ("濃度は 5％ です", "濃度は 5％"),
    ("用量≦ ．5 毫克每日", "≦ ．5 毫克每日"),
    ("用量 ．5 毫克每日", "．5 毫克每日"),
    ("機械を開く．5月から閉じる", "5月から閉じる"),
    ("（図１）．５月から閉じる", "５月から閉じる"),
]

NAMES = [
    ("Code: `rm -rf /tmp` and so", "rm -rf /"),
    ("Code: `rm -rf /tmp` and so", "`rm -rf /"),
    ("Code: `rm -rf /tmp` and so", "`rm -rf /`"),
    ("Code: `rm -rf /tmp` and so", "Code: rm -rf /"),
    ("Code: `rm -rf /tmp` and so", "rf /tmp"),
    ("Code: `rm -rf /tmp/x` and so", "rm -rf /tmp"),
    ("do rm -rf ~/tmp now", "rm -rf ~"),
    ("do rm -rf ~/tmp now", "rm -rf ~/"),
    ("do rm -rf ./tmp now", "rm -rf ."),
    ("do rm -rf ../tmp now", "rm -rf .."),
    ("do rm -rf src/* now", "rm -rf src/"),
    ("do rm -rf src/* now", "rm -rf src"),
    ("do rm -rf /tmp/*.log now", "rm -rf /tmp/*"),
    ("do rm *.log now", "do rm *"),
    ("do rm -rf $HOME/tmp now", "rm -rf $HOME"),
    ("do git push --force now", "force now"),
    ("do git push --force now", "-force now"),
    ("do git push --force-with-lease now", "do git push --force"),
    ("do ls --color=auto now", "do ls --color"),
    ("do cc -march=native now", "march=native now"),
    ("do cat .bashrc now", "bashrc now"),
    ("import java.util.List now", "import java.util"),
    ("import os.path now", "import os"),
    ("call json.Load(x) now", "call json"),
    ("open C:\\Users now", "open C:"),
    ("open C:\\Users now", "open C"),
    ("open C:\\Users now", "Users now"),
    ("see https://a.org/x?y=1 now", "see https://a.org/x"),
    ("see https://a.org/x?y=1 now", "see https"),
    ("see https://a.org/x?y=1 now", "a.org/x?y=1 now"),
    ("führe rm -rf /tmp jetzt aus", "führe rm -rf /"),
    ("выполните rm -rf /tmp сейчас", "выполните rm -rf /"),
    ("执行 rm -rf /tmp 命令", "执行 rm -rf /"),
]
NO_NAMES = [
    ("Code: `rm -rf /tmp` and so", "rm -rf /tmp"),
    ("Code: `rm -rf /tmp` and so", "/tmp"),  # noqa: S108 -- a quote, no file
    ("Code: `rm -rf /tmp` and so", "-rf /tmp"),
    ("Code: `rm -rf /tmp` and so", "and so"),
    ("do rm -rf src/* now", "src/* now"),
    ("do git push --force now", "git push"),
    ("do git push --force now", "--force now"),
    ("he left --the old man-- and", "the old man"),
    ("it ends.The desk hums", "The desk hums"),
    ("it ends.The desk hums", "it ends."),
    ("see https://a.org/x.", "see https://a.org/x"),
    ("see (https://a.org/x), then", "https://a.org/x"),
    ("see <https://a.org/x> then", "https://a.org/x"),
    ("for this and/or that", "and/or that"),
    ("this / or that", "or that"),
    ("in the `vault/` room", "vault/"),
    ("-Open two valves", "Open two valves"),
    ("text\n-Open two valves", "Open two valves"),
    ("cat a.txt and so", "and so"),
    ("it <b>hums</b> here", "hums"),
    ("the desk—the old one—hums", "the old one"),
]

PARTS = [
    ("未成年者は入場できません", "成年者は入場できません"),
    ("未成年者は入場できません", "未成年者は入場でき"),
    ("非公開の会議です", "公開の会議です"),
    ("無許可の工事です", "許可の工事です"),
    ("不可能な計画です", "可能な計画です"),
    ("未確認の情報です", "確認の情報です"),
    ("これは別会社の件です", "会社の件です"),
    ("水を使わずに運転する", "水を使わ"),
    ("これは安全ではない", "これは安全では"),
    ("これは安全ではない", "これは安全"),
    ("この薬は安全ではありません", "この薬は安全"),
    ("この薬は安全じゃない", "この薬は安全"),
    ("この薬は安全ではなかった", "この薬は安全"),
    ("それは事実でなく噂です", "それは事実"),
    ("毎日動かなかったのだ", "毎日動か"),
    ("約12時間です", "約12時"),
    ("重さ5キログラムです", "重さ5キロ"),
    ("約3日間です", "約3日"),
    ("非处方药可以购买", "处方药可以购买"),
    ("没有来过", "有来过"),
    ("不安全的阀门", "安全的阀门"),
    ("不\n安全的阀门", "安全的阀门"),
    ("无许可的工程", "许可的工程"),
    ("無許可的工程", "許可的工程"),
    ("未经批准的工程", "经批准的工程"),
    ("勿打开阀门", "打开阀门"),
    ("沒有來過這裡", "有來過這裡"),
    ("阀门能不能打开", "能打开"),
    ("阀门能不能打开", "不能打开"),
    ("阀门能不能打开", "阀门能"),
    ("阀门能不能打开", "阀门能不"),
    ("阀门能不\n能打开", "能打开"),
    ("这里是不是安全的", "是安全的"),
    ("这里是不是安全的", "不是安全的"),
    ("阀门有没有打开过", "没有打开过"),
    ("閥門有沒有打開過", "有打開過"),
    ("他们来不来这里工作", "不来这里工作"),
    ("他们来不来这里工作", "来这里工作"),
    ("这里可不可以打开", "可以打开"),
    ("这里可不可以打开", "不可以打开"),
    ("特别重要的规定", "别重要的规定"),
    ("区别对待的规定", "别对待的规定"),
    ("服用5毫克药物", "服用5毫"),
    ("服用5 毫克药物", "服用5 毫"),
    ("服用五毫克药物", "服用五毫"),
    ("长度12厘米左右", "长度12厘"),
    ("运行24小时左右", "运行24小"),
    ("运行24小时左右", "时左右"),
    ("温度38摄氏度以下", "温度38摄氏"),
    ("面积5平方公里左右", "面积5平方"),
    ("溫度38攝氏度以下", "溫度38攝氏"),
    ("หนัก 5 กิโลกรัมครับ", "หนัก 5 กิโล"),
    ("หนัก 5 มิลลิกรัมครับ", "หนัก 5 มิลลิ"),
]
NO_PARTS = [
    ("未成年者は入場できません", "未成年者は入場できません"),
    ("未成年者は入場できません", "未成年者"),
    ("会議は非公開です", "会議は"),
    ("非公開の会議です", "の会議です"),
    ("これは安全ではない", "これは安全ではない"),
    ("この国では安全です", "この国"),
    ("会議ではお茶が出る", "会議"),
    ("特別料金の会議です", "料金の会議です"),
    ("約12時間です", "約12時間"),
    ("約12時です", "約12時"),
    ("約12時間です", "です"),
    ("まず機械を見る", "機械を見る"),
    ("非处方药可以购买", "非处方药"),
    ("特别重要的规定", "重要的规定"),
    ("区别对待的规定", "对待的规定"),
    ("沉没船只的规定", "船只的规定"),
    ("没有来过", "没有"),
    ("本规定不适用于学生", "本规定"),
    ("本规定不适用于学生", "不适用于学生"),
    ("服用5毫克药物", "服用5毫克"),
    ("服用5毫克药物", "药物"),
    ("运行24小时左右", "24小时"),
    ("你来不来？我来", "我来"),
    ("阀门能不能打开", "能不能打开"),
    ("阀门能不能打开", "阀门能不能"),
    ("阀门能不能打开", "打开"),
    ("他们来不来这里工作", "这里工作"),
    ("这里可不可以打开", "打开"),
    ("特别重要的规定", "特别重要"),
    ("对不？好的", "好的"),
    ("หนัก 5 กิโลกรัมครับ", "หนัก 5 กิโลกรัม"),
]


@pytest.mark.parametrize(("text", "quote"), [*SIGNS, *NAMES, *PARTS])
def test_what_belongs_to_it_is_not_cut_off(text: str, quote: str) -> None:
    """Nor where the quote is normalised or its marks are set aside."""
    assert check(quote, text).verdict == "not_found"
    assert check(f"“{quote}”", text).verdict == "not_found"
    assert check(f"… {quote} …", text).verdict == "not_found"


@pytest.mark.parametrize(("text", "quote"), [*NO_SIGNS, *NO_NAMES, *NO_PARTS])
def test_what_stands_beside_it_may_be(text: str, quote: str) -> None:
    """Terms of a sum, items of a list, tags, dashes, whole words and units."""
    assert check(quote, text).verdict == "verbatim"


COMPARED = ["≥ 18", "< 5", "> 12.5", "≤ 40", "≠ 7", "± 3", "~ 5", "≈ 9", "− 5", ">= 18", "!= 7"]


def cut(rng: random.Random, text: Text) -> Made:
    """A quote begins at the number, or ends before it."""
    compared = rng.choice(COMPARED)
    chunk, before, after = plant(rng, text, f"some {compared} of them")
    sign, number = compared.split()
    return Made(rng.choice([f"{number} of them{after}", f"{before}some {sign}"]), chunk)


def whole(rng: random.Random, text: Text) -> Made:
    """A quote begins at the sign, or ends before it."""
    compared = rng.choice(COMPARED)
    chunk, before, after = plant(rng, text, f"some {compared} of them")
    return Made(rng.choice([f"{compared} of them{after}", f"{before}some", f"{before}some {compared} of"]), chunk)


def test_rules() -> None:
    """In every text, whatever its language."""
    altered, honest = cases(cut), cases(whole)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []


# Questions that ask by a verb and its denial, and words that end with the sign of a denial.
ASKED = ["能不能", "是不是", "会不会", "要不要", "该不该", "有没有", "有沒有", "會不會", "想不想", "来不来", "行不行"]
ENDED = ["特别", "分别", "個別", "識別", "沉没", "埋沒"]
FOLLOWING = ["打开这个阀门", "打開這個閥門", "在这里检查阀门", "进入这个房间"]


def word_cut(rng: random.Random, text: Text) -> Made:
    """A quote that begins or ends inside such a word."""
    word, following = rng.choice(ASKED + ENDED), rng.choice(FOLLOWING)
    chunk, before, after = plant(rng, text, f"他们{word}{following}")
    inside = rng.randrange(1, len(word))
    return Made(rng.choice([f"{word[inside:]}{following}{after}", f"{before}他们{word[:inside]}"]), chunk)


def word_kept(rng: random.Random, text: Text) -> Made:
    """A quote that begins or ends before such a word, or after it."""
    word, following = rng.choice(ASKED + ENDED), rng.choice(FOLLOWING)
    chunk, before, after = plant(rng, text, f"他们{word}{following}")
    quotes = [f"{word}{following}{after}", f"{following}{after}", f"{before}他们{word}", f"{before}他们"]
    return Made(rng.choice(quotes), chunk)


def test_words_with_a_denial_inside() -> None:
    """In every text, whatever its language: half a question says yes or no, half of 特别 says not to."""
    altered, honest = cases(word_cut), cases(word_kept)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []


@pytest.mark.parametrize(
    "unit",
    [
        *("≥ ", "<a", "> ", "+ 5", "=", "/", "/a", "~/", "a://", "://.", "--a", "-a ", "--a a-- ", ".a", "a.B(", "*."),
        *("a.b.C", "不", "未成", "ない", "5毫", "别 ", "特", "来不", "来 ", "≦．", "五千克", "ab.cd."),
    ],
)
def test_any_text_is_linear(unit: str) -> None:
    """Where a quote may begin and end is found in linear time."""
    assert_linear(lambda text: prepare(text).cuts, unit, 8_000)


@pytest.mark.parametrize(("text", "quote"), WIDE_ALTERED)
def test_full_width_signs_are_held_to_their_numbers(text: str, quote: str) -> None:
    """As those of ASCII are."""
    assert check(quote, text).verdict == "not_found"


@pytest.mark.parametrize(("text", "quote"), WIDE_HONEST)
def test_full_width_signs_that_say_nothing_of_the_number(text: str, quote: str) -> None:
    """With the sign, or where it closes a bracket, marks quoted text or adds a term."""
    assert check(quote, text).verdict in {"verbatim", "normalised"}


def wide_sign_lost(rng: random.Random, text: Text) -> Made:
    """A quote that begins at the number after a full-width comparison."""
    number, gap = rng.choice(WIDE_NUMBERS), rng.choice(["", " ", "\u3000", "\u00a0", "\n"])
    chunk, _, after = plant(rng, text, f"用量{rng.choice(WIDE_SIGNS)}{gap}{number} 毫克")
    return Made(f"{number} 毫克{after}", chunk)


def wide_sign_kept(rng: random.Random, text: Text) -> Made:
    """The same with its comparison, or of a title in such brackets."""
    number, gap = rng.choice(WIDE_NUMBERS), rng.choice(["", " ", "\u00a0"])
    sign, title = rng.choice(WIDE_SIGNS), rng.choice(["注意", "おしらせ", "附注"])
    if rng.randrange(2):
        chunk, _, after = plant(rng, text, f"用量{sign}{gap}{number} 毫克")
        return Made(f"{sign}{gap}{number} 毫克{after}", chunk)
    chunk, _, after = plant(rng, text, f"用量＜{title}＞{gap}{number} 毫克")
    return Made(f"{number} 毫克{after}", chunk)


def test_full_width_comparisons() -> None:
    """In every text, whatever its language."""
    altered, honest = cases(wide_sign_lost), cases(wide_sign_kept)
    assert is_broad(altered)
    assert is_broad(honest)
    assert accepted(altered) == []
    assert refused(honest) == []
