"""The commands of `retrieval-worker` by subject; `workbench.main` registers them."""
