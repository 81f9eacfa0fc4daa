"""Summaries of jobs and errors for logs and events: only names that the contract knows, never a sender's own words."""

from __future__ import annotations

import functools
import itertools
from typing import Any

from retrieval_client.contract.base import Part
from retrieval_client.contract.jobs import Job
from retrieval_client.errors import InvalidJob, RetrievalError


@functools.cache
def _known_fields(cls: type[Part]) -> set[str]:
    return set(cls.model_fields).union(*(_known_fields(child) for child in cls.__subclasses__()))


def summarise(args: Any) -> str:
    """Summarise a job's arguments as the names of its fields that the contract knows, and the number of others.

    >>> summarise([{"query_embedding": [0.1], "k": 12, "secret text": 1}])
    '(k, query_embedding, +1)'
    """
    job = args[0] if isinstance(args, list | tuple) and args else None
    if not isinstance(job, dict):
        return "(no job)"
    known_fields = sorted(_known_fields(Job) & job.keys())
    unknown_count = len(job) - len(known_fields)
    return f"({', '.join([*known_fields, f'+{unknown_count}'] if unknown_count else known_fields)})"


def known_reason(error: RetrievalError) -> str:
    """Return an error's sentence for the log: the path of its field only as far as the contract knows the names.

    >>> known_reason(InvalidJob("this field is not known", "filters.salary_of_bob"))
    'filters.…: this field is not known'
    >>> known_reason(InvalidJob("expected an integer", "filters.pages[0]"))
    'filters.pages[0]: expected an integer'
    """
    if not isinstance(error, InvalidJob) or not error.path:
        return error.message
    steps = error.path.split(".")
    known_steps = [*itertools.takewhile(lambda step: step.partition("[")[0] in _known_fields(Part), steps)]
    return f"{'.'.join([*known_steps, '…'][: len(steps)])}: {error.expected}"
