"""Settings that are wrong as people get them wrong: one sentence names the setting and the mend."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from worker.adapters.postgres.refusals import string_problem
from worker.adapters.redis_refusals import url_problem
from worker.errors import SettingsError
from worker.settings import CONFIG_VARIABLE, load

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

WRONG = {
    "no corpora": ("[search]\nover_fetch = 30", NO_CORPORA),
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
    "a corpus without embedding": (
        CORPUS.replace('embedding = "vec"', ""),
        "the setting corpora.books.columns.embedding is missing",
    ),
    "a column that is not known": (
        CORPUS + 'title = "t"',
        "the setting corpora.books.columns.title is not known" + ALL,
    ),
    "a column that is a list": (
        CORPUS.replace('"id"', '["id"]'),
        "the setting corpora.books.columns.id: expected a valid string",
    ),
    "a table with its database": (
        CORPUS.replace('"books"', '"db.public.books"'),
        "the setting corpora.books.table: expected a name, or schema.name",
    ),
    "an index that is none": (
        CORPUS.replace("[corpora.books.c", 'index = "hnsw"\n[corpora.books.c'),
        "the setting corpora.books.index: expected 'vector' or 'halfvec'",
    ),
    "a language as people say it": (
        CORPUS.replace("[corpora.books.c", 'language = "English"\n[corpora.books.c'),
        "the setting corpora.books.language: expected a text search configuration in small letters: english",
    ),
    "documents without a table": (
        CORPUS + '[corpora.books.documents]\nid = "id"',
        "the setting corpora.books.documents.table is missing",
    ),
    "yes for true": (f'trust_queue = "si"\n{CORPUS}', "the setting trust_queue: expected true or false"),
    "a section with a slip": (CORPUS + "[serach]\nover_fetch = 30", "the setting serach is not known" + ALL),
    "a number in words": (
        CORPUS + '[search]\nover_fetch = "many"',
        "the setting search.over_fetch: expected a valid integer",
    ),
    "too much": (
        CORPUS + "[search]\nover_fetch = 100_000",
        "the setting search.over_fetch: expected at least 15 and at most 1000",
    ),
    "too little": (CORPUS + "[limits]\nmax_list = 1", "the setting limits.max_list: expected at least 768"),
    "no number": (CORPUS + "[search]\nnarrow_factor = nan", "the setting search.narrow_factor: expected at least 0"),
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
        "the setting embedder.kind: expected 'lexical' or 'openai'",
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
"""What no sentence may show of a password, wherever it was cut."""


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
    """What stands before the last @ may be one; the sentence says how an @ is written."""
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
    said = url_problem(url)
    assert said is not None
    assert "@ is %40" in said
    assert PIECES not in said
