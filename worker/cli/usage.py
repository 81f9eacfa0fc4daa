"""Errors of usage: files and values that a command can't use."""

from __future__ import annotations

from retrieval_client.errors import RetrievalError


class WrongUsage(RetrievalError):
    """A file or a value on the command line can't be used: exit code 2."""
