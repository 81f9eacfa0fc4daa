"""Each pydantic model of the worker and the workbench can be used as soon as its module is imported."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

import pytest

import workbench
import worker

if TYPE_CHECKING:
    from collections.abc import Iterator

NOT_IMPORTED = {"worker.app", "workbench.__main__"}
"""Run on import: the first makes the app of the environment's settings, the second is a program."""


def models() -> Iterator[type[Any]]:
    packages = (pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in (worker, workbench))
    for name in sorted({module.name for modules in packages for module in modules} - NOT_IMPORTED):
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, type) and value.__module__ == name and hasattr(value, "__pydantic_complete__"):
                yield value


@pytest.mark.parametrize("model", [pytest.param(one, id=f"{one.__module__}.{one.__qualname__}") for one in models()])
def test_a_model_is_complete(model: type[Any]) -> None:
    """A name that only type checkers import leaves a model that fails when it is used first."""
    assert model.__pydantic_complete__
