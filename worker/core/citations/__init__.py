"""Citations: the document, quotes and labels checked against sources, conflicts between sources."""
