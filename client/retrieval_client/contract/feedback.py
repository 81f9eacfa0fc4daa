"""Job and answer of `record_feedback`: feedback on the chunks of a recorded answer."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictInt, StrictStr

from retrieval_client.contract.base import WHOLE, Answer, AnsweredBy, ChunkHash
from retrieval_client.contract.jobs import Job, RunRef
from retrieval_client.contract.results import Trace  # noqa: TC001 -- pydantic reads the annotations when it runs
from retrieval_client.contract.run_jobs import MAX_PINS

MAX_NOTE = 2000

_EXAMPLE_HASH = "sha256:9ecbac0876ed5e8a3f8f5ac5e5e5b4f1b1c9b7e5c6d7e8f90a1b2c3d4e5f6a7b"
_OTHER_HASH = "sha256:4f69fe7e1c2d3b4a5968778695a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6"


class FeedbackRecorded(Answer):
    """Answer of `record_feedback`.

    Attributes:
        recorded: number of the given hashes that are chunks of the run; the same when the feedback is sent again.
        unknown: hashes that the run does not have, in the order given.
        trace: trace of the answer.
    """

    recorded: int
    unknown: list[str]
    trace: Trace

    example: ClassVar[dict[str, Any] | None] = {
        "schema_version": 1,
        "degraded": [],
        "recorded": 1,
        "unknown": [_OTHER_HASH],
        "trace": {
            "stages": [{"stage": "record", "duration_ms": 1.5, "counts": {"changed": 1}}],
            "search": {},
            "models": {},
            "worker_version": "0.1.0",
            "cache": None,
        },
    }


class RecordFeedback(Job, AnsweredBy[FeedbackRecorded]):
    """Job of `record_feedback`: the chunks of a run that were used, and a rating of its answer.

    Attributes:
        run: the caller's run; with ``step``, only what was recorded under it. ``reuse`` changes nothing.
        used: hashes of chunks that were used.
        not_used: hashes of chunks that were not used; a hash in both lists was used.
        rating: -1, 0 or 1.
        note: a remark, at most 2,000 characters.

    The latest feedback on a chunk or a step counts.
    """

    run: RunRef  # pyright: ignore[reportGeneralTypeIssues, reportIncompatibleVariableOverride] # always of a run
    used: Annotated[list[ChunkHash], Field(max_length=MAX_PINS)] = []
    not_used: Annotated[list[ChunkHash], Field(max_length=MAX_PINS)] = []
    rating: Annotated[StrictInt, Field(ge=-1, le=1), WHOLE] | None = None
    note: Annotated[StrictStr, Field(max_length=MAX_NOTE)] | None = None

    example: ClassVar[dict[str, Any] | None] = {
        "run": {"subject_id": "song-1", "run_id": "r1"},
        "used": [_EXAMPLE_HASH],
        "not_used": [_OTHER_HASH],
        "rating": 1,
        "note": "The second chunk was about another desk.",
        "principal": {"user_id": "u1", "tenant_id": "t1", "roles": ["editor"]},
    }
