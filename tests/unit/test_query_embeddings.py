"""Which of a job's texts are queries to a model that tells them from passages, and whose usual deviation counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from worker.core.prompting.costs import unbilled
from worker.core.time_budget import TimeBudget
from worker.jobs.query_embeddings import QueryEmbeddings
from worker.jobs.side_calls import SideCalls
from worker.model import Principal
from worker.settings.providers import USUAL_SIMILARITIES, EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Sequence


class RecordingEmbedder:
    """An embedder that records what it is told."""

    name, version = "recording", "1"

    def __init__(self) -> None:
        self.told: dict[str, bool] = {}

    def embed(self, texts: Sequence[str], *_: Any, is_query: bool = False) -> Any:
        self.told |= dict.fromkeys(texts, is_query)
        return np.ones((len(texts), 3), dtype=np.float32)


class AnyCorpus:
    """Corpora that every embedder may search."""

    def check(self, *_: Any) -> None:
        """Refuse nothing."""


def test_a_hypothetical_answer_is_a_passage_and_all_else_a_query() -> None:
    """HyDE's samples stand for what is looked for, not for a question."""
    embedder, side_calls = RecordingEmbedder(), SideCalls()
    embeddings = QueryEmbeddings(embedder, side_calls, AnyCorpus())  # type: ignore[arg-type] # refuses nothing
    optional = {"hyde": ["an answer"], "context": ["a context"], "variants": ["a wording"]}
    budget = TimeBudget(60.0, lambda: 0.0)
    own, others = embeddings.of(["docs"], Principal(), ["a question"], optional, budget, unbilled, 3)
    side_calls.close()
    assert (len(own), sorted(others)) == (1, ["context", "hyde", "variants"])
    assert embedder.told == {"a question": True, "a context": True, "a wording": True, "an answer": False}


@pytest.mark.parametrize("model", USUAL_SIMILARITIES)
def test_a_usual_deviation_belongs_to_a_model(model: str) -> None:
    """Another model has none, and a server's neither."""
    assert EmbedderSettings(kind="local", folder=model).usual_similarities == USUAL_SIMILARITIES[model]
    assert EmbedderSettings(kind="local", folder="another").usual_similarities is None
    assert EmbedderSettings(kind="openai", folder=model).usual_similarities is None
