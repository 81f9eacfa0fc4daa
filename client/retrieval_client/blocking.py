"""The client that blocks: one call after another, or from several threads."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, overload

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry
from typing_extensions import Self

from retrieval_client.connection import (
    BROKER,
    LOOK_SECONDS,
    OPTIONS,
    PAUSE_SECONDS,
    RETRIES,
    as_redis_reads,
    check_heard,
    place_of,
    refused,
)
from retrieval_client.contract.message import Record, compose_revoke, control_channel, record_key, task_id_of
from retrieval_client.jobs import (
    BaseClient,
    Outcome,
    Progress,
    Sent,
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from redis.client import PubSub

    from retrieval_client.contract.base import AnsweredBy, AnswerT
    from retrieval_client.contract.jobs import Job
    from retrieval_client.jobs import Claims


MOST_THREADS = 10_000
"""Most threads that may use a client at once."""
RECORDS_AT_ONCE = 100
"""Most records that are read by one command: an answer may be of a megabyte."""


class Client(BaseClient):
    """A client that sends jobs and reads results until it is closed; then each method raises a RuntimeError.

    Several threads may use it. See `BaseClient` for its arguments. A Redis that hangs, rather than refuses, is told as
    `Unavailable` after 15 s, whatever the timeout: a lost connection is tried again.
    """

    def __init__(self, broker_url: str, result_backend: str | None = None, signer: Signer | None = None) -> None:
        super().__init__(broker_url, result_backend, signer)
        self._queues = _connected(broker_url)
        self._results = _connected(result_backend or broker_url)
        self.results_place = place_of(self._results.get_connection_kwargs())
        self._idle: list[PubSub] = []
        self._process = os.getpid()
        self._reached_results = False

    def enqueue(
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
        made = new_id(checked, task_id)
        sent = self._composed(checked, claims, made, expires)
        if not self._reached_results:
            # Once: nothing is sent of which nobody could read the answer.
            self._look(made)
            self._reached_results = True
        self._send(sent)
        return made

    @overload
    def result(self, task_id: TaskId[AnswerT], timeout: float | None = None) -> AnswerT: ...
    @overload
    def result(self, task_id: str, timeout: float | None = None) -> Any: ...
    def result(self, task_id: str, timeout: float | None = None) -> Any:
        """Wait for a job's answer.

        Args:
            task_id: the id from `enqueue`, or an equal string.
            timeout: seconds; None: without limit.

        Raises:
            TimedOut: no answer within ``timeout`` seconds (the job may still be answered).
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password; or the worker is misconfigured.
            RetrievalError: the job failed; the class gives the reason (see `retrieval_client.errors`).
            ValueError: `timeout` is not a number of seconds.
        """
        check_wait(timeout)
        with self._listening([task_id]) as published:
            record = self._wait(published, task_id, timeout)
        return self._answer(task_id, record, timeout)

    @overload
    def results(
        self, task_ids: Iterable[TaskId[AnswerT]], timeout: float | None = None
    ) -> Iterator[Outcome[AnswerT]]: ...
    @overload
    def results(self, task_ids: Iterable[str], timeout: float | None = None) -> Iterator[Outcome[Any]]: ...
    def results(self, task_ids: Iterable[str], timeout: float | None = None) -> Iterator[Outcome[Any]]:
        """Wait for many jobs; yield how each ended, as they end.

        Args:
            task_ids: the ids from `enqueue`.
            timeout: seconds for all together; None: without limit. Jobs that have not `ended` by then come last.

        Raises:
            Unavailable, SettingsError, ValueError: as `result`.
        """
        check_wait(timeout)
        waiting = {str(task_id): task_id for task_id in task_ids}
        if not waiting:
            return
        with self._listening(waiting) as published:
            for task_id, record in self._wait_for_all(published, {*waiting}, timeout):
                yield self._outcome(waiting.pop(task_id), record, timeout)

    @overload
    def call_many(
        self, jobs: Iterable[AnsweredBy[AnswerT]], *, claims: Claims = None, timeout: float | None = 30.0
    ) -> list[AnswerT]: ...
    @overload
    def call_many(self, jobs: Iterable[Job], *, claims: Claims = None, timeout: float | None = 30.0) -> list[Any]: ...
    def call_many(self, jobs: Iterable[Any], *, claims: Claims = None, timeout: float | None = 30.0) -> list[Any]:
        """Enqueue jobs and wait for their answers, which come in the order of the jobs; after ``timeout`` they expire.

        Raises:
            RetrievalError: the first job's, in their order, that failed; `results` has the others' answers too.
            ValueError: as `call`.
        """
        check_expiry(timeout)
        ids = [self.enqueue(job, claims=claims, expires=timeout) for job in jobs]
        ended = {outcome.task_id: outcome for outcome in self.results(ids, timeout)}
        return [ended[task_id].get() for task_id in ids]

    def call(self, job: AnsweredBy[AnswerT], *, claims: Claims = None, timeout: float | None = 30.0) -> AnswerT:
        """Enqueue a job and wait for its answer; after ``timeout`` the job expires.

        Raises:
            ValueError: `timeout` is not a positive number of seconds.
            RetrievalError: as `enqueue` and `result`.
        """
        check_expiry(timeout)
        checked = as_job(job)
        task_id = new_id(checked)
        sent = self._composed(checked, claims, task_id, timeout)
        with self._listening([task_id]) as published:
            self._send(sent)
            record = self._wait(published, task_id, timeout)
        answer: AnswerT = self._answer(task_id, record, timeout)
        return answer

    def progress(self, task_id: str) -> Progress:
        """Return the progress of a job.

        Raises:
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password.
        """
        return progress_of(self._look(task_id))

    def watch(self, task_id: str, timeout: float | None = None) -> Iterator[Progress]:
        """Yield the progress of a job as it changes; the last one `ended`, unless ``timeout`` seconds were over before.

        Raises:
            Unavailable, SettingsError, ValueError: as `result`.
        """
        check_wait(timeout)
        before: Progress | None = None
        with self._listening([task_id]) as published:
            for record in self._records(published, task_id, timeout):
                if record is not None and is_news(now := progress_of(record), before):
                    yield now
                    before = now

    def cancel(self, task_id: str) -> None:
        """Ask the workers not to run a job that waits; its record becomes ``REVOKED``.

        They do so only where `worker.remote_control` names `revoke`. A job that runs goes on.

        Raises:
            NotAuthorised: this user of Redis may not (config/redis allows it only to the administrator).
            Unavailable: Redis is unavailable, or no worker listens.
            SettingsError: Redis refuses the user or the password.
        """
        database = self._queues.get_connection_kwargs().get("db", 0)
        with self._reaching(BROKER), refused("cancel jobs: ask an operator to revoke it"):
            heard = self._queues.publish(control_channel(database), compose_revoke(task_id))
        check_heard(heard)

    def forget(self, task_id: str) -> None:
        """Delete a job's result before it expires.

        Raises:
            NotAuthorised: this user of Redis may not (config/redis allows it only to the administrator).
            Unavailable: Redis is unavailable.
            SettingsError: Redis refuses the user or the password.
        """
        with self._reaching(self._results_setting), refused("delete results: they expire by themselves"):
            self._results.delete(record_key(task_id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to Redis, as leaving its `with` block does; a closed client stays closed."""
        if self._closed:
            return
        self._closed = True
        idle, self._idle = self._idle, []
        for published in idle:
            published.close()
        self._queues.close()
        self._results.close()

    def _send(self, sent: Sent) -> None:
        with self._reaching(BROKER):
            self._queues.lpush(sent.queue, sent.message)

    @contextlib.contextmanager
    def _listening(self, task_ids: Iterable[str]) -> Iterator[PubSub]:
        """Subscribe to the records of jobs; the connection is kept for the next ones."""
        with self._reaching(self._results_setting):
            published = self._subscription()
            try:
                published.subscribe(*map(record_key, task_ids))
                yield published
                published.unsubscribe()  # type: ignore[no-untyped-call] # redis-py has no types there
            except BaseException:
                published.close()
                raise
        if self._closed:
            published.close()
        else:
            self._idle.append(published)

    def _subscription(self) -> PubSub:
        """Return a connection for subscribing, if possible one that is idle."""
        if self._process != os.getpid():
            # Connections of the process that this one was forked from are its own.
            self._idle, self._process = [], os.getpid()
        try:
            return self._idle.pop()
        except IndexError:
            published: PubSub = self._results.pubsub()  # type: ignore[no-untyped-call] # redis-py has no types there
            return published

    def _wait(self, published: PubSub, task_id: str, timeout: float | None) -> Record | None:
        """Wait for the end of a job; None: too late."""
        return next(record for record in self._records(published, task_id, timeout) if record is None or record.ended)

    def _records(self, published: PubSub, task_id: str, timeout: float | None) -> Iterator[Record | None]:
        """Yield a job's record: published, or stored, which is looked at from time to time; None at last: too late."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        channel = record_key(task_id).encode()
        while True:
            left = until - time.monotonic()
            message = self._heard(published, left)
            if message is not None and message["channel"] != channel:
                continue  # of the jobs before
            told = message is not None and message["type"] == "message"
            record = record_of(message["data"]) if told and message is not None else self._look(task_id)
            yield record
            if record.ended:
                return
            if left <= 0:
                yield None
                return

    def _wait_for_all(
        self, published: PubSub, waiting: set[str], timeout: float | None
    ) -> Iterator[tuple[str, Record | None]]:
        """Yield each job with its record as it ends; those that did not in time with None."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        looked = time.monotonic()
        subscribed = False
        while waiting and (left := until - time.monotonic()) > 0:
            message: Any = self._heard(published, left) or {"type": "nothing"}
            if message["type"] == "message":
                task_id, record = task_id_of(message["channel"]), record_of(message["data"])
                if record.ended and task_id in waiting:
                    waiting.remove(task_id)
                    yield task_id, record
            # All are subscribed to by one command: what ended before is stored by the first confirmation.
            confirmed = message["type"] == "subscribe" and task_id_of(message["channel"]) in waiting
            if (confirmed and not subscribed) or time.monotonic() - looked >= LOOK_SECONDS:
                subscribed = subscribed or confirmed
                looked = time.monotonic()
                yield from self._ended(waiting)
        yield from self._ended(waiting)
        yield from ((task_id, None) for task_id in sorted(waiting))

    def _ended(self, waiting: set[str]) -> Iterator[tuple[str, Record]]:
        """Yield the jobs whose stored record is final, which wait no longer."""
        ids = sorted(waiting)
        for start in range(0, len(ids), RECORDS_AT_ONCE):
            some = ids[start : start + RECORDS_AT_ONCE]
            with self._reaching(self._results_setting):
                stored = self._results.mget([record_key(task_id) for task_id in some])
            for task_id, text in zip(some, stored, strict=True):
                if text is not None and (record := record_of(text)).ended:
                    waiting.remove(task_id)
                    yield task_id, record

    def _heard(self, published: PubSub, left: float) -> Any:
        """Return the next message of the subscription, or None after a while."""
        with self._reaching(self._results_setting):
            return published.get_message(timeout=max(0.0, min(left, LOOK_SECONDS)))

    def _look(self, task_id: str) -> Record:
        """Read a job's record as it is stored."""
        with self._reaching(self._results_setting):
            return record_of(self._results.get(record_key(task_id)))


def _connected(url: str) -> redis.Redis:
    """Return Redis at a URL, which is connected to when it is first asked."""
    retry = Retry(ConstantBackoff(PAUSE_SECONDS), RETRIES)
    lost = [redis.ConnectionError, redis.TimeoutError]
    # As many connections as threads wait; the library's own bound would be an error for who comes too late.
    return redis.Redis.from_url(
        as_redis_reads(url), **OPTIONS, retry=retry, retry_on_error=lost, max_connections=MOST_THREADS
    )
