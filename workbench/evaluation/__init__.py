"""Evaluation of retrieval on labelled queries: reading them, asking them, figures and reports."""
