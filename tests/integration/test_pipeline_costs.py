"""Costs that `run_pipeline` reports, compared with the provider's bill."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import HUM, ask
from tests.integration.provider import Fault, running

from retrieval_client.errors import SettingsError
from worker.adapters.providers import embedder
from worker.adapters.providers.http_client import RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.integration.provider import Billed, Provider

    from worker.jobs.engine import Engine
    from worker.settings import Settings

    MakeSettings = Callable[..., Settings]

MILLION = 10**6
PRICES = {
    "openai/m": {"input": "1.1", "cached_input": "0.55", "output": "10.01"},
    "openai/e": {"input": "0.13"},
    "http/units": {"search_unit": "2000"},
    "http/tokens": {"input": "0.05"},
}
SAID = "A dried-out 470 µF supply capacitor is the likely cause [S1]."


@pytest.fixture
def provider() -> Iterator[Provider]:
    """Counts words, so that every call costs something else."""
    with running() as server:
        server.text = writes
        server.count = lambda text: len(text.split())
        yield server


def writes(asked: dict[str, Any]) -> str:
    """Return a model's answer to each kind of request."""
    if "number from 0" in asked["instructions"]:
        return "1: 3\n2: 9"
    return f"mains ripple\nsupply capacitor {len(asked['instructions'])}\n{SAID}"


@pytest.fixture
def open_engine(open_engine: Callable[..., Engine], provider: Provider) -> Callable[..., Engine]:
    """Opens engines whose language model, embedder and reranker are all the provider's."""

    def open_(reranker: str = "units", **changes: Any) -> Engine:
        at = {"base_url": provider.url, "timeout_seconds": 20}
        engine = open_engine(
            language_model={**at, "kind": "openai", "model": "m"},
            embedder={**at, "kind": "openai", "model": "e"},
            reranker={"url": f"{provider.url}/rerank", "model": reranker},
            prices=PRICES,
            **changes,
        )
        provider.ledger.clear()  # at start the embedder is compared with that of the corpora
        return engine

    return open_


def took(answer: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """Return each call of the answer's costs: API, model and counts."""
    return Counter(
        (
            one["kind"] == "embed",
            one["model"],
            one["input_tokens"] or 0,
            one["cached_tokens"],
            one["output_tokens"] or 0,
            one["search_units"] or 0,
        )
        for one in answer["costs"]
    )


def billed(ledger: list[Billed]) -> Counter[tuple[Any, ...]]:
    """The same as the provider has it in its books."""
    return Counter(
        (
            one.path == "/v1/embeddings",
            one.model,
            one.sent,
            one.cached,
            one.made,
            one.units,
        )
        for one in ledger
    )


def money(ledger: list[Billed]) -> Decimal:
    """The sum on the provider's bill, by arithmetic of its own."""
    total = Decimal(0)
    for one in ledger:
        name = f"{'http' if one.path == '/v1/rerank' else 'openai'}/{one.model}"
        each = {what: Decimal(price) for what, price in PRICES[name].items()}
        total += (one.sent - one.cached) * each.get("input", Decimal(0)) + one.made * each.get("output", Decimal(0))
        total += one.cached * each.get("cached_input", Decimal(0)) + one.units * each.get("search_unit", Decimal(0))
    return total / MILLION


LEGS = [{"kind": "dense"}]
PROFILES = {
    "plain": {"legs": LEGS},
    "everything": {
        "legs": [*LEGS, {"kind": "dense", "of": "hyde"}, {"kind": "dense", "of": "variants"}],
        "transform": "llm",
        "hyde": 2,
        "variants": 2,
        "rerank": "llm",
    },
    "http": {"legs": LEGS, "rerank": "http"},
}
CALLS = {
    "plain": ["embed", "synthesis"],
    "everything": ["transform", "hyde", "hyde", "transform", "embed", "embed", "embed", "rerank", "synthesis"],
    "http": ["embed", "rerank", "synthesis"],
}


@pytest.mark.parametrize(("reranker", "form"), [("units", "cohere"), ("tokens", "jina")])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_costs_of_an_answer_are_the_providers_bill(
    open_engine: Callable[..., Engine], provider: Provider, profile: str, reranker: str, form: Any
) -> None:
    """Call by call, to the last digit: embeddings, rerankers by tokens or by search units, everything a model wrote."""
    provider.reranks = form
    answer = ask(open_engine(reranker, profiles=PROFILES), question=HUM, profile=profile)
    assert [one["kind"] for one in answer["costs"]] == CALLS[profile]
    assert took(answer) == billed(provider.ledger)
    assert sum(Decimal(one["cost"]) for one in answer["costs"]) == money(provider.ledger) > 0
    together = answer["costs_total"]
    assert (together["calls"], together["unpriced"]) == (len(provider.ledger), 0)
    assert Decimal(together["cost"]) == Decimal(together["known_cost"]) == money(provider.ledger)
    assert together["input_tokens"] == sum(one.sent for one in provider.ledger)
    assert together["search_units"] == sum(one.units for one in provider.ledger)
    assert answer["trace"]["warnings"] == []


def test_every_batch_of_embeddings_is_a_call(
    open_engine: Callable[..., Engine], provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the provider sees it."""
    monkeypatch.setattr(embedder, "BATCH_SIZE", 2)  # no profile searches for more texts than fit into a batch
    answer = ask(open_engine(profiles=PROFILES), question=HUM, profile="everything")
    kinds = [one["kind"] for one in answer["costs"]]
    assert kinds.count("embed") == sum(one.path == "/v1/embeddings" for one in provider.ledger) > 1
    assert took(answer) == billed(provider.ledger)


@pytest.mark.parametrize("useless", [" \n", "\x00"], ids=["blank", "nothing that can be stored"])
def test_what_failed_after_it_was_paid_for_is_on_the_bill(
    open_engine: Callable[..., Engine], provider: Provider, useless: str
) -> None:
    """A model that words, imagines, rewords and judges nothing: each is reported, and each costs."""
    provider.text = lambda asked: SAID if "Answer the question" in asked["instructions"] else useless
    answer = ask(open_engine(profiles=PROFILES), question=HUM, profile="everything")
    assert [one["kind"] for one in answer["costs"]] == [
        "transform",
        "hyde",
        "hyde",
        "transform",
        "embed",
        "rerank",
        "synthesis",
    ]
    assert [warning.split(":")[0] for warning in answer["trace"]["warnings"]] == [
        "transform",
        "hyde",
        "variants",
        "rerank",
    ]
    assert answer["trace"]["queries"] == {"dense": HUM}
    assert took(answer) == billed(provider.ledger)
    assert sum(Decimal(one["cost"]) for one in answer["costs"]) == money(provider.ledger)


def test_a_reranking_of_no_use_is_on_the_bill(open_engine: Callable[..., Engine], provider: Provider) -> None:
    """A score too few: the fused order stays, the search unit is billed."""
    provider.scores = lambda _, texts: [1.0] * (len(texts) - 1)
    answer = ask(open_engine(profiles=PROFILES), question=HUM, profile="http")
    assert [warning.split(":")[0] for warning in answer["trace"]["warnings"]] == ["rerank"]
    assert took(answer) == billed(provider.ledger)


def test_what_a_provider_does_not_tell_nobody_knows(open_engine: Callable[..., Engine], provider: Provider) -> None:
    """The call is there, with null for its tokens and its cost: never 0."""
    provider.silent, provider.reranks = True, "tei"
    answer = ask(open_engine(profiles=PROFILES), question=HUM, profile="http")
    assert len(provider.ledger) == 3
    assert [one["kind"] for one in answer["costs"]] == CALLS["http"]
    assert {(one["input_tokens"], one["search_units"], one["cost"]) for one in answer["costs"]} == {(None, None, None)}
    together = answer["costs_total"]
    assert (together["cost"], together["known_cost"], together["unpriced"]) == (None, "0", 3)


@pytest.mark.parametrize("priced", ["units", "tokens"])
def test_a_price_of_one_thing_is_none_of_another(
    open_engine: Callable[..., Engine], provider: Provider, priced: str
) -> None:
    """A table that prices tokens knows nothing of search units, nor the other way about."""
    provider.reranks = "cohere" if priced == "tokens" else "jina"
    answer = ask(open_engine(priced, profiles=PROFILES), question=HUM, profile="http")
    assert {one["kind"]: one["cost"] is None for one in answer["costs"]} == {
        "embed": False,
        "rerank": True,
        "synthesis": False,
    }


def test_a_price_names_what_it_is_of(make_settings: MakeSettings) -> None:
    """Tokens, or search units, or both."""
    with pytest.raises(SettingsError, match=r"prices\.http/units: expected input or search_unit"):
        make_settings(prices={"http/units": {"output": "1"}})


def test_what_broke_off_on_its_way_is_not_known(open_engine: Callable[..., Engine], provider: Provider) -> None:
    """The provider has it in its books, and the worker never heard: the one thing that the costs can't say."""
    engine = open_engine(profiles=PROFILES)
    provider.fail(Fault(), Fault(cut=True))
    answer = ask(engine, question=HUM, profile="http")
    assert [one["kind"] for one in answer["costs"]] == ["embed", "synthesis"]
    assert len(provider.ledger) == 2 + 1 + RETRIES


def test_an_answer_from_its_record_says_what_it_cost_when_it_was_made(
    open_engine: Callable[..., Engine], provider: Provider
) -> None:
    """So a message that is delivered twice tells the same; nothing is paid again."""
    engine = open_engine(profiles=PROFILES)
    job = {"question": HUM, "profile": "everything", "run": {"subject_id": "s", "run_id": "r"}}
    first = ask(engine, **job)
    billed_once = list(provider.ledger)
    assert ask(engine, **job)["costs"] == first["costs"] != []
    assert provider.ledger == billed_once
