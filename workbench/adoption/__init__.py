"""The proposal of `retrieval-worker adopt`: tables with vectors as corpora, as files to review.

`tables` reads what Postgres has, `proposals` decides (pure), `preview` counts what callers would see, `files` writes
settings and SQL. Nothing in the database is changed.
"""
