"""The commands of `retrieval-worker` by what they are about; `worker.cli` puts them together."""
