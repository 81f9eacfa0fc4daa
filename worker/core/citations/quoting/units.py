"""Units that letter case alone tells apart: a quote with ``MW`` does not say what a chunk with ``mW`` says."""

from __future__ import annotations

from worker.core.citations.quoting.characters import letters_as_latin
from worker.core.text.normal_forms import normal_form


def _units() -> dict[str, str]:
    """How each is written, and what it is; also in capitals, where those are another one's."""
    units = {"nm": "nanometre", "Nm": "newton metre"}
    for unit in ("W", "V", "A", "Ω", "J", "Pa", "Hz", "N", "eV", "Wh", "VA", "Sv", "Gy", "Bq", "g"):
        units |= {f"m{unit}": f"milli-{unit}", f"M{unit}": f"mega-{unit}"}
    for unit in ("W", "V", "A", "Ω", "J", "Pa", "Hz", "N", "eV", "Wh", "VA"):
        units[f"M{unit.upper()}"] = f"mega-{unit}"
    for prefix in ("k", "K", "M", "G", "T", "P"):
        units |= {f"{prefix}{unit}": f"{prefix.upper()} bits" for unit in ("b", "bit", "bps")}
        units |= {f"{prefix}{unit}": f"{prefix.upper()} bytes" for unit in ("B", "Bps")}
    return units


_UNITS = _units()


def is_other_unit(one: str, other: str) -> bool:
    """Whether two words, equal but for letter case, are two units.

    >>> is_other_unit("mW", "MW"), is_other_unit("kHz", "KHZ"), is_other_unit("Mb", "MB"), is_other_unit("mw", "MW")
    (True, False, True, False)
    """
    unit, other_unit = _unit(one), _unit(other)
    return bool(unit and other_unit and unit != other_unit)


def _unit(text: str) -> str:
    """What unit a word is, whatever is hidden in it or only looks like its letters."""
    letters = letters_as_latin(normal_form("NFKC", text))
    return _UNITS.get("".join(filter(str.isalpha, letters)), "")
