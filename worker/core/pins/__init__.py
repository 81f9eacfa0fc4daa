"""Content hashes and pins: finding the same chunk again."""
