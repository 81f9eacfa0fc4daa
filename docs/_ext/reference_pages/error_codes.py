"""The page of errors: the classes that are on the wire, and the exit codes of the command line."""

from __future__ import annotations

import inspect

from reference_pages.markdown import definitions, prose, table
from retrieval_client import errors as tree
from worker.cli.main import _EXIT_CODES

EXIT_CODES = (
    (0, "Done."),
    (1, "Failed. `doctor`: there is a problem. `calibrate`: the goal is missed. `replay`, `verify`: a chunk changed."),
    (2, "Wrong usage: an argument or option is unknown, missing or malformed."),
    (69, "Postgres or Redis is away, or did not answer in time. Try again later."),
    (78, "Wrong settings, role or schema. The sentence names which; a restart does not help."),
    (130, "Stopped by Ctrl-C."),
    (141, "The reader of standard output exited: `| head`."),
    (143, "Stopped by SIGTERM."),
)
"""Exit codes of `retrieval-worker`; the worker itself ends with 0 or 78."""


def classes() -> list[type[tree.RetrievalError]]:
    """The classes that are on the wire, in the order of the source; others are of programs that use them."""
    return [kind for kind in tree.RetrievalError.__subclasses__() if kind.__module__ == tree.__name__]


def errors() -> str:
    """Each class with its meaning and the exit code that it becomes."""

    def entry(kind: type[tree.RetrievalError]) -> tuple[str, list[str]]:
        paragraphs = inspect.cleandoc(kind.__doc__ or "").split("\n\n")
        code = _EXIT_CODES.get(kind, 1)
        return kind.__name__, [*(prose(" ".join(text.split())) for text in paragraphs), f"Exit code {code}."]

    return definitions(entry(kind) for kind in classes())


def exit_codes() -> str:
    """A table of the exit codes."""
    return table(["exit code", "meaning"], [(str(code), meaning) for code, meaning in EXIT_CODES])
