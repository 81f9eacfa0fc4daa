-- Rows of a corpus that anybody sees.

-- name: is_table
-- Returns whether a relation is no view.
-- Parameter: its name, as SQL.
SELECT relkind <> 'v' FROM pg_class WHERE oid = to_regclass(%s)

-- name: set_caller
-- Sets the settings of an invented caller for this transaction.
-- Parameter: a JSON object of names and values.
SELECT set_config(name, value, true) FROM jsonb_each_text(%s::jsonb) AS settings (name, value)
