"""The table of guards: what each one is, what it holds, and the tests that must fail without it.

The rows are data, in `tests/guards/table/*.toml`, by what they hold.
"""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_suffix("")
RUNGS = ("unit", "integration", "acceptance")


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard.

    Attributes:
        name: unique, for `--only`.
        why: what would happen without it.
        file: where it is, from the root of the project.
        text: exactly what is the guard; stands in the file once.
        instead: what stands there when it is taken out.
        tests: node ids; each must fail then. One without parameters stands for all of its cases, of which one must.
    """

    name: str
    why: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...]

    @property
    def rung(self) -> int:
        """How slow its slowest test is: a position in `RUNGS`."""
        return max(RUNGS.index(test.split("/")[1]) for test in self.tests)


def read(folder: Path = FOLDER) -> list[Guard]:
    """All guards, those with the fastest tests first."""
    rows = [row for file in sorted(folder.glob("*.toml")) for row in tomllib.loads(file.read_text())["guard"]]
    guards = [Guard(**{**row, "tests": tuple(row["tests"])}) for row in rows]
    return sorted(guards, key=lambda guard: guard.rung)


def taken_out(guard: Guard, root: Path) -> str | None:
    """The guard's file without the guard; None if its text does not stand there exactly once."""
    path = root / guard.file
    source = path.read_text() if path.is_file() else ""
    return source.replace(guard.text, guard.instead) if source.count(guard.text) == 1 else None


def problems(guard: Guard, root: Path) -> list[str]:
    """Statements of a row of the table that are no longer true; runs nothing."""
    changed = taken_out(guard, root)
    if changed is None:
        return [f"its text does not stand in {guard.file} exactly once"]
    found = [f"there is no test {test}" for test in guard.tests if not _exists(test, root)]
    if guard.file.endswith(".py"):
        try:
            ast.parse(changed)
        except SyntaxError:
            found.append("what stands in its place is no Python: every test would fail, of whatever")
    return found


def _exists(test: str, root: Path) -> bool:
    """Whether a file defines a test; its parameters are known to pytest alone."""
    file, _, name = test.partition("::")
    path = root / file
    if not path.is_file():
        return False
    wanted = name.partition("[")[0]
    return any(isinstance(node, ast.FunctionDef) and node.name == wanted for node in ast.parse(path.read_text()).body)
