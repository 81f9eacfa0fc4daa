"""A corpus of many chunks without embeddings, loaded in seconds: for what needs texts and hashes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

TENANT, OWNER = "everyone", "owner"
"""The tenant whose member sees all rows, and the user who owns one percent of the documents."""
CHUNKS_PER_DOCUMENT = 10
OWNERS_POLICY = """
CREATE POLICY owners_without_a_tenant ON public.documents FOR SELECT
  USING (owner_id = (SELECT retrieval.asker('app.user_id')))
"""
"""Beside the schema's own policy: owners without a tenant see what they own of the tenant's documents."""
_TEXT = "the level of this signal chain was measured again after the filter had been replaced and logged, "


def chunk_text(row: int) -> str:
    """Text of the chunk of this number; no two are the same."""
    document, place = divmod(row, CHUNKS_PER_DOCUMENT)
    return f"Report {document}, part {place}. " + _TEXT * (3 + row % 3)


def load_many(connection: psycopg.Connection[Any], rows: int) -> None:
    """Put ``rows`` chunks into the reference schema, beside what is there."""
    connection.execute(OWNERS_POLICY)
    connection.execute(
        """
        INSERT INTO public.documents (id, title, path, owner_id, tenant_id, visibility)
        SELECT 'd' || lpad(i::text, 7, '0'), 'Report ' || i, 'reports/' || i || '.md',
               CASE WHEN i %% 100 = 0 THEN %s ELSE 'nobody' END, %s, 'tenant'
          FROM generate_series(0, %s) AS i
        """,
        (OWNER, TENANT, (rows - 1) // CHUNKS_PER_DOCUMENT),
    )
    columns = "id, document_id, text_content, page, section, metadata"
    with connection.cursor().copy(f"COPY public.document_chunks ({columns}) FROM STDIN") as copy:
        for row in range(rows):
            document, place = divmod(row, CHUNKS_PER_DOCUMENT)
            copy.write_row(
                (f"c{row:08d}", f"d{document:07d}", chunk_text(row), place + 1, f"Part {place}", f'{{"row": {row}}}')
            )
    connection.execute("VACUUM (ANALYZE) public.documents, public.document_chunks, public.document_grants")
