"""Table layouts as popular projects create them, with rows of two callers, for `test_adopted_layouts`."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from worker.core.text import lexical

if TYPE_CHECKING:
    from collections.abc import Callable

WORDS = ("pumps", "valves", "hoses", "seals", "gauges", "belts")
RED, BLUE = (str(uuid.UUID(int=n)) for n in (1, 2))


@dataclass(frozen=True)
class Row:
    """A chunk: number, text, number of its document, file and title of that, caller, vector as Postgres reads it."""

    n: int
    text: str
    document: int
    path: str
    title: str
    caller: str
    vector: str

    @property
    def id(self) -> str:
        return str(uuid.UUID(int=1000 + self.n))

    @property
    def document_id(self) -> str:
        return str(uuid.UUID(int=100 + self.document))


def rows(dimensions: int) -> list[Row]:
    """Six documents of four chunks, half of them red's."""
    texts = [f"Passage {n} explains {WORDS[n % 6]} of device {n}." for n in range(24)]
    vectors = lexical.embed(texts, dimensions)
    return [
        Row(
            *(n, text, n % 6, f"manuals/{WORDS[n % 6]}.pdf", f"The {WORDS[n % 6]} manual"),
            *(RED if n % 2 else BLUE, str(vectors[n].tolist())),
        )
        for n, text in enumerate(texts)
    ]


@dataclass(frozen=True)
class Layout:
    """Tables of a project.

    Attributes:
        tables: creates them; the words VECTOR and SCHEMA OF PGVECTOR stand as the project writes them.
        insert: statements for a row, with values by `values`.
        dimensions: of its vectors.
        name: what names a row's document in citations.
        claim: whose claim decides; empty: every caller sees all rows.
        values: further values of the statements.
        hidden: conditions to choose, by the columns that hide.
        visible: the rows that are not hidden.
        pgvector: schema that pgvector is in.
    """

    tables: str
    insert: tuple[str, ...]
    dimensions: int = 1536
    name: Callable[[Row], str] = field(default=lambda row: row.path)
    claim: str = ""
    values: Callable[[Row], dict[str, Any]] = field(default=lambda _: {})
    hidden: tuple[str, ...] = ()
    visible: Callable[[Row], bool] = field(default=lambda _: True)
    pgvector: str = "public"


def source(row: Row) -> dict[str, Any]:
    return {"meta": json.dumps({"source": row.path, "page": row.n})}


def of_name(row: Row) -> dict[str, Any]:
    return {"meta": json.dumps({"file_name": row.path, "index": str(row.n)})}


def insert(table: str, columns: str, values: str) -> tuple[str, ...]:
    return (f"INSERT INTO {table} ({columns}) VALUES ({values}) ON CONFLICT DO NOTHING",)


LAYOUTS = {
    "LangChain PGVector": Layout(
        "CREATE TABLE langchain_pg_collection (uuid uuid PRIMARY KEY, name varchar NOT NULL UNIQUE, cmetadata json);"
        "CREATE TABLE langchain_pg_embedding (id varchar PRIMARY KEY, collection_id uuid REFERENCES"
        " langchain_pg_collection (uuid) ON DELETE CASCADE, embedding vector, document varchar, cmetadata jsonb);"
        "CREATE INDEX ix_cmetadata_gin ON langchain_pg_embedding USING gin (cmetadata jsonb_path_ops);"
        f"INSERT INTO langchain_pg_collection VALUES ('{RED}', 'my_docs', NULL)",
        insert(
            "langchain_pg_embedding",
            "id, collection_id, embedding, document, cmetadata",
            f"%(id)s, '{RED}', %(vector)s, %(text)s, %(meta)s",
        ),
        values=source,
    ),
    "LangChain PGVectorStore": Layout(
        'CREATE TABLE vectorstore ("langchain_id" uuid PRIMARY KEY, "content" text NOT NULL,'
        ' "embedding" vector(768) NOT NULL, "langchain_metadata" json)',
        insert(
            "vectorstore",
            "langchain_id, content, embedding, langchain_metadata",
            "%(id)s, %(text)s, %(vector)s, %(meta)s",
        ),
        768,
        values=source,
    ),
    "LlamaIndex": Layout(
        "CREATE TABLE data_llamaindex (id bigserial PRIMARY KEY, text varchar NOT NULL, metadata_ json,"
        " node_id varchar, embedding vector(1536));"
        "CREATE INDEX llamaindex_idx_1 ON data_llamaindex ((metadata_ ->> 'ref_doc_id'))",
        insert("data_llamaindex", "text, metadata_, node_id, embedding", "%(text)s, %(meta)s, %(id)s, %(vector)s"),
        values=lambda row: {
            "meta": json.dumps(
                {
                    "file_name": row.path,
                    "_node_content": "{}",
                    "_node_type": "TextNode",
                    "document_id": row.document_id,
                    "doc_id": row.document_id,
                    "ref_doc_id": row.document_id,
                }
            )
        },
    ),
    "Haystack": Layout(
        "CREATE TABLE haystack_documents (id varchar(128) PRIMARY KEY, embedding vector(768), content text,"
        " blob_data bytea, blob_meta jsonb, blob_mime_type varchar(255), meta jsonb);"
        "CREATE INDEX haystack_keyword_index ON haystack_documents USING gin (to_tsvector('english', content))",
        insert("haystack_documents", "id, embedding, content, meta", "%(id)s, %(vector)s, %(text)s, %(meta)s"),
        768,
        values=lambda row: {
            "meta": json.dumps({"file_path": row.path, "source_id": row.document_id, "page_number": row.n})
        },
    ),
    "pgai": Layout(
        "CREATE TABLE blog (id serial PRIMARY KEY, title text, authors text, contents text, metadata jsonb);"
        "CREATE TABLE blog_contents_embeddings_store (embedding_uuid uuid NOT NULL PRIMARY KEY"
        " DEFAULT gen_random_uuid(), id int NOT NULL, chunk_seq int NOT NULL, chunk text NOT NULL,"
        " embedding vector(768) STORAGE MAIN NOT NULL, UNIQUE (id, chunk_seq),"
        " FOREIGN KEY (id) REFERENCES blog (id) ON DELETE CASCADE);"
        "CREATE VIEW blog_contents_embeddings AS SELECT t.embedding_uuid, t.chunk_seq, t.chunk, t.embedding, s.*"
        " FROM blog_contents_embeddings_store t LEFT JOIN blog s ON t.id = s.id",
        (
            *insert("blog", "id, title, contents", "%(document)s, %(title)s, 'all'"),
            *insert(
                "blog_contents_embeddings_store",
                "embedding_uuid, id, chunk_seq, chunk, embedding",
                "%(id)s, %(document)s, %(n)s, %(text)s, %(vector)s",
            ),
        ),
        768,
        name=lambda row: row.title,
    ),
    "Supabase": Layout(
        "CREATE TABLE documents (id bigserial PRIMARY KEY, content text, metadata jsonb,"
        " embedding extensions.vector(1536));"
        "ALTER TABLE documents ENABLE ROW LEVEL SECURITY",
        insert("documents", "content, metadata, embedding", "%(text)s, %(meta)s, %(vector)s"),
        values=source,
        pgvector="extensions",
    ),
    "Supabase document search": Layout(
        "CREATE TABLE nods_page (id bigserial PRIMARY KEY, parent_page_id bigint REFERENCES nods_page,"
        " path text NOT NULL UNIQUE, checksum text, meta jsonb, type text, source text);"
        "ALTER TABLE nods_page ENABLE ROW LEVEL SECURITY;"
        "CREATE TABLE nods_page_section (id bigserial PRIMARY KEY, page_id bigint NOT NULL REFERENCES nods_page"
        " ON DELETE CASCADE, content text, token_count int, embedding extensions.vector(1536), slug text,"
        " heading text);"
        "ALTER TABLE nods_page_section ENABLE ROW LEVEL SECURITY",
        (
            *insert("nods_page", "id, path", "%(document)s, %(path)s"),
            *insert(
                "nods_page_section",
                "page_id, content, embedding, heading",
                "%(document)s, %(text)s, %(vector)s, 'Device'",
            ),
        ),
        pgvector="extensions",
    ),
    "Prisma": Layout(
        'CREATE TABLE "Document" ("id" text NOT NULL, "title" text NOT NULL, "url" text, "userId" text NOT NULL,'
        ' "isPrivate" boolean NOT NULL DEFAULT false, "createdAt" timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP,'
        ' CONSTRAINT "Document_pkey" PRIMARY KEY ("id"));'
        'CREATE TABLE "DocumentChunk" ("id" text NOT NULL, "documentId" text NOT NULL, "content" text NOT NULL,'
        ' "chunkIndex" integer NOT NULL, "embedding" vector(1536), CONSTRAINT "DocumentChunk_pkey" PRIMARY KEY ("id"));'
        'ALTER TABLE "DocumentChunk" ADD CONSTRAINT "DocumentChunk_documentId_fkey" FOREIGN KEY ("documentId")'
        ' REFERENCES "Document"("id") ON DELETE CASCADE ON UPDATE CASCADE',
        (
            *insert('"Document"', '"id", "title", "userId"', "%(document_id)s, %(title)s, %(caller)s"),
            *insert(
                '"DocumentChunk"',
                '"id", "documentId", "content", "chunkIndex", "embedding"',
                "%(id)s, %(document_id)s, %(text)s, %(n)s, %(vector)s",
            ),
        ),
        name=lambda row: row.title,
        claim="user_id",
    ),
    "Open WebUI": Layout(
        "CREATE TABLE document_chunk (id text PRIMARY KEY, vector vector(1536), collection_name text NOT NULL,"
        " text text, vmetadata jsonb);"
        "CREATE INDEX idx_document_chunk_vector ON document_chunk USING ivfflat (vector vector_cosine_ops);"
        "CREATE INDEX idx_document_chunk_collection_name ON document_chunk (collection_name)",
        insert(
            "document_chunk",
            "id, vector, collection_name, text, vmetadata",
            "%(id)s, %(vector)s, 'file-1', %(text)s, %(meta)s",
        ),
        claim="user_id",
        values=lambda row: {
            "meta": json.dumps(
                {
                    "name": row.path,
                    "source": row.path,
                    "created_by": row.caller,
                    "file_id": row.document_id,
                }
            )
        },
    ),
    "Bedrock": Layout(
        "CREATE SCHEMA bedrock_integration; CREATE TABLE bedrock_integration.bedrock_kb (id uuid PRIMARY KEY,"
        " embedding vector(1024), chunks text, metadata json, custom_metadata jsonb);"
        "CREATE INDEX ON bedrock_integration.bedrock_kb USING hnsw (embedding vector_cosine_ops);"
        "CREATE INDEX ON bedrock_integration.bedrock_kb USING gin (to_tsvector('simple', chunks))",
        insert(
            "bedrock_integration.bedrock_kb",
            "id, embedding, chunks, metadata",
            "%(id)s, %(vector)s, %(text)s, %(meta)s",
        ),
        1024,
        values=lambda row: {"meta": json.dumps({"x-amz-bedrock-kb-source-uri": row.path})},
    ),
    "Spring AI": Layout(
        "CREATE TABLE vector_store (id uuid DEFAULT gen_random_uuid() PRIMARY KEY, content text, metadata json,"
        " embedding vector(1536));"
        "CREATE INDEX spring_ai_vector_index ON vector_store USING hnsw (embedding vector_cosine_ops)",
        insert("vector_store", "content, metadata, embedding", "%(text)s, %(meta)s, %(vector)s"),
        values=of_name,
    ),
    "LangChain4j": Layout(
        "CREATE TABLE embeddings (embedding_id uuid PRIMARY KEY, embedding vector(1536), text text NULL,"
        " metadata json NULL)",
        insert("embeddings", "embedding_id, embedding, text, metadata", "%(id)s, %(vector)s, %(text)s, %(meta)s"),
        values=of_name,
    ),
    "n8n": Layout(
        'CREATE TABLE n8n_vectors ("id" uuid NOT NULL DEFAULT gen_random_uuid() PRIMARY KEY, "text" text,'
        ' "metadata" jsonb, "embedding" vector)',
        insert("n8n_vectors", "text, metadata, embedding", "%(text)s, %(meta)s, %(vector)s"),
        values=source,
    ),
    "R2R": Layout(
        "CREATE SCHEMA r2r_default; CREATE TABLE r2r_default.chunks (id uuid PRIMARY KEY, document_id uuid,"
        " owner_id uuid, collection_ids uuid[], vec vector(512), text text, metadata jsonb,"
        " fts tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED)",
        insert(
            "r2r_default.chunks",
            "id, document_id, owner_id, vec, text, metadata",
            "%(id)s, %(document_id)s, %(caller)s, %(vector)s, %(text)s, %(meta)s",
        ),
        512,
        name=lambda row: row.title,
        claim="user_id",
        values=lambda row: {"meta": json.dumps({"title": row.title, "version": "v0"})},
    ),
    "LightRAG": Layout(
        "CREATE TABLE LIGHTRAG_VDB_CHUNKS (id varchar(255), workspace varchar(255), full_doc_id varchar(256),"
        " chunk_order_index integer, tokens integer, content text, content_vector vector(1024), file_path text NULL,"
        " create_time timestamp(0), update_time timestamp(0),"
        " CONSTRAINT LIGHTRAG_VDB_CHUNKS_PK PRIMARY KEY (workspace, id))",
        insert(
            "LIGHTRAG_VDB_CHUNKS",
            "id, workspace, full_doc_id, content, content_vector, file_path",
            "%(id)s, %(caller)s, %(document_id)s, %(text)s, %(vector)s, %(path)s",
        ),
        1024,
        claim="tenant_id",
    ),
    "Agno": Layout(
        "CREATE SCHEMA ai; CREATE TABLE ai.vectors (id varchar PRIMARY KEY, name varchar, meta_data jsonb DEFAULT"
        " '{}', filters jsonb DEFAULT '{}', content text, embedding vector(1536), usage jsonb,"
        " created_at timestamptz DEFAULT now(), updated_at timestamptz, content_hash varchar, content_id varchar);"
        "CREATE INDEX idx_vectors_id ON ai.vectors (id)",
        insert("ai.vectors", "id, name, content, embedding", "%(id)s, %(title)s, %(text)s, %(vector)s"),
        name=lambda row: row.title,
    ),
    "Mastra": Layout(
        "CREATE TABLE embeddings (id serial PRIMARY KEY, vector_id text UNIQUE NOT NULL, embedding vector(1536),"
        " metadata jsonb DEFAULT '{}')",
        insert("embeddings", "vector_id, embedding, metadata", "%(id)s, %(vector)s, %(meta)s"),
        claim="tenant_id",
        values=lambda row: {"meta": json.dumps({"text": row.text, "source": row.path, "tenantId": row.caller})},
    ),
    "Mem0": Layout(
        "CREATE TABLE mem0 (id uuid PRIMARY KEY, vector vector(1536), payload jsonb)",
        insert("mem0", "id, vector, payload", "%(id)s, %(vector)s, %(meta)s"),
        name=lambda row: row.id,
        claim="user_id",
        values=lambda row: {"meta": json.dumps({"data": row.text, "hash": row.title, "user_id": row.caller})},
    ),
    "Django": Layout(
        "CREATE TABLE accounts_tenant (id uuid NOT NULL PRIMARY KEY, name varchar(200) NOT NULL);"
        f"INSERT INTO accounts_tenant VALUES ('{RED}', 'Red'), ('{BLUE}', 'Blue');"
        "CREATE TABLE kb_document (id uuid NOT NULL PRIMARY KEY, title varchar(200) NOT NULL, source_url varchar(200)"
        " NOT NULL, status varchar(20) NOT NULL, deleted_at timestamptz NULL, created_at timestamptz NOT NULL,"
        " tenant_id uuid NOT NULL);"
        "CREATE TABLE kb_chunk (id uuid NOT NULL PRIMARY KEY, position integer NOT NULL CHECK (position >= 0),"
        " text text NOT NULL, embedding vector(1536) NOT NULL, document_id uuid NOT NULL);"
        "ALTER TABLE kb_document ADD CONSTRAINT kb_document_tenant_id_fk FOREIGN KEY (tenant_id)"
        " REFERENCES accounts_tenant (id) DEFERRABLE INITIALLY DEFERRED;"
        "ALTER TABLE kb_chunk ADD CONSTRAINT kb_chunk_document_id_fk FOREIGN KEY (document_id)"
        " REFERENCES kb_document (id) DEFERRABLE INITIALLY DEFERRED;"
        "CREATE INDEX kb_chunk_document_id ON kb_chunk (document_id)",
        (
            *insert(
                "kb_document",
                "id, title, source_url, status, deleted_at, created_at, tenant_id",
                "%(document_id)s, %(title)s, %(path)s, %(status)s, %(deleted)s, now(), %(caller)s",
            ),
            *insert(
                "kb_chunk",
                "id, position, text, embedding, document_id",
                "%(id)s, %(n)s, %(text)s, %(vector)s, %(document_id)s",
            ),
        ),
        name=lambda row: row.title,
        claim="tenant_id",
        values=lambda row: {
            "status": "draft" if row.document == 2 else "published",
            "deleted": "2024-01-01" if row.document == 3 else None,
        },
        hidden=("deleted_at", "status"),
        visible=lambda row: row.document not in {2, 3},
    ),
}
