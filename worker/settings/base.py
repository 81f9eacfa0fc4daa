"""Base of all tables of the settings file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator that matches a whole string and describes the expectation in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


Identifier = Annotated[str, matching(r"[^\x00]{1,63}", "a name of 1 to 63 characters")]
QualifiedName = Annotated[str, matching(r"[^\x00.]{1,63}(\.[^\x00.]{1,63})?", "a name, or schema.name")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


def config_folder() -> Path:
    """Return the folder of ``worker.toml`` and ``schema.sql``: in the package, or beside it in a checkout."""
    packaged = Path(__file__).parent.parent / "config"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "config"


class Section(BaseModel):
    """A table of the TOML file; frozen, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)
