"""``python -m blocking_client``: write the client that blocks from the one for asyncio. Run by `make contract`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "client" / "retrieval_client" / "asynchronous.py"
TARGET = SOURCE.with_name("blocking.py")
DOCSTRING = '''"""The client that blocks: one call after another, or from several threads.

Generated from asynchronous.py by `make contract`: change that file.
"""
'''
ASYNC = re.compile(r"\b(async|await) |\bAsync(?=[A-Z])|\ba(?=(close|connected)\b)|(?<=\b__)a(?=(enter|exit)__)")
"""All that the source has and the target does not: their other modules have the two forms of each name."""


def blocking(source: str) -> str:
    """Return the source of the client that blocks."""
    text = DOCSTRING + ASYNC.sub("", source.partition("\n")[2])
    for command in (("check", "--quiet", "--fix", "--select=I"), ("format", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", TARGET, "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 -- nothing of it comes from outside
    return text


if __name__ == "__main__":
    TARGET.write_text(blocking(SOURCE.read_text(encoding="utf-8")), encoding="utf-8")
