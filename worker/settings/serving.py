"""Settings of callers, corpora and the worker itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from worker.core.citations.quoting.differences import ACCEPTED, KINDS, NEVER_ACCEPTED
from worker.core.shape import MAX_MESSAGE, MAX_VALUES, Bounds
from worker.model import DIMENSIONS
from worker.settings.base import Identifier, QualifiedName, Seconds, Section, matching

# Postgres accepts custom settings of two parts only; other names are its own.
CustomSetting = Annotated[
    str,
    matching(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*", "a setting of two parts in small letters: app.user_id"),
]
# Used in SQL as 'name'::regconfig, which folds capitals and splits at dots.
TextSearchConfiguration = Annotated[
    str, matching(r"[a-z_][a-z0-9_]{0,62}", "a text search configuration in small letters: english")
]


RETRIEVAL_QUEUE, PIPELINE_QUEUE = QUEUES = ("retrieval", "pipeline")
"""The queues of the contract; answers that wait for a language model have their own."""

_LEAST_KEY_BYTES = 32


def is_showable(kid: str) -> bool:
    """Return whether the id of a key is too short to be an exchanged key."""
    return len(kid.encode()) < _LEAST_KEY_BYTES


class TokenSettings(Section):
    """The check of a ``principal_token``.

    Attributes:
        algorithms: Accepted algorithms: `HS256`, `RS256`, `EdDSA`. Choose RS256 or EdDSA if the worker must not be able
            to sign.
        audience: Expected `aud` of a token. Change it if several workers share keys but not permissions.
    """

    algorithms: list[Literal["HS256", "RS256", "EdDSA"]] = Field(["HS256"], min_length=1)
    audience: str = "retrieval-worker"


class PrincipalSettings(Section):
    """The mapping of claims to Postgres settings.

    Attributes:
        owner_claims: Claims that identify the owner of a run, the user's last; they must be in `principal.settings`.
            Default: `tenant_id` and `user_id`, if mapped (docs/runs.md#owners).
        settings: Claim to the Postgres setting that your policies read, of two parts (`app.user_id`). A job must have
            at least one of these claims.
        token: Tokens.
    """

    owner_claims: list[str] = Field([], max_length=8)
    settings: dict[str, CustomSetting] = {
        "user_id": "app.user_id",
        "tenant_id": "app.tenant_id",
        "roles": "app.roles",
    }
    token: TokenSettings = TokenSettings()

    @model_validator(mode="after")
    def _owner_is_mapped(self) -> PrincipalSettings:
        if not self.owners:
            raise ValueError("principal.owner_claims: name the claims of principal.settings that identify the owner")
        for claim in self.owners:
            if claim not in self.settings or self.owners.count(claim) > 1:
                raise ValueError(f"principal.owner_claims: {claim!r} is not in principal.settings, or there twice")
        twice = [setting for setting, count in Counter(self.settings.values()).items() if count > 1]
        if twice:
            raise ValueError(f"principal.settings: {twice[0]} is there twice: each claim needs a setting of its own")
        if any(setting.startswith("retrieval.") for setting in self.settings.values()):
            raise ValueError("principal.settings: settings named retrieval.… are reserved for the worker")
        return self

    @property
    def owners(self) -> list[str]:
        """Return the claims that identify a run's owner, the user's last; by default tenant and user."""
        if self.owner_claims:
            return self.owner_claims
        user = "user_id" in self.settings
        return [claim for claim in ("tenant_id", "user_id") if user and claim in self.settings]


class Columns(Section):
    """The columns of a corpus's table.

    Attributes:
        id: Column of the chunk's id.
        document_id: Column of the document's id.
        text: Column of the text.
        embedding: Column of the embedding: `vector` or `halfvec` of the corpus's `dimensions`.
        page: Column of the page number.
        section: Column of the section's title.
        coordinates: Column of the coordinates on the page, JSON.
        metadata: Column of further fields, `jsonb`.
        chunk_hash: Column of the content hash. Without it replays find chunks by id only.
        text_search: A `tsvector` column for full-text search. Without it each search parses every visible text
            (docs/full-text.md).
        text_signature: A `bit(2048)` column of `retrieval.text_signature(…)`, in an index with the ids: a faster
            full-text search under row-level security. A table may lack it (docs/full-text.md#under-row-level-security).
        path: Column of the document's path, if it is in the chunk table.
    """

    id: Identifier
    document_id: Identifier
    text: Identifier
    embedding: Identifier
    page: Identifier | None = None
    section: Identifier | None = None
    coordinates: Identifier | None = None
    metadata: Identifier | None = None
    chunk_hash: Identifier | None = None
    text_search: Identifier | None = None
    text_signature: Identifier | None = None
    path: Identifier | None = None


class DocumentsTable(Section):
    """The table of a corpus's documents, under row-level security of its own.

    Attributes:
        table: Table of documents: `schema.table`, or `table` by the role's search path.
        id: Column of the document's id.
        path: Column of the path.
    """

    table: QualifiedName
    id: Identifier = "id"
    path: Identifier | None = None


class CorpusSettings(Section):
    """A searchable table of chunks.

    Attributes:
        table: Table or view of chunks: `schema.table`, or `table` by the role's search path.
        columns: Columns of the table.
        dimensions: Dimensions of its embeddings and queries. Corpora that one job or mode searches have the same.
        public: Require neither row-level security nor a principal.
        embed_with: Columns, such as page and section titles, that are joined to a text when it is embedded: by `load`,
            and by `doctor` when it compares.
        compare_embedder: Refuse text queries if another embedder filled the table. Comparing a table without a record
            sends eight of its texts to the embedder.
        language: Language of the texts, as Postgres names its text search configuration; `grams` where it has none
            (docs/full-text.md).
        tenant_column: Column of the tenant: full-text search then ranks by statistics of the caller's tenant
            (docs/full-text.md#statistics). Needs `tenant_setting`.
        tenant_setting: Postgres setting of `principal.settings` with the caller's tenant (`app.tenant_id`).
        max_distance: Leave out chunks at a greater cosine distance, unless a job sets its own.
        metadata_columns: Name to column: further columns that appear in `metadata` and can be filtered.
        date: Field of `metadata` with the date that a profile's `temporal` reads, in ISO 8601; UTC without a zone.
        path_field: Field of `metadata` that names the document in contexts and citations. Default: the document's id.
        documents: Table of documents, for path filters and for callers who see few rows.
        trusted_functions: Functions (`schema.name`) that a view of the corpus may call though they are
            `SECURITY DEFINER`, and its policies though another role owns them (docs/schema.md#views).
    """

    table: QualifiedName
    columns: Columns
    dimensions: int = Field(DIMENSIONS, ge=1, le=16_000)
    public: bool = False
    embed_with: list[Identifier] = []
    compare_embedder: bool = True
    language: TextSearchConfiguration = "english"
    tenant_column: Identifier | None = None
    tenant_setting: CustomSetting | None = None
    max_distance: float | None = Field(None, ge=0, le=2)
    metadata_columns: dict[str, Identifier] = {}
    date: str | None = None
    path_field: str | None = None
    documents: DocumentsTable | None = None
    trusted_functions: list[QualifiedName] = []

    @model_validator(mode="after")
    def _tenants_have_both(self) -> CorpusSettings:
        if (self.tenant_column is None) != (self.tenant_setting is None):
            raise ValueError("tenant_column and tenant_setting: set both or neither")
        return self


class SearchSettings(Section):
    """Search of a corpus.

    Attributes:
        exact_rows: Corpora up to this size are always searched exactly.
        statement_timeout_seconds: Longer statements are cancelled, and the job fails as `TimedOut`.
    """

    exact_rows: int = Field(2000, ge=0)
    statement_timeout_seconds: Seconds = 20.0


class CalibratedWidth(Section):
    """The least search width of HNSW with which a caller's recall reached the goal.

    Attributes:
        visible: Share of the corpus that the caller sees.
        ef_search: `hnsw.ef_search` that reached the goal.
        recall: Mean recall@15 at that width.
        worst: recall@15 of the worst query.
    """

    visible: float = Field(gt=0, le=1)
    ef_search: int = Field(ge=15, le=1000)
    recall: float = Field(ge=0, le=1)
    worst: float = Field(ge=0, le=1)


class Calibration(Section):
    """Measurement of `retrieval-worker calibrate` on one corpus, by the share of it that a caller sees.

    Attributes:
        rows: Rows of the corpus at the measurement.
        points: Measured widths.
    """

    rows: int = Field(ge=1)
    points: list[CalibratedWidth] = Field(min_length=1)

    @property
    def ef_search(self) -> int:
        """Search width that is enough for all measured callers."""
        return max(point.ef_search for point in self.points)


class PoolSettings(Section):
    """Connections of one worker process.

    With `DATABASE_READ_CONNECTION_STRING` a process has a second pool of the same size, to the standby.

    Attributes:
        max_size: Most connections of one process. A prefork process runs one job at a time and uses one.
    """

    max_size: int = Field(4, ge=1, le=64)


class StandbySettings(Section):
    """Conditions for searches on a standby.

    Attributes:
        max_lag_seconds: Most replication lag. Beyond it searches read the primary for 15 s. It limits the time for
            which a revoked permission still applies in searches.
    """

    max_lag_seconds: Seconds = 10.0


ControlCommand = Literal[
    "add_consumer",
    "cancel_consumer",
    "rate_limit",
    "revoke",
    "revoke_by_stamped_headers",
    "shutdown",
    "terminate",
    "time_limit",
]
"""Commands of Celery's remote control that a worker refuses unless its settings name them."""


_WITHOUT_EFFECT = {"transport", "prefetch_multiplier", "visibility_timeout_seconds", "process_claims"}
"""Settings of older versions, ignored: a process claims what it begins, and its list is tidied up when it is gone."""


class WorkerSettings(Section):
    """Settings of Celery.

    Attributes:
        bundle: Largest number of waiting `retrieve_top_k` jobs that a process gets at a time
            (docs/scaling.md#bundles). `1`: none.
        fair: Whether callers take turns (docs/scaling.md#turns). `false`: jobs run in the order of the queue.
        soft_time_limit_seconds: A job that runs longer fails as `TimedOut`. Must be less than
            `worker.time_limit_seconds`. After SIGQUIT running jobs have half of it (docs/operations.md#stop).
        time_limit_seconds: The process of a job that runs longer is killed, and the job fails as `TimedOut`.
        result_expires_seconds: Time for which Redis keeps a result. Shorter where Redis is small.
        max_outage_seconds: Time for which a job is retried while Postgres, Redis or a provider is unavailable, by the
            sum of its pauses; then it fails as `Unavailable`. `0`: no retry. Longer than your longest failover.
        max_deliveries: Deliveries of a message whose job kills its process; after them it is dead-lettered and fails as
            `DeadLettered`.
        allow_callbacks: Accept messages that name further tasks: `link`, `link_error`, chains, chords.
        dead_letters: Dead letters kept per queue; the oldest are deleted first (docs/dead-letters.md).
        remote_control: Commands of Celery's remote control that workers accept besides inspection and pool size
            (docs/redis.md).
    """

    bundle: int = Field(8, ge=1, le=64)
    fair: bool = True
    soft_time_limit_seconds: int = Field(60, ge=1)
    time_limit_seconds: int = Field(90, ge=1)
    result_expires_seconds: int = Field(3600, ge=1)
    max_outage_seconds: float = Field(300.0, ge=0, le=86_400)
    max_deliveries: int = Field(5, ge=1, le=1000)
    allow_callbacks: bool = False
    dead_letters: int = Field(10_000, ge=1)
    remote_control: list[ControlCommand] = []

    @model_validator(mode="before")
    @classmethod
    def _without_those_of_before(cls, values: Any) -> Any:
        if isinstance(values, dict):
            return {name: value for name, value in values.items() if name not in _WITHOUT_EFFECT}
        return values

    @model_validator(mode="after")
    def _limits_nest(self) -> WorkerSettings:
        if self.soft_time_limit_seconds >= self.time_limit_seconds:
            raise ValueError("worker.soft_time_limit_seconds: expected less than time_limit_seconds")
        return self


class Limits(Section):
    """Limits of a job's size; beyond them it fails as `InvalidJob`.

    They bound memory: the greatest message takes at most 200 MB of a worker's process. The default has room for
    64 embeddings as JSON (1.1 MB, 49,000 values) and for a citations document of 10,000 records (12.2 MB as base64).

    Attributes:
        max_message: Bytes of a message; a longer one is not parsed. By default a string has at most 1,000,000
            characters, a list 10,000 items, a message 500,000 commas, colons and brackets, braces twice; with twice as
            many bytes, twice as many. Raise `proto-max-bulk-len` of Redis with it.
    """

    max_message: int = Field(MAX_MESSAGE, ge=65_536)

    @property
    def bounds(self) -> Bounds:
        """Bounds of the JSON of a job."""
        shipped = Bounds()
        return replace(shipped, max_string=shipped.max_string * self._times, max_list=shipped.max_list * self._times)

    @property
    def max_values(self) -> int:
        """Most commas, colons and opening brackets of a message, braces twice; a message with more is not parsed."""
        return MAX_VALUES * self._times

    @property
    def _times(self) -> int:
        """How often the shipped message goes into the longest."""
        return max(1, self.max_message // MAX_MESSAGE)


_ACCEPTABLE = [kind for kind in KINDS if kind not in NEVER_ACCEPTED]


def _acceptable(kind: str) -> str:
    if kind not in _ACCEPTABLE:
        raise ValueError(f"expected one of {', '.join(_ACCEPTABLE)}")
    return kind


class CitationSettings(Section):
    """The check of quotes.

    Attributes:
        accept: All kinds of differences that a `normalised` quote may have (docs/quotes.md). `symbol`, `cut`, `words`
            and `order` can't be accepted.
    """

    accept: list[Annotated[str, AfterValidator(_acceptable)]] = [kind for kind in KINDS if kind in ACCEPTED]

    @property
    def accepted(self) -> frozenset[str]:
        """Return the accepted kinds as a set."""
        return frozenset(self.accept)


class ArtifactSettings(Section):
    """Store of the files of runs.

    Attributes:
        url: A folder, or a URL that fsspec knows (`s3://bucket/prefix`). Workers on several machines need a shared one.
    """

    url: str = "artifacts"

    @model_validator(mode="after")
    def _is_a_place(self) -> ArtifactSettings:
        if not self.url.strip() or self.url.startswith("~"):
            raise ValueError(
                "artifacts.url: expected a folder or a URL; ~ is no home folder here, write its whole path"
            )
        return self


class VerifySettings(Section):
    """The check of recorded runs against their corpora.

    Attributes:
        every_minutes: Interval of the checks that `celery beat` starts; `0`: no checks.
        principal: Claims that the check runs with. They must be able to see all recorded chunks: hidden ones count as
            missing.
    """

    every_minutes: float = Field(0, ge=0, le=100_000)
    principal: dict[str, str | int | bool | list[str]] = {}


class InspectorSettings(Section):
    """The inspector's pages: `retrieval-worker inspect`.

    Attributes:
        operators: Claims that a visitor needs to see the queue and to retry or delete dead letters; `{}`: no visitor
            may, except with `--as`.
        evaluations: A report of `evaluate --report`, or a folder of them: every visitor sees their figures, no query.
    """

    evaluations: str = ""
    operators: dict[str, str | int | bool | list[str]] = {}


class MetricsSettings(Section):
    """Metrics for Prometheus; none are kept unless a port or a folder is set.

    Attributes:
        port: Port of `/metrics` in the worker's main process; `0`: not served. Two workers of one machine need two
            ports.
        address: Address to listen on. There is no password.
        folder: A folder shared by all workers of a machine and Flower, whose `/metrics` then shows their sum. Default:
            a temporary one per worker.
    """

    port: int = Field(0, ge=0, le=65_535)
    address: str = "127.0.0.1"
    folder: str = ""

    @property
    def on(self) -> bool:
        """True if metrics are enabled."""
        return bool(self.port or self.folder)


class LogSettings(Section):
    """Level and format of logs.

    Attributes:
        level: Least level. The events `job done` and `job failed` are of level INFO.
        format: `json`, `console`, or `auto`: console on a terminal, else JSON.
    """

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["auto", "json", "console"] = "auto"
