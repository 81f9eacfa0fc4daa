"""Tokens counted as the model counts them: by a tokenizer's file, made here, without a network."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.integration.asking import HUM, ask
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from retrieval_client.errors import SettingsError
from worker.adapters.providers.tokenizer import token_counter
from worker.core.prompting.context import ESTIMATE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from worker.jobs.engine import Engine
    from worker.settings import Settings

SAID = "The hum on channel 18 is that of a dried-out capacitor."
ODD = ["", "ribbon", SAID, "铝带 ½ µF", "[S1] \n\n===", "word " * 500, "\u200d\ufffd", "x" * 3000]


def trained(size: int = 400) -> Tokenizer:
    """A small byte-level BPE, the kind that most models have."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator([SAID] * 9, trainer)
    return tokenizer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One that would cut and fill up texts, as published files may."""
    tokenizer = trained()
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_a_text_has_the_tokens_that_the_tokenizer_makes_of_it(file: Path) -> None:
    """All of them: nothing cut, nothing filled up, nothing put around it."""
    counter = token_counter(str(file))
    counts = [counter.count(text) for text in ODD]
    assert counts == [len(trained().encode(text, add_special_tokens=False).ids) for text in ODD]
    assert counts != [ESTIMATE.count(text) for text in ODD]
    assert counts[0] == 0
    assert counts[-1] > 8


def test_a_counter_is_named_by_its_file_and_what_is_in_it(file: Path) -> None:
    """Another tokenizer has another name, which does not hold the file's folder."""
    first = token_counter(str(file)).name
    trained(500).save(str(file))
    second = token_counter(str(file)).name
    assert first != second
    assert {name.split(":")[0] for name in (first, second)} == {"tokenizer.json sha256"}
    assert str(file.parent) not in first


def test_without_a_file_tokens_are_estimated() -> None:
    """And the name says that they are."""
    assert token_counter(None) is ESTIMATE
    assert ESTIMATE.name.startswith("estimate")


@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff", b'{"model": 7}'])
def test_a_file_that_is_no_tokenizer_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    """With the setting's name."""
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"language_model\.tokenizer: "):
        token_counter(str(path))


def test_without_its_package_the_start_says_what_to_install(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tokenizers` is an extra."""
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(SettingsError, match=r"pip install 'retrieval-worker\[tokenizer\]'"):
        token_counter(str(file))


def test_a_budget_holds_what_the_counter_says(
    open_engine: Callable[..., Engine], settings: Settings, file: Path
) -> None:
    """As many whole sources as fit by the model's own count; the trace says who counted; a record comes again so."""
    mode = {**settings.modes["grounded"].model_dump(), "budget_tokens": 1000}
    engine = open_engine(modes={"grounded": mode}, language_model={"tokenizer": str(file)})
    job = {"question": HUM, "run": {"subject_id": "s", "run_id": "r"}}
    counted, estimated = ask(engine, **job), ask(open_engine(modes={"grounded": mode}), question=HUM)
    assert counted["trace"]["models"]["tokens"] == token_counter(str(file)).name
    assert estimated["trace"]["models"]["tokens"] == ESTIMATE.name
    for answer, counter in ((counted, token_counter(str(file))), (estimated, ESTIMATE)):
        assert 0 < counter.count(answer["package"]["context_block"]) <= 1000
    # The little tokenizer knows one sentence, so it makes more tokens of a text than the estimate does.
    assert 0 < len(counted["package"]["source_labels"]) < len(estimated["package"]["source_labels"])
    assert ask(engine, **job)["package"]["context_block"] == counted["package"]["context_block"]
