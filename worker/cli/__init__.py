"""The command line, `retrieval-worker`, and what only it needs."""
