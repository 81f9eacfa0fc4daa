"""Writes `langchain_pg_embedding` as LangChain's older `PGVector` does; run in an environment of its own.

The JSON on standard input has `url`, `collection`, `jsonb` and `texts`: each with text, vector and metadata.
"""

import json
import sys

from langchain_core.embeddings import Embeddings


class Given(Embeddings):
    """Nothing is embedded here: vectors come with the texts."""

    def embed_documents(self, texts):
        raise NotImplementedError

    def embed_query(self, text):
        raise NotImplementedError


def store_of(asked):
    url = asked["url"].replace("postgresql:", "postgresql+psycopg:", 1)
    if asked["jsonb"]:
        from langchain_postgres import PGVector

        return PGVector(Given(), connection=url, collection_name=asked["collection"], use_jsonb=True)
    from langchain_community.vectorstores.pgvector import PGVector

    return PGVector(url, Given(), collection_name=asked["collection"], use_jsonb=False)


def main(asked):
    texts = asked["texts"]
    store_of(asked).add_embeddings(
        [one["text"] for one in texts], [one["vector"] for one in texts], [one["metadata"] for one in texts]
    )


main(json.load(sys.stdin))
