"""Every used internal of Celery, kombu and billiard exists, and is listed."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
from collections import defaultdict
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

import worker.queue
from worker.queue.internals import DOCUMENTED, OVERRIDDEN, USED

LIBRARIES = ("celery", "kombu", "billiard")
MODULES = [module.name for module in pkgutil.walk_packages(worker.queue.__path__, "worker.queue.")]


def resolve(path: str) -> Any:
    module, _, name = path.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))


@pytest.mark.parametrize(
    "path",
    [
        *USED,
        *(
            f"{owner}.{name}"
            for (_, owner), names in [*OVERRIDDEN.items(), *DOCUMENTED.items()]
            for name in names.split()
        ),
    ],
)
def test_an_internal_is_there(path: str) -> None:
    """One that a newer version moved or renamed fails by its name."""
    assert resolve(path) is not inspect


def overridden() -> dict[tuple[str, str], str]:
    """Return the names that our classes override of theirs."""
    found: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for module in MODULES:
        for kind in vars(importlib.import_module(module)).values():
            if inspect.isclass(kind) and kind.__module__ == module:
                for name in vars(kind):
                    owner = _owner(kind, name)
                    if owner is not None:  # Celery writes a step's module into its qualified name
                        where = f"{owner.__module__}:{owner.__qualname__.removeprefix(f'{owner.__module__}.')}"
                        found[module.removeprefix("worker.queue."), where].add(name)
    return {place: " ".join(sorted(names)) for place, names in sorted(found.items())}


def _owner(kind: type, name: str) -> type | None:
    if name.startswith("__") and name != "__init__":
        return None
    theirs = (base for base in kind.__mro__[1:] if base.__module__.split(".")[0] in LIBRARIES)
    return next((base for base in theirs if name in vars(base)), None)


def test_every_override_is_listed() -> None:
    """Few, so that a new version of theirs changes little here."""
    listed = {place: {*OVERRIDDEN.get(place, "").split(), *DOCUMENTED.get(place, "").split()} for place in overridden()}
    assert {place: {*names.split()} for place, names in overridden().items()} == listed
    assert OVERRIDDEN.keys() | DOCUMENTED.keys() == listed.keys()
    assert sum(len(names.split()) for names in OVERRIDDEN.values()) <= 14
    assert len(USED) <= 10


def test_their_versions_are_bounded_from_above() -> None:
    """A newer one is let in by hand, once this file passes with it."""
    dependencies = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["dependencies"]
    for library in LIBRARIES:
        (wanted,) = [one for one in dependencies if re.match(rf"{library}\b", one)]
        assert "<" in wanted
