-- The reference schema of the corpora. Idempotent: `retrieval-worker migrate` runs records.sql and then this,
-- whole, in one transaction. pgvector is where it is installed: `public` in this file, which `migrate` replaces.
--
-- A backend with tables of its own needs none of this but SELECT for the worker's role
-- (`retrieval-worker migrate --records-only`; see docs/schema.md).

CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;

CREATE OR REPLACE FUNCTION pg_temp.has_hnsw(indexed regclass) RETURNS boolean
LANGUAGE sql STABLE
AS $$
  SELECT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
                  WHERE i.indrelid = indexed AND a.amname = 'hnsw')
$$;

-- Who asks, as the worker states it inside each transaction. A custom setting reverts to '' (not NULL)
-- after a transaction, so '' is nobody.
CREATE OR REPLACE FUNCTION retrieval.asker(setting text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN nullif(current_setting(setting, true), '');

-- Everything a grant may name for the caller: the user id, and 'role:<name>' for each role. 'role:' is reserved: a user id
-- that begins so is named by no grant, so that no user gets what is granted to a role. Whatever is no JSON list of roles
-- gives none: a claim of another form must not fail the query.
CREATE OR REPLACE FUNCTION retrieval.asker_grantees() RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
  WITH claim AS (
    SELECT CASE WHEN pg_input_is_valid(stated, 'jsonb') THEN stated::jsonb END AS roles
      FROM (SELECT retrieval.asker('app.roles') AS stated) AS raw
  )
  SELECT array_remove(
    array_append(
      (SELECT array_agg('role:' || role)
         FROM claim, jsonb_array_elements_text(CASE jsonb_typeof(roles) WHEN 'array' THEN roles ELSE '[]' END) AS role),
      (SELECT id FROM retrieval.asker('app.user_id') AS id WHERE NOT starts_with(id, 'role:'))),
    NULL);
END;

-- --- documents: the corpus with owners --------------------------------------------------------------

CREATE TABLE IF NOT EXISTS public.documents (
  id         text COLLATE "C" PRIMARY KEY,
  title      text NOT NULL DEFAULT '',
  path       text NOT NULL DEFAULT '',
  kind       text NOT NULL DEFAULT '',
  owner_id   text NOT NULL,
  -- Two tenants may name their users and roles alike: owner and grants count for callers of this tenant only. NULL: for
  -- callers without a tenant.
  tenant_id  text,
  -- public: any caller; tenant: callers of tenant_id; private: the owner and grants
  visibility text NOT NULL DEFAULT 'private' CHECK (visibility IN ('public', 'tenant', 'private')),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS documents_owner_idx ON public.documents (owner_id);
CREATE INDEX IF NOT EXISTS documents_tenant_idx ON public.documents (tenant_id) WHERE visibility = 'tenant';
CREATE INDEX IF NOT EXISTS documents_public_idx ON public.documents (visibility) WHERE visibility = 'public';

CREATE TABLE IF NOT EXISTS public.document_grants (
  document_id text COLLATE "C" NOT NULL REFERENCES public.documents ON DELETE CASCADE,
  grantee     text NOT NULL,
  PRIMARY KEY (grantee, document_id)
);

CREATE TABLE IF NOT EXISTS public.document_chunks (
  id           text COLLATE "C" PRIMARY KEY,
  document_id  text COLLATE "C" NOT NULL REFERENCES public.documents ON DELETE CASCADE,
  text_content text NOT NULL,
  page         integer,
  section      text,
  coordinates  jsonb,
  metadata     jsonb NOT NULL DEFAULT '{}',
  embedding    public.vector(768),
  chunk_hash   bytea GENERATED ALWAYS AS (retrieval.hash_chunk_v1(text_content)) STORED,
  created_at   timestamptz NOT NULL DEFAULT now()
);
-- 768 floats are 3,080 bytes and would be stored out of line: in line, exact search is several times faster.
ALTER TABLE public.document_chunks ALTER COLUMN embedding SET STORAGE PLAIN;

-- Over halfvec the index has half the size; what it finds is compared by the vectors themselves. A table that has such an
-- index keeps it, whatever its name: `retrieval-worker migrate --index` replaces one (docs/vector-index.md).
-- m = 32 and ef_construction = 200 build slower than pgvector's 16 and 64, and reach queries that a sparser graph loses
-- whatever ef_search is (docs/performance.md).
DO $$
BEGIN
  IF NOT pg_temp.has_hnsw('public.document_chunks') THEN
    CREATE INDEX document_chunks_embedding_idx ON public.document_chunks
      USING hnsw ((embedding::public.halfvec(768)) public.halfvec_cosine_ops) WITH (m = 32, ef_construction = 200);
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS document_chunks_document_idx ON public.document_chunks (document_id);
CREATE INDEX IF NOT EXISTS document_chunks_hash_idx ON public.document_chunks (chunk_hash);

-- Full-text search, for the sparse leg: headings weigh more (A) than text (D). The configuration is named; the corpus's
-- `language` in the settings must be the same. MAIN keeps it in the row: beside an embedding that is PLAIN, Postgres
-- would store it out of line, and fetch it for each chunk that full-text search looks at. The same words as a signature
-- are in an index that row-level security lets be used. A table that has the words keeps both as they are, because
-- adding a column writes the table and all its indexes again (docs/full-text.md).
DO $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_attribute
                  WHERE attrelid = 'public.document_chunks'::regclass AND attname = 'text_search') THEN
    ALTER TABLE public.document_chunks
      DROP COLUMN IF EXISTS text_signature,
      ADD COLUMN text_search tsvector STORAGE MAIN GENERATED ALWAYS AS (
        setweight(retrieval.text_vector('retrieval.english'::regconfig, coalesce(section, '')), 'A')
        || retrieval.text_vector('retrieval.english'::regconfig, text_content)
      ) STORED,
      ADD COLUMN text_signature bit(2048) STORAGE PLAIN GENERATED ALWAYS AS (retrieval.text_signature(
        retrieval.text_vector('retrieval.english'::regconfig, coalesce(section, ''))
        || retrieval.text_vector('retrieval.english'::regconfig, text_content)
      )) STORED;
    CREATE INDEX document_chunks_signature_idx ON public.document_chunks (document_id) INCLUDE (id, text_signature);
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS document_chunks_text_idx ON public.document_chunks USING gin (text_search);

-- --- who may see what -----------------------------------------------------------------------------
-- The wording decides the plan: each sub-select is evaluated once (an InitPlan), so that every branch can
-- use its index.

ALTER TABLE public.documents ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.document_grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.document_chunks ENABLE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS documents_visible ON public.documents;
CREATE POLICY documents_visible ON public.documents FOR SELECT USING (
  visibility = 'public'
  OR (visibility = 'tenant' AND tenant_id = (SELECT retrieval.asker('app.tenant_id')))
  OR (tenant_id IS NOT DISTINCT FROM (SELECT retrieval.asker('app.tenant_id')) AND (
    owner_id = (SELECT retrieval.asker('app.user_id'))
    -- The grants' own policy says the same, and must not be all that stands between a caller and the others' grants.
    OR id = ANY (ARRAY(SELECT g.document_id FROM public.document_grants g
                        WHERE g.grantee = ANY ((SELECT retrieval.asker_grantees())::text[])))
  ))
);

DROP POLICY IF EXISTS grants_own ON public.document_grants;
CREATE POLICY grants_own ON public.document_grants FOR SELECT USING (
  grantee = ANY ((SELECT retrieval.asker_grantees())::text[])
);

-- A chunk is visible where its document is: the documents' own policy applies inside this one. Both ways to ask say the
-- same. OFFSET 0 leaves only the look-up of each row's document by its primary key, which is what a search with the
-- vector index wants: it looks at some dozens of rows, but Postgres, which can't know that, would hash the documents of
-- the whole table first. Without it Postgres chooses. The worker says which statements look at few rows; if anybody else
-- says so, it costs time and shows nothing (measured: docs/decisions/005-two-forms-of-the-policy.md).
DROP POLICY IF EXISTS chunks_visible ON public.document_chunks;
CREATE POLICY chunks_visible ON public.document_chunks FOR SELECT USING (
  CASE WHEN (SELECT current_setting('retrieval.few_rows', true) = 'on')
       THEN EXISTS (SELECT FROM public.documents d WHERE d.id = document_chunks.document_id OFFSET 0)
       ELSE EXISTS (SELECT FROM public.documents d WHERE d.id = document_chunks.document_id) END
);

GRANT SELECT ON public.documents, public.document_grants, public.document_chunks TO retrieval_worker;

-- --- docs and examples: reference corpora that everybody may read -----------------------------------
CREATE TABLE IF NOT EXISTS public.doc_embeddings (
  id            text COLLATE "C" PRIMARY KEY,
  page_name     text NOT NULL,
  page_url      text COLLATE "C" NOT NULL,
  section_title text NOT NULL,
  content       text NOT NULL,
  metadata      jsonb NOT NULL DEFAULT '{}',
  embedding     public.vector(768),
  chunk_hash    bytea GENERATED ALWAYS AS (retrieval.hash_chunk_v1(content)) STORED,
  created_at    timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE public.doc_embeddings ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE public.doc_embeddings ADD COLUMN IF NOT EXISTS text_search tsvector STORAGE MAIN GENERATED ALWAYS AS (
  setweight(retrieval.text_vector('retrieval.english'::regconfig, page_name || ' ' || section_title), 'A')
  || retrieval.text_vector('retrieval.english'::regconfig, content)
) STORED;

DO $$
BEGIN
  IF NOT pg_temp.has_hnsw('public.doc_embeddings') THEN
    CREATE INDEX doc_embeddings_embedding_idx ON public.doc_embeddings
      USING hnsw ((embedding::public.halfvec(768)) public.halfvec_cosine_ops) WITH (m = 32, ef_construction = 200);
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS doc_embeddings_page_idx ON public.doc_embeddings (page_url);
CREATE INDEX IF NOT EXISTS doc_embeddings_hash_idx ON public.doc_embeddings (chunk_hash);
CREATE INDEX IF NOT EXISTS doc_embeddings_text_idx ON public.doc_embeddings USING gin (text_search);

-- What is searched, hashed and cited of an example is one text: title, description, code. A generated column can't
-- name another one, so the function says it once for all three.
CREATE OR REPLACE FUNCTION retrieval.example_text(title text, description text, code text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN title || E'\n' || description || E'\n\n' || code;

CREATE TABLE IF NOT EXISTS public.example_strudels (
  id          text COLLATE "C" PRIMARY KEY,
  title       text NOT NULL,
  description text NOT NULL,
  code        text NOT NULL,
  tags        text[] NOT NULL DEFAULT '{}',
  url         text NOT NULL DEFAULT '',
  content     text NOT NULL GENERATED ALWAYS AS (retrieval.example_text(title, description, code)) STORED,
  embedding   public.vector(768),
  chunk_hash  bytea GENERATED ALWAYS AS (
    retrieval.hash_chunk_v1(retrieval.example_text(title, description, code))
  ) STORED,
  created_at  timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE public.example_strudels ALTER COLUMN embedding SET STORAGE PLAIN;
ALTER TABLE public.example_strudels ADD COLUMN IF NOT EXISTS text_search tsvector STORAGE MAIN GENERATED ALWAYS AS (
  setweight(retrieval.text_vector('retrieval.english'::regconfig, title), 'A')
  || retrieval.text_vector('retrieval.english'::regconfig, description || ' ' || code)
) STORED;

DO $$
BEGIN
  IF NOT pg_temp.has_hnsw('public.example_strudels') THEN
    CREATE INDEX example_strudels_embedding_idx ON public.example_strudels
      USING hnsw ((embedding::public.halfvec(768)) public.halfvec_cosine_ops) WITH (m = 32, ef_construction = 200);
  END IF;
END $$;
CREATE INDEX IF NOT EXISTS example_strudels_hash_idx ON public.example_strudels (chunk_hash);
CREATE INDEX IF NOT EXISTS example_strudels_text_idx ON public.example_strudels USING gin (text_search);

-- The settings declare both corpora public, so that nobody needs a principal to read a manual. Row-level security
-- is on all the same: to close one of them is another policy here and `public = false` there.
ALTER TABLE public.doc_embeddings ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.example_strudels ENABLE ROW LEVEL SECURITY;

DROP POLICY IF EXISTS docs_visible ON public.doc_embeddings;
CREATE POLICY docs_visible ON public.doc_embeddings FOR SELECT USING (true);

DROP POLICY IF EXISTS examples_visible ON public.example_strudels;
CREATE POLICY examples_visible ON public.example_strudels FOR SELECT USING (true);

GRANT SELECT ON public.doc_embeddings, public.example_strudels TO retrieval_worker;
