from __future__ import annotations

import doctest
import importlib
import pkgutil

from tests.loops import each

import workbench
import worker

MODULES = sorted(
    module.name
    for package in (worker, workbench)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
)


@each(MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    """Every example of a docstring gives what it says."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    """The pure core explains itself by example."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(name) for name in MODULES if name.startswith("worker.core.")]
    assert sum(len(found.examples) for module in modules for found in finder.find(module)) >= 6
