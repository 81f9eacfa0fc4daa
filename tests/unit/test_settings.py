from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.errors import SettingsError
from workbench.calibration import write
from worker.core.shape import MAX_MESSAGE, MAX_VALUES, Bounds
from worker.settings import (
    CONFIG_VARIABLE,
    PREFIX,
    calibration_file,
    calibrations,
    from_values,
    load,
    read_glossary,
    read_values,
)
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for


def refusal(make: Callable[[], object]) -> str:
    with pytest.raises(SettingsError) as caught:
        make()
    message = caught.value.message
    assert SECRET not in message
    assert "\n" not in message
    return message


def test_the_shipped_file_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the two connection strings in the environment, nothing else needs to be set."""
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    settings = load()
    assert settings.default_corpus == "documents"
    assert (settings.trust_queue, settings.token_keys, settings.result_backend) == (False, {}, None)


def test_the_shipped_file_states_the_defaults(values: dict[str, Any]) -> None:
    """The file's values equal those used without it, so that the file explains both."""
    # What names corpora is no default: another file has other corpora.
    named = ("database_connection_string", "broker_url", "corpora", "hybrid")
    bare = {name: values[name] for name in named}
    assert from_values(bare) == from_values(values)


@pytest.mark.parametrize(
    ("field", "variable"),
    [("database_connection_string", "DATABASE_CONNECTION_STRING"), ("broker_url", "CELERY_BROKER_URL")],
)
def test_a_missing_connection_string_is_named_as_its_variable(
    values: dict[str, Any], field: str, variable: str
) -> None:
    """The start fails and says which variable to set."""
    del values[field]
    assert refusal(lambda: from_values(values)).startswith(f"the setting {variable} is missing: where ")


@pytest.mark.parametrize("variable", ["DATABASE_CONNECTION_STRING", "CELERY_BROKER_URL"])
@pytest.mark.parametrize("blank", ["", " ", "\n"])
def test_an_empty_connection_string_is_missing_too(monkeypatch: pytest.MonkeyPatch, variable: str, blank: str) -> None:
    """A variable that a compose file passes on empty is no connection to some default server."""
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    monkeypatch.setenv(variable, blank)
    assert refusal(load).startswith(f"the setting {variable} is missing: where ")


def test_a_blank_standby_is_not_left_out(values: dict[str, Any]) -> None:
    """It would count as away for ever, and the primary would answer each search."""
    said = refusal(lambda: from_values({**values, "database_read_connection_string": " "}))
    assert said.startswith("the setting DATABASE_READ_CONNECTION_STRING is missing: where ")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"trust_queue": SECRET}, "trust_queue"),
        ({"nonsense": SECRET}, "nonsense"),
        ({"corpora": {}}, "corpora"),
        ({"corpora": {"a": {}}}, "corpora.a.table"),
        ({"corpora": {"a": {"table": "a.b.c", "columns": {}}}}, "corpora.a.table"),
        ({"corpora": {"a": {"table": "t", "columns": {"id": "i"}}}}, "corpora.a.columns.document_id"),
        ({"search": {"exact_rows": -1}}, "search.exact_rows"),
        ({"search": {"exactrows": 100}}, "search.exactrows"),
        ({"search": {"statement_timeout_seconds": 0}}, "search.statement_timeout_seconds"),
        ({"pool": {"max_size": 0}}, "pool.max_size"),
        ({"worker": {"soft_time_limit_seconds": 90}}, "worker.soft_time_limit_seconds"),
        ({"limits": {"max_message": 65_535}}, "limits.max_message"),
        ({"citations": {"accept": ["dash", SECRET]}}, "citations.accept.1"),
        *(({"citations": {"accept": [kind]}}, "citations.accept.0") for kind in ("cut", "words", "order", "symbol")),
        ({"embedder": {"kind": SECRET}}, "embedder.kind"),
        ({"embedder": {"api_key": [SECRET]}}, "embedder.api_key"),
        ({"hybrid": {"weights": {"primary": -1}}}, "hybrid.weights.primary"),
        ({"hybrid": {"weights": {"primary": float("nan")}}}, "hybrid.weights.primary"),
        ({"hybrid": {"weights": {"fourth": 1}}}, "hybrid.weights.fourth"),
        ({"hybrid": {"searches": {"docs": 51}}}, "hybrid.searches.docs"),
        ({"hybrid": {"weights": {"primary": 0, "sparse": 0}}}, "hybrid.weights"),
        ({"hybrid": {"weights": dict.fromkeys(("primary", "sparse", "contextual"), 0)}}, "hybrid.weights"),
        ({"profiles": {"p": {"legs": [{"weight": 0}, {"kind": "sparse", "weight": 0}]}}}, "profiles.p: legs"),
        ({"profiles": {"p": {"legs": [{"weight": 0}, {"of": "context"}]}}}, "profiles.p: legs"),
        ({"profiles": {"p": {"legs": [{}], "rerank_weight": 0.5}}}, "profiles.p: rerank_weight"),
        ({"log": {"level": "LOUD"}}, "log.level"),
        ({"token_keys": {"k1": [SECRET]}}, "token_keys.k1"),
        ({"token_keys": SECRET}, "token_keys"),
        ({"principal": {"owner_claims": ["tenant_id", "org"]}}, "principal.owner_claims"),
        ({"principal": {"owner_claims": ["user_id", "user_id"]}}, "principal.owner_claims"),
        ({"principal": {"settings": {"org": "app.org"}}}, "principal.owner_claims"),
        ({"principal": {"settings": {"user_id": "search_path"}}}, "principal.settings.user_id"),
        ({"principal": {"settings": {"user_id": "app.x; DROP"}}}, "principal.settings.user_id"),
        ({"principal": {"token": {"algorithms": ["none"]}}}, "principal.token.algorithms"),
        ({"database_connection_string": [SECRET]}, "database_connection_string"),
        ({"broker_url": {"url": SECRET}}, "broker_url"),
        ({"result_backend": [SECRET]}, "result_backend"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_setting_names_itself(values: dict[str, Any], changes: dict[str, Any], name: str) -> None:
    """One line with the setting's full name, and never a value."""
    assert name in refusal(lambda: from_values({**values, **changes}))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TRUST_QUEUE", SECRET),
        ("SEARCH__EXACT_ROWS", SECRET),
        ("SEARCH__EXACTROWS", "100"),
        ("SEARCH", SECRET),
        ("TOKEN_KEYS", SECRET),
        ("TOKEN_KEYS", f'{{"k1": "{SECRET}"'),
        ("TOKEN_KEYS", f'["{SECRET}"]'),
        ("TOKEN_KEYS", f'{{"k1": ["{SECRET}"]}}'),
        ("EMBEDDER__APIKEY", SECRET),
        ("LOG__FORMAT", SECRET),
    ],
)
def test_a_wrong_variable_names_itself(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    """One that is not known in its table, can't be read or has a wrong value stops the start under its name."""
    monkeypatch.setenv(PREFIX + variable, value)
    message = refusal(lambda: from_values(values))
    assert variable.lower().replace("__", ".") in message.lower().replace("__", ".")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"k1": 5}, "the setting token_keys.k1 (RETRIEVAL_WORKER_TOKEN_KEYS): expected a string"),
        ({SECRET * 2: 5}, "the setting token_keys (RETRIEVAL_WORKER_TOKEN_KEYS): expected the id of each key and"),
        ([SECRET], "the setting token_keys (RETRIEVAL_WORKER_TOKEN_KEYS): expected the id of each key and the key"),
        ({"": SECRET}, "the setting token_keys (RETRIEVAL_WORKER_TOKEN_KEYS): expected the id of each key and the"),
        ({"a\n": SECRET}, "the setting token_keys (RETRIEVAL_WORKER_TOKEN_KEYS): expected the id of each key and the"),
    ],
)
def test_wrong_keys_name_the_variable_and_the_id(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch, keys: Any, said: str
) -> None:
    """In the file or in the environment; an id that may be a key is not repeated."""
    assert refusal(lambda: from_values({**values, "token_keys": keys})).startswith(said)
    monkeypatch.setenv(PREFIX + "TOKEN_KEYS", json.dumps(keys))
    assert refusal(lambda: from_values(values)).startswith(said)


def test_the_environment_outranks_the_file(values: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Single values are overridden by their path, and the rest of their table stays."""
    monkeypatch.setenv(PREFIX + "SEARCH__EXACT_ROWS", "150")
    monkeypatch.setenv(PREFIX + "TOKEN_KEYS", json.dumps({"k1": SECRET}))
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://other/3")
    values["search"] = {**values["search"], "exact_rows": 50, "statement_timeout_seconds": 7}
    settings = from_values(values)
    assert (settings.search.exact_rows, settings.search.statement_timeout_seconds) == (150, 7)
    assert settings.token_keys["k1"].get_secret_value() == SECRET
    assert settings.broker_url.get_secret_value() == "redis://other/3"


def test_secrets_are_not_shown(values: dict[str, Any]) -> None:
    """Printing, formatting or dumping the settings shows no secret."""
    settings = from_values({**values, "token_keys": {"k1": SECRET}, "embedder": {"api_key": SECRET}})
    assert SECRET not in f"{settings} {settings!r} {settings.model_dump()} {settings.model_dump_json()}"


def test_the_first_corpus_is_the_default(values: dict[str, Any]) -> None:
    """The order of the file decides."""
    corpus = values["corpora"]["documents"]
    assert from_values({**values, "corpora": {"z": corpus, "a": corpus}}).default_corpus == "z"


@pytest.mark.parametrize(
    "content",
    [None, b"trust_queue = ", b"[search\n", f'x = "{SECRET}'.encode(), b"\xff\xfe", b"a = 1\na = 2"],
    ids=["no file", "cut", "bracket", "quote", "no UTF-8", "twice"],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    """The sentence names the file, for every reason why it can't be read."""
    file = tmp_path / "worker.toml"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    assert str(file) in refusal(load)


def test_another_file_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variable or by the argument, which wins."""
    shipped = (config_folder() / "worker.toml").read_text()
    for name, rows in (("one", 111), ("two", 222)):
        (tmp_path / name).write_text(shipped.replace("exact_rows = 2000", f"exact_rows = {rows}"))
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "one"))
    assert (load().search.exact_rows, load(tmp_path / "two").search.exact_rows) == (111, 222)


def test_a_glossary_stands_beside_the_settings_or_is_the_shipped_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A settings file elsewhere needs no copy of it; its own one counts; a wrong one is named."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / "worker.toml"))
    assert "hi-hats" in read_glossary()
    (tmp_path / "glossary.toml").write_text('"kick" = ["bd"]')
    assert read_glossary() == {"kick": ["bd"]}
    (tmp_path / "glossary.toml").write_text('"kick" = "bd"')
    assert "glossary.toml: the setting kick" in refusal(read_glossary)
    (tmp_path / "glossary.toml").write_text("")
    assert read_glossary() == {}


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"broker_url": f"sentinel://:{SECRET}@one:26379/0;sentinel://two:26379/0"}, "CELERY_BROKER_URL"),
        ({"result_backend": "sentinel://one:26379/0"}, "CELERY_RESULT_BACKEND"),
        ({"cache": {"url": "SENTINEL://one:26379/0"}}, "cache.url"),
    ],
)
def test_a_sentinel_is_refused_with_what_to_do_instead(
    values: dict[str, Any], changes: dict[str, Any], name: str
) -> None:
    """Kombu would take it for the queues, and nothing else of the worker would."""
    said = refusal(lambda: from_values({**values, **changes}))
    assert f"{name}: sentinel://" in said
    assert "the address that leads to the master" in said


def test_searches_read_the_primary_unless_another_string_is_set(values: dict[str, Any]) -> None:
    """The same settings, connected elsewhere; none where nothing else is said."""
    assert from_values(values).of_the_standby is None
    standby = from_values({**values, "database_read_connection_string": "postgresql://standby/app"}).of_the_standby
    assert standby is not None
    assert standby.database_connection_string.get_secret_value() == "postgresql://standby/app"
    assert standby.corpora == from_values(values).corpora


@pytest.mark.parametrize("table", ["corpora", "modes", "profiles"])
@pytest.mark.parametrize("name", ["", "a\n", "a\x1b[2J"])
def test_a_name_is_printable(values: dict[str, Any], table: str, name: str) -> None:
    """It stands in answers, logs and tables of a terminal."""
    tables = read_values()[table]
    said = refusal(lambda: from_values({**values, table: {**tables, name: next(iter(tables.values()))}}))
    assert said.endswith(": expected a name, without control characters")


@pytest.mark.parametrize("table", ["modes", "profiles", "calibration"])
@pytest.mark.parametrize("unknown", ["[other.x]", "k = 5", "[modez.x]"])
def test_a_file_of_one_table_has_no_other(own_file: Path, table: str, unknown: str) -> None:
    """A slip is no silent default: the sentence names the file and the unknown name."""
    shipped = config_folder() / f"{table}.toml"
    content = shipped.read_text() if shipped.exists() else ""
    (own_file.parent / f"{table}.toml").write_text(f"{unknown}\n{content}")
    said = refusal(lambda: load(own_file))
    name = unknown.strip("[").split(".")[0].split(" ")[0]
    assert said.endswith(f"{table}.toml: {name} is not known: expected [{table}.NAME]")


# --- calibrations -------------------------------------------------------------------------------

CALIBRATED = """
[calibration.documents]
rows = 100000
points = [
  { visible = 1.0, ef_search = 150, recall = 0.9961, worst = 0.8667 },
  { visible = 0.1, ef_search = 40, recall = 0.999, worst = 0.8 },
]
"""


@pytest.fixture
def own_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A settings file of one's own."""
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    file = tmp_path / "worker.toml"
    file.write_text((config_folder() / "worker.toml").read_text())
    return file


def test_a_calibration_stands_beside_the_settings(own_file: Path) -> None:
    """As `calibrate` writes it; the widest of its points is enough for all."""
    assert load(own_file).calibration == {}
    (own_file.parent / "calibration.toml").write_text(CALIBRATED)
    found = load(own_file).calibration["documents"]
    assert (found.rows, found.ef_search, len(found.points)) == (100_000, 150, 2)


def test_a_calibration_in_the_settings_file_outranks_that_beside_it(own_file: Path) -> None:
    """As with modes and profiles."""
    (own_file.parent / "calibration.toml").write_text(CALIBRATED)
    own_file.write_text(own_file.read_text() + CALIBRATED.replace("150", "222"))
    assert load(own_file).calibration["documents"].ef_search == 222


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("calibration.documents", "calibration.gone"), "calibration.gone: there is no corpus gone"),
        (("150", "2000"), "calibration.documents.points.0.ef_search"),
        (("rows = 100000", "rows = 0"), "calibration.documents.rows"),
        (("[calibration.documents]", "[calibration.documents"), "calibration.toml"),
    ],
)
def test_a_wrong_calibration_stops_the_start(own_file: Path, change: tuple[str, str], said: str) -> None:
    """It is named like any setting."""
    (own_file.parent / "calibration.toml").write_text(CALIBRATED.replace(*change))
    assert said in refusal(lambda: load(own_file))


def test_calibrations_are_written_beside_a_file_of_ones_own_only(
    monkeypatch: pytest.MonkeyPatch, own_file: Path
) -> None:
    """The shipped folder is the next release's."""
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    assert CONFIG_VARIABLE in refusal(calibration_file)
    monkeypatch.setenv(CONFIG_VARIABLE, str(own_file))
    assert calibration_file() == own_file.parent / "calibration.toml"


def test_what_is_written_is_read_again(own_file: Path) -> None:
    """Calibrations of corpora of any name are read again; a second one is added, the first one stays."""
    path = own_file.parent / "calibration.toml"
    path.write_text(CALIBRATED)
    known = calibrations(path)
    odd = 'a "corpus", größer\\'
    write(path, {**known, odd: known["documents"]})
    assert calibrations(path) == {**known, odd: known["documents"]}
    assert f"there is no corpus {odd}" in refusal(lambda: load(own_file))
    assert [file.name for file in own_file.parent.iterdir() if "calibration" in file.name] == ["calibration.toml"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Nothing is written, and the line says where it was tried."""
    assert "nowhere" in refusal(lambda: write(tmp_path / "nowhere" / "calibration.toml", {}))


def test_a_larger_message_may_hold_as_much_more(make_settings: Callable[..., Any]) -> None:
    """Twice the bytes: twice as long strings and lists, and twice as many values, never fewer than as shipped."""
    shipped, double, small = (
        make_settings(limits={"max_message": count}).limits for count in (MAX_MESSAGE, 2 * MAX_MESSAGE, 65_536)
    )
    assert (shipped.bounds, shipped.max_values) == (small.bounds, small.max_values) == (Bounds(), MAX_VALUES)
    assert (double.bounds.max_string, double.bounds.max_list) == (2_000_000, 20_000)
    assert double.max_values == 2 * MAX_VALUES


def test_settings_of_older_versions_have_no_effect(make_settings: Callable[..., Any]) -> None:
    """A settings file that names them goes on working while workers are replaced."""
    older = {
        "transport": "reliable",
        "prefetch_multiplier": 2,
        "visibility_timeout_seconds": 900,
        "process_claims": True,
    }
    assert make_settings(worker=older) == make_settings()
