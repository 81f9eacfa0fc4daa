"""The client for asyncio: thousands of jobs may be waited for at once, over a few connections."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import Self

from retrieval_client.connection import (
    BROKER,
    LOOK_SECONDS,
    RECORDS_AT_ONCE,
    aconnected,
    check_heard,
    place_of,
    refused,
)
from retrieval_client.contract.message import Record, compose_revoke, control_channel, record_key
from retrieval_client.errors import Unavailable
from retrieval_client.jobs import (
    BaseClient,
    Outcome,
    OutgoingJob,
    Progress,
    Signer,
    TaskId,
    as_job,
    check_expiry,
    check_wait,
    is_news,
    new_id,
    progress_of,
    record_of,
)
from retrieval_client.subscription import AsyncSubscription

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from contextlib import AbstractContextManager

    from retrieval_client.contract.base import AnsweredBy, AnswerT
    from retrieval_client.contract.jobs import Job
    from retrieval_client.jobs import Claims
    from retrieval_client.subscription import AsyncListener


class AsyncClient(BaseClient):
    """A client that sends jobs and reads results until it is closed; then each method raises a RuntimeError.

    async with AsyncClient(broker_url, result_backend) as client:
        answer = await client.call(job)

    See `BaseClient` for its arguments. A client that has reached the results' Redis waits an outage of it out until
    the timeout; if Redis hangs, rather than refuses, up to 15 s longer.
    """

    def __init__(self, broker_url: str, result_backend: str | None = None, signer: Signer | None = None) -> None:
        super().__init__(broker_url, result_backend, signer)
        self._queues = aconnected(broker_url)
        self._results = aconnected(result_backend or broker_url)
        self.queues_place, self.results_place = (
            place_of(client.connection_pool.connection_kwargs) for client in (self._queues, self._results)
        )
        self._subscription = AsyncSubscription(aconnected(result_backend or broker_url, retries=0))

    async def enqueue(
        self,
        job: AnsweredBy[AnswerT],
        *,
        claims: Claims = None,
        task_id: str | None = None,
        expires: float | None = None,
    ) -> TaskId[AnswerT]:
        """Put a job on its queue.

        Args:
            job: the job.
            claims: the caller's claims, to be signed; needs a `Signer`.
            task_id: an id of your own, so that you may send the same job again; default a new one.
            expires: seconds after which no client waits for the answer.

        Returns:
            The task id, a string; it carries the type of the answer for `result`.

        Raises:
            InvalidJob: a field can't be written as JSON. Jobs with wrong fields raise it as they are made.
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user, the password or the command.
        """
        checked = as_job(job)
        job_id = new_id(checked, task_id)
        await self._send(self._composed(checked, claims, job_id, expires))
        return job_id

    @overload
    async def result(self, task_id: TaskId[AnswerT], timeout: float | None = None) -> AnswerT: ...
    @overload
    async def result(self, task_id: str, timeout: float | None = None) -> Any: ...
    async def result(self, task_id: str, timeout: float | None = None) -> Any:
        """Wait for a job's answer.

        Args:
            task_id: the id from `enqueue`, or an equal string.
            timeout: seconds; None: without limit.

        Raises:
            TimedOut: no answer within ``timeout`` seconds (the job may still be answered).
            Unavailable: Redis is unavailable; in these seconds as well, if it was reached before.
            SettingsError: Redis refuses the user or the password; or the worker is misconfigured.
            RetrievalError: the job failed; the class gives the reason (see `retrieval_client.errors`).
            ValueError: `timeout` is not a number of seconds.
        """
        check_wait(timeout)
        await self._reach_results(task_id)
        with self._listening([task_id]) as listener:
            record = await self._wait(listener, task_id, timeout)
        return self._answer(task_id, record, timeout)

    @overload
    def results(
        self, task_ids: Iterable[TaskId[AnswerT]], timeout: float | None = None
    ) -> AsyncIterator[Outcome[AnswerT]]: ...
    @overload
    def results(self, task_ids: Iterable[str], timeout: float | None = None) -> AsyncIterator[Outcome[Any]]: ...
    async def results(self, task_ids: Iterable[str], timeout: float | None = None) -> AsyncIterator[Outcome[Any]]:
        """Wait for many jobs; yield how each ended, as they end.

        Args:
            task_ids: the ids from `enqueue`.
            timeout: seconds for all together; None: without limit. Jobs that have not `ended` by then come last, with
                `TimedOut`, or `Unavailable` if Redis is away.

        Raises:
            Unavailable: Redis was never reached.
            SettingsError, ValueError: as `result`.
        """
        check_wait(timeout)
        waiting, is_away = {str(task_id): task_id for task_id in task_ids}, False
        if not waiting:
            return
        await self._reach_results(next(iter(waiting)))
        with self._listening(waiting) as listener:
            try:
                async for task_id, record in self._records(listener, [*waiting], timeout):
                    if record.ended:
                        yield self._outcome(waiting.pop(task_id), record)
            except Unavailable:
                is_away = True
        for task_id in waiting.values():
            yield self._open(task_id, timeout, is_away=is_away)

    @overload
    async def call_many(
        self, jobs: Iterable[AnsweredBy[AnswerT]], *, claims: Claims = None, timeout: float | None = 30.0
    ) -> list[AnswerT]: ...
    @overload
    async def call_many(
        self, jobs: Iterable[Job], *, claims: Claims = None, timeout: float | None = 30.0
    ) -> list[Any]: ...
    async def call_many(self, jobs: Iterable[Any], *, claims: Claims = None, timeout: float | None = 30.0) -> list[Any]:
        """Enqueue jobs and wait for their answers, which come in the order of the jobs; after ``timeout`` they expire.

        Raises:
            RetrievalError: the first job's, in their order, that failed; `results` has the others' answers too.
            ValueError: as `call`.
        """
        check_expiry(timeout)
        ids = [await self.enqueue(job, claims=claims, expires=timeout) for job in jobs]
        ended = {outcome.task_id: outcome async for outcome in self.results(ids, timeout)}
        return [ended[task_id].get() for task_id in ids]

    async def call(self, job: AnsweredBy[AnswerT], *, claims: Claims = None, timeout: float | None = 30.0) -> AnswerT:
        """Enqueue a job and wait for its answer; after ``timeout`` the job expires.

        Raises:
            ValueError: `timeout` is not a positive number of seconds.
            RetrievalError: as `enqueue` and `result`.
        """
        check_expiry(timeout)
        checked = as_job(job)
        task_id = new_id(checked)
        outgoing_job = self._composed(checked, claims, task_id, timeout)
        with self._listening([task_id]) as listener:
            await self._send(outgoing_job)
            record = await self._wait(listener, task_id, timeout)
        answer: AnswerT = self._answer(task_id, record, timeout)
        return answer

    async def progress(self, task_id: str) -> Progress:
        """Return the progress of a job.

        Raises:
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password.
        """
        return progress_of(await self._look(task_id))

    async def watch(self, task_id: str, timeout: float | None = None) -> AsyncIterator[Progress]:
        """Yield the progress of a job as it changes; the last one `ended`, unless ``timeout`` seconds were over before.

        Raises:
            Unavailable, SettingsError, ValueError: as `result`.
        """
        check_wait(timeout)
        previous_progress: Progress | None = None
        await self._reach_results(task_id)
        with self._listening([task_id]) as listener:
            async for _, record in self._records(listener, [task_id], timeout):
                if is_news(progress := progress_of(record), previous_progress):
                    yield progress
                    previous_progress = progress

    async def cancel(self, task_id: str) -> None:
        """Ask the workers not to run a job that waits; its record becomes ``REVOKED``.

        They do so only where `worker.remote_control` names `revoke`. A job that runs goes on.

        Raises:
            NotAuthorised: this user of Redis may not (config/redis allows it only to the administrator).
            Unavailable: Redis is unavailable, or no worker listens.
            SettingsError: Redis refuses the user or the password.
        """
        database = self._queues.connection_pool.connection_kwargs.get("db", 0)
        with self._reaching(BROKER), refused("cancel jobs: ask an operator to revoke it"):
            heard = await self._queues.publish(control_channel(database), compose_revoke(task_id))
        check_heard(heard)

    async def forget(self, task_id: str) -> None:
        """Delete a job's result before it expires.

        Raises:
            NotAuthorised: this user of Redis may not (config/redis allows it only to the administrator).
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password.
        """
        with self._reaching(self._results_setting), refused("delete results: they expire by themselves"):
            await self._results.delete(record_key(task_id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections to Redis, as leaving its `async with` block does; a closed client stays closed."""
        if self._closed:
            return
        self._closed = True
        await self._subscription.close()
        await self._queues.aclose()
        await self._results.aclose()

    async def _send(self, outgoing_job: OutgoingJob) -> None:
        await self._reach_results(outgoing_job.task_id)
        with self._reaching(BROKER, outgoing_job.task_id):
            await self._queues.lpush(outgoing_job.queue, outgoing_job.message)

    async def _reach_results(self, task_id: str) -> None:
        """Reach the results' Redis once: nothing is sent, or waited for, of which nobody could read the answer."""
        if not self._has_reached_results:
            await self._look(task_id)
            self._has_reached_results = True

    def _listening(self, task_ids: Iterable[str]) -> AbstractContextManager[AsyncListener]:
        """Listen to the records of jobs."""
        self._check_open()
        return self._subscription.listening(task_ids)

    async def _wait(self, listener: AsyncListener, task_id: str, timeout: float | None) -> Record | None:
        """Wait for the end of a job; None: too late."""
        last_record = None
        async for _, record in self._records(listener, [task_id], timeout):
            last_record = record
        return last_record if last_record is not None and last_record.ended else None

    async def _records(
        self, listener: AsyncListener, task_ids: Iterable[str], timeout: float | None
    ) -> AsyncIterator[tuple[str, Record]]:
        """Yield jobs' records until all have ended, or it is too late: as published, or stored, which is looked at.

        Raises:
            Unavailable: it is too late, and Redis is away; until then an outage is waited for.
        """
        waiting, until = {*task_ids}, float("inf") if timeout is None else time.monotonic() + timeout
        is_late = False
        while waiting and not is_late:
            remaining_seconds = until - time.monotonic()
            try:
                records = await self._next(listener, waiting, max(0.0, min(remaining_seconds, LOOK_SECONDS)))
            except Unavailable:
                if remaining_seconds <= 0:
                    raise self._away(min(waiting)) from None
                continue
            is_late = remaining_seconds <= 0
            for task_id, record in records:
                if task_id in waiting:
                    yield task_id, record
                    if record.ended:
                        waiting.discard(task_id)

    async def _next(self, listener: AsyncListener, waiting: set[str], seconds: float) -> list[tuple[str, Record]]:
        """Return the record that is published, or all that are stored; at last, in 0 seconds, these."""
        with self._reaching(self._results_setting):
            published = await listener.next(seconds)
        if published is None or not seconds:
            return await self._stored(sorted(waiting))
        task_id, record = published[0], record_of(published[1])
        if record.ended and not self._reads_where_workers_store:
            self._check_stored(task_id, await self._look(task_id))
        return [(task_id, record)]

    async def _stored(self, task_ids: list[str]) -> list[tuple[str, Record]]:
        """Read jobs' records as they are stored."""
        stored: list[bytes | str | None] = []
        for start in range(0, len(task_ids), RECORDS_AT_ONCE):
            keys = [record_key(task_id) for task_id in task_ids[start : start + RECORDS_AT_ONCE]]
            with self._reaching(self._results_setting):
                stored += await self._results.mget(keys)
        return [(task_id, record_of(text)) for task_id, text in zip(task_ids, stored, strict=True)]

    async def _look(self, task_id: str) -> Record:
        """Read a job's record as it is stored."""
        with self._reaching(self._results_setting, task_id):
            return record_of(await self._results.get(record_key(task_id)))
