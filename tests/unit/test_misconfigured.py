"""Settings that are wrong as people get them wrong: one sentence names the setting and the mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from retrieval_client.errors import SettingsError
from worker.adapters.parts import lacking
from worker.adapters.postgres.refusals import string_problem
from worker.adapters.redis_refusals import refusal as redis_refusal
from worker.adapters.redis_refusals import url_problem
from worker.settings import CONFIG_VARIABLE, PREFIX, load

if TYPE_CHECKING:
    from pathlib import Path

CORPUS = """
[corpora.books]
table = "books"
[corpora.books.columns]
id = "id"
document_id = "book"
text = "text"
embedding = "vec"
"""
HERE = "settings file {file}: "
NO_CORPORA = (
    "the setting corpora is missing: name your table of chunks and its columns in [corpora.NAME] and "
    "[corpora.NAME.columns] (docs/configuration.md)"
)
ALL = " (docs/configuration.md has them all)"
MODE = CORPUS + '[modes.mine]\nprofile = "fast"\ninstructions = "Answer."\ncorpora = { books = 5 }\n'
PROFILE = CORPUS + "[profiles.mine]\n"


def books(old: str, new: str, said: str) -> tuple[str, str]:
    """The corpus with another text in it, and what is said of it."""
    return CORPUS.replace(old, new), f"the setting corpora.books.{said}"


def search(line: str, said: str) -> tuple[str, str]:
    """A line of the searches' section, and what is said of it."""
    return f"{CORPUS}[search]\n{line}", f"the setting search.{said}"


WRONG = {
    "no corpora": ("[search]\nexact_rows = 30", NO_CORPORA),
    "an empty file": ("", NO_CORPORA),
    "corpora without any": ("[corpora]", NO_CORPORA),
    "corpora that are a list": ('corpora = ["books"]', HERE + "corpora: expected a table, [corpora.NAME]"),
    "modes that are a number": (f"modes = 1\n{CORPUS}", HERE + "modes: expected a table, [modes.NAME]"),
    "profiles that are a text": (f"profiles = 'x'\n{CORPUS}", HERE + "profiles: expected a table, [profiles.NAME]"),
    "a calibration that is a list": (
        f"calibration = []\n{CORPUS}",
        HERE + "calibration: expected a table, [calibration.NAME]",
    ),
    "a corpus that is a number": ("[corpora]\nbooks = 1", "the setting corpora.books: expected a table"),
    "a corpus without columns": ('[corpora.books]\ntable = "b"', "the setting corpora.books.columns is missing"),
    "a corpus without embedding": books('embedding = "vec"', "", "columns.embedding is missing"),
    "a column that is not known": (
        CORPUS + 'title = "t"',
        "the setting corpora.books.columns.title is not known" + ALL,
    ),
    "a column that is a list": books('"id"', '["id"]', "columns.id: expected a valid string"),
    "a table with its database": books('"books"', '"db.public.books"', "table: expected a name, or schema.name"),
    "a choice that is none": (
        CORPUS + '[log]\nformat = "xml"',
        "the setting log.format: expected 'auto', 'json' or 'console'",
    ),
    "a language as people say it": books(
        "[corpora.books.c",
        'language = "English"\n[corpora.books.c',
        "language: expected a text search configuration in small letters: english",
    ),
    "documents without a table": (
        CORPUS + '[corpora.books.documents]\nid = "id"',
        "the setting corpora.books.documents.table is missing",
    ),
    "yes for true": (f'trust_queue = "si"\n{CORPUS}', "the setting trust_queue: expected true or false"),
    "a section with a slip": (
        CORPUS + "[serach]\nexact_rows = 30",
        "the setting serach is not known: did you mean search?" + ALL,
    ),
    "a number in words": search('exact_rows = "many"', "exact_rows: expected a valid integer"),
    "too much": (
        CORPUS + "[pool]\nmax_size = 100_000",
        "the setting pool.max_size: expected at least 1 and at most 64",
    ),
    "too little": (CORPUS + "[limits]\nmax_message = 1", "the setting limits.max_message: expected at least 65536"),
    "true for a number": search("exact_rows = true", "exact_rows: expected a number, not true or false"),
    "true for one that may have a fraction": search(
        "statement_timeout_seconds = true", "statement_timeout_seconds: expected a number, not true or false"
    ),
    "true for the number of a table": (
        MODE.replace("books = 5", "books = true"),
        "the setting modes.mine.corpora: expected a number, not true or false",
    ),
    "true in a list of tables": (
        PROFILE + 'legs = [{ kind = "dense", weight = true }]',
        "the setting profiles.mine.legs.0.weight: expected a number, not true or false",
    ),
    "no number": (
        CORPUS + "[verify]\nevery_minutes = nan",
        "the setting verify.every_minutes: expected at least 0 and at most 100000",
    ),
    "limits that do not nest": (
        CORPUS + "[worker]\nsoft_time_limit_seconds = 100",
        "the setting worker.soft_time_limit_seconds: expected less than time_limit_seconds",
    ),
    "a mode without its profile": (MODE.replace('"fast"', '"nope"'), "modes.mine.profile: there is no profile nope"),
    "a mode over no corpus": (
        MODE.replace("books = 5", "films = 5").replace('"fast"', '"mine"') + "[profiles.mine]\nlegs = [{}]",
        "modes.mine.corpora: there is no corpus films",
    ),
    "a profile without legs": (PROFILE + "legs = []", "the setting profiles.mine.legs: expected at least 1"),
    "a leg that is none": (
        PROFILE + 'legs = [{ kind = "fuzzy" }]',
        "the setting profiles.mine.legs.0.kind: expected 'dense' or 'sparse'",
    ),
    "weights of a leg that is none": (
        CORPUS + "[hybrid.weights]\ndense = 1",
        "the setting hybrid.weights.dense: expected 'primary', 'contextual' or 'sparse'",
    ),
    "a claim for no custom setting": (
        CORPUS + '[principal.settings]\nuser_id = "user_id"',
        "the setting principal.settings.user_id: expected a setting of two parts in small letters: app.user_id",
    ),
    "an owner that no claim is": (
        CORPUS + '[principal]\nowner_claims = ["boss"]',
        "the setting principal.owner_claims: 'boss' is not in principal.settings, or there twice",
    ),
    "an embedder that is not there": (
        CORPUS + '[embedder]\nkind = "cohere"',
        "the setting embedder.kind: expected 'lexical', 'local', 'openai' or 'none'",
    ),
    **{
        f"{name} without a scheme": (
            CORPUS + f'[{name.partition(".")[0]}]\n{name.partition(".")[2]} = "localhost:8000/v1"',
            f"the setting {name}: expected an http or https URL, like http://localhost:{port}",
        )
        for name, port in (
            ("embedder.base_url", "8000/v1"),
            ("language_model.base_url", "8000/v1"),
            ("reranker.url", "8081/rerank"),
        )
    },
    "a remote source without a scheme": (
        CORPUS + '[remote.papers]\nurl = "search.example.org/api?q={query}"',
        "the setting remote.papers.url: expected an http or https URL, like https://search.example.org/api?q={{query}}",
    ),
    "a table with a slip in a key": (
        CORPUS + "[search]\nexactrows = 30",
        "the setting search.exactrows is not known: did you mean exact_rows?" + ALL,
    ),
    "one setting of Postgres for two claims": (
        CORPUS + '[principal.settings]\nuser_id = "app.id"\ntenant_id = "app.id"',
        "the setting principal.settings: app.id is there twice: each claim needs a setting of its own",
    ),
    "no algorithm": (
        CORPUS + "[principal.token]\nalgorithms = []",
        "the setting principal.token.algorithms: expected at least 1",
    ),
    **{
        f"files in {url!r}": (
            CORPUS + f'[artifacts]\nurl = "{url}"',
            "the setting artifacts.url: expected a folder or a URL; ~ is no home folder here, write its whole path",
        )
        for url in (" ", "~/runs")
    },
    "a port that is none": (
        CORPUS + "[metrics]\nport = 70000",
        "the setting metrics.port: expected at least 0 and at most 65535",
    ),
    "a level in small letters": (
        CORPUS + '[log]\nlevel = "debug"',
        "the setting log.level: expected 'DEBUG', 'INFO', 'WARNING' or 'ERROR'",
    ),
    "a bracket that stays open": (
        "[corpora",
        HERE + "Expected ']' at the end of a table declaration (at end of document)",
    ),
    "bytes": (b"\xff\xfe\x00", HERE + "expected TOML in UTF-8"),
    "lists in lists": ("a = " + "[" * 5000, HERE + "lists or tables are nested too deeply"),
}


@pytest.mark.parametrize(("content", "sentence"), WRONG.values(), ids=WRONG)
def test_a_settings_file_with_a_mistake_is_refused_in_one_sentence(
    content: str | bytes, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence names the setting as it is written in the file, and what is expected there."""
    file = tmp_path / "worker.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    with pytest.raises(SettingsError) as raised:
        load()
    assert raised.value.message == sentence.format(file=file)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some editors write one."""
    file = tmp_path / "worker.toml"
    file.write_bytes(b"\xef\xbb\xbf" + CORPUS.encode())
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    assert load().default_corpus == "books"


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("SERACH__EXACT_ROWS", "30", "SERACH__EXACT_ROWS is not known: did you mean {}SEARCH__EXACT_ROWS?"),
        ("SEARCH_EXACT_ROWS", "30", "SEARCH_EXACT_ROWS is not known: did you mean {}SEARCH__EXACT_ROWS?"),
        ("TRUST_QEUE", "true", "TRUST_QEUE is not known: did you mean {}TRUST_QUEUE?"),
        ("NONE__OF_OURS", "1", "NONE__OF_OURS is not known"),
        ("CACHE__TASKS", "retrieve_hybrid", 'CACHE__TASKS: expected JSON, like ["a"] or {{"a": "b"}}'),
        ("PRINCIPAL__OWNER_CLAIMS", "boss", 'PRINCIPAL__OWNER_CLAIMS: expected JSON, like ["a"] or {{"a": "b"}}'),
    ],
)
def test_a_variable_with_a_slip_is_named_as_it_was_written(
    variable: str, value: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what is likely meant. A wrong name would be ignored silently otherwise."""
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    monkeypatch.setenv(PREFIX + variable, value)
    with pytest.raises(SettingsError) as raised:
        load()
    assert raised.value.message == f"the setting {PREFIX}{sentence.format(PREFIX)}"


def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes sets such for services called retrieval-worker and retrieval-worker-metrics."""
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    for name in ("PORT", "SERVICE_HOST", "SERVICE_PORT", "METRICS_PORT", "PORT_9464_TCP", "PORT_9464_TCP_PROTO"):
        monkeypatch.setenv(PREFIX + name, "tcp://10.0.0.1:9464")
    assert load().metrics.port == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [("a = ", "glossary.toml: Invalid value"), ('a = "b"', "a: expected a list")],
)
def test_a_glossary_that_can_not_be_used_is_named(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start and the doctor look for it, because each job would fail without it."""
    file = tmp_path / "worker.toml"
    file.write_text(CORPUS)
    (tmp_path / "glossary.toml").write_text(content)
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    monkeypatch.setenv("DATABASE_CONNECTION_STRING", "postgresql://db/app")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://redis/0")
    (problem,) = [lack.problem for lack in lacking(load()) if lack.part == "glossary"]
    assert problem.startswith("settings file ")
    assert said in problem


@pytest.mark.parametrize("around", [" {}", "{} ", "{}\n", '"{}"', "'{}'"])
def test_what_a_shell_left_around_a_url_is_named(around: str) -> None:
    """White space and quotation marks can't be seen in most places."""
    said = "remove the white space or the quotation marks around it"
    assert string_problem(around.format("postgresql://u:p@localhost/db")) == (None if around == "{} " else said)
    url = around.format("redis://u:p@localhost/0")
    assert url_problem(url) in {said, None}
    if url_problem(url) is None:  # Python's parser accepts it; redis-py may not
        assert redis_refusal(ValueError(), url) == said


def test_a_password_that_breaks_a_uri_is_told_how_to_write_it() -> None:
    """A % that encodes nothing, or a space: libpq refuses the whole string."""
    for password in (f"{PIECES}%zz", f"{PIECES} x"):
        said = string_problem(f"postgresql://u:{password}@localhost/db")
        assert said is not None
        assert "percent-encoded" in said
        assert PIECES not in said


@pytest.mark.parametrize(("name", "said"), [("nowhere.toml", "No such file or directory"), (".", "Is a directory")])
def test_a_settings_file_that_can_not_be_read_is_named(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the operating system says it."""
    monkeypatch.setenv(CONFIG_VARIABLE, str(tmp_path / name))
    with pytest.raises(SettingsError) as raised:
        load()
    assert raised.value.message == f"settings file {tmp_path / name}: {said}"


PIECES = "hunter2"
"""Parts of a password that no message may show."""


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:p@{PIECES}@word@h.invalid/db",
        f"postgresql://u:p@{PIECES}.invalid/x@h.invalid/db",
        f"postgresql://u:p@{PIECES}.invalid?x=1@h.invalid/db",
        f"postgresql://u:p@{PIECES}.invalid,b@h.invalid/db",
        f"postgresql://u:{PIECES}@h.invalid:5432/db?{PIECES}!=1",
        f"postgresql://u:p?{PIECES}=@h.invalid/db",
    ],
)
def test_no_piece_of_a_password_of_postgres_is_shown(dsn: str) -> None:
    """Text before the last @ may be part of one; the sentence says how an @ is written."""
    said = string_problem(dsn)
    assert said is not None
    assert PIECES not in said


def test_a_host_behind_the_password_is_named() -> None:
    """It is none."""
    assert string_problem("postgresql://u:p%40@nowhere.invalid/db") == (
        "there is no host nowhere.invalid. Check its name, and that this machine can resolve it"
    )


def test_an_option_that_libpq_does_not_know_is_named() -> None:
    """As it is written."""
    said = string_problem("postgresql://u:p@localhost/db?sslmode=require&foo=bar")
    assert said == "foo is no parameter of libpq. Leave it out, or write it as its documentation does"


@pytest.mark.parametrize(
    "url",
    [
        f"redis://u:p@{PIECES}/w@h.invalid/0",
        f"redis://u:p@{PIECES}#w@h.invalid/0",
        f"redis://u:p@{PIECES}?w@h.invalid/0",
    ],
)
def test_no_piece_of_a_password_of_redis_is_shown(url: str) -> None:
    """The same of a URL of Redis."""
    said = url_problem(url) or ""
    assert "@ is %40" in said
    assert PIECES not in said
