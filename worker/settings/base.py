"""What every table of the settings file is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
)

Identifier = Annotated[str, StringConstraints(pattern=r"^[^\x00]{1,63}$")]
QualifiedName = Annotated[str, StringConstraints(pattern=r"^[^\x00.]{1,63}(\.[^\x00.]{1,63})?$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]


def config_folder() -> Path:
    """Where ``worker.toml`` and ``schema.sql`` are: in the package, or beside it in a checkout."""
    packaged = Path(__file__).parent.parent / "config"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "config"


class Section(BaseModel):
    """A table of the TOML file: no unknown keys, never changed after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True)
