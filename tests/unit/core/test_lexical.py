from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.core.text.lexical import embed

TEXTS = [
    "The compressor on channel 18 hums at 50 Hz since the new power supply.",
    "Größenmaß: die Aussteuerung beträgt −18 dBFS.",
    "第十八通道的嗡嗡声",
    "",
]
DIGEST = "import hashlib, json, sys; from worker.core.text.lexical import embed; "
DIGEST += "print(hashlib.sha256(embed(json.loads(sys.argv[1])).tobytes()).hexdigest())"


@pytest.mark.parametrize("seed", ["1", "4711"])
def test_every_process_computes_the_same_bytes(seed: str) -> None:
    """Python's hash randomisation has no part in it: another process, another seed, the same vectors."""
    import json

    done = subprocess.run(
        [sys.executable, "-c", DIGEST, json.dumps(TEXTS)],
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(embed(TEXTS).tobytes()).hexdigest()


@given(st.lists(st.text(st.characters()), max_size=4))
def test_every_row_has_unit_length(texts: list[str]) -> None:
    """Any text, even none or one of signs only, gets a vector with a direction, of length 1."""
    rows = embed(texts)
    assert (rows.shape, rows.dtype) == ((len(texts), 768), np.dtype(np.float32))
    assert np.allclose(np.linalg.norm(rows.astype(np.float64), axis=1), 1.0, atol=1e-6)


@settings(max_examples=25)
@given(st.lists(st.text(), min_size=2, max_size=4))
def test_a_row_depends_on_its_own_text_only(texts: list[str]) -> None:
    """Embedding texts together or alone gives the same bits."""
    together = embed(texts)
    assert all((embed([text])[0] == row).all() for text, row in zip(texts, together, strict=True))


def test_near_identical_texts_are_nearer_than_unrelated_ones() -> None:
    """Shared words decide: a changed number stays close, another subject is far."""
    hum, near, other = embed(
        [
            "Channel 18 of the desk hums at 50 Hz when the lamp is on.",
            "Channel 19 of the desk hums at 50 Hz when the lamp is on.",
            "The ferry song needs a bridge in a minor key, sung by a choir.",
        ]
    )
    assert hum @ near > 0.8
    assert hum @ near > hum @ other + 0.5


def test_parts_of_words_count() -> None:
    """Inflected forms of a word are nearer to each other than to other words, by their n-grams."""
    measured, measuring, kettle = embed(["measured", "measuring", "kettle"])
    assert measured @ measuring > 0.02 + abs(measured @ kettle)


def test_letter_case_and_compatibility_forms_do_not_count() -> None:
    """NFKC and case folding come first: full-width letters and capitals are the same words."""
    rows = embed(["strasse 50 hz hum", "STRASSE 50 HZ HUM", "Straße 50 \uff28\uff5a hum"])
    assert (rows[0] == rows[1]).all()
    assert (rows[0] == rows[2]).all()


def test_function_words_do_not_count() -> None:
    """Words that stand in every text say nothing of one."""
    rows = embed(["the hum of the desk", "hum desk"])
    assert (rows[0] == rows[1]).all()


@pytest.mark.parametrize("text", ["", " \n", "!?…", "the of and"])
def test_a_text_without_words_gets_the_first_axis(text: str) -> None:
    """No row is zero, which Postgres could not compare."""
    (row,) = embed([text])
    assert row.tolist() == [1.0] + [0.0] * 767


def test_no_texts_are_no_rows() -> None:
    """An empty batch is an empty matrix of the right width."""
    assert embed([]).shape == (0, 768)
