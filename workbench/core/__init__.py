"""Pure parts of the workbench: significance, the width of searches, TREC's files. No I/O, clock or randomness."""
