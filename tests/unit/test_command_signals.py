"""Ctrl-C while a command is still being imported, and terminals of few letters: no stack trace."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "workbench"]
ROOT = Path(__file__).parents[2]
INTERRUPTED = "retrieval-worker: interrupted, nothing left running\n"
INTERRUPT = """
import os, signal, sys

class Callback:
    # C code calls it: what it raises is printed with its stack trace, and dropped.
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

class AtImport:
    def find_spec(self, name, path=None, target=None):
        if name == moment:
            os.kill(os.getpid(), signal.SIGINT)
        elif moment == "callback of an import" and getattr(signal.getsignal(signal.SIGINT), "__name__", "") == "unwind":
            sys.meta_path.remove(self)
            Callback()

def at_call(frame, event, _):
    name = moment.removeprefix("callback of ")
    if event == "call" and frame.f_code.co_name == name:
        sys.setprofile(None)
        Callback() if name != moment else os.kill(os.getpid(), signal.SIGINT)

moment = os.environ["INTERRUPTED_AT"]
sys.meta_path.insert(0, AtImport())
sys.setprofile(at_call)
"""


@pytest.mark.parametrize(
    ("moment", "code", "said"),
    [
        pytest.param("worker.cli.signals", -signal.SIGINT, "", id="the first import"),
        pytest.param("typer", 128 + signal.SIGINT, INTERRUPTED, id="other imports"),
        pytest.param("get_group_from_info", 128 + signal.SIGINT, INTERRUPTED, id="the command line is built"),
        pytest.param("callback of an import", 128 + signal.SIGINT, INTERRUPTED, id="in a callback of an import"),
        pytest.param("callback of contract", 128 + signal.SIGINT, INTERRUPTED, id="in a callback of the command"),
    ],
)
def test_ctrl_c_before_a_command_runs_shows_no_stack_trace(moment: str, code: int, said: str, tmp_path: Path) -> None:
    """At an import, at a call, in a callback of C: it ends the command, once."""
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPTED_AT": moment}
    ended = subprocess.run(
        [*COMMAND, "contract", "--check"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.stderr, ended.returncode) == (said, code)


@pytest.fixture
def latin_1(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell whose locale is Latin-1.

    The folders of the packages are among them: since Python 3.12.4 the file that names them is read as UTF-8, and their
    path may have letters that are other bytes in Latin-1.
    """
    if shutil.which("localedef") is None or not Path("/usr/share/i18n/locales/en_US").exists():
        pytest.skip("no locale of Latin-1 can be made here")
    command = ["localedef", "-i", "en_US", "-f", "ISO-8859-1", str(tmp_path / "en_US.ISO-8859-1")]
    subprocess.run(command, check=True, capture_output=True)
    packages = os.pathsep.join([str(ROOT), str(ROOT / "client")])
    return {"LOCPATH": str(tmp_path), "LC_ALL": "en_US.ISO-8859-1", "PYTHONPATH": packages}


@pytest.mark.parametrize("by", ["locale", "variable"])
def test_output_that_the_terminal_lacks_is_escaped(by: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Interval signs and a name in Cyrillic, read from a file in UTF-8 and printed where only Latin-1 is known."""
    variables = request.getfixturevalue("latin_1") if by == "locale" else {"PYTHONIOENCODING": "latin-1"}
    judgements, run = tmp_path / "qrels.txt", tmp_path / "run.txt"
    judgements.write_text("москва 0 é 1\nq2 0 d 1\n", encoding="utf-8")
    run.write_text("q2 Q0 d 1 0.5 run\n", encoding="utf-8")
    command = [*COMMAND, "evaluate", "--run", str(run), "--qrels", str(judgements)]
    ended = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert b"\\u2013" in ended.stdout
    assert b"as \xe9 of query \\u043c\\u043e\\u0441\\u043a\\u0432\\u0430" in ended.stdout
