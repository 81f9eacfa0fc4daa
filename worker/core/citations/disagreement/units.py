"""Units of measurement, by symbol and by word, with exact factors between those of one dimension."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class Unit(NamedTuple):
    """What numbers are measured in: ``(number + offset) × factor`` of the dimension's base."""

    dimension: str
    factor: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)


UNSCALED = Unit("")[1:]
_SYMBOL_PREFIXES = {"p": -12, "n": -9, "μ": -6, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12}
_WORD_PREFIXES = {"pico": -12, "nano": -9, "micro": -6, "milli": -3, "centi": -2, "kilo": 3, "mega": 6, "giga": 9}
# Dimension: symbols; words (their plurals in -s go without saying). Prefixes apply to all of these.
_PREFIXED = {
    "frequency": ("Hz", "hertz"),
    "voltage": ("V", "volt"),
    "current": ("A", "ampere amp"),
    "power": ("W", "watt"),
    "energy": ("J", "joule"),
    "capacitance": ("F", "farad"),
    "inductance": ("", "henry"),
    "resistance": ("Ω Ohm", "ohm"),
    "pressure": ("Pa", "pascal"),
    "force": ("N", "newton"),
    "flux": ("Wb", "weber"),
    "length": ("m", "metre meter"),
    "mass": ("g", "gram gramme"),
    "volume": ("l L", "litre liter"),
    "time": ("s sec", "second"),
    "data": ("", "byte"),
    "bits": ("bit", "bit"),
    "light": ("lm", "lumen"),
}
# Dimension: names by exact factor, in the base of the prefixed ones; names in symbols' own letter case.
_FACTORS: dict[str, dict[str, str]] = {
    "time": {"60": "min minute", "3600": "h hr hrs hour", "86400": "day", "604800": "week"},
    "months": {"1": "month", "12": "year"},
    "length": {
        "1/100": "cm",
        "1/10": "dm",
        "254/10000": "inch inches",
        "3048/10000": "ft foot feet",
        "9144/10000": "yard yd",
        "1609344/1000": "mile mi",
    },
    "area": {"1": "m2", "1/10000": "cm2", "1/1000000": "mm2", "1000000": "km2", "10000": "ha hectare"},
    "volume": {"1000": "m3", "1/10": "dl", "1/100": "cl", "1/1000": "cm3"},
    "mass": {"1000000": "t tonne", "45359237/100000": "lb lbs pound-mass", "45359237/1600000": "oz ounce"},
    "energy": {"3600": "Wh", "3600000": "kWh", "3600000000": "MWh"},
    "pressure": {"100000": "bar", "100": "mbar hPa"},
    "length/time": {"5/18": "kmh kph", "1609344/3600000": "mph"},
    "data": {
        "1000": "kB KB",
        "1000000": "MB",
        "1000000000": "GB",
        "1000000000000": "TB",
        "1024": "KiB",
        "1048576": "MiB",
        "1073741824": "GiB",
    },
    "share": {"1": "% percent", "1/10": "‰"},
    "rotation": {"1": "rpm"},
    "tempo": {"1": "bpm BPM"},
    "angle": {"1": "° degree"},
    "pitch": {"1": "cent", "100": "semitone"},
    "gbp": {"1": "£ GBP pound"},
    "usd": {"1": "$ USD dollar"},
    "eur": {"1": "€ EUR euro"},
    "jpy": {"1": "¥ JPY yen"},
    "inr": {"1": "₹ INR rupee"},
    **{name: {"1": name} for name in ("dB", "dBu", "dBV", "dBm", "dBFS", "dBTP", "LUFS", "LU", "dBSPL")},
    **{f"dB({letter})": {"1": f"dB({letter}) dB{letter}"} for letter in "AC"},
}
_CELSIUS, _FAHRENHEIT = Fraction("273.15"), Fraction("459.67")
CURRENCIES = frozenset("£$€¥₹")
CLOCK, HOUR = Unit("time of day"), 3600


def _unit_tables() -> tuple[dict[str, Unit], dict[str, Unit]]:
    """Units by symbol (letter case counts) and by word (in lower case)."""
    symbols = {
        **{sign: Unit("temperature", offset=_CELSIUS) for sign in ("°C", "℃")},
        **{sign: Unit("temperature", Fraction(5, 9), _FAHRENHEIT) for sign in ("°F", "℉")},
        "°K": Unit("temperature"),
        "K": Unit("temperature"),
    }
    words = {
        **dict.fromkeys(("celsius", "centigrade"), symbols["°C"]),
        "fahrenheit": symbols["°F"],
        "kelvin": symbols["K"],
        "kilohm": Unit("resistance", Fraction(1000)),
        "kilohms": Unit("resistance", Fraction(1000)),
        "decibel": Unit("dB"),
        "decibels": Unit("dB"),
    }
    for dimension, (short, long) in _PREFIXED.items():
        # Grams and litres are no SI bases, but every factor of a dimension is by the same one.
        for symbol in short.split():
            symbols[symbol] = Unit(dimension)
            symbols |= {p + symbol: Unit(dimension, Fraction(10) ** n) for p, n in _SYMBOL_PREFIXES.items()}
        for word in long.split():
            for prefix, n in {"": 0, **_WORD_PREFIXES}.items():
                words |= dict.fromkeys((prefix + word, prefix + word + "s"), Unit(dimension, Fraction(10) ** n))
    for dimension, factors in _FACTORS.items():
        for factor, names in factors.items():
            symbols |= dict.fromkeys(names.split(), Unit(dimension, Fraction(factor)))
            words |= {
                form: Unit(dimension, Fraction(factor))
                for name in names.split()
                if name.isalpha() and name.islower() and len(name) > _SHORT
                for form in (name, name + "s")
            }
    return symbols, words


_SHORT = 2
SYMBOLS, UNIT_WORDS = _unit_tables()
