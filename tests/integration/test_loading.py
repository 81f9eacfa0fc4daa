"""`load`: a file's items in the reference tables, whole or not at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import CorpusFile, read
from worker.cli.loader import load
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., CorpusFile]

STORED = "SELECT id, document_id FROM document_chunks WHERE document_id LIKE 'loaded-%' ORDER BY id"


@pytest.fixture
def file(tmp_path: Path) -> Make:
    """Makes a file of documents, each given by its chunk ids."""

    def make(**documents: list[str]) -> CorpusFile:
        items = [
            {"id": f"loaded-{name}", "owner": "alice", "chunks": [{"id": one, "text": f"{one} hums"} for one in chunks]}
            for name, chunks in documents.items()
        ]
        path = tmp_path / "documents.json"
        path.write_text(json.dumps({"documents": items}))
        return read(path)

    return make


def test_a_chunk_id_of_another_document_loads_nothing(admin: psycopg.Connection[Any], file: Make) -> None:
    """The sentence names the chunk and both documents; what stands before it in the file is not loaded, either."""
    load(admin, file(a=["c1", "c2"]), LexicalEmbedder())
    with pytest.raises(WrongUsage) as caught:
        load(admin, file(b=["c3"], c=["c4", "c2"]), LexicalEmbedder())
    assert caught.value.message == (
        "the chunk id c2 of the document loaded-c belongs to the document loaded-a: give it another id; nothing is "
        "loaded"
    )
    assert admin.execute(STORED).fetchall() == [("c1", "loaded-a"), ("c2", "loaded-a")]


def test_a_chunk_may_move_to_a_document_that_is_loaded_later(admin: psycopg.Connection[Any], file: Make) -> None:
    """A document that is loaded again gives up its old chunks first."""
    load(admin, file(a=["c1", "c2"]), LexicalEmbedder())
    load(admin, file(a=["c1"], b=["c2"]), LexicalEmbedder())
    assert admin.execute(STORED).fetchall() == [("c1", "loaded-a"), ("c2", "loaded-b")]
    with pytest.raises(WrongUsage, match="the chunk id c1 of the document loaded-0 belongs to the document loaded-a"):
        load(admin, file(**{"0": ["c1"], "a": ["c2"]}), LexicalEmbedder())


def test_a_visibility_that_is_none_is_refused_by_the_table(admin: psycopg.Connection[Any]) -> None:
    """A backend that writes by itself can't give a document one that no policy knows."""
    with pytest.raises(psycopg.errors.CheckViolation):
        admin.execute("INSERT INTO documents (id, owner_id, visibility) VALUES ('v', 'alice', 'internal')")
