"""Record: the facts of a recorded run that the answer made from it again does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from worker.inspector.view.candidates import Leg, LegRank, Ranking
from worker.inspector.view.run import About, Facts, RecordedPlace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from retrieval_client.contract.jobs import RunRef
    from retrieval_client.contract.run_jobs import RunName
    from worker.adapters.postgres.runs import Record

_JOB_FACTS = ("mode", "profile", "corpus", "k", "fusion", "transform", "context", "max_distance", "exact", "seed")
"""Fields of jobs that a view shows, in this order."""


def about_record(record: Record, run: RunName | RunRef) -> About:
    """Return the facts of a record.

    Args:
        record: the record.
        run: its run.
    """
    return About(
        run.subject_id,
        run.run_id,
        record.step,
        question_of(record),
        job_facts({**record.job, **_mode(record)}),
        tuple(_rankings(record)),
        tuple(_legs(record)),
        tuple(
            RecordedPlace(
                recorded.pin.corpus or "",
                recorded.pin.chunk_id or "",
                recorded.pin.document_id or "",
                recorded.rank,
                recorded.score,
            )
            for recorded in record.pins
        ),
    )


def question_of(record: Record) -> str:
    """Return the question or query of a recorded job; empty for a job that has only an embedding."""
    return str(record.job.get("question") or record.job.get("query") or "")


def job_facts(job: Mapping[str, Any]) -> Facts:
    """Return the fields of a job that a view shows, as far as it has them."""
    return tuple((name, str(job[name])) for name in _JOB_FACTS if job.get(name) not in (None, "", False))


def _mode(record: Record) -> dict[str, str]:
    """Return the mode of an answer: a job without one has that of the settings then."""
    package = record.answer.get("package")
    return {"mode": package["package"]["request"]["mode"]} if package else {}


def _rankings(record: Record) -> Iterator[Ranking]:
    package = record.answer.get("package")
    for stage in package["package"]["trace"]["stages"] if package else ():
        places = tuple((corpus, chunk_id) for corpus, chunk_id in stage["candidates"])
        scores = tuple(stage.get("scores") or [None] * len(places))
        yield Ranking(stage["stage"], places, scores)


def _legs(record: Record) -> Iterator[Leg]:
    if record.task != "retrieve_hybrid":
        return
    for corpus, legs in record.answer.get("legs", {}).items():
        for leg in legs:
            scored_chunks = zip(leg["chunk_ids"], leg["scores"], strict=True)
            places = tuple(
                (chunk, LegRank(leg["leg"], rank, score)) for rank, (chunk, score) in enumerate(scored_chunks, 1)
            )
            yield Leg(corpus, leg["leg"], places)
