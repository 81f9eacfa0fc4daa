"""The hash vectors: what the code and the words beside them make of each text."""

from __future__ import annotations

import hashlib
import json
import re
import sys

import orjson
import pytest

from retrieval_client.hashing import hash_chunk
from workbench import schemas
from workbench.schemas import hash_vectors

HASHES = hash_vectors.document()


def by_the_description(text: str) -> str:
    """The hash by the file's own words, without the project's code or ``str.split``."""
    spaces = "".join(chr(int(code.removeprefix("U+"), 16)) for code in HASHES["white_space"])
    normal = re.sub(f"[{re.escape(spaces)}]+", " ", text).strip(" ")
    return "sha256:" + hashlib.sha256(normal.encode()).hexdigest()


@pytest.mark.parametrize("vector", HASHES["vectors"], ids=lambda vector: vector["name"])
def test_hash_vector(vector):
    """Every vector's hash is what the code, and the file's description taken literally, make of its text."""
    text = vector["text"] if "text" in vector else vector["repeat"] * vector["times"]
    assert hash_chunk(text) == by_the_description(text) == vector["hash"]


@pytest.mark.parametrize("vector", HASHES["refused"], ids=lambda vector: vector["name"])
def test_refused_hash_vector(vector):
    """A text that Postgres can't store has no hash."""
    with pytest.raises(ValueError, match=r"U\+0000|surrogate"):
        hash_chunk(json.loads(vector["json"]))


def test_white_space_is_that_of_split():
    """The 29 code points are those at which ``str.split()`` splits, and each has a vector."""
    splits = [code for code in range(sys.maxunicode + 1) if not f"{chr(code)}".split()]
    assert list(hash_vectors.WHITE_SPACE) == splits
    assert len(splits) == 29
    names = {vector["name"] for vector in HASHES["vectors"]}
    assert {f"white space U+{code:04X}" for code in splits} < names


def test_vectors_keep_apart_what_differs():
    """Composed and decomposed, small and capital letters, and all else that is not white space stay apart."""
    spaced = {vector["hash"] for vector in HASHES["vectors"] if vector["name"].startswith("white space ")}
    assert spaced == {hash_chunk("a b")}
    kept = [vector["hash"] for vector in HASHES["vectors"] if not vector["name"].startswith("white space ")]
    twins = {vector["hash"] for vector in HASHES["vectors"] if vector["name"] in ("empty", "only white space")}
    assert twins == {hash_chunk("")}
    same = 2  # 'two words' in two spellings; '' and white space
    assert len(set(kept)) == len(kept) - same


def test_hash_vectors_can_be_read_anywhere():
    """The file is ASCII, and a strict parser that knows no lone surrogates reads it."""
    content = schemas.files()["hash-vectors.json"]
    assert content.isascii()
    assert orjson.loads(content) == HASHES
