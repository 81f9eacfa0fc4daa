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
    """Its own dependencies, its extras, and what builds it: the build asks for nothing else."""
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
    wanted = described["project"]["dependencies"] + described["build-system"]["requires"] + client["dependencies"]
    for extra in ("monitoring", "inspector", "semantic"):
        wanted += described["project"]["optional-dependencies"][extra]
    names = {canonical(re.split(r"[\[<>=; ]", one)[0]) for one in wanted} - {client["name"]}
    assert names <= versions("requirements-image.txt").keys()


def test_the_worker_needs_the_client_of_its_own_version() -> None:
    """By a version that any index may have, not by a path: a wheel is installed on other machines."""
    worker, client = (tomllib.loads((ROOT / f / "pyproject.toml").read_text())["project"] for f in (".", "client"))
    assert f"{client['name']}=={worker['version']}" in worker["dependencies"]
    assert client["version"] == worker["version"]
    assert [one for one in worker["dependencies"] if "@" in one] == []


def test_the_image_installs_nothing_without_a_hash() -> None:
    installs = re.findall(r"^RUN pip install (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert installs == ["--require-hashes -r requirements-image.txt", "--no-deps --no-build-isolation ./client ."]
