"""Content hashes and pins: how a chunk is found again."""
