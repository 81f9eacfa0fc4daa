"""Settings of hybrid retrieval, of the pipeline's profiles and modes, and of the cache."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from retrieval_client.contract.base import LegName
from worker.core.prompting.conversation import SHARE
from worker.core.ranking.fusion import DEPTH, PRIMARY_WEIGHT, SPARSE_WEIGHT
from worker.settings.base import Seconds, Section

FusionName = Literal["similarity", "rrf", "weighted"]
Weights = dict[LegName, Annotated[float, Field(ge=0, le=1_000_000)]]


class HybridSettings(Section):
    """Settings of `retrieve_hybrid`.

    Attributes:
        searches: Corpus to its number of chunks, for a job without `searches`.
        deadline_seconds: Time for all legs of a job and their embeddings. A contextual leg that is late is left out.
        fusion: How the legs of a job without `fusion` are combined: `similarity`, `rrf` or `weighted`
            (docs/hybrid.md#fusion).
        weights: Weights of the legs for `hybrid.fusion`. `retrieval-worker tune` proposes some from feedback
            (docs/runs.md#feedback). A leg without one, and a job with another fusion, has that fusion's own
            (docs/hybrid.md#fusion), as measured (docs/quality.md).
    """

    searches: dict[str, Annotated[int, Field(ge=1, le=50)]] = {}
    deadline_seconds: Seconds = 10.0
    fusion: FusionName = "weighted"
    weights: Weights = {}

    def weights_of(self, fusion: str) -> dict[str, float]:
        """Return the weights of the legs for jobs without weights; a missing leg has the method's own default."""
        defaults = {"primary": PRIMARY_WEIGHT, "sparse": SPARSE_WEIGHT} if fusion == "weighted" else {}
        weights = self.weights if fusion == self.fusion != "similarity" else {}
        return defaults | {str(leg): weight for leg, weight in weights.items()}

    @field_validator("weights")
    @classmethod
    def _weigh_something(cls, weights: Weights) -> Weights:
        if all(weights.get(leg) == 0 for leg in ("primary", "sparse")):
            raise ValueError("expected more than 0 for primary or sparse: contextual only widens them")
        return weights


class LegSettings(Section):
    """One leg of a profile: a kind of search, and its query.

    Attributes:
        kind: `dense`: by embeddings. `sparse`: by full text.
        of: Text that it searches for.
        weight: Weight in the fusion; `hybrid.weights` are of `retrieve_hybrid` alone. Default:
            1 for `rrf`; for `weighted` 0.7 for the question's own embedding, 0.3 for full text, 0.4 for others, for
            `context` less where it does not fit the question.
    """

    kind: Literal["dense", "sparse"] = "dense"
    of: Literal["question", "context", "hyde", "variants"] = "question"
    weight: float | None = Field(None, ge=0, le=1000)

    @model_validator(mode="after")
    def _has_words(self) -> LegSettings:
        if self.kind == "sparse" and self.of == "hyde":
            raise ValueError("a sparse leg searches for words of the question, the context or its variants")
        return self


class TemporalSettings(Section):
    """Weight of a chunk's recency.

    Attributes:
        half_life_days: Age at which recency is halved.
        weight: Weight of recency in the order.
    """

    half_life_days: float = Field(gt=0, le=36_500)
    weight: float = Field(0.2, ge=0, le=1)


class DiversitySettings(Section):
    """A profile's limits of repetition in an answer; equal and nearly equal texts leave.

    Attributes:
        relevance: λ of maximal marginal relevance; `1`: relevance alone.
        per_document: Most chunks of one document.
    """

    relevance: float = Field(0.7, ge=0, le=1, alias="lambda")
    per_document: int | None = Field(None, ge=1, le=1000)


LEXICAL_WEIGHT = 0.2
"""Of the lexical reranker beside the first stage: best over the labelled sets (benchmarks/results/quality.md)."""


class ProfileSettings(Section):
    """A search profile: legs, fusion, refinement.

    Attributes:
        legs: Searches to fuse. A leg that fails is left out, unless it searches for the question.
        fusion: How legs are fused (docs/hybrid.md#fusion).
        fetch: Candidates of each leg and corpus.
        transform: Transformation of the question.
        hyde: Hypothetical answers that the language model writes; needs a leg `of` it.
        variants: Rewordings that the language model writes; needs a leg `of` it.
        conversation: Weight of the question joined with those before it, beside the question alone, in a conversation.
            A language model rewords it instead, where there is one. `0`: each question is searched as asked.
        rerank: Reranker of the candidates. `cross_encoder` needs the extra `rerank`.
        rerank_weight: Weight of the reranker's score in the order; the fused score has the rest, both scaled to 0–1.
            `1`: the reranker's score alone. Default: 0.2 for `lexical`, as measured; 1 for others.
        temporal: Weight of recency.
        diversity: Limits of repetition.
    """

    legs: list[LegSettings] = Field(min_length=1, max_length=8)
    fusion: FusionName = "weighted"
    fetch: int = Field(DEPTH, ge=1, le=50)
    transform: Literal["none", "glossary", "llm"] = "none"
    hyde: int = Field(0, ge=0, le=8)
    variants: int = Field(0, ge=0, le=8)
    conversation: float = Field(SHARE, ge=0, le=10)
    rerank: Literal["none", "lexical", "http", "llm", "cross_encoder"] = "none"
    rerank_weight: float | None = Field(None, ge=0, le=1)
    temporal: TemporalSettings | None = None
    diversity: DiversitySettings | None = None

    @property
    def weight_of_reranker(self) -> float:
        """The weight of the reranker's score, 0-1."""
        if self.rerank_weight is not None:
            return self.rerank_weight
        return LEXICAL_WEIGHT if self.rerank == "lexical" else 1.0

    @model_validator(mode="after")
    def _weighs_a_reranker(self) -> ProfileSettings:
        if self.rerank_weight is not None and self.rerank == "none":
            raise ValueError("rerank_weight: expected a reranker beside it, such as rerank = lexical")
        return self

    @model_validator(mode="after")
    def _legs_weigh_something(self) -> ProfileSettings:
        searching = [leg for leg in self.legs if leg.of != "context"] or self.legs
        if self.fusion != "similarity" and all(leg.weight == 0 for leg in searching):
            raise ValueError("legs: expected a weight above 0 for one of those that search without a context")
        return self

    @model_validator(mode="after")
    def _legs_have_queries(self) -> ProfileSettings:
        for name in ("hyde", "variants"):
            if any(leg.of == name for leg in self.legs) != (getattr(self, name) > 0):
                raise ValueError(f"{name}: expected a number above 0 together with a leg of {name}")
        return self


class ModeSettings(Section):
    """A mode of questions: its corpora, its profile and its instructions.

    Attributes:
        corpora: Corpus to its maximum number of chunks; `0`: as many as fit into `k`.
        profile: Name of a profile; a job may name another.
        k: Number of sources.
        instructions: Instructions to the model.
        budget_tokens: Tokens of the context block. Sources have half of them, however long the question is.
        remote: Remote sources to query as well.
        show_context: Show the model the context that the user works on.
        history_turns: Turns of the conversation in the context block, if the server stores none.
        sections: The answer has headings, and citations name theirs.
        cheatsheet: Text before the sources, the same for every question.
    """

    corpora: dict[str, Annotated[int, Field(ge=0, le=50)]] = Field(min_length=1)
    profile: str
    k: int = Field(8, ge=1, le=50)
    instructions: str = Field(min_length=1, max_length=20_000)
    budget_tokens: int = Field(6000, ge=100, le=1_000_000)
    remote: list[str] = []
    show_context: bool = False
    history_turns: int = Field(0, ge=0, le=100)
    sections: bool = False
    cheatsheet: str = Field("", max_length=20_000)


class CacheSettings(Section):
    """Results cached in Redis for callers who repeat a query.

    Attributes:
        tasks: Cached tasks: `retrieve_hybrid` (answers), `run_pipeline` (sources, never answers). Empty: no cache
            (docs/caching.md).
        url: Redis of the cache; default that of the results. Set it in the environment: it is a secret.
        entries: Most entries; the oldest are deleted first. All workers of one Redis should agree on it.
        seconds: Lifetime of an entry: the longest that a change can go unseen.
        timeout_seconds: Longest wait for Redis; then the job continues without the cache.
    """

    tasks: list[Literal["retrieve_hybrid", "run_pipeline"]] = []
    url: SecretStr | None = None
    entries: int = Field(10_000, ge=1, le=1_000_000)
    seconds: int = Field(300, ge=1, le=86_400)
    timeout_seconds: float = Field(0.2, gt=0, le=10)
