"""Synthetic corpora on servers of their own, for tests and benchmarks."""
