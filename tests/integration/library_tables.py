"""Tables that LangChain and LlamaIndex write themselves, each in an environment of its own, which is kept."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parent / "libraries"
BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
KEPT = BENCHMARKS / ".peers"
VERSIONS = (BENCHMARKS / "side_by_side" / "peers.txt", SCRIPTS / "versions.txt")
LANGCHAIN = ("langchain-postgres", "langchain-community")
PACKAGES = {
    "langchain_new.py": LANGCHAIN,
    "langchain_old.py": LANGCHAIN,
    "llamaindex.py": ("llama-index-vector-stores-postgres",),
}
SECONDS = 900


def write(script: str, **asked: Any) -> None:
    """Have a library write a table; the test is skipped where the library can't be installed.

    Args:
        script: one of `PACKAGES`.
        asked: what the script reads.
    """
    done = _run([str(_python(script)), str(SCRIPTS / script)], json.dumps(asked))
    assert done.returncode == 0, done.stderr


def _python(script: str) -> Path:
    """The interpreter of an environment with a script's packages."""
    packages = PACKAGES[script]
    pinned = b"".join(file.read_bytes() for file in VERSIONS)
    key = hashlib.sha256(f"{sys.version}{packages}".encode() + pinned).hexdigest()[:12]
    home = KEPT / f"tables-{key}"
    KEPT.mkdir(exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / ".installed").exists():
            constraints = [word for file in VERSIONS for word in ("-c", str(file))]
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *constraints, *packages]
            for command in ([sys.executable, "-m", "venv", "--clear", str(home)], pip):
                done = _run(command)
                if done.returncode:
                    pytest.skip(f"{script}: {(done.stderr.strip().splitlines() or ['no reason given'])[-1]}")
            (home / ".installed").touch()
    return home / "bin" / "python"


def _run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
