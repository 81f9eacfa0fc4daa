"""Fixed statements, the blocks of one file for each module; SQL that names the settings' tables is composed in Python.

A block begins with a line ``-- name: insert_run`` and comment lines that describe the statement. Comments are not sent:
psycopg would read a ``%`` in them as a parameter, and parse a statement of more than 4 KB anew at each execution.
"""

from __future__ import annotations

import re
from importlib import resources

NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)


def blocks(subject: str) -> dict[str, bytes]:
    """Return the statements of a file by their names, with parameters as psycopg reads them."""
    text = resources.files(__name__).joinpath(f"{subject}.sql").read_text(encoding="utf-8")
    _, *names_and_blocks = NAME.split(text)
    return {
        name: COMMENT.sub("", block).strip().encode()
        for name, block in zip(names_and_blocks[::2], names_and_blocks[1::2], strict=True)
    }
