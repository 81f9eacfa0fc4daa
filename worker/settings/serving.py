"""Settings of who may ask what of which tables, and of how the worker runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from worker.core.citations.quoting.budget import STEPS_PER_JOB
from worker.settings.base import Identifier, QualifiedName, Seconds, Section, matching

# Postgres accepts custom settings of two parts only; anything else would be one of its own.
CustomSetting = Annotated[
    str,
    matching(r"[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*", "a setting of two parts in small letters: app.user_id"),
]
# Stands in SQL as 'name'::regconfig, which folds capitals and splits at dots.
TextSearchConfiguration = Annotated[
    str, matching(r"[a-z_][a-z0-9_]{0,62}", "a text search configuration in small letters: english")
]


RETRIEVAL_QUEUE, PIPELINE_QUEUE = QUEUES = ("retrieval", "pipeline")
"""What the contract calls the queues: answers that wait for a language model have one of their own."""


class TokenSettings(Section):
    """How a ``principal_token`` is checked."""

    algorithms: list[Literal["HS256", "RS256", "EdDSA"]] = ["HS256"]
    audience: str = "retrieval-worker"
    leeway_seconds: int = Field(5, ge=0, le=300)
    max_token_seconds: int = Field(86_400, ge=1)


class PrincipalSettings(Section):
    """Which claim becomes which Postgres setting."""

    owner_claims: list[str] = Field([], max_length=8)
    owner_claim: str | None = None
    settings: dict[str, CustomSetting] = {
        "user_id": "app.user_id",
        "tenant_id": "app.tenant_id",
        "roles": "app.roles",
    }
    token: TokenSettings = TokenSettings()

    @model_validator(mode="after")
    def _owner_is_mapped(self) -> PrincipalSettings:
        if self.owner_claim and self.owner_claims:
            raise ValueError("principal.owner_claim: leave it out where principal.owner_claims is set")
        name = "owner_claim" if self.owner_claim else "owner_claims"
        if not self.owners:
            raise ValueError("principal.owner_claims: name the claims of principal.settings that say whose a run is")
        for claim in self.owners:
            if claim not in self.settings or self.owners.count(claim) > 1:
                raise ValueError(f"principal.{name}: {claim!r} is not in principal.settings, or there twice")
        if any(setting.startswith("retrieval.") for setting in self.settings.values()):
            raise ValueError("principal.settings: the settings retrieval.… are the worker's own")
        return self

    @property
    def owners(self) -> list[str]:
        """The claims that say whose a run is, the user's last; where none are named, tenant and user."""
        if self.owner_claim:
            return [self.owner_claim]
        if self.owner_claims:
            return self.owner_claims
        user = "user_id" in self.settings
        return [claim for claim in ("tenant_id", "user_id") if user and claim in self.settings]


class Columns(Section):
    """Which column of a corpus's table holds what."""

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
    path: Identifier | None = None


class DocumentsTable(Section):
    """The table of a corpus's documents, under row-level security of its own."""

    table: QualifiedName
    id: Identifier = "id"
    path: Identifier | None = None


class CorpusSettings(Section):
    """A searchable table of chunks."""

    table: QualifiedName
    columns: Columns
    public: bool = False
    index: Literal["vector", "halfvec"] = "vector"
    language: TextSearchConfiguration = "english"
    max_distance: float | None = Field(None, ge=0, le=2)
    metadata_columns: dict[str, Identifier] = {}
    date: str | None = None
    path_field: str | None = None
    documents: DocumentsTable | None = None
    trusted_functions: list[QualifiedName] = []


class SearchSettings(Section):
    """How nearest-neighbour search trades time for recall."""

    over_fetch: int = Field(30, ge=15, le=1000)
    exact_rows: int = Field(2000, ge=0)
    narrow_factor: float = Field(15.0, ge=0)
    ef_search_min: int = Field(200, ge=15, le=1000)
    ef_search_rows: int = Field(750, ge=1)
    max_scan_tuples: int = Field(40_000, ge=1000)
    scan_mem_multiplier: float = Field(4.0, ge=1, le=1000)
    statement_timeout_seconds: Seconds = 20.0


class CalibratedWidth(Section):
    """The least search width of HNSW that brought a caller enough of what exact search finds."""

    visible: float = Field(gt=0, le=1)
    ef_search: int = Field(ge=15, le=1000)
    recall: float = Field(ge=0, le=1)
    worst: float = Field(ge=0, le=1)


class Calibration(Section):
    """What `retrieval-worker calibrate` measured on one corpus, by the share of it that a caller sees."""

    rows: int = Field(ge=1)
    points: list[CalibratedWidth] = Field(min_length=1)

    @property
    def ef_search(self) -> int:
        """The width that is enough for all who were measured."""
        return max(point.ef_search for point in self.points)


class PoolSettings(Section):
    """Connections of one worker process."""

    max_size: int = Field(4, ge=1, le=64)
    timeout_seconds: Seconds = 5.0


class StandbySettings(Section):
    """What a standby must be to answer searches."""

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


class WorkerSettings(Section):
    """How Celery runs the tasks."""

    prefetch_multiplier: int = Field(1, ge=1, le=4)
    soft_time_limit_seconds: int = Field(60, ge=1)
    time_limit_seconds: int = Field(90, ge=1)
    result_expires_seconds: int = Field(3600, ge=1)
    visibility_timeout_seconds: int = Field(600, ge=1)
    max_outage_seconds: float = Field(300.0, ge=0, le=86_400)
    retry_backoff_seconds: Seconds = 0.5
    retry_backoff_max_seconds: Seconds = 30.0
    max_deliveries: int = Field(5, ge=1, le=1000)
    allow_callbacks: bool = False
    dead_letters: int = Field(10_000, ge=1)
    dead_letter_bytes: int = Field(524_288, ge=1024)
    send_task_events: bool = True
    remote_control: list[ControlCommand] = []
    soft_shutdown_seconds: float = Field(30.0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _no_settings_of_before(cls, values: Any) -> Any:
        if isinstance(values, dict) and "max_retries" in values:
            raise ValueError(
                "worker.max_retries: not a setting any more: worker.max_outage_seconds says for how long a job is tried"
            )
        if isinstance(values, dict) and "transport" in values:
            values = dict(values)
            if values.pop("transport") != "reliable":
                raise ValueError("worker.transport: not a setting any more: remove it (there is one transport)")
        return values

    @model_validator(mode="after")
    def _limits_nest(self) -> WorkerSettings:
        if self.soft_time_limit_seconds >= self.time_limit_seconds:
            raise ValueError("worker.soft_time_limit_seconds: expected less than time_limit_seconds")
        # Otherwise a job still running would be handed to a second worker.
        if self.visibility_timeout_seconds <= self.time_limit_seconds + self.retry_backoff_max_seconds:
            raise ValueError(
                "worker.visibility_timeout_seconds: expected more than time_limit_seconds + retry_backoff_max_seconds"
            )
        return self


class Limits(Section):
    """Bounds of what a job may hold."""

    max_string: int = Field(1_000_000, ge=1024)
    max_list: int = Field(10_000, ge=768)
    max_keys: int = Field(1_000, ge=16)
    max_depth: int = Field(32, ge=8, le=200)
    max_id: int = Field(512, ge=36)
    max_message: int = Field(12_582_912, ge=65_536)
    max_values: int = Field(500_000, ge=10_000)
    max_quote_steps: int = Field(STEPS_PER_JOB, ge=1_000)


class ArtifactSettings(Section):
    """Where the files of runs are kept."""

    url: str = "artifacts"


class VerifySettings(Section):
    """The check of recorded runs against their corpora."""

    every_minutes: float = Field(0, ge=0, le=100_000)
    batch: int = Field(1000, ge=1, le=100_000)
    principal: dict[str, str | int | bool | list[str]] = {}


class MetricsSettings(Section):
    """Metrics for Prometheus; none are kept unless a port or a folder is set."""

    port: int = Field(0, ge=0, le=65_535)
    address: str = "127.0.0.1"
    folder: str = ""

    @property
    def on(self) -> bool:
        """Whether anything is counted."""
        return bool(self.port or self.folder)


class LogSettings(Section):
    """What is logged, and in which form."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    format: Literal["auto", "json", "console"] = "auto"
