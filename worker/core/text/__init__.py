"""Text as the core compares it: words, terms, normal forms, Markdown."""
