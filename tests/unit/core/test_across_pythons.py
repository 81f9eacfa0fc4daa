"""The same outcomes on every supported Python that this machine has; on one alone, those of the others by digest."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("across_pythons.py")
SUPPORTED = ("3.11", "3.12", "3.13", "3.14")
OWN = "{}.{}".format(*sys.version_info)

# After a change of the rules: the digests that a failing test shows, if they are the same on several Pythons.
RECORDED = {
    "characters": "d5054ddf2a0e7f4eb76f62527bdc124c03d8ffa9a8454b6bd917b690b2309492",
    "changed": "7e13f6ea01fb2b2f93f2307a3091a6e04b92d62eb602e12f0fe125c50a7ac2c0",
}


@functools.cache
def interpreters() -> dict[str, str]:
    """Return an interpreter for each supported version: on PATH, or installed by pyenv."""
    found = {OWN: sys.executable}
    for version in SUPPORTED:
        of_pyenv = sorted(_pyenv_versions().glob(f"{version}.*/bin/python3"))
        for path in (shutil.which(f"python{version}"), *map(str, of_pyenv)):
            if path and version not in found and _version(path) == version:
                found[version] = path
    return found


@functools.cache
def _pyenv_versions() -> Path:
    root = os.environ.get("PYENV_ROOT")
    if root is None and (pyenv := shutil.which("pyenv")):
        root = subprocess.run([pyenv, "root"], check=True, capture_output=True, text=True).stdout.strip()
    return Path(root or Path.home() / ".pyenv") / "versions"


def _version(path: str) -> str:
    """Return the version of an interpreter; nothing if it does not start, as a shim of a version not chosen."""
    command = [path, "-I", "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()


@functools.cache
def digests(version: str, *groups: str) -> dict[str, str]:
    """Return the digests of groups of outcomes on an interpreter."""
    command = [interpreters()[version], "-I", str(SCRIPT), "--digest", *groups]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


QUICK = ("published", "characters", "changed")


@pytest.mark.parametrize("version", SUPPORTED)
def test_verdicts_and_readings_are_those_of_this_python(version: str) -> None:
    """Of the published quotes, and of texts with characters that versions of Unicode differ in."""
    if version not in interpreters():
        pytest.skip(f"no Python {version} here")
    assert digests(version, *QUICK) == digests(OWN, *QUICK)


def test_outcomes_are_as_recorded() -> None:
    """So a Python by itself shows that it agrees with the others."""
    own = digests(OWN, *QUICK)
    assert {group: own[group] for group in RECORDED} == RECORDED


@pytest.mark.parametrize("version", SUPPORTED)
def test_all_characters_give_what_they_give_in_this_python(version: str) -> None:
    """Every code point by itself, and all that Unicode 15 and 16 added in every text of the sweep."""
    if version not in interpreters():
        pytest.skip(f"no Python {version} here")
    groups = ("all characters", "added")
    assert digests(version, *groups) == digests(OWN, *groups)
