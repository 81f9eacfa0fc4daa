"""Files with a citations document."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from retrieval_client.errors import InvalidJob
from worker.adapters.private_files import write_private
from worker.cli.usage import WrongUsage
from worker.core.citations.document import read_citations_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_document(path: Path) -> dict[str, Any]:
    """Read a citations document from its file.

    Raises:
        WrongUsage: it can't be read, or is no citations document.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        read_citations_json(document)
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}") from None
    except InvalidJob as error:  # before its base, ValueError
        raise WrongUsage(f"{path}: {error.message}") from None
    except (ValueError, RecursionError):
        raise WrongUsage(f"{path}: expected a file with JSON") from None
    return dict(document)


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a citations document to a file.

    Raises:
        WrongUsage: it can't be written.
    """
    try:
        write_private(path, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror}") from None
