"""Adapters of Postgres and of everything else outside the process."""
