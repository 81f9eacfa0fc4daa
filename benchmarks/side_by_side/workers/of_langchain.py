"""Side 5: LangChain's PGVectorStore in a Celery task, as its documentation has it; run in an environment of its own.

``python of_langchain.py`` makes its table and lets the library write one row, from which the others are made.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import shared
from langchain_core.embeddings import Embeddings
from langchain_postgres import PGEngine, PGVectorStore

TABLE = "langchain_chunks"
app = shared.celery_app("langchain")


class Given(Embeddings):
    """Nothing is embedded here: vectors come with the job."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError


def engine() -> PGEngine:
    """SQLAlchemy's pool over asyncpg."""
    return PGEngine.from_connection_string(os.environ["BENCH_URL"].replace("postgresql:", "postgresql+asyncpg:", 1))


@cache
def store() -> PGVectorStore:
    """One for each process, made with its first job."""
    return PGVectorStore.create_sync(engine(), Given(), TABLE)


@app.task(name="search")
def search(embedding: list[float]) -> dict[str, Any]:
    matches = store().similarity_search_with_score_by_vector(embedding, k=shared.K)
    chunks = [
        {**document.metadata, "text": document.page_content, "distance": distance} for document, distance in matches
    ]
    return {"chunks": chunks}


def make(sample: dict[str, Any]) -> None:
    engine().init_vectorstore_table(TABLE, vector_size=768, overwrite_existing=True)
    store().add_embeddings([sample.pop("text")], [[1.0] * 768], [sample])


if __name__ == "__main__":
    import json
    import sys

    make(json.loads(sys.argv[1]))
