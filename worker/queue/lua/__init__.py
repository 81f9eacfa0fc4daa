"""Lua scripts of the queue, one in each file; its head documents keys, arguments and reply."""

from __future__ import annotations

import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def text(name: str) -> str:
    """Return the text of a file, given without ``.lua``."""
    return resources.files(__name__).joinpath(f"{name}.lua").read_text(encoding="utf-8")


class Script:
    """Script that Redis runs by its digest, and is sent only if the server does not have it yet.

    Its name is that of its file, without ``.lua``; the prelude is Lua that the file builds on.
    """

    def __init__(self, name: str, prelude: str = "") -> None:
        self._text = prelude + text(name)
        self._digest = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    def run(self, ask: Callable[..., Any], keys: Sequence[str], *arguments: str | bytes | float) -> Any:
        """Return the script's reply; `ask` sends a command and returns the reply to it."""
        command = ("EVALSHA", self._digest, len(keys), *keys, *arguments)
        try:
            return ask(*command)
        except redis.exceptions.NoScriptError:  # the server is another one, or began again: nothing was run
            ask("SCRIPT", "LOAD", self._text)
            return ask(*command)
