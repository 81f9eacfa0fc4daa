"""The figures of `retrieval-worker evaluate` beside those of ranx and trec_eval on the run that it wrote."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.command_line import command_line

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
LABELLED = ROOT / "benchmarks" / "labelled" / "queries.jsonl"
PROGRAM = Path(__file__).with_name("ranx_figures.py")
PACKAGES = ("ranx==0.3.21", "pytrec-eval-terrier==0.5.11")
"""They bring numba, pandas and more, 700 MB: too much for the environment of the tests."""


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter of an environment that has both; made once for each version of Python."""
    key = hashlib.sha256(f"{sys.version}{PACKAGES}".encode()).hexdigest()[:12]
    home = ROOT / "build" / f"ranx-{key}"
    if not (home / ".installed").exists():
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*pip, *PACKAGES], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{', '.join(PACKAGES)} can't be installed: {done.stderr.strip().splitlines()[-1]}")
        (home / ".installed").touch()
    return home / "bin" / "python"


def test_every_figure_is_that_of_ranx_and_of_trec_eval(
    python: Path, worker_environment: Callable[..., Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each measure of each of 103 queries, of the whole and of each leg; and of the files read again by ourselves."""
    typed = command_line(capsys, worker_environment())
    files = ("--write-run", str(tmp_path / "run.txt"), "--write-qrels", str(tmp_path / "qrels.txt"))
    done = typed("evaluate", str(LABELLED), "--here", "--legs", "primary,contextual,sparse", "--json", *files)
    assert done.returncode == 0, done.stderr
    queries = json.loads(done.stdout)["queries"]
    for system, run in {"whole": "run", **{leg: f"run.{leg}" for leg in ("dense", "sparse", "contextual")}}.items():
        paths = [str(tmp_path / "qrels.txt"), str(tmp_path / f"{run}.txt")]
        measured = subprocess.run([str(python), str(PROGRAM), *paths], capture_output=True, text=True, check=True)
        again = typed("evaluate", "--qrels", paths[0], "--run", paths[1], "--json")
        of_files = {one["id"]: one["systems"][run]["measures"] for one in json.loads(again.stdout)["queries"]}
        theirs = json.loads(measured.stdout)
        ours = {query["id"]: query["systems"][system]["measures"] for query in queries if system in query["systems"]}
        assert len(ours) == (37 if system == "contextual" else 103)
        for query, measures in ours.items():
            assert of_files[query] == measures
            for name, value in measures.items():
                assert value == pytest.approx(theirs["ranx"][name][query], abs=1e-9)
                # trec_eval leaves out queries for which nothing was found.
                assert value == pytest.approx(theirs["trec_eval"][name].get(query, 0.0), abs=1e-9)
