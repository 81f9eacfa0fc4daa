"""What a language model is given, and what it costs."""
