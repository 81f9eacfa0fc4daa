"""The image installs the versions of the tests, each file checked by its hash."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)", re.MULTILINE)


def versions(name: str) -> dict[str, str]:
    """Packages of a file by normalised name."""
    return {canonical(package): version for package, version in PINNED.findall((ROOT / name).read_text())}


def canonical(package: str) -> str:
    return re.sub(r"[-_.]+", "-", package).lower()


def test_versions_are_those_of_the_constraints() -> None:
    """`make lock` writes the one from the other."""
    image, tested = versions("requirements-image.txt"), versions("constraints.txt")
    assert image.items() <= tested.items()


def test_each_package_has_hashes() -> None:
    requirements = (ROOT / "requirements-image.txt").read_text().split("\n", 1)[1]
    packages = re.split(r"\n(?=\S)", requirements.strip())
    assert len(packages) == len(versions("requirements-image.txt"))
    assert [one for one in packages if not re.search(r"--hash=sha256:[0-9a-f]{64}", one)] == []


def test_all_that_the_project_needs_is_there() -> None:
    """Its own dependencies, Flower's, and what builds it: the build asks for nothing else."""
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    hooks = described["tool"]["hatch"]["metadata"]["hooks"]
    wanted = hooks["custom"]["dependencies"] + described["build-system"]["requires"]
    wanted += tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]["dependencies"]
    wanted += described["project"]["optional-dependencies"]["monitoring"]
    names = {canonical(re.split(r"[\[<>=; ]", one)[0]) for one in wanted}
    assert names <= versions("requirements-image.txt").keys()


def test_the_image_installs_nothing_without_a_hash() -> None:
    installs = re.findall(r"^RUN pip install (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert installs == ["--require-hashes -r requirements-image.txt", "--no-deps --no-build-isolation ./client ."]
