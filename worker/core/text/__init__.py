"""Text processing for comparison: words, terms, normal forms, Markdown."""
