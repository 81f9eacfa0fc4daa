r"""Untrusted text for a terminal or a log: control characters and hidden characters are shown as signs.

>>> visible("a\x1b]0;title\x07 b\u202e c")
'a␛]0;title␇ b� c'
"""

from __future__ import annotations

import re

# Control characters except newline and tab; format characters (direction, zero width, tags); lone surrogates; line and
# paragraph separators; letters and marks without width.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u17b4\u17b5"
    "\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb"
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# What shows nothing by itself, but belongs to signs that do: selectors of variants, and Braille without dots.
_BLANK = re.compile(rf"(?:\s|[\u2800\ufe00-\ufe0f]|{_HIDDEN.pattern})*")
_BREAKS = str.maketrans({"\n": "␊", "\t": "␉"})
_NOT_ASCII = re.compile(r"[^\n\x20-\x7e]")


def visible(text: str) -> str:
    """Return a text that is safe to show; its newlines and tabs stay, and so does its length."""
    return _HIDDEN.sub(_sign, text)


def is_blank(text: str) -> bool:
    r"""Return whether a text has nothing but white space and invisible characters.

    >>> is_blank(" \u200b\ufeff\n"), is_blank(""), is_blank("\u200ba")
    (True, True, False)
    """
    return _BLANK.fullmatch(text) is not None


def visible_line(text: str) -> str:
    r"""Return the same on one line.

    >>> visible_line("song-1\nforged\tline")
    'song-1␊forged␉line'
    """
    return visible(text).translate(_BREAKS)


def _sign(match: re.Match[str]) -> str:
    """Return a control character's Unicode picture, or the replacement character for any other."""
    code = ord(match[0])
    return chr(0x2400 + code) if code < 0x20 else "\u2421" if code == 0x7F else "\ufffd"  # noqa: PLR2004 -- ASCII's own


def ascii_json(text: str) -> str:
    r"""Return the same JSON in printable ASCII.

    >>> ascii_json('{"é": "\x7f 🎸"}')
    '{"\\u00e9": "\\u007f \\ud83c\\udfb8"}'
    """
    return _NOT_ASCII.sub(_escape, text)


def printable_json(text: str) -> str:
    r"""Return the same JSON with escapes for hidden characters only: letters of all scripts stay as they are.

    >>> printable_json('{"é": "\x7f"}')
    '{"é": "\\u007f"}'
    """
    return _HIDDEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
