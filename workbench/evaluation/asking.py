"""Asking: the jobs of labelled queries through a worker, or through an engine in this process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.contract.results import Hybrid
from retrieval_client.errors import InvalidJob, NotAuthorised
from workbench.evaluation.queries import WrongLines
from workbench.evaluation.systems import contextual_job, hits_of, job_of, of_line
from worker.cli.usage import WrongUsage
from worker.jobs.context import JobContext
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from retrieval_client import Client, TaskId
    from retrieval_client.contract.jobs import RunPipeline
    from workbench.evaluation.queries import LabelledQuery
    from workbench.evaluation.systems import Hit, System
    from worker.jobs.engine import Engine
    from worker.settings import Settings

    AnyJob = RetrieveHybrid | RunPipeline
    AnyAnswer = Hybrid | PipelineAnswer
    Refusal = InvalidJob | NotAuthorised

AT_A_TIME = 8
"""Queries whose jobs wait in the queue at once."""


class Answering(Protocol):
    """Answers jobs."""

    def answers(self, jobs: Sequence[AnyJob]) -> Iterator[AnyAnswer | Refusal]:
        """Yield the answer of each job, or why it is refused, in their order."""


class ThroughWorker:
    """Answers jobs through a queue.

    Args:
        client: the client.
        enqueue: puts a job on its queue, see `worker.cli.commands.callers.enqueue`.
        wait: waits for an answer, see `worker.cli.commands.jobs.answer_to`.
        timeout: seconds to wait for one.
    """

    def __init__(
        self,
        client: Client,
        enqueue: Callable[[Client, AnyJob, float], TaskId[Any]],
        wait: Callable[[Client, TaskId[Any], float], Any],
        timeout: float,
    ) -> None:
        self._client = client
        self._enqueue = enqueue
        self._wait = wait
        self._timeout = timeout

    def answers(self, jobs: Sequence[AnyJob]) -> Iterator[AnyAnswer | Refusal]:
        """Yield the answer of each job; all are put on the queue first."""
        task_ids = [self._enqueue(self._client, job, self._timeout) for job in jobs]
        for task_id in task_ids:
            try:
                yield self._wait(self._client, task_id, self._timeout)
            except (InvalidJob, NotAuthorised) as error:
                yield error


class InProcess:
    """Answers jobs by an engine of this process; a caller is trusted, whatever the settings say of the queue."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings

    def answers(self, jobs: Sequence[AnyJob]) -> Iterator[AnyAnswer | Refusal]:
        """Yield the answer of each job."""
        for job in jobs:
            try:
                yield self._answer(job)
            except (InvalidJob, NotAuthorised) as error:
                yield error

    def _answer(self, job: AnyJob) -> AnyAnswer:
        claims = job.principal
        context = JobContext(lambda: None if claims is None else as_principal(claims, self._settings, "principal"))
        if isinstance(job, RetrieveHybrid):
            return Hybrid.model_validate(self._engine.hybrid.retrieve(job, context))
        return PipelineAnswer.model_validate(self._engine.pipeline_jobs.answer(job, context))


@dataclass(frozen=True, slots=True)
class _Request:
    """One job of one query, for one system."""

    query: LabelledQuery
    system: System
    job: AnyJob


@dataclass(frozen=True, slots=True)
class QueryHits:
    """Chunks found for one query, by system.

    Attributes:
        query: the query.
        hits: system → its chunks, best first; a system that does not apply to the query is not in it.
        degraded: codes of what answers were made without.
    """

    query: LabelledQuery
    hits: Mapping[str, Sequence[Hit]]
    degraded: frozenset[str]


@dataclass(frozen=True, slots=True)
class Questioner:
    """Asks queries of systems.

    Attributes:
        answering: answers the jobs.
        systems: the systems.
        corpus: the corpus of queries that name none.
        depth: number of chunks to ask for, 1-50.
        claims: claims of the caller of queries that name none; None: no caller.
        source: the file of the queries, for errors.
        known_corpora: names of corpora that are there; whether others are, the answers say.
    """

    answering: Answering
    systems: Sequence[System]
    corpus: str
    depth: int
    claims: Mapping[str, Any] | None
    source: str
    known_corpora: Collection[str] = ()

    def ask(self, queries: Sequence[LabelledQuery]) -> Iterator[QueryHits]:
        """Yield what each query finds, in their order, a few asked at a time.

        Raises:
            WrongLines: lines name an unknown corpus; raised before any other query is asked.
            WrongUsage: a query's job is wrong; the message has its line and field.
            NotAuthorised: its caller is not authorised; the message has its line.
            RetrievalError: a job failed; see `retrieval_client.errors`.
        """
        self._check_corpora(queries)
        for start in range(0, len(queries), AT_A_TIME):
            yield from self._ask(queries[start : start + AT_A_TIME])

    def _check_corpora(self, queries: Sequence[LabelledQuery]) -> None:
        """Ask one query of each corpus that is not known to be there.

        Raises:
            WrongLines: some are not there; it has a sentence for each line that names one.
        """
        first_queries: dict[str, LabelledQuery] = {}
        for query in queries:
            if query.corpus and query.corpus not in self.known_corpora:
                first_queries.setdefault(query.corpus, query)
        requests = [self._request(query, self.systems[0]) for query in first_queries.values()]
        corpus_problems = {}
        for request, answer in zip(
            requests, self.answering.answers([request.job for request in requests]), strict=True
        ):
            if isinstance(answer, InvalidJob):
                path, _, expected = answer.message.partition(": ")
                if of_line(path) == "corpus":
                    corpus_problems[request.query.corpus] = f"corpus: {expected}"
        lines = [
            f"line {query.line}: {corpus_problems[query.corpus]}"
            for query in queries
            if query.corpus in corpus_problems
        ]
        if lines:
            raise WrongLines(self.source, lines, len(queries))

    def _ask(self, queries: Sequence[LabelledQuery]) -> Iterator[QueryHits]:
        """Ask some queries; the contextual leg's second jobs are made from the answers to its first ones."""
        requests = [self._request(query, system) for query in queries for system in self._systems_of(query)]
        answers = self._answers(requests)
        second = [
            replace(request, job=job)
            for request, answer in zip(requests, answers, strict=True)
            if request.system.is_contextual and isinstance(request.job, RetrieveHybrid)
            if (job := contextual_job(request.job, answer)) is not None
        ]
        answered_requests = [pair for pair in zip(requests, answers, strict=True) if not pair[0].system.is_contextual]
        answered_requests += zip(second, self._answers(second), strict=True)
        for query in queries:
            system_answers = [
                (request.system, answer) for request, answer in answered_requests if request.query is query
            ]
            yield QueryHits(
                query,
                {system.name: hits_of(system, answer) for system, answer in system_answers},
                frozenset(code for _, answer in system_answers for code in answer.degraded),
            )

    def _systems_of(self, query: LabelledQuery) -> list[System]:
        """Return the systems that may apply to a query."""
        return [system for system in self.systems if query.context or not system.is_contextual]

    def _request(self, query: LabelledQuery, system: System) -> _Request:
        try:
            return _Request(query, system, job_of(system, query, self.corpus, self.depth, self.claims))
        except InvalidJob as error:
            raise self._wrong(query, system, error) from None

    def _answers(self, requests: Sequence[_Request]) -> list[Any]:
        """Return the answer of each request."""
        answers = []
        for request, answer in zip(
            requests, self.answering.answers([request.job for request in requests]), strict=True
        ):
            if isinstance(answer, InvalidJob | NotAuthorised):
                raise self._wrong(request.query, request.system, answer)
            answers.append(answer)
        return answers

    def _wrong(self, query: LabelledQuery, system: System, error: Refusal) -> WrongUsage | NotAuthorised:
        """Return the error of a query's job: that of its line, or of the system that all queries are asked of."""
        place = f"{self.source}: line {query.line}: "
        if isinstance(error, NotAuthorised):
            return NotAuthorised(place + error.message)
        path, colon, expected = error.message.partition(": ")  # an error from the wire is a sentence alone
        if path.partition(".")[0] in system.fields:
            return WrongUsage(f"{system.name}: {error.message}{system.other_names(path)}")
        return WrongUsage(f"{place}{of_line(path)}{colon}{expected}")
