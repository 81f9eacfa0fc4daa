"""Celery's Redis result backend, without stack traces: a caller is told what to do, the log says where it broke."""

from __future__ import annotations

from typing import Any

from celery.backends.redis import RedisBackend

OVERRIDES = {"redis": "worker.results:Results", "rediss": "worker.results:Results"}
"""For ``app.loader.override_backends``."""


class Results(RedisBackend):
    """Results as the contract has them."""

    def _get_result_meta(self, result: Any, state: str, traceback: Any, request: Any, **options: Any) -> Any:
        """A result's record; the trace stays in the worker's log."""
        del traceback
        return super()._get_result_meta(result, state, None, request, **options)
