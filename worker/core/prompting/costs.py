"""Costs of model calls: the provider's token counts times a price table, in exact decimal arithmetic.

All prices are in the table's currency. A call without a price costs ``None``: unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

CallKind = Literal["synthesis", "rerank", "hyde", "transform", "embed"]

PRICED_PER = 6
"""Prices are per 10 to the power of this many tokens or search units."""

MOST_TOKENS = 10**15
_MOST, _PLACES = Decimal(10) ** 9, 12

# Raises on inexact results, which the bounds above rule out.
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])


@dataclass(frozen=True, slots=True)
class Price:
    """Price of a model per million tokens, or per million search units.

    Attributes:
        input: for input tokens; ``None``: unknown.
        output: for output tokens; 0 for models that have none (embeddings, rerankers).
        cached_input: for input tokens found in the provider's prompt cache; ``None``: as ``input``.
        search_unit: for search units, by which some rerankers bill; ``None``: unknown.

    Raises:
        ValueError: a price that is negative, not finite, a billion or more, or finer than twelve decimal places.
    """

    input: Decimal | None
    output: Decimal = Decimal(0)
    cached_input: Decimal | None = None
    search_unit: Decimal | None = None

    def __post_init__(self) -> None:
        for price in (self.input, self.output, self.cached_input, self.search_unit):
            if price is not None and not _is_price(price):
                raise ValueError("expected prices from 0 to below a billion, with at most twelve decimal places")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts of a call, as its provider reported them; ``None`` where it did not.

    Attributes:
        input: input tokens, cached ones included.
        output: output tokens.
        cached_input: input tokens found in the provider's prompt cache.
        search_units: units by which a reranker bills in place of tokens; ``None`` where it bills tokens.

    Raises:
        ValueError: a count that is negative, more than `MOST_TOKENS`, or more cached than sent.
    """

    input: int | None
    output: int | None = 0
    cached_input: int = 0
    search_units: int | None = None

    def __post_init__(self) -> None:
        reported = (self.input, self.output, self.cached_input, self.search_units)
        counts = [count for count in reported if count is not None]
        if not all(0 <= count <= MOST_TOKENS for count in counts) or self.cached_input > (self.input or 0):
            raise ValueError("expected counts of tokens, of which at most all of those sent are cached")


@dataclass(frozen=True, slots=True)
class CostEntry:
    """Cost of one model call.

    Attributes:
        kind: purpose of the call.
        provider: the provider, as settings name it.
        model: the model's name.
        tokens: as counted by the provider.
        cost: in the table's currency; ``None`` where a price or a count is unknown.
    """

    kind: CallKind
    provider: str
    model: str
    tokens: Tokens
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class CostSum:
    """Sum of several calls.

    Attributes:
        calls: number of calls.
        input: known input tokens.
        output: known output tokens.
        cached_input: input tokens found in a prompt cache.
        search_units: units that rerankers billed in place of tokens.
        known_cost: total of the known costs.
        unpriced: number of calls whose cost is unknown.
    """

    calls: int
    input: int
    output: int
    cached_input: int
    search_units: int
    known_cost: Decimal
    unpriced: int

    @property
    def cost(self) -> Decimal | None:
        """Total cost; ``None`` if the cost of any call is unknown."""
        return None if self.unpriced else self.known_cost


PriceTable = Mapping[tuple[str, str], Price]
"""Prices by provider and model."""

Paid = Callable[[str, str, Tokens], None]
"""Called with provider, model and token counts as soon as a call is billed."""


def unbilled(_provider: str, _model: str, _tokens: Tokens) -> None:
    """Ignore the cost of a call."""


class Bill:
    """Costs of calls, recorded as soon as they are billed: a call is billed even if a later step fails.

    Args:
        prices: prices of the models.

    Attributes:
        entries: one per call, in order.
    """

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self.entries: list[CostEntry] = []

    def of(self, kind: CallKind) -> Paid:
        """Return a recorder of calls of one kind.

        >>> bill = Bill({})
        >>> bill.of("embed")("openai", "small", Tokens(7))
        >>> [(paid.kind, paid.tokens.input, paid.cost) for paid in bill.entries]
        [('embed', 7, None)]
        """
        return lambda provider, model, tokens: self.entries.append(entry(kind, provider, model, tokens, self._prices))


def entry(kind: CallKind, provider: str, model: str, tokens: Tokens, prices: PriceTable) -> CostEntry:
    """Return the cost entry of one call.

    >>> prices = {("openai", "small"): Price(Decimal("0.15"), Decimal("0.60"), Decimal("0.075"))}
    >>> entry("synthesis", "openai", "small", Tokens(1200, 300, cached_input=1000), prices).cost
    Decimal('0.000285')
    >>> entry("synthesis", "openai", "large", Tokens(1200, 300), prices).cost is None
    True
    """
    price = prices.get((provider, model))
    return CostEntry(kind, provider, model, tokens, None if price is None else _cost(tokens, price))


def total(entries: Sequence[CostEntry]) -> CostSum:
    """Return the sum of calls; independent of their order."""
    known_cost = Decimal(0)
    for cost_entry in entries:
        known_cost = known_cost if cost_entry.cost is None else _EXACT.add(known_cost, cost_entry.cost)
    return CostSum(
        calls=len(entries),
        input=sum(cost_entry.tokens.input or 0 for cost_entry in entries),
        output=sum(cost_entry.tokens.output or 0 for cost_entry in entries),
        cached_input=sum(cost_entry.tokens.cached_input for cost_entry in entries),
        search_units=sum(cost_entry.tokens.search_units or 0 for cost_entry in entries),
        known_cost=_plain(known_cost),
        unpriced=sum(cost_entry.cost is None for cost_entry in entries),
    )


def written(cost: Decimal | None) -> str | None:
    """Return a cost as JSON has it: a string of digits, without exponent or trailing zeros.

    >>> written(Decimal("0.00028500")), written(Decimal(3)), written(None)
    ('0.000285', '3', None)
    """
    return None if cost is None else f"{_plain(cost):f}"


def as_json(entries: Sequence[CostEntry]) -> dict[str, Any]:
    """Return the calls in the answer's form: `costs`, and their sum as `costs_total`."""
    together = total(entries)
    return {
        "costs": [
            {
                "kind": cost_entry.kind,
                "provider": cost_entry.provider,
                "model": cost_entry.model,
                "input_tokens": cost_entry.tokens.input,
                "cached_tokens": cost_entry.tokens.cached_input,
                "output_tokens": cost_entry.tokens.output,
                "search_units": cost_entry.tokens.search_units,
                "cost": written(cost_entry.cost),
            }
            for cost_entry in entries
        ],
        "costs_total": {
            "calls": together.calls,
            "input_tokens": together.input,
            "cached_tokens": together.cached_input,
            "output_tokens": together.output,
            "search_units": together.search_units,
            "cost": written(together.cost),
            "known_cost": written(together.known_cost),
            "unpriced": together.unpriced,
        },
    }


def _cost(tokens: Tokens, price: Price) -> Decimal | None:
    if tokens.search_units is not None:
        if price.search_unit is None:
            return None
        return _plain(_EXACT.scaleb(_EXACT.multiply(Decimal(tokens.search_units), price.search_unit), -PRICED_PER))
    if price.input is None or tokens.input is None or (tokens.output is None and price.output):
        return None
    cached = price.input if price.cached_input is None else price.cached_input
    charges = (
        (tokens.input - tokens.cached_input, price.input),
        (tokens.cached_input, cached),
        (tokens.output or 0, price.output),
    )
    cost = Decimal(0)
    for count, unit_price in charges:
        cost = _EXACT.fma(Decimal(count), unit_price, cost)
    return _plain(_EXACT.scaleb(cost, -PRICED_PER))


def _is_price(price: Decimal) -> bool:
    if not price.is_finite() or not 0 <= price < _MOST:
        return False
    exponent = _plain(price).as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_PLACES


def _plain(number: Decimal) -> Decimal:
    """Return one spelling for equal numbers: no trailing zeros in a fraction, no exponent above 0, no minus zero."""
    shortest = _EXACT.normalize(abs(number))
    exponent = shortest.as_tuple().exponent
    return _EXACT.quantize(shortest, Decimal(1)) if isinstance(exponent, int) and exponent > 0 else shortest
