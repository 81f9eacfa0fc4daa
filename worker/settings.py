"""Settings: validated once at start, then a value that is passed on. Nothing else reads the environment.

Order of precedence: arguments, environment (``RETRIEVAL_WORKER_SEARCH__OVER_FETCH=150``), the TOML file
(``RETRIEVAL_WORKER_CONFIG``, else ``config/worker.toml`` as shipped), defaults.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from worker.core.keywords import EXTRACTORS
from worker.errors import SettingsError
from worker.model import LegName

PREFIX = "RETRIEVAL_WORKER_"
CONFIG_VARIABLE = PREFIX + "CONFIG"

Identifier = Annotated[str, StringConstraints(pattern=r"^[^\x00]{1,63}$")]
QualifiedName = Annotated[str, StringConstraints(pattern=r"^[^\x00.]{1,63}(\.[^\x00.]{1,63})?$")]
# Postgres accepts custom settings of two parts only; anything else would be one of its own.
CustomSetting = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$")]
# Stands in SQL as 'name'::regconfig, which folds capitals and splits at dots.
TextSearchConfiguration = Annotated[str, StringConstraints(pattern=r"^[a-z_][a-z0-9_]{0,62}$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Weights = dict[LegName, Annotated[float, Field(ge=0, le=1_000_000)]]


def config_folder() -> Path:
    """Where ``worker.toml`` and ``schema.sql`` are: in the package, or beside it in a checkout."""
    packaged = Path(__file__).parent / "config"
    return packaged if packaged.is_dir() else Path(__file__).parent.parent / "config"


class Section(BaseModel):
    """A table of the TOML file: no unknown keys, never changed after the start."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TokenSettings(Section):
    """How a ``principal_token`` is checked."""

    algorithms: list[Literal["HS256", "RS256", "EdDSA"]] = ["HS256"]
    audience: str = "retrieval-worker"
    leeway_seconds: int = Field(5, ge=0, le=300)


class PrincipalSettings(Section):
    """Which claim becomes which Postgres setting."""

    owner_claim: str = "user_id"
    settings: dict[str, CustomSetting] = {
        "user_id": "app.user_id",
        "tenant_id": "app.tenant_id",
        "roles": "app.roles",
    }
    token: TokenSettings = TokenSettings()

    @model_validator(mode="after")
    def _owner_is_mapped(self) -> PrincipalSettings:
        if self.owner_claim not in self.settings:
            raise ValueError(f"principal.owner_claim: {self.owner_claim!r} is not in principal.settings")
        if any(setting.startswith("retrieval.") for setting in self.settings.values()):
            raise ValueError("principal.settings: the settings retrieval.… are the worker's own")
        return self


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
    language: TextSearchConfiguration = "english"
    max_distance: float | None = Field(None, ge=0, le=2)
    metadata_columns: dict[str, Identifier] = {}
    documents: DocumentsTable | None = None


class SearchSettings(Section):
    """How nearest-neighbour search trades time for recall."""

    over_fetch: int = Field(60, ge=15, le=1000)
    exact_rows: int = Field(2000, ge=0)
    narrow_factor: float = Field(25.0, ge=0)
    ef_search_min: int = Field(400, ge=15, le=1000)
    ef_search_rows: int = Field(500, ge=1)
    max_scan_tuples: int = Field(40_000, ge=1000)
    scan_mem_multiplier: float = Field(4.0, ge=1, le=1000)
    statement_timeout_seconds: Seconds = 20.0


class PoolSettings(Section):
    """Connections of one worker process."""

    max_size: int = Field(4, ge=1, le=64)
    timeout_seconds: Seconds = 5.0


class WorkerSettings(Section):
    """How Celery runs the tasks."""

    prefetch_multiplier: int = Field(1, ge=1, le=4)
    soft_time_limit_seconds: int = Field(60, ge=1)
    time_limit_seconds: int = Field(90, ge=1)
    result_expires_seconds: int = Field(3600, ge=1)
    visibility_timeout_seconds: int = Field(600, ge=1)
    max_retries: int = Field(5, ge=0, le=100)
    retry_backoff_seconds: Seconds = 0.5
    retry_backoff_max_seconds: Seconds = 30.0
    max_deliveries: int = Field(5, ge=1, le=1000)
    send_task_events: bool = True
    soft_shutdown_seconds: float = Field(30.0, ge=0)

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


class ArtifactSettings(Section):
    """Where the files of runs are kept."""

    url: str = "artifacts"


class DefaultSearch(Section):
    """A corpus that a hybrid retrieval asks unless its job says otherwise."""

    corpus: str
    top_k: int = Field(5, ge=1, le=50)


class HybridSettings(Section):
    """How `retrieve_hybrid` searches."""

    searches: list[DefaultSearch] = []
    extra: dict[str, Annotated[int, Field(ge=0, le=10)]] = {}
    extractor: str = "strudel"
    glossary: str = "glossary.toml"
    deadline_seconds: Seconds = 10.0
    weights: Weights = {"primary": 0.6, "contextual": 0.4, "sparse": 0.4}
    rrf_weights: Weights = {}

    def weights_of(self, fusion: str) -> dict[str, float]:
        """Weights of the legs where a job gives none; a leg that is not in them has the method's own default."""
        weights = {"weighted": self.weights, "rrf": self.rrf_weights}.get(fusion, {})
        return {str(leg): weight for leg, weight in weights.items()}

    @field_validator("extractor")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in EXTRACTORS:
            raise ValueError(f"expected one of {', '.join(EXTRACTORS)}")
        return name


class CacheSettings(Section):
    """Answers kept in Redis for callers who ask the same again."""

    tasks: list[Literal["retrieve_hybrid"]] = []
    url: SecretStr | None = None
    entries: int = Field(10_000, ge=1, le=1_000_000)
    seconds: int = Field(300, ge=1, le=86_400)
    timeout_seconds: float = Field(0.2, gt=0, le=10)


class VerifySettings(Section):
    """The check of recorded runs against their corpora."""

    every_minutes: float = Field(0, ge=0, le=100_000)
    batch: int = Field(1000, ge=1, le=100_000)
    principal: dict[str, str | int | bool | list[str]] = {}


class EmbedderSettings(Section):
    """Where text becomes vectors: for the command line, and for jobs that carry text."""

    kind: Literal["lexical", "openai"] = "lexical"
    model: str = "text-embedding-3-small"
    version: str = "1"
    base_url: str | None = None
    api_key: SecretStr | None = None
    send_dimensions: bool = True
    batch_size: int = Field(64, ge=1, le=2048)
    timeout_seconds: Seconds = 30.0
    max_retries: int = Field(2, ge=0, le=10)


class LanguageModelSettings(Section):
    """What words queries anew."""

    kind: Literal["none", "openai"] = "none"
    api: Literal["responses", "chat"] = "responses"
    model: str = "gpt-5-mini"
    base_url: str | None = None
    api_key: SecretStr | None = None
    max_output_tokens: int = Field(1024, ge=16, le=100_000)
    timeout_seconds: Seconds = 30.0
    max_retries: int = Field(2, ge=0, le=10)


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


class Settings(BaseSettings):
    """All settings of a worker."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
    )

    database_connection_string: SecretStr = Field(
        validation_alias=AliasChoices("DATABASE_CONNECTION_STRING", "database_connection_string")
    )
    broker_url: SecretStr = Field(validation_alias=AliasChoices("CELERY_BROKER_URL", "broker_url"))
    result_backend: SecretStr | None = Field(
        None, validation_alias=AliasChoices("CELERY_RESULT_BACKEND", "result_backend")
    )
    token_keys: dict[str, SecretStr] = {}
    trust_queue: bool = False
    principal: PrincipalSettings = PrincipalSettings()
    corpora: dict[str, CorpusSettings] = Field(min_length=1)
    search: SearchSettings = SearchSettings()
    pool: PoolSettings = PoolSettings()
    worker: WorkerSettings = WorkerSettings()
    limits: Limits = Limits()
    artifacts: ArtifactSettings = ArtifactSettings()
    hybrid: HybridSettings = HybridSettings()
    cache: CacheSettings = CacheSettings()
    verify: VerifySettings = VerifySettings()
    embedder: EmbedderSettings = EmbedderSettings()
    language_model: LanguageModelSettings = LanguageModelSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()

    @property
    def default_corpus(self) -> str:
        """The first corpus of the file."""
        return next(iter(self.corpora))

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment outranks the file, which arrives as arguments from `load`."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load(path: Path | None = None) -> Settings:
    """Read and validate the settings.

    Args:
        path: the TOML file; default ``RETRIEVAL_WORKER_CONFIG``, else the one shipped.

    Raises:
        SettingsError: the file can't be read, or a setting is missing, unknown or wrong; it is named.
    """
    return from_values(_read(path))


def read_glossary(name: str) -> dict[str, list[str]]:
    """The table of terms that `hybrid.glossary` names: beside the settings file, else as shipped; empty for no name.

    Raises:
        SettingsError: it can't be read, or isn't a table of lists of words.
    """
    if not name:
        return {}
    try:
        beside = _settings_file().parent / name
        return _Glossary.validate_python(_toml(beside if beside.exists() else config_folder() / name))
    except ValidationError as error:
        raise SettingsError(f"the setting hybrid.glossary, {name}: {_describe(error)}") from None


_Glossary = TypeAdapter(dict[str, list[str]])


def _settings_file() -> Path:
    return Path(os.environ.get(CONFIG_VARIABLE) or config_folder() / "worker.toml")


def _toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except (OSError, ValueError) as error:
        raise SettingsError(f"settings file {path}: {error}") from None


def _read(path: Path | None) -> dict[str, Any]:
    values = _toml(path or _settings_file())
    unknown = [name for name in os.environ if name.startswith(PREFIX) and not _is_known(name)]
    if unknown:
        raise SettingsError(f"the setting {min(unknown)} is not known")
    return values


def _is_known(variable: str) -> bool:
    """Only nested names are judged: Kubernetes sets RETRIEVAL_WORKER_PORT and the like for a service of that name."""
    section, nested, _ = variable.removeprefix(PREFIX).partition("__")
    return not nested or section.lower() in Settings.model_fields


def load_embedder(path: Path | None = None) -> EmbedderSettings:
    """Only the embedder's settings, for commands that need neither Postgres nor Redis; see `load`."""
    unused = {"database_connection_string": "unused", "broker_url": "unused"}
    return from_values({**unused, **_read(path)}).embedder


def from_values(values: dict[str, Any]) -> Settings:
    """Validate settings given as plain data; see `load`."""
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError(_describe(error)) from None
    except UnreadableVariable as error:
        # Its cause holds the value; its own words only name the field.
        named = re.search(r'field "(\w+)"', str(error))
        name = f"{PREFIX}{named[1].upper()}" if named else PREFIX
        raise SettingsError(f"the setting {name}: expected JSON") from None


_ENVIRONMENT_NAMES = {
    "database_connection_string": "DATABASE_CONNECTION_STRING",
    "broker_url": "CELERY_BROKER_URL",
    "result_backend": "CELERY_RESULT_BACKEND",
}


def _describe(error: ValidationError) -> str:
    """The first problem in one sentence: which setting, and what was expected. Values are not repeated."""
    first = error.errors(include_input=False, include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"the setting {_ENVIRONMENT_NAMES.get(name, name)} is missing"
    if first["type"] == "extra_forbidden":
        return f"the setting {name} is not known"
    message = first["msg"].removeprefix("Value error, ")
    return f"the setting {name}: {message}" if name else message
