from __future__ import annotations

import hashlib
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.hashing import HASH_VERSION, format_hash, hash_chunk, normalise, parse_hash, parse_hashes
from worker.settings.base import config_folder

WHITE_SPACE = [
    *range(0x09, 0x0E),
    *range(0x1C, 0x21),
    *(0x85, 0xA0, 0x1680),
    *range(0x2000, 0x200B),
    *(0x2028, 0x2029, 0x202F, 0x205F, 0x3000),
]
spaces = st.text(st.sampled_from([chr(point) for point in WHITE_SPACE]), min_size=1, max_size=4)
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
words = st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1)


def test_version_1_is_sha256_of_the_normal_form() -> None:
    """The published form: `sha256:` and the hex digest over UTF-8, as anyone can recompute it."""
    expected = "sha256:" + hashlib.sha256("Grüße von der Küste".encode()).hexdigest()
    assert hash_chunk("\tGrüße\u00a0von  der\r\nKüste ") == expected
    assert HASH_VERSION == 1


def test_white_space_is_the_29_code_points_of_str_split() -> None:
    """A new Unicode version in Python must not change version 1 unnoticed."""
    assert [point for point in range(sys.maxunicode + 1) if not chr(point).split()] == WHITE_SPACE
    assert len(WHITE_SPACE) == 29


def test_the_database_lists_the_same_29_code_points() -> None:
    """`hash_chunk_v1` in config/ names exactly the white space of Python."""
    schema = "".join(path.read_text() for path in config_folder().glob("*.sql"))
    listed = re.search(r"E'\[((?:\\u[0-9A-F]{4}-?)+)\]\+'", schema)
    assert listed is not None
    points = re.compile("[" + listed[1].encode().decode("unicode_escape") + "]")
    assert [point for point in range(0x10000) if points.fullmatch(chr(point))] == WHITE_SPACE


@pytest.mark.parametrize("character", ["\u200b", "\ufeff", "\u180e", "\u2060"], ids=ascii)
def test_what_only_looks_like_a_space_is_text(character: str) -> None:
    """Zero-width and joining characters are part of a text."""
    assert hash_chunk(f"a{character}b") != hash_chunk("a b")


@given(st.lists(words | spaces | st.sampled_from([" ", "  ", "a"])).map("".join))
def test_normal_text_is_known_without_splitting_it(text: str) -> None:
    """The short way for text that needs no change, or its ends stripped, gives what splitting and joining gives."""
    assert normalise(text) == " ".join(text.split())


@given(st.lists(storable.map(hash_chunk)))
def test_many_hashes_are_parsed_as_each_would_be(hashes: list[str]) -> None:
    assert parse_hashes(hashes) == b"".join(map(parse_hash, hashes))


@pytest.mark.parametrize("wrong", ["sha256:", "sha256:" + "A" * 64, "sha1:" + "0" * 64, "sha256:" + "0" * 63, " "])
def test_one_wrong_hash_among_many_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="64 lower-case hex digits"):
        parse_hashes([hash_chunk("a"), wrong, hash_chunk("b")])


@given(st.lists(words, max_size=5), st.data())
def test_only_where_words_end_counts(parts: list[str], data: st.DataObject) -> None:
    """Any white space between the same words, and around them, gives the same hash."""
    gaps = [data.draw(spaces) for _ in range(len(parts) + 1)]
    spaced = gaps[0] + "".join(part + gap for part, gap in zip(parts, gaps[1:], strict=True))
    assert hash_chunk(spaced) == hash_chunk(" ".join(parts))


@given(storable)
def test_the_normal_form_is_its_own(text: str) -> None:
    """Normalising twice changes nothing, and neither does it change the hash."""
    assert normalise(normalise(text)) == normalise(text)
    assert hash_chunk(normalise(text)) == hash_chunk(text)


@given(storable, storable)
def test_other_words_have_another_hash(one: str, other: str) -> None:
    """Hashes are equal exactly where the normal forms are: case and accents count."""
    assert (hash_chunk(one) == hash_chunk(other)) == (normalise(one) == normalise(other))


@pytest.mark.parametrize("text", ["a\0b", "\0", "\ud800", "a\udfffb"], ids=ascii)
def test_text_that_postgres_cannot_store_has_no_hash(text: str) -> None:
    """U+0000 and lone surrogates are refused rather than hashed as something else."""
    with pytest.raises(ValueError, match="text holds"):
        hash_chunk(text)


@given(storable)
def test_a_stored_digest_is_written_as_the_hash(text: str) -> None:
    """The 32 bytes of the database and the string on the wire are the same hash."""
    assert format_hash(hashlib.sha256(normalise(text).encode()).digest()) == hash_chunk(text)


@pytest.mark.parametrize("point", WHITE_SPACE, ids=hex)
def test_every_white_space_anywhere_is_as_one_space(point: int) -> None:
    """Alone, at either end and inside: a quicker way for plain texts must not overlook any."""
    space = chr(point)
    assert [normalise(text) for text in (space, f"{space}a", f"a{space}", f"a{space}b")] == ["", "a", "a", "a b"]
