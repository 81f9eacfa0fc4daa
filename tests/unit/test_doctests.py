from __future__ import annotations

import doctest
import importlib
import pkgutil

from tests.loops import each

import worker

MODULES = sorted(module.name for module in pkgutil.walk_packages(worker.__path__, "worker."))


@each(MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    """Every example of a docstring gives what it says."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    """The pure core explains itself by example."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(name) for name in MODULES if name.startswith("worker.core.")]
    assert sum(len(found.examples) for module in modules for found in finder.find(module)) >= 6
