"""Jobs, one file or folder each, and their shared parts."""
