"""Services over HTTP: embedders, language models, rerankers, remote sources."""
