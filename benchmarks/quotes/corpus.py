"""The texts that quotes are made of."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError
from worker.cli.corpus_files import read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK_WORDS = 60
"""Paragraphs of a text file are put together until a chunk has this many words."""
FEWEST_TEXTS = 2


def texts_of(documents: Path) -> list[str]:
    """The chunks of a file of documents, each text once."""
    return list(dict.fromkeys(text for item in read(documents).items for _, text in item.to_embed()))


def read_texts(paths: list[Path]) -> list[str]:
    """The chunks of any text files, and of those in folders, each text once; what is no UTF-8 is passed over."""
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    texts = list(dict.fromkeys(chunk for file in files if file.is_file() for chunk in chunks_of(file.read_bytes())))
    if len(texts) < FEWEST_TEXTS:
        raise SettingsError(f"--texts: {len(texts)} chunks found, at least {FEWEST_TEXTS} are needed")
    return texts


def chunks_of(content: bytes) -> Iterator[str]:
    """Paragraphs, which blank lines divide, put together to chunks."""
    try:
        paragraphs = re.split(r"\n(?:[^\S\n]*\n)+", content.decode())
    except UnicodeDecodeError:
        return
    chunk: list[str] = []
    for paragraph in paragraphs:
        chunk.append(paragraph.strip("\n"))
        if sum(len(part.split()) for part in chunk) >= CHUNK_WORDS:
            yield "\n\n".join(chunk)
            chunk = []
    if any(map(str.strip, chunk)):
        yield "\n\n".join(chunk)
