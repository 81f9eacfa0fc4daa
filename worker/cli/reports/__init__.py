"""Reports of answers for a terminal."""
