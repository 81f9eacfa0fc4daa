"""Rules whose quotes are the chunk's own words, on their way through programs and writers."""

from __future__ import annotations

import html
import random
import re
import unicodedata
from collections.abc import Callable

from benchmarks.quotes.passages import JOINED, UNSPACED, WORD, Made, Rule, Source, put_in, some

Texture = Callable[[random.Random, str], str]
_CODE = frozenset({"code"})
_SPACES = ["\n", "\r\n", "  ", "\t", "\n    ", "\u00a0", "\u2009", "\u3000", "\u2028", " \n ", "&nbsp;"]


def _replaced(pattern: str, *replacements: str, share: float = 1) -> Texture:
    """Return a texture that replaces each place of a pattern (or a share of them) by one of some texts."""

    def texture(rng: random.Random, text: str) -> str:
        return re.sub(pattern, lambda m: m.expand(rng.choice(replacements)) if rng.random() < share else m[0], text)

    return texture


def _mapped(pairs: dict[str, str]) -> Texture:
    return lambda _, text: text.translate(str.maketrans(pairs))


def _digits(zero: str) -> Texture:
    return _mapped({str(i): chr(ord(zero) + i) for i in range(10)})


def _entities(share: float) -> Texture:
    names = {"'": "&apos;", "’": "&rsquo;", "−": "&minus;", "é": "&eacute;", "ü": "&uuml;", "°": "&deg;", "€": "&euro;"}
    return lambda rng, text: (
        "".join(
            rng.choice([names.get(c, f"&#{ord(c)};"), f"&#x{ord(c):X};"])
            if rng.random() < share and not c.isspace()
            else c
            for c in html.escape(text, quote=False)
            if c
        )
        if "&" not in text
        else text
    )


def _title(_: random.Random, text: str) -> str:
    return re.sub(r"[^\W\d_]+(?:['’][^\W\d_]+)*", lambda m: m[0][:1].upper() + m[0][1:].lower(), text)


_LETTERS2 = rf"(?<=[^\W\d_{UNSPACED}]{{2}})(?=[^\W\d_{UNSPACED}]{{2}})"
TEXTURES: dict[str, Texture] = {
    "same": lambda _, text: text,
    "rewrapped": lambda rng, text: re.sub(r" (?!%|°|€)", lambda _: rng.choice(_SPACES), text),
    "wrapped_lines": _replaced(r" ", "\n", share=0.2),
    "no_break_spaces": _replaced(r" ", "\u00a0", share=0.5),
    "double_spaces": _replaced(r"(?<=[.,;:?]) ", "  "),
    "trailing_spaces": lambda _, text: f"  {text}\n",
    "straight_quotes": _mapped({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "’": "'", "‘": "'"}),
    "curly_quotes": _mapped({"'": "’", '"': "”"}),
    "nfd": lambda _, text: unicodedata.normalize("NFD", text),
    "nfc": lambda _, text: unicodedata.normalize("NFC", unicodedata.normalize("NFD", text)),
    "ligatures": lambda _, text: text.replace("fi", "ﬁ").replace("fl", "ﬂ").replace("ff", "ﬀ"),
    "wide": lambda _, text: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and c not in "-'~" else c for c in text),
    "mathematical": lambda _, text: "".join(chr(0x1D41A + ord(c) - 97) if "a" <= c <= "z" else c for c in text),
    "soft_hyphens": _replaced(_LETTERS2, "\u00ad", "&shy;", share=0.3),
    "zero_width": _replaced(r"(?<=\w)(?=\w)", "\u200b", "\u200d", "\u2060", "\ufeff", "\u200e", share=0.1),
    "word_breaks": _replaced(_LETTERS2, "<wbr>", share=0.2),
    "direction_marks": lambda _, text: f"\u202b{text}\u202c",
    "byte_order_mark": lambda _, text: f"\ufeff{text}",
    "hyphenated": _replaced(r"(?<=[^\W\d_]{3})(?=[a-zà-ÿа-я]{3})", "-\n", "\u00ad\n", "-\n   ", share=0.1),
    "hyphenated_by_a_viewer": _replaced(r"(?<=[^\W\d_]{3})(?=[a-zà-ÿа-я]{3})", "- ", share=0.1),
    "hyphens": _mapped({"-": "\u2010"}),
    "no_break_hyphens": _mapped({"-": "\u2011"}),
    "entities": _entities(0.1),
    "escaped_entities": lambda _, text: html.escape(text),
    "no_space_after_french": _replaced(r"(?<=«) | (?=»)| (?=[;:?!])", ""),
    "thin_space_before_french": _replaced(r"(?<=«) | (?=»)| (?=[;:?!%€])", "\u202f"),
    "space_before_punctuation": _replaced(r"(?<=[^\W\d])([,;:?!])(?=\s)", r" \1"),
    "space_in_brackets": _replaced(r"\((\w[^()]*)\)", r"( \1 )"),
    "space_in_quotes": _replaced(r"“([^”]*)”", r"“ \1 ”"),
    "bold": _replaced(r"(?<=\s)([^\W_]+)(?=\s)", r"**\1**", share=0.3),
    "italic": _replaced(r"(?<=\s)([^\W_]+)(?=\s)", r"*\1*", r"_\1_", share=0.3),
    "ticks": _replaced(r"(?<=\s)([^\W_]+)(?=\s)", r"`\1`", share=0.2),
    "tags": _replaced(r"(?<=\s)([^\W_]+)(?=\s)", r"<b>\1</b>", r"<em>\1</em>", r"<span>\1</span>", share=0.3),
    "line_tags": _replaced(r"(?<=[^\W\d]) (?=[^\W\d])", "<br>", "<br/>", share=0.2),
    "paragraph_tags": lambda _, text: f"<p>{text}</p>",
    "cited": lambda _, text: f"> {text}",
    "cited_lines": lambda rng, text: "> " + re.sub(r" (?=[^\W\d])", lambda _: rng.choice([" ", " ", "\n> "]), text),
    "bullet": lambda rng, text: rng.choice(["- ", "* ", "• ", "+ "]) + text if text[0].isalpha() else text,
    "heading": lambda _, text: f"## {text}",
    "bold_whole": lambda _, text: f"**{text}**",
    "label": lambda rng, text: re.sub(
        r"[.。।]?\Z", lambda m: rng.choice([" [S1]", " [S12]", " [S1, S2]", "[S1][S2]", "【S1】"]) + m[0], text, count=1
    ),
    "label_inside": _replaced(r"(?<=[,;]) ", r" [S1] ", share=0.5),
    "footnote_number": lambda rng, text: some(rng, r"(?<=[^\W\d_]{5})(?=\s)", text, lambda _: "[7]"),
    "wrapped_in_quotes": lambda rng, text: rng.choice(["“{}”", '"{}"', "«{}»", "„{}“", "「{}」"]).format(text),
    "no_end": lambda _, text: text.rstrip(".。।"),
    "first_letter": lambda _, text: text[:1].swapcase() + text[1:] if re.match(r"[^\W\d_]{4}", text) else text,
    "upper_case": lambda _, text: text.upper(),
    "lower_case": lambda _, text: text.lower(),
    "title_case": _title,
    "arabic_digits": _digits("٠"),
    "persian_digits": _digits("۰"),
    "hindi_digits": _digits("०"),
    "thai_digits": _digits("๐"),
    "wide_digits": _digits("０"),
    "latin_digits": lambda _, text: "".join(str(unicodedata.decimal(c, c)) for c in text),
    "ordinal_for_degree": _mapped({"°": "º"}),
    "wide_stops": lambda _, text: text.translate(str.maketrans("，。？！：；", ",.?!:;")) if "，" in text else text,
    "spaced_scripts": _replaced(rf"(?<=[{UNSPACED}])(?=\d)|(?<=\d)(?=[{UNSPACED}])", " "),
    "other_dashes": _mapped({"-": "–", "–": "-", "—": "-"}),
    "hyphen_for_minus": _mapped({"−": "-"}),
    "no_accents": lambda _, text: "".join(
        c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn"
    ),
    "cyrillic_for_latin": _replaced("[aeo]", "а", "е", "о", share=0.1),
    "torn_words": _replaced(_LETTERS2, " ", share=0.05),
    "swallowed_blanks": _replaced(rf"(?<=[^\W\d{UNSPACED}]) (?=[^\W\d{UNSPACED}])", "", share=0.2),
    "single_quotes": _mapped({"“": "‘", "”": "’", '"': "'"}),
    "comma_lost": lambda rng, text: some(rng, r",(?= )", text, lambda _: ""),
}
_LETTERS_BESIDE = {"words", "case", "cut", "look_alike"}
EXCUSED: dict[str, set[str]] = {
    "no_end": {"cut"},
    "upper_case": {"case"},
    "lower_case": {"case"},
    "title_case": {"case"},
    "wide_stops": {"punctuation"},
    "other_dashes": {"dash"},
    "hyphen_for_minus": {"dash"},
    "no_accents": {"accents"},
    "cyrillic_for_latin": _LETTERS_BESIDE,
    "torn_words": {"joined"},
    "swallowed_blanks": {"joined"},
    "single_quotes": {"punctuation"},
    "comma_lost": {"punctuation"},
}
"""Kinds that may make a quote altered: by contract they are not accepted."""

HONEST: dict[str, Rule] = {}


def _textured(name: str, texture: Texture, *, of_chunk: bool) -> Rule:
    def rule(rng: random.Random, source: Source) -> Made | None:
        if source.language == "code" and name not in (
            "same",
            "trailing_spaces",
            "wrapped_in_quotes",
            "escaped_entities",
        ):
            return None
        changed = texture(rng, source.passage)
        if changed == source.passage and name != "same":
            return None
        excused = frozenset(EXCUSED.get(name, ()))
        if of_chunk:
            return Made(source.passage, source.with_passage(changed), excused)
        return Made(changed, source.text, excused)

    return rule


HONEST |= {name: _textured(name, texture, of_chunk=False) for name, texture in TEXTURES.items()}
_OF_CHUNKS = """
rewrapped ligatures soft_hyphens zero_width hyphenated hyphenated_by_a_viewer entities bold italic ticks tags
line_tags paragraph_tags cited_lines bullet heading bold_whole footnote_number nfd wide title_case upper_case"""
HONEST |= {f"{name}_in_the_chunk": _textured(name, TEXTURES[name], of_chunk=True) for name in _OF_CHUNKS.split()}

# Name -> fragment of the source, of the quote, and the kinds that excuse it.
FRAGMENTS: dict[str, tuple[str, str, set[str]]] = {
    "link": ("[{w}](https://a.test/x_1)", "{w}", set()),
    "link_with_title": ('[{w}](https://a.test/x "The title")', "{w}", set()),
    "link_copied": ("[{w}](https://a.test/x)", "[{w}](https://a.test/x)", set()),
    "image_and_words": ("![{w}](a.png)", "{w}", set()),
    "anchor": ('<a href="https://a.test/x?y=1">{w}</a>', "{w}", set()),
    "note": ("{w}word[12]", "{w}word", set()),
    "note_of_markdown": ("{w}word[^3]", "{w}word", set()),
    "raised_note": ("{w}word¹²", "{w}word", set()),
    "dagger": ("{w}word†", "{w}word", set()),
    "ampersand": ("A &amp; B", "A & B", set()),
    "less_than": ("a &lt; b", "a < b", set()),
    "numeric_entity": ("{w}&#8212;{v}", "{w}—{v}", set()),
    "escaped": ("snake\\_case and \\*", "snake_case and *", set()),
    "nested_marks": ("***{w}*** and **_{v}_**", "{w} and {v}", set()),
    "struck_out_kept": ("~~{w}~~", "{w}", set()),
    "row": ("\n| {w} | {v} |\n|---|---|\n| A | 5 |\n", "\n{w} {v} A 5\n", set()),
    "cells": ("<td>{w}</td><td>{v}</td>", "{w} {v}", set()),
    "items": ("\n- {w} one\n- {v} two\n", " {w} one {v} two ", {"dash"}),
    "items_with_bullets": ("\n- {w} one\n- {v} two\n", "\n• {w} one\n• {v} two\n", {"dash"}),
    "numbered": ("\n1. {w} one\n2. {v} two\n", " {w} one {v} two ", {"words", "accents"}),
    "ellipsis_glyph": ("{w}...", "{w}…", set()),
    "spaced_dash": ("{w} —{v}", "{w} — {v}", set()),
    "tight_dash": ("{w} — {v}", "{w}—{v}", set()),
    "times": ("3 × 5 cm", "3 x 5 cm", set()),
    "degree": ("30 °C", "30 ºC", set()),
    "romanian": ("ştiinţa", "știința", set()),
    "tatweel": ("كتـــاب", "كتاب", set()),
    "initials": ("W. E. B. Du Bois", "W.E.B. Du Bois", set()),
    "address": ("packages.test.\norg/stable/", "packages.test.org/stable/", set()),
    "wide_money": ("￥５００", "¥500", set()),
    "apostrophe_of_a_typewriter": ("d’{w}", "d'{w}", set()),
    "half": ("1/2 cup", "½ cup", set()),
    "raised_kept": ("10²", "10²", set()),
    "per_cent_spaced": ("12 %", "12%", set()),
    "unit_tight": ("5 kg", "5kg", {"joined"}),
    "group_blanks": ("10 000", "10\u202f000", set()),
    "code_kept": ("`a*b`", "a*b", set()),
    "tag_of_a_line": ("{w}<br>{v}", "{w}\n{v}", set()),
}
HONEST |= {name: (lambda rng, source, pair=pair: _fragment(rng, source, *pair)) for name, pair in FRAGMENTS.items()}


def _fragment(rng: random.Random, source: Source, fragment: str, quoted: str, excused: set[str]) -> Made | None:
    made_quote = put_in(rng, source, fragment, quoted) if source.language != "code" else None
    return made_quote and Made(made_quote.quote, made_quote.text, frozenset(excused))


def honest(rule: Rule) -> Rule:
    """Register a rule by its name."""
    HONEST[rule.__name__] = rule
    return rule


@honest
def combined(rng: random.Random, source: Source) -> Made | None:
    """Two changes, one after the other, of those that are always accepted."""
    names = [
        "wrapped_lines",
        "nfd",
        "ligatures",
        "soft_hyphens",
        "hyphens",
        "bold",
        "tags",
        "label",
        "wrapped_in_quotes",
        "wide_digits",
    ]
    texture, other_texture = rng.sample(names, 2)
    changed = TEXTURES[other_texture](rng, TEXTURES[texture](rng, source.passage))
    return Made(changed, source.text) if source.language != "code" else None


def _elided(rng: random.Random, source: Source, cuts: int) -> Made | None:
    words = WORD.findall(source.passage)
    if len(words) < 6 * (cuts + 1):
        return None
    length = len(words) // (cuts + 1)
    pieces = [words[i * length : i * length + rng.randint(4, length - 1)] for i in range(cuts + 1)]
    between = "" if source.language in JOINED else " "
    mark = rng.choice([" … ", " ... ", " [...] ", " […] ", " . . . "])
    if not all((piece[0] + piece[-1]).isalpha() and WORD.search(piece[0]) for piece in pieces):
        return None
    return Made(mark.join(between.join(piece) for piece in pieces), source.text, frozenset({"joined"}))


@honest
def one_left_out(rng: random.Random, source: Source) -> Made | None:
    """Words left out, with a mark."""
    return _elided(rng, source, 1)


@honest
def two_left_out(rng: random.Random, source: Source) -> Made | None:
    """Words left out at two places."""
    return _elided(rng, source, 2)


@honest
def sic(rng: random.Random, source: Source) -> Made | None:
    """[sic], or an editor's words, after a word."""
    return put_in(rng, source, "{w} is", "{w} [" + rng.choice(["sic", "the pump", "emphasis added"]) + "] is")
