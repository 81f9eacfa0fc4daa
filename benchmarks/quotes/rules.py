"""Sets of rules, and rules made of changes of a text."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from benchmarks.quotes.passages import GeneratedQuote, Rule, Source

Change = Callable[[random.Random, str], str]


class Rules(dict[str, tuple[Rule, str]]):
    """Rules by name, each with the verdict that its quotes deserve."""

    def add(self, expected: str) -> Callable[[Rule], Rule]:
        """Decorate a rule whose quotes deserve this verdict."""

        def register(rule: Rule) -> Rule:
            self[rule.__name__] = rule, expected
            return rule

        return register


def texture(change: Change) -> Rule:
    """A rule that changes how the passage is written: it applies where the change does something."""

    def rule(rng: random.Random, source: Source) -> GeneratedQuote | None:
        quote = change(rng, source.passage)
        return GeneratedQuote(quote) if quote != source.passage else None

    rule.__name__, rule.__doc__ = change.__name__, change.__doc__
    return rule


def edit(change: Change) -> Rule:
    """A rule that changes what the passage says: it applies where the change does something."""

    def rule(rng: random.Random, source: Source) -> GeneratedQuote | None:
        quote = change(rng, source.passage)
        # Dots at the ends may be the chunk's own or the writer's: without them it must say something else as well.
        return GeneratedQuote(quote) if plain(quote).strip(" .…") not in plain(source.text) else None

    rule.__name__, rule.__doc__ = change.__name__, change.__doc__
    return rule


def some(rng: random.Random, pattern: str, text: str, change: Callable[[re.Match[str]], str]) -> str:
    """The text with one place changed, at random; as it was, if there is no such place."""
    places = list(re.finditer(pattern, text))
    if not places:
        return text
    place = rng.choice(places)
    return text[: place.start()] + change(place) + text[place.end() :]


def swap(rng: random.Random, text: str, pairs: dict[str, str]) -> str:
    """The text with one word for another, keeping a capital."""
    pattern = r"\b(?:" + "|".join(map(re.escape, pairs)) + r")\b"

    def other(match: re.Match[str]) -> str:
        new = pairs[match[0].lower()] if match[0].lower() in pairs else pairs[match[0]]
        return new.capitalize() if match[0][0].isupper() and match[0] not in pairs else new

    return some(rng, f"(?i){pattern}" if all(map(str.islower, pairs)) else pattern, text, other)


def plain(text: str) -> str:
    """For a rule to see that its change says something else: white space, letter case and dashes aside."""
    return re.sub("[–—−]", "-", " ".join(text.split())).lower()
