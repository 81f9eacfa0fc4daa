"""Patterns that the oldest Python here can match: Debian 12's 3.11.2 has a fault in possessive groups."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from re import _constants as kinds  # type: ignore[attr-defined] # private
from re import _parser as parser  # type: ignore[attr-defined] # private
from typing import TYPE_CHECKING, Any

import pytest

import workbench.core
import worker.core
import worker.queue

if TYPE_CHECKING:
    from collections.abc import Iterator


def _patterns() -> dict[str, re.Pattern[Any]]:
    """Every pattern that a module of a core or the queue keeps, by the module and its name there."""
    for package in (worker.core, worker.queue, workbench.core):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return {
        f"{module}.{name}": value
        for module, loaded in sorted(sys.modules.items())
        if module.startswith(("worker.core.", "worker.queue.", "workbench.core."))
        for name, value in vars(loaded).items()
        if isinstance(value, re.Pattern)
    }


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every node of a parsed pattern: its kind and its arguments, among which are parsed patterns and lists of them."""
    for kind, arguments in tree:
        yield kind, arguments
        pending = [arguments]
        while pending:
            part = pending.pop()
            if isinstance(part, parser.SubPattern):
                yield from _nodes(part)
            elif isinstance(part, tuple | list):
                pending += part


def _possessive_groups(pattern: re.Pattern[Any]) -> list[str]:
    """The possessive repeats of more than one character: `(?:ab+)*+`, where `(?>(?:ab+)*)` means the same."""
    single = {kinds.LITERAL, kinds.NOT_LITERAL, kinds.IN, kinds.ANY}
    return [
        str(arguments[2])
        for kind, arguments in _nodes(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
        if kind is kinds.POSSESSIVE_REPEAT and [node[0] in single for node in arguments[2]] != [True]
    ]


@pytest.mark.parametrize("name", sorted(_patterns()))
def test_no_pattern_repeats_a_group_possessively(name: str) -> None:
    """Before Python 3.11.5 such a group that fails within leaves the match at a wrong place."""
    assert not _possessive_groups(_patterns()[name]), "write (?>(?:...)*) instead of (?:...)*+"


def test_the_check_sees_possessive_groups() -> None:
    assert len(_possessive_groups(re.compile(r"x(?:a(?=(?:b|cc){2,}+))?y|(?<=z)(?:ab+)*+"))) == 2
    assert not _possessive_groups(re.compile(r"a++[bc]*+(?>(?:ab++)*).{1,3}+"))
