"""For backends that have a Celery app: jobs as signatures, alone and in groups.

Chains and chords have the worker send the next task: it refuses them without `worker.allow_callbacks`.

    asked = group(signature(job) for job in jobs).apply_async()
    answers = [read(RetrieveTopK, result) for result in asked.get()]

Importing this lets Celery raise the errors of `retrieval_client` where a job failed.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, Any

from celery.canvas import Signature

from retrieval_client import errors
from retrieval_client.contract.registry import task_of
from retrieval_client.errors import InvalidJob
from retrieval_client.jobs import as_job, reader_of, signed

if TYPE_CHECKING:
    from celery import Celery

    from retrieval_client.contract.base import AnsweredBy, AnswerT
    from retrieval_client.jobs import Claims, Signer

# Celery looks the classes of a record's errors up among the modules that are there, by the name on the wire.
sys.modules.setdefault(errors.ON_THE_WIRE, errors)


def signature(
    job: AnsweredBy[Any], *, claims: Claims = None, signer: Signer | None = None, app: Celery | None = None
) -> Signature[Any]:
    """Return the signature of one job: its task and its queue are set; it takes no result of a task before it.

    Each sending of it has an id of its own. If it is signed, its id is set as well, and it may be sent once.

    Args:
        job: the job.
        claims: the caller's claims, to be signed.
        signer: signs them.
        app: the app that sends it; default Celery's current one.

    Raises:
        InvalidJob: a field can't be written as JSON.
        ValueError: there are claims and no signer; or, as it is sent, a signed one was sent before.
    """
    checked, task_id = as_job(job), str(uuid.uuid4())
    task = task_of(type(checked))
    body = signed(checked, claims, signer, task_id)
    # Flower and `inspect` show the representations, where nothing of a job may be seen.
    options = {"queue": task.queue, "argsrepr": "(job)", "kwargsrepr": "{}"}
    sent_ids: list[str] | None = None
    if claims is not None:
        options["task_id"], sent_ids = task_id, []
    return _JobSignature(sent_ids, task.name, args=(body,), options=options, immutable=True, app=app)


class _JobSignature(Signature):  # type: ignore[misc] # Celery has no types
    """The signature of a job; if it has a token, its copies, as in groups, know whether it was sent."""

    def __init__(self, sent_ids: list[str] | None, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._sent_ids = sent_ids

    def clone(self, *args: Any, **options: Any) -> _JobSignature:
        return _JobSignature(self._sent_ids, super().clone(*args, **options), app=self._app)

    def apply_async(self, *args: Any, **options: Any) -> Any:
        if {**self.options, **options}.get("priority"):
            raise InvalidJob("expected no priority", "priority")  # A producer may not fill such lists of Redis.
        if self._sent_ids:
            raise ValueError(
                f"signature: its token holds for one message, which was sent under the task id {self._sent_ids[0]}: "
                "make a signature for each sending"
            )
        result = super().apply_async(*args, **options)
        if self._sent_ids is not None:
            self._sent_ids.append(self.options["task_id"])
        return result


def read(job: type[AnsweredBy[AnswerT]], result: Any) -> AnswerT:
    """Return the answer in the result of such a job, e.g. of ``AsyncResult.get()``."""
    answer: AnswerT = reader_of(task_of(job).name).validate_python(result)  # type: ignore[arg-type] # only jobs are answered
    return answer
