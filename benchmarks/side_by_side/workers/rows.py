"""The plain query by hand: what a bare loop, a bare Redis worker and a naive task send to Postgres."""

from __future__ import annotations

from typing import Any

import psycopg
from pgvector.psycopg import register_vector

FIELDS = ("chunk_id", "document_id", "text", "page", "section", "coordinates", "metadata", "chunk_hash", "distance")

NEAREST = """
SELECT * FROM (
  SELECT id, document_id, text_content, page, section, coordinates, metadata, encode(chunk_hash, 'hex'),
         embedding <=> %s::vector AS distance
    FROM public.document_chunks ORDER BY embedding::halfvec(768) <=> %s::halfvec(768) LIMIT %s
) AS nearest ORDER BY distance
"""
"""By the schema's index, which is over halfvec; what it finds is put into the order of the vectors themselves."""


def statement(claims: dict[str, str]) -> str:
    """The statement that states the caller, until the end of the transaction; its parameters are the claims' values.

    It also says what the worker says to the table's policy, so that rights cost the same on every side.
    """
    calls = ["set_config('retrieval.few_rows', 'on', true)", *(f"set_config('{name}', %s, true)" for name in claims)]
    return "SELECT " + ", ".join(calls)


class Search:
    """The plain nearest-neighbour query as cheap as psycopg has it.

    One connection for ever, prepared statements, binary vectors, and a read-only transaction that states the caller in
    one round trip.

    Args:
        dsn: of the database.
        claims: the caller, by Postgres setting.
        k: rows wanted.
    """

    def __init__(self, dsn: str, claims: dict[str, str], k: int) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        register_vector(self._connection)
        self._statement, self._claims, self._k = statement(claims), list(claims.values()), k

    def nearest(self, query: Any) -> list[tuple[Any, ...]]:
        """Rows of `FIELDS`, nearest first.

        Args:
            query: ``numpy.float32`` of shape (768,).
        """
        connection = self._connection
        with connection.pipeline():
            connection.execute("BEGIN READ ONLY", prepare=True)
            connection.execute(self._statement, self._claims, prepare=True)
            cursor = connection.execute(NEAREST, (query, query, self._k), prepare=True, binary=True)
            connection.execute("COMMIT", prepare=True)
        return cursor.fetchall()
