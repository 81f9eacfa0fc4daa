"""The table of guards is kept true: what it names is there."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from tests.guards.table import ROOT, Guard, problems, read
from tests.loops import each

GUARDS = read()


@each(GUARDS, attrgetter("name"))
def test_each_guard_stands_where_the_table_says(guard: Guard) -> None:
    """Its text is in its file once, its tests are there, and without it the file is a program still."""
    assert problems(guard, ROOT) == []


def test_each_guard_has_a_name_of_its_own() -> None:
    """`--only` means one."""
    names = [guard.name for guard in GUARDS]
    assert len({*names}) == len(names)


def test_what_is_wrong_with_a_row_is_said() -> None:
    """A guard that was moved or removed, a test that was renamed, a change that breaks the file."""
    guard = GUARDS[0]
    assert problems(replace(guard, text="what nobody has written"), ROOT) == [
        f"its text does not stand in {guard.file} exactly once"
    ]
    assert problems(replace(guard, file="worker/nowhere.py"), ROOT) == [
        "its text does not stand in worker/nowhere.py exactly once"
    ]
    (gone,) = problems(replace(guard, tests=("tests/unit/test_guards.py::test_that_is_gone",)), ROOT)
    assert gone == "there is no test tests/unit/test_guards.py::test_that_is_gone"
    (broken,) = problems(replace(guard, instead="((("), ROOT)
    assert "no Python" in broken
