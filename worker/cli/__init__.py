"""The command line, `retrieval-worker`, and the modules that only it needs."""
