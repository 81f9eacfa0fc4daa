"""The queue: claims, processes, outcomes and their records; what Celery is used for; views and metrics."""
