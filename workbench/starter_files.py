"""Copies of the shipped settings files, for workers and Flower as services of systemd or in Kubernetes."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from worker.cli.usage import WrongUsage
from worker.settings.base import config_folder

_SETTINGS = ("worker.toml", "modes.toml", "profiles.toml", "glossary.toml", "flowerconfig.py")
_SECRETS = ("worker.env.example", "flower.env.example")
_FOLDERS = ("redis", "systemd", "kubernetes", "monitoring")

_SHIPPED_FOLDER, _SHIPPED_PROGRAMS = "/etc/retrieval-worker/", "/opt/retrieval-worker/bin/"
"""Places in the shipped units."""


def starter_files(folder: Path) -> dict[Path, bytes]:
    """Return the files for a folder: as shipped, but units name it, and the programs of this environment.

    Raises:
        WrongUsage: a unit can't name the folder.
    """
    shipped = config_folder()
    shipped_files = [shipped / name for name in (*_SETTINGS, *_SECRETS, "kustomization.yaml")]
    shipped_files += sorted(file for name in _FOLDERS for file in (shipped / name).iterdir() if file.is_file())
    contents = {file.relative_to(shipped): file.read_bytes() for file in shipped_files}
    return {
        folder / name: _of_this_place(content, folder) if name.suffix == ".service" else content
        for name, content in contents.items()
    }


def write(files: dict[Path, bytes], *, force: bool) -> None:
    """Write files; none if one of them is there.

    Raises:
        OSError: one can't be written.
        WrongUsage: some are there, and ``force`` is not given; the message names them.
    """
    existing_files = [str(file) for file in files if file.exists() or file.is_symlink()]
    if existing_files and not force:
        raise WrongUsage(
            f"already there: {', '.join(existing_files)}. Name another folder, or overwrite them with --force"
        )
    for file, content in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _of_this_place(unit: bytes, folder: Path) -> bytes:
    """Return a unit with a folder of settings, and the programs beside this Python, in their places."""
    places = {_SHIPPED_FOLDER: folder.resolve(), _SHIPPED_PROGRAMS: Path(sys.executable).parent}
    text = unit.decode()
    for shipped, place in places.items():
        text = text.replace(shipped, f"{_in_a_unit(place)}/")
    return text.encode()


def _in_a_unit(path: Path) -> str:
    """Return a path as a unit has it, between quotes; its per cent signs would be specifiers.

    >>> _in_a_unit(Path("/srv/100 % mine"))
    '/srv/100 %% mine'
    """
    if re.search(r"""["'\\$\s]""", str(path).replace(" ", "")) or not str(path).isprintable():
        raise WrongUsage(f"{path}: expected a path without quotes, $, backslashes and line breaks: units name it")
    return str(path).replace("%", "%%")
