"""The commands of `retrieval-worker` by subject; `worker.cli.main` registers them."""
