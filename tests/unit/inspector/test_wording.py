"""Words of verdicts, answers and nearness: complete, and no more than was measured."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from retrieval_client.contract import pinned, results
from worker.adapters.providers.local_model import read
from worker.core.prompting.extractive import doubted
from worker.inspector.view.answer import answer_views
from worker.inspector.view.sources import SourceView
from worker.inspector.view.wording import BANDS, MEASURED_WITH, VOCABULARY, nearness, said, wording
from worker.settings.providers import EmbedderSettings

TABLE = Path(__file__).parents[3] / "benchmarks" / "results" / "quality.md"


def codes(owner: object, field: str) -> set[str]:
    """Codes that a field of the contract may have."""
    kind = typing.get_type_hints(owner)[field]
    parts = [part for part in typing.get_args(kind) if typing.get_origin(part)] or [kind]
    return {code for part in parts for code in typing.get_args(part) if isinstance(code, str)}


def test_each_code_of_the_contract_has_its_words() -> None:
    """A verdict that a worker can send is never shown as its code by chance."""
    assert codes(results.TopK, "status") <= VOCABULARY["status"].keys()
    assert codes(results.TopK, "short_reason") <= VOCABULARY["reason"].keys()
    assert codes(pinned.QuoteCheck, "verdict") <= VOCABULARY["quote"].keys()
    assert codes(pinned.Pinned, "verdict") <= VOCABULARY["pin"].keys()
    assert codes(pinned.Difference, "kind") == VOCABULARY["kind"].keys()


def test_only_what_has_its_recorded_hash_is_good() -> None:
    """No status and no quote is; a word is not good because another kind's is."""
    good = {(kind, code) for kind, found in VOCABULARY.items() for code, one in found.items() if one.tone == "good"}
    assert good == {("pin", "exact"), ("pin", "matched"), ("drift", "same")}
    assert said("difference", "same").tone == said("quote", "exact").tone == "plain"


def test_a_quote_that_differs_is_amber_and_one_that_is_not_there_red() -> None:
    """On every face, which all take their colours from here."""
    tones = {code: one.tone for code, one in VOCABULARY["quote"].items()}
    assert tones == {
        **dict.fromkeys(("verbatim", "normalised"), "plain"),
        **dict.fromkeys(("altered", "elided", "not_checked"), "fair"),
        **dict.fromkeys(("misattributed", "not_found"), "bad"),
    }


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("It hums at 50 Hz. [S1]", "Copied word for word; whether"),
        ("It hums at 50 Hz. [S1] It burns today. [S1]", "1 of 2 sentences copied word for word, the truth"),
        ("It burns today. [S1]", "Not copied from the sources"),
        ("It hums at 50 Hz.", "Not copied from the sources"),
        ("No answer to this question was found in the sources.", "There is not enough evidence"),
        (doubted("It hums at 50 Hz. [S1]"), "There is not enough evidence"),
        ("", "Not compared with the sources"),
    ],
)
def test_an_answer_is_said_to_be_copied_as_far_as_it_is(answer: str, sentence: str) -> None:
    """By its sentences, and never that it answers."""
    text, _ = answer_views(answer, [SourceView("S1", "c", "x", "d", "d", None, None, None, "It hums at 50 Hz.")])
    assert wording(text).startswith(sentence)
    assert "not judged" in wording(text) or text.is_refusal


def test_nearness_is_as_measured() -> None:
    """Ranges and shares are those of the table, for the model that it was measured with."""
    rows = [re.findall(r"[\d.]+", line) for line in TABLE.read_text().splitlines() if re.match(r"\| 0\.\d+ \|", line)]
    answered = {float(row[0]): (float(row[4]), float(row[8])) for row in rows}
    low, high = (BANDS[0].below or 0), (BANDS[1].below or 0)
    shares = [(band.answerable, band.unanswerable) for band in BANDS]
    assert shares == [
        pytest.approx((1 - answered[low][0], answered[low][1])),
        pytest.approx((answered[low][0] - answered[high][0], answered[high][1] - answered[low][1])),
        pytest.approx((answered[high][0], 1 - answered[high][1])),
    ]
    assert "far from the question" in nearness(0.1, f"{MEASURED_WITH} 1")
    assert "neither near nor far" in nearness(0.21, f"{MEASURED_WITH} 1")
    assert "18% of those without" in nearness(0.4, f"{MEASURED_WITH} 1")


def test_another_model_has_no_words_of_nearness() -> None:
    """A number alone, and that it is not measured; without a number, that it is not known."""
    assert "was not measured for this model" in nearness(0.9, "text-embedding-3-small 1")
    assert "was not measured for this model" in nearness(0.9, "")
    assert "by shared words" in nearness(0.9, "lexical 1")
    assert "not known" in nearness(None, "lexical 1")


def test_the_measured_model_is_the_default_one() -> None:
    """By the name that traces have."""
    pytest.importorskip("onnxruntime")
    assert read(EmbedderSettings(kind="local")).name == MEASURED_WITH
