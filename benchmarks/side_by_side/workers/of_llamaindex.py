"""Side 6: LlamaIndex's PGVectorStore in a Celery task; run in an environment of its own.

``python of_llamaindex.py`` makes its table and lets the library write one row, from which the others are made.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import shared
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.postgres import PGVectorStore

app = shared.celery_app("llamaindex")


@cache
def store(*, perform_setup: bool = False) -> PGVectorStore:
    """One for each process, made with its first job; SQLAlchemy's pool over psycopg2."""
    url = os.environ["BENCH_URL"]
    return PGVectorStore.from_params(
        connection_string=url.replace("postgresql:", "postgresql+psycopg2:", 1),
        async_connection_string=url.replace("postgresql:", "postgresql+asyncpg:", 1),
        table_name="llamaindex_chunks",
        embed_dim=768,
        perform_setup=perform_setup,
    )


@app.task(name="search")
def search(embedding: list[float]) -> dict[str, Any]:
    matches = store().query(VectorStoreQuery(query_embedding=embedding, similarity_top_k=shared.K))
    chunks = [
        {**node.metadata, "chunk_id": identifier, "text": node.get_content(), "similarity": similarity}
        for node, identifier, similarity in zip(matches.nodes, matches.ids, matches.similarities, strict=True)
    ]
    return {"chunks": chunks}


def make(sample: dict[str, Any]) -> None:
    node = TextNode(id_=sample.pop("chunk_id"), text=sample.pop("text"), metadata=sample, embedding=[1.0] * 768)
    store(perform_setup=True).add([node])


if __name__ == "__main__":
    import json
    import sys

    make(json.loads(sys.argv[1]))
