"""Backends in environments of their own: the client as a wheel, beside what such a backend has; and those of Node."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "benchmarks" / ".peers"
SECONDS = 600
PACKAGES = tomllib.loads(Path(__file__).with_name("backend_packages.toml").read_text())


def wheel(folder: Path) -> Path:
    """Build the client's wheel."""
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT / "client"),
    ]
    check(run(build, folder))
    (built,) = folder.glob("retrieval_client-*.whl")
    return built


def environment(built: Path, *packages: str) -> Path:
    """Return the folder of an environment with the client and some packages; it is kept.

    The test is skipped where the packages can't be had, e.g. without a package index.
    """
    key = hashlib.sha256(f"{sys.version}{packages}".encode() + built.read_bytes()).hexdigest()[:12]
    with _locked(f"backend-{key}") as home:
        if not (home / ".installed").exists():
            check(run([sys.executable, "-m", "venv", "--clear", str(home)], ROOT))
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", str(built), *packages]
            done = run(pip, ROOT)
            if "No matching distribution" in done.stderr or "Connection" in done.stderr:
                pytest.skip(f"{packages}: {done.stderr.strip().splitlines()[-1]}")
            check(done)
            (home / ".installed").touch()
    return home


def node_modules(*packages: str) -> Path:
    """Return a folder `node_modules` with some packages; it is kept.

    The test is skipped where there is no Node.js, or the packages can't be had.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs Node.js and npm")
    with _locked(f"node-{hashlib.sha256(str(packages).encode()).hexdigest()[:12]}") as home:
        if not (home / ".installed").exists():
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir()
            (home / "package.json").write_text("{}\n")
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts", "--loglevel", "error"]
            done = run(["npm", "install", *quiet, *packages], home)
            if any(code in done.stderr for code in ("E404", "ENOTFOUND", "ECONN", "ETIMEDOUT", "ETARGET", "EAI_AGAIN")):
                pytest.skip(f"{packages}: {done.stderr.strip().splitlines()[0]}")
            check(done)
            (home / ".installed").touch()
    return home / "node_modules"


@contextmanager
def _locked(name: str) -> Iterator[Path]:
    """Hold the lock of a folder that is kept; other processes wait."""
    KEPT.mkdir(exist_ok=True)
    home = KEPT / name
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield home


def outside() -> dict[str, str]:
    """The variables of this process without those of this project's environment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}


def run(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder, without the variables of this project's environment."""
    return subprocess.run(
        command, cwd=folder, env=outside() | environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def check(done: subprocess.CompletedProcess[str]) -> None:
    """A program ended well."""
    assert done.returncode == 0, done.stderr
