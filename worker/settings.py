"""Settings: validated once at start, then a value that is passed on. Nothing else reads the environment.

Order of precedence: arguments, environment (``RETRIEVAL_WORKER_SEARCH__OVER_FETCH=150``), the TOML file
(``RETRIEVAL_WORKER_CONFIG``, else ``config/worker.toml`` as shipped), defaults.
"""

from __future__ import annotations

import os
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import jmespath
from jmespath.functions import Functions
from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
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

from worker.core.costs import Price
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


def _expression(text: str) -> str:
    try:
        nodes = [jmespath.compile(text).parsed]
    except jmespath.exceptions.JMESPathError:
        raise ValueError("expected a JMESPath expression") from None
    # An unknown function would only be noticed when an answer reaches it.
    for node in nodes:
        if isinstance(node, dict):
            if node["type"] == "function_expression" and node["value"] not in Functions.FUNCTION_TABLE:
                raise ValueError(f"JMESPath has no function {node['value']}")
            nodes += node["children"]
    return text


def _from_environment(value: Any) -> Any:
    """A header's value, of which `env:NAME` at the end stands for a variable."""
    named = re.fullmatch(r"(.* )?env:(\w+)", value) if isinstance(value, str) else None
    if named is None:
        return value
    if not os.environ.get(named[2]):
        raise ValueError(f"the variable {named[2]} is missing")
    return (named[1] or "") + os.environ[named[2]]


def _sendable(name: str) -> str:
    # `Host` would ask another site than the one that was checked; the others belong to the connection.
    if name.lower() in {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}:
        raise ValueError("expected another header")
    return name


def _printable(value: SecretStr) -> SecretStr:
    if not re.fullmatch(r"[ -~]+", value.get_secret_value()):
        raise ValueError("expected printable ASCII characters")
    return value


JMESPath = Annotated[str, StringConstraints(max_length=2000), AfterValidator(_expression)]
HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]+$"), AfterValidator(_sendable)]
HeaderValue = Annotated[SecretStr, BeforeValidator(_from_environment), AfterValidator(_printable)]


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
    date: str | None = None
    path_field: str | None = None
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


class LegSettings(Section):
    """One leg of a profile: a kind of search, and what it searches for."""

    kind: Literal["dense", "sparse"] = "dense"
    of: Literal["question", "context", "hyde", "variants"] = "question"
    weight: float = Field(1.0, ge=0, le=1000)

    @model_validator(mode="after")
    def _has_words(self) -> LegSettings:
        if self.kind == "sparse" and self.of == "hyde":
            raise ValueError("a sparse leg searches for words of the question, the context or its variants")
        return self


class TemporalSettings(Section):
    """How much it counts that a chunk is recent."""

    half_life_days: float = Field(gt=0, le=36_500)
    weight: float = Field(0.2, ge=0, le=1)


class DiversitySettings(Section):
    """How a profile keeps an answer from saying one thing many times."""

    relevance: float = Field(0.7, ge=0, le=1, alias="lambda")
    per_document: int | None = Field(None, ge=1, le=1000)


class ProfileSettings(Section):
    """How to search: legs, fused, refined."""

    legs: list[LegSettings] = Field(min_length=1, max_length=8)
    fusion: Literal["similarity", "rrf", "weighted"] = "rrf"
    fetch: int = Field(30, ge=1, le=50)
    transform: Literal["none", "glossary", "llm"] = "none"
    hyde: int = Field(0, ge=0, le=8)
    variants: int = Field(0, ge=0, le=8)
    rerank: Literal["none", "lexical", "http", "llm", "cross_encoder"] = "none"
    temporal: TemporalSettings | None = None
    diversity: DiversitySettings | None = None

    @model_validator(mode="after")
    def _legs_have_queries(self) -> ProfileSettings:
        for name in ("hyde", "variants"):
            if any(leg.of == name for leg in self.legs) != (getattr(self, name) > 0):
                raise ValueError(f"{name}: expected a number above 0 together with a leg of {name}")
        return self


class ModeSettings(Section):
    """What a question is for: where it looks, how, and what the model is told."""

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
    """What answers questions, words queries anew, and judges passages."""

    kind: Literal["none", "openai"] = "none"
    api: Literal["responses", "chat"] = "responses"
    model: str = "gpt-5-mini"
    base_url: str | None = None
    api_key: SecretStr | None = None
    max_output_tokens: int = Field(1024, ge=16, le=100_000)
    prompt_cache_retention: Literal["in_memory", "24h"] | None = None
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


class PriceSettings(Section):
    """What a million tokens of a model cost, as decimal numbers."""

    input: Decimal = Field(ge=0)
    output: Decimal = Field(Decimal(0), ge=0)
    cached_input: Decimal | None = Field(None, ge=0)


class RerankerSettings(Section):
    """What rereads candidates, for profiles that rerank over HTTP or in this process."""

    url: str | None = None
    model: str = ""
    api_key: SecretStr | None = None
    timeout_seconds: Seconds = 10.0
    max_retries: int = Field(1, ge=0, le=10)


class RemoteFields(Section):
    """Where a result's parts are: JMESPath expressions, applied to each result."""

    title: JMESPath = "title"
    url: JMESPath = "url"
    snippet: JMESPath = "snippet"
    score: JMESPath | None = None
    date: JMESPath | None = None
    metadata: JMESPath | None = None


class RemoteSettings(Section):
    """A service that finds things elsewhere: asked by one GET, answers JSON."""

    url: str = Field(max_length=2000)
    hosts: list[str] = []
    headers: dict[HeaderName, HeaderValue] = {}
    items: JMESPath = "@"
    fields: RemoteFields = RemoteFields()
    max_items: int = Field(5, ge=1, le=50)
    max_bytes: int = Field(1_000_000, ge=1000, le=100_000_000)
    timeout_seconds: Seconds = 5.0
    allow_private: list[str] = []

    @field_validator("url")
    @classmethod
    def _is_a_template(cls, url: str) -> str:
        try:
            parts, _ = urlsplit(url), urlsplit(url).port
        except ValueError:
            raise ValueError("expected a URL") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.fragment:
            raise ValueError("expected an http or https URL")
        if parts.username is not None or parts.password is not None:
            raise ValueError("expected no password in it; put it into headers")
        # Elsewhere a question could choose the host or the path.
        if "{query}" not in parts.query or re.search(r"[{}]", parts.netloc + parts.path):
            raise ValueError("expected {query}, and {k} if there is one, behind the question mark")
        if re.search(r"[{}]", parts.query.replace("{query}", "").replace("{k}", "")):
            raise ValueError("expected no other placeholders than {query} and {k}")
        return url

    @field_validator("hosts", "allow_private")
    @classmethod
    def _lower(cls, names: list[str]) -> list[str]:
        return [name.lower() for name in names]

    @model_validator(mode="after")
    def _its_own_host_is_allowed(self) -> RemoteSettings:
        if self.hosts and urlsplit(self.url).hostname not in self.hosts:
            raise ValueError("hosts: expected the url's host among them")
        return self


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
    profiles: dict[str, ProfileSettings] = {}
    modes: dict[str, ModeSettings] = {}
    cache: CacheSettings = CacheSettings()
    verify: VerifySettings = VerifySettings()
    embedder: EmbedderSettings = EmbedderSettings()
    language_model: LanguageModelSettings = LanguageModelSettings()
    metrics: MetricsSettings = MetricsSettings()
    reranker: RerankerSettings = RerankerSettings()
    prices: dict[str, PriceSettings] = {}
    remote: dict[Identifier, RemoteSettings] = {}
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _modes_name_what_is_there(self) -> Settings:
        for name, mode in self.modes.items():
            if mode.profile not in self.profiles:
                raise ValueError(f"modes.{name}.profile: there is no profile {mode.profile}")
            missing = [corpus for corpus in mode.corpora if corpus not in self.corpora]
            if missing:
                raise ValueError(f"modes.{name}.corpora: there is no corpus {missing[0]}")
            missing = [source for source in mode.remote if source not in self.remote]
            if missing:
                raise ValueError(f"modes.{name}.remote: there is no remote source {missing[0]}")
        return self

    def price_table(self) -> dict[tuple[str, str], Price]:
        """Prices by provider and model; ``prices."openai/gpt-5-mini"`` in the file."""
        return {
            (provider, model): Price(price.input, price.output, price.cached_input)
            for name, price in self.prices.items()
            for provider, _, model in [name.partition("/")]
        }

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


def read_values(path: Path | None = None) -> dict[str, Any]:
    """The settings file as plain data, with the profiles and modes that stand in files of their own beside it.

    Those that the settings file has itself outrank them. Where a settings file elsewhere has none beside it, the
    shipped ones serve, of the modes those whose corpora it names: another installation has other corpora.

    Raises:
        SettingsError: a file can't be read.
    """
    file = path or _settings_file()
    values = _toml(file)
    for part in ("profiles", "modes"):
        beside = file.parent / f"{part}.toml"
        found = _toml(beside if beside.exists() else config_folder() / f"{part}.toml").get(part, {})
        if part == "modes" and not beside.exists():
            found = {name: mode for name, mode in found.items() if mode["corpora"].keys() <= values["corpora"].keys()}
        values[part] = {**found, **values.get(part, {})}
    return values


def _read(path: Path | None) -> dict[str, Any]:
    values = read_values(path)
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
