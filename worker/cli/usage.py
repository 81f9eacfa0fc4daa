"""Mistakes in what was typed: files and values that a command can't use."""

from __future__ import annotations

from worker.errors import RetrievalError


class WrongUsage(RetrievalError):
    """A file or a value that was typed can't be used: exit code 2."""
