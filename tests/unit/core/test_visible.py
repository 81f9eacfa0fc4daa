"""Untrusted text as it may be shown."""

from __future__ import annotations

import json
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from worker.core.text.visible import ascii_json, is_blank, printable_json, visible, visible_line

# Without width although they are letters or marks: default ignorable characters of Unicode.
IGNORABLE = {*"\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0", *map(chr, range(0x180B, 0x1810))}
UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
ALL = [chr(code) for code in range(sys.maxunicode + 1)]


def is_unseen(sign: str) -> bool:
    return unicodedata.category(sign) in UNSEEN or sign in IGNORABLE


def is_reserved(sign: str) -> bool:
    """Whether Unicode keeps a place for characters that are not seen."""
    return (
        sign in {"\u2065", *map(chr, range(0xFFF0, 0xFFF9)), *map(chr, range(0x13430, 0x13440))}
        or "\U000e0000" <= sign < "\U000e1000"
    )


def test_every_character_is_shown_or_has_a_sign() -> None:
    """All of Unicode: what steers or hides is replaced, one for one; what can be seen stays as it is."""
    for sign in ALL:
        assert visible(sign) == sign or sign not in "\n\t"
        assert visible(sign) != sign or not is_unseen(sign) or sign in "\n\t", hex(ord(sign))
        assert (visible_line(sign) != sign) == is_unseen(sign) or is_reserved(sign), hex(ord(sign))
        assert len(visible_line(sign)) == 1


def test_a_text_of_what_is_not_seen_is_blank() -> None:
    """All of Unicode: white space and what is not seen, alone and beside a space; anything else is a text."""
    alone = {"\u2800", *map(chr, range(0xFE00, 0xFE10))}
    for sign in ALL:
        unseen = is_unseen(sign) or is_reserved(sign) or sign.isspace() or sign in alone
        assert is_blank(sign) == is_blank(f" {sign}\u200b") == unseen, hex(ord(sign))


@given(st.text())
def test_showing_twice_is_showing_once(text: str) -> None:
    """Safe text stays as it is."""
    assert visible(visible(text)) == visible(text)
    assert visible_line(visible(text)) == visible_line(text)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_stays_the_same_data(value: object) -> None:
    """Escaped, and nothing else: also beyond the first plane, and lone surrogates."""
    text = json.dumps(value, ensure_ascii=False)
    assert json.loads(ascii_json(text)) == json.loads(printable_json(text)) == value
    assert ascii_json(text).isprintable()
    assert ascii_json(text).isascii()
    assert not any(map(is_unseen, printable_json(text)))
