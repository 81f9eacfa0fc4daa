"""The jobs, one file or folder each, and what they share."""
