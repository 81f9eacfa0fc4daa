"""Embeddings of real text: paragraphs of packages' documentation, made once and kept.

    python -m synthetic.real_text

Downloads the packages of texts.txt, installs none of them, and embeds each paragraph of their docstrings with the local
model (extra `semantic`, its weights checked by SHA-256): twenty minutes of two cores.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieval_client.errors import SettingsError
from synthetic.progress import steps
from synthetic.vectors import BLOCK, Dataset
from worker.adapters.providers.embedder import make
from worker.model import DIMENSIONS
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from synthetic.vectors import Vectors
    from worker.adapters.providers.embedder import Embedder

PACKAGES = Path(__file__).parent / "texts.txt"
KEPT = Path(__file__).parents[1] / "benchmarks" / ".data" / "real_text.npz"
"""Vectors, and the sums of what they were made of."""

HELD_OUT = 250
"""One paragraph in so many is a query, and no row."""

_LEAST_WORDS = 8
_AT_ONCE = 256


@dataclass(frozen=True)
class RealText(Dataset):
    """Embeddings of paragraphs, in the order of the documentation; ten in a row are a document.

    Attributes:
        texts: SHA-256 of the paragraphs, and the name and version of the model.
    """

    texts: str = ""

    @cached_property
    def _vectors(self) -> Vectors:
        return _kept()[1]

    def blocks(self) -> Iterator[tuple[int, Vectors]]:
        """(first row, vectors of shape (n, 768)) until all rows are made."""
        rows = np.delete(self._vectors, np.s_[::HELD_OUT], axis=0)
        for first_row in range(0, self.rows, BLOCK):
            yield first_row, _padded(rows[first_row : min(first_row + BLOCK, self.rows)])

    def queries(self, count: int) -> Vectors:
        """Held-out paragraphs, shape (count, 768); at most as many as there are."""
        random = np.random.default_rng([self.seed, 0])
        return _padded(random.permutation(self._vectors[::HELD_OUT])[:count])


def real_text(rows: int) -> RealText:
    """Return the kept embeddings as a dataset.

    Raises:
        SettingsError: none are kept, or fewer.
    """
    texts, vectors = _kept()
    row_limit = (len(vectors) - len(vectors[::HELD_OUT])) // 1000 * 1000
    if rows > row_limit:
        raise SettingsError(f"rows: expected at most {row_limit:,} embeddings of real text, got {rows:,}")
    return RealText(rows, texts=texts)


@cache
def _kept() -> tuple[str, Vectors]:
    if not KEPT.exists():
        raise SettingsError("no embeddings of real text are kept: run python -m synthetic.real_text")
    with np.load(KEPT) as archive:
        return str(archive["texts"]), archive["vectors"]


def _padded(vectors: Vectors) -> Vectors:
    return np.pad(vectors, ((0, 0), (0, DIMENSIONS - vectors.shape[1])))


# --- made once ----------------------------------------------------------------------------------


def main() -> None:
    """Make and keep the embeddings."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, "-r", PACKAGES]
        subprocess.run(command, check=True)  # noqa: S603 -- our own list
        texts = list(dict.fromkeys(paragraph for wheel in sorted(Path(folder).iterdir()) for paragraph in _of(wheel)))
    batches = [texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE)]
    embedded: list[Vectors] = []
    with steps() as progress, ProcessPoolExecutor(os.cpu_count()) as processes:
        for batch_vectors in processes.map(_embedded, batches):
            embedded.append(batch_vectors)
            progress("embedding", min(len(embedded) * _AT_ONCE, len(texts)), len(texts))
    vectors = np.concatenate(embedded)
    width = int(np.flatnonzero(vectors.any(axis=0)).max()) + 1  # the rest is padding
    sha256 = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    KEPT.parent.mkdir(exist_ok=True)
    np.savez(KEPT, texts=f"{sha256} {_embedder().name} {_embedder().version}", vectors=vectors[:, :width])


def _of(wheel: Path) -> Iterator[str]:
    """Yield the paragraphs of a wheel's docstrings, in the order of its files."""
    with zipfile.ZipFile(wheel) as files, warnings.catch_warnings(action="ignore"):
        for name in sorted(name for name in files.namelist() if name.endswith(".py")):
            try:
                tree = ast.parse(files.read(name))
            except SyntaxError:  # a test's
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield from _paragraphs(ast.get_docstring(node) or "")


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        words = paragraph.split()
        if len(words) >= _LEAST_WORDS:
            yield " ".join(words)


@cache
def _embedder() -> Embedder:
    return make(EmbedderSettings(kind="local"))


def _embedded(texts: list[str]) -> Vectors:
    return _embedder().embed(texts)


if __name__ == "__main__":
    main()
