-- Statements of migrate, load and sync. Rows of the reference tables have the columns of config/schema.sql.

-- name: upsert_document
-- Stores a document, in place of one with its id.
-- Parameters: id, title, path, kind, owner, tenant, visibility.
INSERT INTO public.documents (id, title, path, kind, owner_id, tenant_id, visibility)
VALUES (%(id)s, %(title)s, %(path)s, %(kind)s, %(owner)s, %(tenant)s, %(visibility)s)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, path = excluded.path, kind = excluded.kind,
  owner_id = excluded.owner_id, tenant_id = excluded.tenant_id, visibility = excluded.visibility

-- name: insert_grant
-- Adds one grant of a document.
-- Parameters: the document's id, the grantee.
INSERT INTO public.document_grants (document_id, grantee) VALUES (%s, %s)

-- name: insert_chunk
-- Adds a chunk.
-- Parameters: its columns; text: its text_content.
INSERT INTO public.document_chunks (id, document_id, text_content, page, section, coordinates, metadata, embedding)
VALUES (%(id)s, %(document_id)s, %(text)s, %(page)s, %(section)s, %(coordinates)s, %(metadata)s, %(embedding)s)

-- name: select_chunks
-- Returns the chunks of a document that have an embedding, without it.
-- Parameter: the document's id.
SELECT id, text_content AS text, page, section, coordinates, metadata FROM public.document_chunks
 WHERE document_id = %s AND embedding IS NOT NULL

-- name: update_place
-- Changes the place of a chunk whose text stays: page, section, coordinates, metadata.
-- Parameters: these and id.
UPDATE public.document_chunks
   SET page = %(page)s, section = %(section)s, coordinates = %(coordinates)s, metadata = %(metadata)s
 WHERE id = %(id)s

-- name: select_documents_below
-- Returns id, owner and tenant of the documents of a file, or of a folder's files.
-- Parameters: the folder's path with its slash, the file's path.
SELECT id, owner_id, tenant_id FROM public.documents WHERE starts_with(id, %s) OR id = %s ORDER BY id

-- name: select_documents_of_chunks
-- Returns those chunks that are stored, each with the document that has it.
-- Parameter: ids of chunks.
SELECT id, document_id FROM public.document_chunks WHERE id = ANY (%s)

-- name: delete_documents
-- Deletes documents with their chunks and grants.
-- Parameter: their ids.
DELETE FROM public.documents WHERE id = ANY (%s)

-- name: delete_grants
-- Deletes the grants of a document.
-- Parameter: its id.
DELETE FROM public.document_grants WHERE document_id = %s

-- name: delete_chunks
-- Deletes those chunks of a document, to add them anew.
-- Parameters: the document's id, ids of chunks.
DELETE FROM public.document_chunks WHERE document_id = %s AND id = ANY (%s)

-- name: delete_other_chunks
-- Deletes the chunks of a document that it does not have any more.
-- Parameters: the document's id, ids of its chunks.
DELETE FROM public.document_chunks WHERE document_id = %s AND id <> ALL (%s)

-- name: upsert_section
-- Stores a section of a page, in place of one with its id.
-- Parameters: its columns.
INSERT INTO public.doc_embeddings (id, page_name, page_url, section_title, content, metadata, embedding)
VALUES (%(id)s, %(page_name)s, %(page_url)s, %(section_title)s, %(content)s, %(metadata)s, %(embedding)s)
ON CONFLICT (id) DO UPDATE SET page_name = excluded.page_name, page_url = excluded.page_url,
  section_title = excluded.section_title, content = excluded.content, metadata = excluded.metadata,
  embedding = excluded.embedding

-- name: upsert_example
-- Stores an example, in place of one with its id.
-- Parameters: its columns.
INSERT INTO public.example_strudels (id, title, description, code, tags, url, embedding)
VALUES (%(id)s, %(title)s, %(description)s, %(code)s, %(tags)s, %(url)s, %(embedding)s)
ON CONFLICT (id) DO UPDATE SET title = excluded.title, description = excluded.description, code = excluded.code,
  tags = excluded.tags, url = excluded.url, embedding = excluded.embedding

-- name: dimensions_of
-- Returns the dimensions of a table's embeddings.
-- Parameter: the table's name.
SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'embedding' AND NOT attisdropped

-- name: languages
-- Returns the names of the worker's own text search configurations.
SELECT cfgname FROM pg_ts_config WHERE cfgnamespace = 'retrieval'::regnamespace AND cfgname ~ '^[a-z_]+$' ORDER BY 1

-- name: words
-- Returns the columns of words of the reference tables, and of their signatures, a row for each table: its name; the
-- commands that drop them; the language of the words; whether texts are folded.
-- Parameter: names of tables.
SELECT a.attrelid::regclass::text, string_agg(format('DROP COLUMN %%I', a.attname), ', ' ORDER BY a.attname),
       max(substring(made_by FROM '(?:to_tsvector|text_vector)\(''(?:pg_catalog\.|retrieval\.)?(\w+)''::regconfig')),
       bool_and(made_by LIKE '%%text_vector(%%')
  FROM unnest(%s::text[]) AS name
  JOIN pg_attribute a ON a.attrelid = to_regclass(name) AND a.attname IN ('text_search', 'text_signature')
  JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum, pg_get_expr(d.adbin, d.adrelid) AS made_by
 GROUP BY a.attrelid ORDER BY a.attrelid

-- name: folds
-- Returns whether migrate has installed what folds texts.
SELECT to_regprocedure('retrieval.text_vector(regconfig, text)') IS NOT NULL

-- name: is_counted
-- Returns whether the words of any corpus were counted.
SELECT EXISTS (SELECT FROM retrieval.text_statistics)
