"""Base of all tables of the settings file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from retrieval_client.contract.ranges import parts_of


def matching(pattern: str, expected: str) -> AfterValidator:
    """Return a validator that matches a whole string and describes the expectation in words."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"expected {expected}")
        return text

    return AfterValidator(check)


_QUOTED = r'"(?:[^"]|"")+"'


def _unquoted(name: str) -> str:
    """Return a name of Postgres without the quotation marks in which psql shows it, part by part.

    >>> _unquoted('public."DocumentChunk"'), _unquoted("shop.items"), _unquoted('say "hi"')
    ('public.DocumentChunk', 'shop.items', 'say "hi"')
    """
    match = re.fullmatch(rf"({_QUOTED}|[^.]+)(?:\.({_QUOTED}|[^.]+))?", name)
    names = [segment for segment in (match.groups() if match else [name]) if segment is not None]
    return ".".join(
        segment[1:-1].replace('""', '"') if re.fullmatch(_QUOTED, segment) else segment for segment in names
    )


Identifier = Annotated[str, AfterValidator(_unquoted), matching(r"[^\x00]{1,63}", "a name of 1 to 63 characters")]
QualifiedName = Annotated[
    str, AfterValidator(_unquoted), matching(r"[^\x00.]{1,63}(\.[^\x00.]{1,63})?", "a name, or schema.name")
]
Name = Annotated[str, matching(r"[^\x00-\x1f\x7f-\x9f]+", "a name, without control characters")]
"""A name that the settings give, as to a corpus."""

Seconds = Annotated[float, Field(gt=0, le=86_400)]


def config_folder() -> Path:
    """Return the folder of ``worker.toml`` and ``schema.sql``: in the package, or beside it in a checkout."""
    packaged = Path(__file__).parent.parent / "config"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent.parent / "config"


class Section(BaseModel):
    """A table of the TOML file; frozen, without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a boolean where pydantic would take it for 0 or 1."""
        kinds = {*parts_of(cls.model_fields[info.field_name or ""].annotation)}
        if kinds & {int, float} and bool not in kinds:
            members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
            if any(isinstance(member, bool) for member in members):
                raise ValueError("expected a number, not true or false")
        return value
