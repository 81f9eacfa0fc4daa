"""docs/configuration.md and config/worker.toml against the settings themselves."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from worker.settings import Settings, config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
WHOLE_SECTIONS = ("search", "pool", "standby", "worker", "limits", "metrics", "verify", "log")
"""Those that the shipped file shows whole, so that an operator sees what there is."""


def leaves(model: type[BaseModel], *path: str) -> Iterator[tuple[str, Any]]:
    """Each setting inside a section with its default; keys are secrets, and stand with the variables."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from leaves(kind, *path, name)
        elif path and name != "api_key":
            yield ".".join((*path, name)), field.default


DEFAULTS = dict(leaves(Settings))


def as_written(default: Any) -> str:
    return str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.parametrize(("name", "default"), DEFAULTS.items())
def test_every_setting_is_documented_with_its_default(name: str, default: Any) -> None:
    """A row of its own, which says what holds where nobody sets it."""
    rows = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{re.escape(name)}` \| ([^|]*) \|", rows, re.MULTILINE)
    assert row, name
    if isinstance(default, bool | int | float) or (isinstance(default, str) and default):
        assert row[1] == f"`{as_written(default)}`"


@pytest.mark.parametrize("name", [name for name in DEFAULTS if name.startswith(tuple(f"{s}." for s in WHOLE_SECTIONS))])
def test_the_shipped_file_says_the_defaults(name: str) -> None:
    """Whoever copies it changes nothing by that."""
    section, _, setting = name.partition(".")
    assert tomllib.loads((config_folder() / "worker.toml").read_text())[section][setting] == DEFAULTS[name]
