"""Celery integration: tasks, transport, results, process pool, metrics."""
