"""Prompts, context and costs of language model calls."""
