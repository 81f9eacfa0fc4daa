"""The declaration at a problem's place, for messages: both bounds of a number, the fields of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic_core import ErrorDetails

_LOWER = {"ge": "at least", "gt": "more than"}
_UPPER = {"le": "at most", "lt": "less than"}
"""Name of a bound in pydantic → its words."""


def expected_range(model: type[BaseModel] | None, problem: ErrorDetails) -> str | None:
    """Return the range of a number that is out of it, ``expected at least 0 and at most 1``; None for other problems.

    Args:
        model: the type that was validated; None: only the bound that pydantic names is known.
        problem: the problem.
    """
    passed = {name: value for name, value in problem.get("ctx", {}).items() if name in _LOWER | _UPPER}
    if not passed:
        return None
    field = _field(model, problem["loc"]) if model else None
    declared = dict(_bounds(field)) if field else {}
    bounds = declared if passed.items() <= declared.items() else passed
    phrases = [f"{word} {bounds[name]}" for words in (_LOWER, _UPPER) for name, word in words.items() if name in bounds]
    return f"expected {' and '.join(phrases)}"


def field_names(model: type[BaseModel], location: Sequence[str | int]) -> list[str]:
    """Return the names of the fields that an object at a location may have."""
    field = _field(model, location)
    owners = [model] if field is None else _models(field.annotation)
    return [name for owner in owners for name in owner.model_fields]


def _field(model: type[BaseModel], location: Sequence[str | int]) -> FieldInfo | None:
    """Return the innermost field on the way to a location."""
    innermost, owners = None, [model]
    for key in location:
        fields = [field for owner in owners for name, field in owner.model_fields.items() if key in {name, field.alias}]
        if fields:
            innermost = fields[0]
            owners = [*_models(innermost.annotation)]
    return innermost


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    for member in parts_of(annotation):
        if isinstance(member, type) and issubclass(member, BaseModel):
            yield member


def parts_of(annotation: Any) -> Iterator[Any]:
    """Yield a type and all that it is made of: members of unions, items of lists, annotations."""
    yield annotation
    for member in get_args(annotation):
        yield from parts_of(member)


def _bounds(field: FieldInfo) -> Iterator[tuple[str, Any]]:
    for member in (field, *parts_of(field.annotation)):
        for constraint in member.metadata if isinstance(member, FieldInfo) else ():
            yield from ((name, getattr(constraint, name)) for name in _LOWER | _UPPER if hasattr(constraint, name))
