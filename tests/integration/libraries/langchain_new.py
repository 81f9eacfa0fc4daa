"""Writes a table as LangChain's `PGVectorStore` does; run in an environment of its own.

The JSON on standard input has `url`, `table`, `dimensions` and `texts`: each with text, vector and metadata.
"""

import json
import sys

from langchain_core.embeddings import Embeddings
from langchain_postgres import Column, PGEngine, PGVectorStore


class Given(Embeddings):
    """Nothing is embedded here: vectors come with the texts."""

    def embed_documents(self, texts):
        raise NotImplementedError

    def embed_query(self, text):
        raise NotImplementedError


def main(asked):
    engine = PGEngine.from_connection_string(asked["url"].replace("postgresql:", "postgresql+psycopg:", 1))
    own = [Column(name, kind) for name, kind in asked.get("columns", {}).items()]
    engine.init_vectorstore_table(asked["table"], vector_size=asked["dimensions"], metadata_columns=own)
    store = PGVectorStore.create_sync(engine, Given(), asked["table"], metadata_columns=[one.name for one in own])
    texts = asked["texts"]
    store.add_embeddings(
        [one["text"] for one in texts], [one["vector"] for one in texts], [one["metadata"] for one in texts]
    )


main(json.load(sys.stdin))
