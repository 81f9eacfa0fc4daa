"""Order: vectors, fusion, reranking, diversity, and measures of all of these."""
