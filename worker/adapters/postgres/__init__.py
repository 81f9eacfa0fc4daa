"""Postgres: connections, the statements that are sent, and rows as values."""
