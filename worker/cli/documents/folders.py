"""A folder of documents as a file of the corpus `documents`: what is in it, what could not be read, and why."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from worker.cli.corpus_files import Document, DocumentChunk
from worker.cli.documents.passages import KINDS, UnreadableError
from worker.cli.documents.reading import Reader
from worker.cli.documents.splitting import split
from worker.cli.usage import WrongUsage
from worker.core.text.embedded_text import under_headings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from worker.cli.documents.passages import Content
    from worker.cli.documents.splitting import Count

MOST_BYTES = 200 * 2**20
"""Of one file."""

ITEMS = (".json", ".jsonl", ".ndjson")
ENDINGS = (*KINDS, *ITEMS)
"""Of files that can be loaded; those of `ITEMS` are no documents."""

_LONGEST_ID = 480
"""Bytes of a document's id: its chunks' are longer, and all are keys of an index."""


@dataclass(frozen=True, slots=True)
class Rights:
    """Who may see documents; see docs/schema.md.

    Attributes:
        owner: the user who may.
        tenant: the tenant that the owner and the grants are of.
        visibility: `public`: any caller; `tenant`: any caller of the tenant; `private`: the owner and the grants.
        grants: other users who may, and roles, as `role:NAME`.
    """

    owner: str
    tenant: str | None = None
    visibility: Literal["public", "tenant", "private"] = "private"
    grants: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Part of a text that an embedder reads.

    Attributes:
        count: returns the tokens of a text.
        limit: most tokens of a chunk.
        columns: columns of a chunk that are joined to its text when it is embedded.
    """

    count: Count
    limit: int
    columns: Sequence[str] = ()


@dataclass(slots=True)
class FolderFiles:
    """Documents of a folder.

    Attributes:
        paths: files to read, by the ids of their documents.
        other_kinds: numbers of files of other kinds, by their endings; `symbolic links` among them.
        unread: reasons why files are not read, by the ids of their documents.
        empty_pages: numbers of pages without text, by the ids of their documents.
    """

    paths: dict[str, Path] = field(default_factory=dict)
    other_kinds: Counter[str] = field(default_factory=Counter)
    unread: dict[str, str] = field(default_factory=dict)
    empty_pages: dict[str, int] = field(default_factory=dict)


def find(place: Path, folder_files: FolderFiles) -> None:
    """Find the documents below a folder, or the one file named; no hidden ones, and no symbolic link is followed.

    The id of a document is its path, from the name of the folder on.
    """
    place = place.absolute()
    for path in [place] if place.is_file() else _files(place):
        document_id = path.relative_to(place.parent.parent if path == place else place.parent).as_posix()
        if path.is_symlink():
            folder_files.other_kinds["symbolic links"] += 1
        elif path.suffix.lower() not in KINDS:
            folder_files.other_kinds[path.suffix.lower() or "without an ending"] += 1
        else:
            folder_files.paths[document_id] = path
            if reason := _refusal(path, document_id):
                folder_files.unread[document_id] = reason


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, in the order of their paths; links to folders as well, which are not entered."""
    for root, folders, names in os.walk(folder):
        current_folder = type(folder)(root)
        links = [name for name in folders if (current_folder / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in links)
        yield from (current_folder / name for name in sorted([*names, *links]) if not name.startswith("."))


def _refusal(path: Path, document_id: str) -> str:
    """Return why a file is not even opened; empty if it is."""
    size = path.stat().st_size
    if not path.is_file():
        return "it is no regular file"
    if size > MOST_BYTES:
        return f"it has {size >> 20:,} MiB, more than {MOST_BYTES >> 20}"
    try:
        long = len(document_id.encode()) > _LONGEST_ID
    except UnicodeEncodeError:
        return "its name is not in UTF-8"
    return f"its path is longer than {_LONGEST_ID} bytes" if long else ""


def read(
    folder_files: FolderFiles, rights: Rights, window: Window, progress: Callable[[float], None]
) -> list[Document]:
    """Read the documents that were found, and add to `folder_files` which could not be read.

    Args:
        folder_files: from `find`.
        rights: who may see them.
        window: what the embedder reads.
        progress: called with the number of files that are read, and the share of the one that is cut into chunks.
    """
    documents = []
    with Reader() as reader:
        for i, (document_id, path) in enumerate(folder_files.paths.items()):
            try:
                if document_id not in folder_files.unread:
                    content = reader.read(path)
                    chunks = _chunks(document_id, content, window, lambda share, i=i: progress(i + share))  # type: ignore[misc] # mypy infers no lambda with a default
                    documents.append(_document(document_id, path, content.title, rights, chunks))
                    if content.empty_pages:
                        folder_files.empty_pages[document_id] = content.empty_pages
            except UnreadableError as error:
                folder_files.unread[document_id] = str(error)
            progress(i + 1)
    return documents


def _document(document_id: str, path: Path, title: str, rights: Rights, chunks: Iterator[DocumentChunk]) -> Document:
    title = title or path.stem
    return Document(
        id=document_id,
        owner=rights.owner,
        title=title,
        path=document_id,
        kind=KINDS[path.suffix.lower()],
        tenant=rights.tenant,
        visibility=rights.visibility,
        grants=[*rights.grants],
        metadata={"title": title},
        chunks=[*chunks],
    )


def _chunks(
    document_id: str, content: Content, window: Window, progress: Callable[[float], None]
) -> Iterator[DocumentChunk]:
    """Yield chunks; an id is of its section and text, so that it stays where others come and go, or pages shift."""
    length = sum(len(passage.text) for passage in content.passages)
    cut_length = 0

    def advance(characters: int) -> None:
        nonlocal cut_length
        cut_length += characters
        progress(cut_length / length)

    same: Counter[str] = Counter()
    headings = max((window.count(_heading(passage.section, window)) for passage in content.passages), default=0)
    limit = max(window.limit - headings, window.limit // 2)
    for position, (text, page, section) in enumerate(split(content.passages, window.count, limit, advance)):
        digest = hashlib.sha256(json.dumps([section, text]).encode()).hexdigest()[:16]
        same[digest] += 1
        suffix = f"-{same[digest]}" if same[digest] > 1 else ""
        yield DocumentChunk(
            id=f"{document_id}#{digest}{suffix}", text=text, page=page, section=section, metadata={"position": position}
        )


def _heading(section: str | None, window: Window) -> str:
    return under_headings("", [section]) if section and "section" in window.columns else ""


def check_places(places: Sequence[Path]) -> None:
    """Check that folders and files are there, and that no two have one name, which begins their documents' ids.

    Raises:
        WrongUsage: one is not there, or no document, or two have one name.
    """
    for place in places:
        if not place.exists():
            raise WrongUsage(f"{place}: no such file or folder")
        if not place.is_dir() and place.suffix.lower() not in KINDS:
            raise WrongUsage(f"{place}: expected a folder, or a file with one of these endings: {', '.join(ENDINGS)}")
    names = Counter(place.absolute().name for place in places)
    for name, times in names.items():
        if times > 1:
            raise WrongUsage(
                f"{name}: two of these names end so, and it begins the ids of their documents: load one at a time"
            )
