"""Settings: validated once at start, then a value that is passed on. Nothing else reads the environment.

Order of precedence: arguments, environment (``RETRIEVAL_WORKER_SEARCH__EXACT_ROWS=5000``), the TOML file
(``RETRIEVAL_WORKER_CONFIG``, else ``config/worker.toml`` as shipped), defaults.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    Field,
    SecretStr,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from retrieval_client.contract.ranges import expected_range, field_names
from retrieval_client.errors import SettingsError
from worker.core.prompting.costs import Price
from worker.settings.base import Identifier, Name, config_folder
from worker.settings.providers import (
    EmbedderSettings,
    LanguageModelSettings,
    PriceSettings,
    RemoteSettings,
    RerankerSettings,
)
from worker.settings.searching import CacheSettings, HybridSettings, ModeSettings, ProfileSettings
from worker.settings.serving import (
    ArtifactSettings,
    Calibration,
    CitationSettings,
    CorpusSettings,
    InspectorSettings,
    Limits,
    LogSettings,
    MetricsSettings,
    PoolSettings,
    PrincipalSettings,
    SearchSettings,
    StandbySettings,
    VerifySettings,
    WorkerSettings,
    is_showable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PREFIX = "RETRIEVAL_WORKER_"
CONFIG_VARIABLE = PREFIX + "CONFIG"


class Settings(BaseSettings):
    """All settings of a worker.

    Attributes:
        database_connection_string: Postgres, as the worker's role, which owns nothing (docs/schema.md). Parameters in
            it override the worker's (docs/operations.md#postgres).
        broker_url: Redis of the queues. Users and TLS: docs/redis.md.
        result_backend: Redis of the results; default the broker. Another database separates the keys, another server
            also the memory.
        database_read_connection_string: Postgres that searches read, as the same role: a streaming standby
            (docs/scaling.md#read-replicas). Default: the primary.
        token_keys: Keys that verify a `principal_token`, by key id, as JSON. HS256: a secret of at least 32 bytes.
            RS256 and EdDSA: a public key in PEM, its line ends escaped. List two keys to rotate without a stop.
        trust_queue: Accept a job's own `principal` without a token. Only for a Redis that no one but your backend can
            write to.
        principal: Claims and tokens.
        corpora: Searchable tables, by name. The first one is the default of a job without `corpus`.
        search: Nearest-neighbour search.
        calibration: Measured search widths, by corpus: `calibration.toml` beside the settings file, written by
            `retrieval-worker calibrate`, in place of a thousandth of the corpus's rows, at least 100.
        pool: Connections.
        standby: The read replica.
        worker: Celery.
        limits: Bounds of a job.
        citations: Quotes.
        artifacts: Files of runs.
        hybrid: Hybrid retrieval.
        profiles: How to search, by name: `profiles.toml` beside the settings file. Profiles in the settings file
            override it.
        modes: What a question is for, by name: `modes.toml` beside the settings file. Modes in the settings file
            override it. The first one is the default of a job without `mode`.
        cache: Cached results.
        verify: The drift check.
        inspector: The inspector's pages.
        embedder: Embeddings.
        language_model: The language model.
        metrics: Prometheus.
        reranker: The reranker.
        prices: Prices by provider and model: `prices."openai/gpt-5-mini" = { input = "0.25", output = "2" }`. The
            provider is `openai` for models and embeddings, `http` for rerankers.
        remote: Remote sources, by name.
        log: Logs.
    """

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
    database_read_connection_string: SecretStr | None = Field(
        None, validation_alias=AliasChoices("DATABASE_READ_CONNECTION_STRING", "database_read_connection_string")
    )
    token_keys: dict[Name, SecretStr] = {}
    trust_queue: bool = False
    principal: PrincipalSettings = PrincipalSettings()
    corpora: dict[Name, CorpusSettings] = Field(min_length=1)
    search: SearchSettings = SearchSettings()
    calibration: dict[str, Calibration] = {}
    pool: PoolSettings = PoolSettings()
    standby: StandbySettings = StandbySettings()
    worker: WorkerSettings = WorkerSettings()
    limits: Limits = Limits()
    citations: CitationSettings = CitationSettings()
    artifacts: ArtifactSettings = ArtifactSettings()
    hybrid: HybridSettings = HybridSettings()
    profiles: dict[Name, ProfileSettings] = {}
    modes: dict[Name, ModeSettings] = {}
    cache: CacheSettings = CacheSettings()
    verify: VerifySettings = VerifySettings()
    inspector: InspectorSettings = InspectorSettings()
    embedder: EmbedderSettings = EmbedderSettings()
    language_model: LanguageModelSettings = LanguageModelSettings()
    metrics: MetricsSettings = MetricsSettings()
    reranker: RerankerSettings = RerankerSettings()
    prices: dict[str, PriceSettings] = {}
    remote: dict[Identifier, RemoteSettings] = {}
    log: LogSettings = LogSettings()

    @field_validator("database_connection_string", "broker_url", "database_read_connection_string", mode="before")
    @classmethod
    def _blank_is_missing(cls, value: Any) -> Any:
        """Refuse white space alone: libpq would take it for a connection to some default server."""
        if isinstance(value, str) and not value.strip():
            raise PydanticCustomError("missing", "Field required")
        return value

    @model_validator(mode="after")
    def _tenants_are_claims(self) -> Settings:
        for name, corpus in self.corpora.items():
            setting = corpus.tenant_setting
            if setting is not None and setting not in self.principal.settings.values():
                raise ValueError(f"corpora.{name}.tenant_setting: no claim of principal.settings sets {setting}")
        return self

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

    @model_validator(mode="after")
    def _searched_together_have_one_size(self) -> Settings:
        together = {f"modes.{name}.corpora": [*mode.corpora] for name, mode in self.modes.items()}
        together["hybrid.searches"] = [*self.hybrid.searches]
        for name, corpora in together.items():
            sizes = {corpus: self.corpora[corpus].dimensions for corpus in corpora if corpus in self.corpora}
            smallest, largest = (chosen(sizes, key=sizes.__getitem__, default="") for chosen in (min, max))
            if sizes and sizes[smallest] < sizes[largest]:
                differ = f"{largest} has {sizes[largest]} dimensions, {smallest} {sizes[smallest]}"
                raise ValueError(f"{name}: expected corpora of one number of dimensions: {differ}")
        return self

    @model_validator(mode="after")
    def _redis_is_asked_itself(self) -> Settings:
        urls = {"broker_url": self.broker_url, "result_backend": self.result_backend, "cache.url": self.cache.url}
        for name, url in urls.items():
            # Several, as Celery takes them, are separated by semicolons.
            if url is not None and url.get_secret_value().lower().startswith(("sentinel:", "sentinels:")):
                raise ValueError(
                    f"{_ENVIRONMENT_NAMES.get(name, name)}: sentinel:// is not supported. Give the address that "
                    "leads to the master: a proxy, a virtual IP or a name that follows it (docs/scaling.md)"
                )
        return self

    @model_validator(mode="after")
    def _calibrations_are_of_corpora(self) -> Settings:
        missing = [name for name in self.calibration if name not in self.corpora]
        if missing:
            raise ValueError(f"calibration.{missing[0]}: there is no corpus {missing[0]}")
        return self

    @property
    def of_the_standby(self) -> Settings | None:
        """Return the settings with the standby's connection for searches; None if searches read the primary."""
        reading = self.database_read_connection_string
        return self.model_copy(update={"database_connection_string": reading}) if reading is not None else None

    @property
    def names_database(self) -> bool:
        """Whether there is a `database_connection_string`, which `load_unconnected` does without."""
        return self.database_connection_string.get_secret_value() != _UNUSED

    def price_table(self) -> dict[tuple[str, str], Price]:
        """Return prices by provider and model; ``prices."openai/gpt-5-mini"`` in the file."""
        return {
            (provider, model): Price(price.input, price.output, price.cached_input, price.search_unit)
            for name, price in self.prices.items()
            for provider, _, model in [name.partition("/")]
        }

    @property
    def default_corpus(self) -> str:
        """Name of the first corpus of the file."""
        return next(iter(self.corpora))

    @property
    def default_mode(self) -> str:
        """Name of the first mode; empty if there is none."""
        return next(iter(self.modes), "")

    @property
    def paths(self) -> dict[str, str]:
        """Corpus → field of its chunks' metadata with the document's readable name."""
        return {name: corpus.path_field for name, corpus in self.corpora.items() if corpus.path_field}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Let the environment override the file, whose values are arguments from `load`."""
        del settings_cls, dotenv_settings, file_secret_settings
        return env_settings, init_settings


def load(path: Path | None = None) -> Settings:
    """Read and validate the settings.

    Args:
        path: the TOML file; default ``RETRIEVAL_WORKER_CONFIG``, else the shipped one.

    Raises:
        SettingsError: the file can't be read, or a setting is missing, unknown or wrong; the message names it.
    """
    return from_values(_read(path))


def read_glossary() -> dict[str, list[str]]:
    """Read the terms of `transform: glossary`: `glossary.toml` beside the settings file, else the shipped one.

    Raises:
        SettingsError: it can't be read, or isn't a table of lists of words.
    """
    beside = _settings_file().parent / _GLOSSARY
    try:
        return _Glossary.validate_python(_toml(beside if beside.exists() else config_folder() / _GLOSSARY))
    except ValidationError as error:
        raise SettingsError(f"settings file {beside}: {_describe(error)}") from None


_GLOSSARY = "glossary.toml"
_Glossary = TypeAdapter(dict[str, list[str]])


def _settings_file() -> Path:
    return Path(os.environ.get(CONFIG_VARIABLE) or config_folder() / "worker.toml")


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))  # some editors write a byte order mark
    except OSError as error:
        raise SettingsError(f"settings file {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"settings file {path}: expected TOML in UTF-8") from None
    except ValueError as error:
        raise SettingsError(f"settings file {path}: {error}") from None
    except RecursionError:
        raise SettingsError(f"settings file {path}: lists or tables are nested too deeply") from None


def read_values(path: Path | None = None) -> dict[str, Any]:
    """Read the settings file as plain data, with profiles, modes and calibrations from separate files beside it.

    Those in the settings file itself override them. If another settings file has none beside it, the shipped profiles
    apply, and the shipped modes whose corpora it names: another installation has other corpora.

    Raises:
        SettingsError: a file can't be read.
    """
    file = path or _settings_file()
    values = _toml(file)
    corpora = _table(values, "corpora", file)
    for table_name in ("profiles", "modes"):
        beside = file.parent / f"{table_name}.toml"
        source = beside if beside.exists() else config_folder() / f"{table_name}.toml"
        tables = _only_table(source, table_name)
        if table_name == "modes" and not beside.exists():
            tables = {name: mode for name, mode in tables.items() if mode["corpora"].keys() <= corpora.keys()}
        values[table_name] = {**tables, **_table(values, table_name, file)}
    values["calibration"] = {**calibrations(file.parent / _CALIBRATION), **_table(values, "calibration", file)}
    return values


_CALIBRATION = "calibration.toml"


def calibrations(path: Path) -> dict[str, Any]:
    """Read a file of calibrations, by corpus; empty if there is no file."""
    return _only_table(path, "calibration") if path.exists() else {}


def _only_table(file: Path, name: str) -> dict[str, Any]:
    """Return the table of a file that has no other."""
    values = _toml(file)
    for key in sorted(values.keys() - {name}):
        raise SettingsError(f"settings file {file}: {key} is not known: expected [{name}.NAME]")
    return _table(values, name, file)


def _table(values: dict[str, Any], name: str, file: Path) -> dict[str, Any]:
    """Return a table of a file; empty if the file has none."""
    table = values.get(name, {})
    if not isinstance(table, dict):
        raise SettingsError(f"settings file {file}: {name}: expected a table, [{name}.NAME]")
    return table


def calibration_file() -> Path:
    """Return the path that `retrieval-worker calibrate` writes, beside the settings file.

    Raises:
        SettingsError: only the shipped settings file is in use, which a release would overwrite.
    """
    if not os.environ.get(CONFIG_VARIABLE):
        raise SettingsError(f"{_CALIBRATION} belongs beside your own settings file: set {CONFIG_VARIABLE}")
    return _settings_file().parent / _CALIBRATION


def _read(path: Path | None) -> dict[str, Any]:
    values = read_values(path)
    slips = [(name, intended) for name in os.environ if name.startswith(PREFIX) for intended in _slips(name)]
    if slips:
        name, intended = min(slips)
        raise SettingsError(
            f"the setting {name} is not known{_did_you_mean(PREFIX + intended.upper() if intended else '')}"
        )
    return values


def _slips(variable: str) -> Iterator[str]:
    """Yield what an unknown variable is meant to be, empty if that is unclear; nothing if it is known or foreign.

    A name without a section may be foreign: Kubernetes sets RETRIEVAL_WORKER_PORT.
    """
    section, nested, rest = variable.removeprefix(PREFIX).lower().partition("__")
    if section in Settings.model_fields:
        return
    close = _closest(section, Settings.model_fields)
    if nested:
        yield f"{close}__{rest}" if close else ""
    elif not section.endswith("_port"):
        fields = [(name, field) for name in Settings.model_fields for field in field_names(Settings, [name])]
        intended = {f"{name}_{field}": f"{name}__{field}" for name, field in fields}.get(section, close)
        if intended:
            yield intended


def _closest(name: str, known_names: Iterable[str]) -> str:
    """Return the name that a mistyped one is likely to be; empty if there is none."""
    return next(iter(difflib.get_close_matches(name, [*known_names], 1, 0.8)), "")


def _did_you_mean(name: str) -> str:
    return f": did you mean {name}?" if name else ""


def load_without_queue(path: Path | None = None) -> Settings:
    """Load the settings for commands that need Postgres alone; without a Redis they cache nothing. See `load`."""
    settings = from_values({"broker_url": _UNUSED, **_read(path)})
    url = settings.cache.url or settings.result_backend or settings.broker_url
    if url.get_secret_value() != _UNUSED:
        return settings
    return settings.model_copy(update={"cache": settings.cache.model_copy(update={"tasks": []})})


def load_unconnected(path: Path | None = None) -> Settings:
    """Load the settings for commands that need neither Postgres nor Redis; see `load`."""
    unused = {"database_connection_string": _UNUSED, "broker_url": _UNUSED}
    return from_values({**unused, **_read(path)})


_UNUSED = "unused"


def from_values(values: dict[str, Any]) -> Settings:
    """Validate settings given as plain data; see `load`."""
    try:
        return Settings(**values)
    except ValidationError as error:
        raise SettingsError(_describe(error, Settings)) from None
    except UnreadableVariable as error:
        raise SettingsError(f'the setting {_unreadable(error)}: expected JSON, like ["a"] or {{"a": "b"}}') from None


def _unreadable(error: UnreadableVariable) -> str:
    """Return the name of a variable that is not JSON: the error names its section, and its cause holds the value."""
    value = getattr(error.__cause__, "doc", None)
    match = re.search(r'field "(\w+)"', str(error))
    section = f"{PREFIX}{match[1].upper()}" if match else PREFIX
    return next(
        (name for name in os.environ if name.upper().startswith(section) and os.environ[name] == value), section
    )


_ENVIRONMENT_NAMES = {
    "database_connection_string": "DATABASE_CONNECTION_STRING",
    "broker_url": "CELERY_BROKER_URL",
    "result_backend": "CELERY_RESULT_BACKEND",
    "database_read_connection_string": "DATABASE_READ_CONNECTION_STRING",
}


_FIXES = {
    "DATABASE_CONNECTION_STRING": "where Postgres is, postgresql://role:password@host:5432/database",
    "CELERY_BROKER_URL": "where the Redis of the queues is, redis://user:password@host:6379/0",
    "DATABASE_READ_CONNECTION_STRING": "where the standby is, or leave the variable out",
    "corpora": "name your table of chunks and its columns in [corpora.NAME] and [corpora.NAME.columns] "
    "(docs/configuration.md)",
}
"""Setting → remedy if it is missing or empty."""


def _describe(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Describe the first problem in one sentence: the setting and the expectation, never the value."""
    problem = error.errors(include_input=False, include_url=False)[0]
    if problem["loc"][:1] == ("token_keys",):
        return _describe_keys(*(problem["loc"][1:2] if problem["loc"][-1] != "[key]" else ()))
    keys = [str(key) for key in problem["loc"] if key != "[key]"]
    name = ".".join(key for key in keys if key and key.isprintable())
    if problem["type"] == "missing" or (problem["type"] == "too_short" and name in _FIXES):
        name = _ENVIRONMENT_NAMES.get(name, name)
        remedy = f": {_FIXES[name]}" if name in _FIXES else ""
        return f"the setting {name} is missing{remedy}"
    if problem["type"] == "extra_forbidden":
        near = _closest(str(problem["loc"][-1]), field_names(model, problem["loc"][:-1]) if model else ())
        return f"the setting {name} is not known{_did_you_mean(near)} (docs/configuration.md has them all)"
    message = expected_range(model, problem) or _expectation(problem["type"], problem["msg"], problem.get("ctx", {}))
    if message.startswith(f"{name}."):  # the message names the setting itself
        return f"the setting {message}"
    return f"the setting {name}: {message}" if name else message


def _describe_keys(kid: str | int = "") -> str:
    shown_kid = f".{kid}" if kid and is_showable(str(kid)) else ""
    return f"the setting token_keys{shown_kid} ({PREFIX}TOKEN_KEYS): expected {'a string' if shown_kid else _KEYS}"


_KEYS = 'the id of each key and the key, {"ID": "KEY"}'

_WORDS = {
    "Input should be a valid boolean": "expected true or false",
    "Input should be a valid": "expected a valid",
    "Input should be": "expected",
}


def _expectation(kind: str, message: str, bounds: dict[str, Any]) -> str:
    """Return the expectation in the wording of our errors instead of pydantic's."""
    if kind == "too_short":
        return f"expected at least {bounds['min_length']}"
    if kind == "too_long":
        return f"expected at most {bounds['max_length']}"
    if kind in {"model_type", "dict_type"}:
        return "expected a table"
    if kind == "list_type":
        return "expected a list"
    expectation, _, _ = message.removeprefix("Value error, ").partition(", unable to ")
    for theirs, ours in _WORDS.items():
        expectation = expectation.replace(theirs, ours)
    return expectation
