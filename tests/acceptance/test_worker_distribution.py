"""Wheels of the worker and its client, as `pip wheel` builds them from a checkout: they install on any machine."""

from __future__ import annotations

import shutil
import sys
import zipfile
from typing import TYPE_CHECKING

from .backend_apps import ROOT, check, run

if TYPE_CHECKING:
    from pathlib import Path

PARTS = ("pyproject.toml", "README.md", "LICENSE", "client", "config", "workbench", "worker")


def test_wheels_install_where_the_checkout_is_not(tmp_path: Path) -> None:
    """Build both in a copy, remove it, install them by their names: what is installed says its version."""
    checkout, wheels = tmp_path / "checkout", tmp_path / "wheels"
    checkout.mkdir()
    for part in PARTS:
        (shutil.copytree if (ROOT / part).is_dir() else shutil.copy)(ROOT / part, checkout / part)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), "./client", "."]
    check(run(build, checkout))
    shutil.rmtree(checkout)
    (built,) = wheels.glob("retrieval_worker-*.whl")
    described = zipfile.ZipFile(built).read(f"{'-'.join(built.name.split('-')[:2])}.dist-info/METADATA").decode()
    assert "file:" not in described
    check(run([sys.executable, "-m", "venv", "home"], tmp_path))
    python = str(tmp_path / "home" / "bin" / "python")
    constraints = ["-c", str(ROOT / "constraints.txt"), "--find-links", str(wheels)]
    check(run([python, "-m", "pip", "install", "--quiet", *constraints, "retrieval-worker"], tmp_path))
    installed = run([str(tmp_path / "home" / "bin" / "retrieval-worker"), "--version"], tmp_path)
    assert (installed.stdout, installed.returncode) == ("retrieval-worker 0.1.0\n", 0), installed.stderr
