"""Writes a `data_…` table as LlamaIndex's `PGVectorStore` does; run in an environment of its own.

The JSON on standard input has `url`, `table`, `dimensions`, `options` and `texts`: each with document, text, vector and
metadata.
"""

import json
import sys

from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.vector_stores.postgres import PGVectorStore


def main(asked):
    url = asked["url"]
    store = PGVectorStore.from_params(
        connection_string=url.replace("postgresql:", "postgresql+psycopg2:", 1),
        async_connection_string=url.replace("postgresql:", "postgresql+asyncpg:", 1),
        table_name=asked["table"],
        embed_dim=asked["dimensions"],
        **asked.get("options", {}),
    )
    store.add(
        [
            TextNode(
                text=one["text"],
                metadata=one["metadata"],
                embedding=one["vector"],
                relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=one["document"])},
            )
            for one in asked["texts"]
        ]
    )


main(json.load(sys.stdin))
