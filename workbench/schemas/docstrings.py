"""Descriptions of the schemas, from the types' docstrings."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.schemas.rules import Schema

_ATTRIBUTE = re.compile(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)


def class_summary(kind: type) -> str:
    """Return a class's docstring up to its sections, as Markdown."""
    return inspect.cleandoc(kind.__doc__ or "").partition("\nAttributes:")[0].strip().replace("``", "`")


def describe_fields(properties: dict[str, Schema], kind: type[Any]) -> None:
    """Add missing descriptions from the ``Attributes:`` sections of a type and its bases."""
    for base in kind.__mro__:
        section = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")[2]
        for field, text in _ATTRIBUTE.findall(section):
            alias = kind.model_fields[field].alias if field in kind.model_fields else None
            if (name := alias or field) in properties:
                properties[name].setdefault("description", " ".join(text.replace("``", "`").split()))
