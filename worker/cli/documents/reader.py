"""The process that reads documents: `python -m worker.cli.documents.reader`.

Files are a stranger's bytes, and their parsers are C and C++, so they run apart: with limits of memory and time, and
without the connections of the command. A line of JSON in (a path), a line of JSON out, until standard input ends.
"""

from __future__ import annotations

import contextlib
import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from worker.cli.documents import html, pdf
from worker.cli.documents.passages import KINDS, Content, Passage, UnreadableError, cleaned
from worker.cli.text_files import EncodingError, decoded

SECONDS = 120
"""Time for one file, unless the argument says otherwise; then SIGALRM ends the process."""
MEMORY = 3 * 2**30


def main() -> None:
    """Answer paths with contents."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command, whose end closes standard input
    with contextlib.suppress(ValueError, OSError):  # not on every system
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    seconds = int(sys.argv[1]) if sys.argv[1:] else SECONDS
    for line in sys.stdin:
        signal.alarm(seconds)
        answer = _answer(Path(json.loads(line)))
        signal.alarm(0)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _answer(path: Path) -> dict[str, Any]:
    try:
        title, passages, empty_pages = read(path)
    except UnreadableError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": error.strerror or type(error).__name__}
    except (MemoryError, RecursionError):
        return {"error": f"it needs more than {MEMORY >> 30} GiB of memory, or is nested too deep"}
    return {"title": title, "passages": passages, "empty_pages": empty_pages}


def read(path: Path) -> Content:
    """Read a document by the ending of its name.

    Raises:
        UnreadableError: it is broken, encrypted, in another encoding, or has no text.
    """
    kind = KINDS[path.suffix.lower()]
    title, passages, empty_pages = pdf.read(path) if kind == "pdf" else _read_text(kind, path.read_bytes())
    cleaned_passages = [Passage(cleaned(text), page, section and cleaned(section)) for text, page, section in passages]
    cleaned_passages = [passage for passage in cleaned_passages if passage.text.strip()]
    if not cleaned_passages:
        raise UnreadableError("it has no text")
    return Content(cleaned(title).strip(), cleaned_passages, empty_pages)


def _read_text(kind: str, content: bytes) -> Content:
    try:
        text = decoded(content, html.charset_of(content) if kind == "html" else "utf-8")
    except (EncodingError, LookupError) as error:
        raise UnreadableError(str(error)) from None
    if kind == "html":
        return html.read_html(text)
    return html.read_markdown(text) if kind == "markdown" else Content("", [Passage(text)])


if __name__ == "__main__":
    main()
