"""What model calls cost: what their provider counted, by a price table, in exact decimal arithmetic.

Prices are in one currency, that of the table. What has no price costs ``None``: unknown, never 0.
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
"""Prices are per ten to so many tokens or search units."""

MOST_TOKENS = 10**15
_MOST, _PLACES = Decimal(10) ** 9, 12

# What can't be written exactly raises. With the bounds above nothing can be so.
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, or a million search units.

    Attributes:
        input: tokens sent; ``None``: nobody knows.
        output: tokens made; 0 for models that make none (embeddings, rerankers).
        cached_input: tokens sent that the provider found in its prompt cache; ``None``: as much as ``input``.
        search_unit: what rerankers bill by that do not bill tokens; ``None``: nobody knows.

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
    """What a call took as its provider counted it; ``None`` where it did not.

    Attributes:
        input: sent, cached ones included.
        output: made.
        cached_input: of those sent, found in the provider's prompt cache.
        search_units: what a reranker bills by in place of tokens; ``None`` where it bills tokens.

    Raises:
        ValueError: a count that is negative, more than `MOST_TOKENS`, or more cached than sent.
    """

    input: int | None
    output: int | None = 0
    cached_input: int = 0
    search_units: int | None = None

    def __post_init__(self) -> None:
        known = (self.input, self.output, self.cached_input, self.search_units)
        counts = [count for count in known if count is not None]
        if not all(0 <= count <= MOST_TOKENS for count in counts) or self.cached_input > (self.input or 0):
            raise ValueError("expected counts of tokens, of which at most all of those sent are cached")


@dataclass(frozen=True, slots=True)
class CostEntry:
    """One call of a model.

    Attributes:
        kind: what it was for.
        provider: whose model, as settings name it.
        model: its name.
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
    """Several calls together.

    Attributes:
        calls: how many.
        input: tokens sent, as far as they are known.
        output: tokens made, as far as they are known.
        cached_input: of those sent, found in a prompt cache.
        search_units: what rerankers billed in place of tokens.
        known: what the calls with a known cost cost.
        unpriced: how many calls cost nobody knows what.
    """

    calls: int
    input: int
    output: int
    cached_input: int
    search_units: int
    known: Decimal
    unpriced: int

    @property
    def cost(self) -> Decimal | None:
        """What all of them cost; ``None`` as soon as one is unknown."""
        return None if self.unpriced else self.known


PriceTable = Mapping[tuple[str, str], Price]
"""Prices by provider and model."""

Paid = Callable[[str, str, Tokens], None]
"""Is told of a call as soon as it is paid for: whose model, its name, what the call took."""


def unbilled(_provider: str, _model: str, _tokens: Tokens) -> None:
    """For who does not ask what a call costs."""


class Bill:
    """What calls cost, noted as they are paid for: what fails after that was paid for all the same.

    Args:
        prices: of the models.

    Attributes:
        entries: one a call, in their order.
    """

    def __init__(self, prices: PriceTable) -> None:
        self._prices = prices
        self.entries: list[CostEntry] = []

    def of(self, kind: CallKind) -> Paid:
        """Notes calls of a kind.

        >>> bill = Bill({})
        >>> bill.of("embed")("openai", "small", Tokens(7))
        >>> [(one.kind, one.tokens.input, one.cost) for one in bill.entries]
        [('embed', 7, None)]
        """
        return lambda provider, model, tokens: self.entries.append(entry(kind, provider, model, tokens, self._prices))


def entry(kind: CallKind, provider: str, model: str, tokens: Tokens, prices: PriceTable) -> CostEntry:
    """What one call costs.

    >>> prices = {("openai", "small"): Price(Decimal("0.15"), Decimal("0.60"), Decimal("0.075"))}
    >>> entry("synthesis", "openai", "small", Tokens(1200, 300, cached_input=1000), prices).cost
    Decimal('0.000285')
    >>> entry("synthesis", "openai", "large", Tokens(1200, 300), prices).cost is None
    True
    """
    price = prices.get((provider, model))
    return CostEntry(kind, provider, model, tokens, None if price is None else _cost(tokens, price))


def total(entries: Sequence[CostEntry]) -> CostSum:
    """The sum of calls, the same in any order."""
    known = Decimal(0)
    for one in entries:
        known = known if one.cost is None else _EXACT.add(known, one.cost)
    return CostSum(
        calls=len(entries),
        input=sum(one.tokens.input or 0 for one in entries),
        output=sum(one.tokens.output or 0 for one in entries),
        cached_input=sum(one.tokens.cached_input for one in entries),
        search_units=sum(one.tokens.search_units or 0 for one in entries),
        known=_plain(known),
        unpriced=sum(one.cost is None for one in entries),
    )


def written(cost: Decimal | None) -> str | None:
    """A cost as it stands in JSON: a string of digits, without exponent and without zeros at the end.

    >>> written(Decimal("0.00028500")), written(Decimal(3)), written(None)
    ('0.000285', '3', None)
    """
    return None if cost is None else f"{_plain(cost):f}"


def as_json(entries: Sequence[CostEntry]) -> dict[str, Any]:
    """Calls as an answer has them: `costs`, and their sum as `costs_total`."""
    together = total(entries)
    return {
        "costs": [
            {
                "kind": one.kind,
                "provider": one.provider,
                "model": one.model,
                "input_tokens": one.tokens.input,
                "cached_tokens": one.tokens.cached_input,
                "output_tokens": one.tokens.output,
                "search_units": one.tokens.search_units,
                "cost": written(one.cost),
            }
            for one in entries
        ],
        "costs_total": {
            "calls": together.calls,
            "input_tokens": together.input,
            "cached_tokens": together.cached_input,
            "output_tokens": together.output,
            "search_units": together.search_units,
            "cost": written(together.cost),
            "known_cost": written(together.known),
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
    parts = (
        (tokens.input - tokens.cached_input, price.input),
        (tokens.cached_input, cached),
        (tokens.output or 0, price.output),
    )
    cost = Decimal(0)
    for count, each in parts:
        cost = _EXACT.fma(Decimal(count), each, cost)
    return _plain(_EXACT.scaleb(cost, -PRICED_PER))


def _is_price(price: Decimal) -> bool:
    if not price.is_finite() or not 0 <= price < _MOST:
        return False
    exponent = _plain(price).as_tuple().exponent
    return isinstance(exponent, int) and exponent >= -_PLACES


def _plain(number: Decimal) -> Decimal:
    """One spelling for equal numbers: no zeros at the end of a fraction, no exponent above 0, no minus zero."""
    shortest = _EXACT.normalize(abs(number))
    whole = shortest.as_tuple().exponent
    return _EXACT.quantize(shortest, Decimal(1)) if isinstance(whole, int) and whole > 0 else shortest
