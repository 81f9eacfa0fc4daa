"""Ranking: vectors, fusion, reranking, diversity, and their measures."""
