-- Statistics of a corpus's words.

-- name: delete_other_tenants
-- Deletes the statistics of a corpus's tenants that are not there any more.
-- Parameters: the corpus; its tenants.
DELETE FROM retrieval.text_statistics WHERE corpus = %s AND tenant <> ALL (%s)
