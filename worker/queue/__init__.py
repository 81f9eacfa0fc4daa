"""All that sees Celery: tasks, the transport, results, the process pool, metrics."""
