"""Client for Python backends: typed jobs in, typed results out, over Redis.

    client = Client("redis://localhost:6379/0")
    job = RetrieveTopK(query_embedding=encode_embedding(vector), principal={"user_id": "u1"})
    answer = client.call(job, timeout=10)

`AsyncClient` does the same under asyncio. Needs no Celery, Postgres or numpy. A backend in another language sends the
same JSON: docs/backends.md.
"""

from retrieval_client.asynchronous import AsyncClient
from retrieval_client.blocking import Client
from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.base import Answer
from retrieval_client.contract.feedback import FeedbackRecorded, RecordFeedback
from retrieval_client.contract.jobs import (
    Diversity,
    Filters,
    HybridSearch,
    Message,
    RetrieveHybrid,
    RetrieveTopK,
    RunPipeline,
    RunRef,
)
from retrieval_client.contract.pinned import Citations, Replay, ReplayBatch
from retrieval_client.contract.results import Hybrid, TopK, TopKBatch
from retrieval_client.contract.run_jobs import BuildCitations, CitedRun, PinnedReplay, RunName
from retrieval_client.jobs import Outcome, Progress, Signer, TaskId, encode_embedding

__all__ = [
    "Answer",
    "AsyncClient",
    "BuildCitations",
    "Citations",
    "CitedRun",
    "Client",
    "Diversity",
    "FeedbackRecorded",
    "Filters",
    "Hybrid",
    "HybridSearch",
    "Message",
    "Outcome",
    "PinnedReplay",
    "PipelineAnswer",
    "Progress",
    "RecordFeedback",
    "Replay",
    "ReplayBatch",
    "RetrieveHybrid",
    "RetrieveTopK",
    "RunName",
    "RunPipeline",
    "RunRef",
    "Signer",
    "TaskId",
    "TopK",
    "TopKBatch",
    "encode_embedding",
]
