"""`retrieval-worker doctor`: settings that start a worker which then answers nothing, or fails every job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.integration.provider import running

from retrieval_client.errors import SettingsError
from worker.cli.doctor import examine
from worker.settings import read_values

from .asking import ask

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.jobs.engine import Engine
    from worker.settings import Settings

SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for


def said(settings: Settings, subject: str, level: str) -> list[str]:
    """The findings of one part and level."""
    return [one.text for one in examine(settings) if (one.subject, one.level) == (subject, level)]


def test_a_postgres_that_is_away_names_its_setting(make_settings: Callable[..., Settings]) -> None:
    """And how a password is written: one that cuts the host off leads nowhere too, and is not shown."""
    for dsn in (f"postgresql://u:{SECRET}@127.0.0.1:1/db", f"postgresql://127.0.0.1:1?{SECRET}@127.0.0.1:1/db"):
        (problem,) = said(make_settings(database_connection_string=dsn), "Postgres", "problem")
        assert SECRET not in problem
        assert "percent-encoded" in problem or "127.0.0.1:1?" in dsn
    away = make_settings(database_connection_string="postgresql://u@127.0.0.1:1/db")
    (problem,) = said(away, "Postgres", "problem")
    assert problem.startswith(
        "Postgres is away: check that it runs, and the host and port of DATABASE_CONNECTION_STRING"
    )


def test_a_table_that_no_policy_opens_is_named(settings: Settings, admin: psycopg.Connection[Any]) -> None:
    """Row-level security without a policy for the worker's role makes every answer empty, without an error."""
    sentence = "no policy of document_chunks lets this role SELECT, so every answer is empty: CREATE POLICY"
    assert not [one for one in said(settings, "corpus documents", "advice") if one.startswith("no policy")]
    names = admin.execute("SELECT policyname FROM pg_policies WHERE tablename = 'document_chunks'").fetchall()
    for (name,) in names:
        admin.execute(f'DROP POLICY "{name}" ON public.document_chunks'.encode())
    admin.execute("CREATE POLICY of_another ON public.document_chunks FOR SELECT TO pg_monitor USING (true)")
    admin.execute("CREATE POLICY to_write ON public.document_chunks FOR INSERT WITH CHECK (true)")
    assert [one for one in said(settings, "corpus documents", "advice") if one.startswith(sentence)]


def test_rows_that_anybody_sees_are_counted(settings: Settings, admin: psycopg.Connection[Any]) -> None:
    """As no one and as two invented callers, whatever types the policies cast claims to; all rows are an advice."""

    def counted(level: str) -> list[str]:
        return [one for one in said(settings, "corpus documents", level) if one.startswith("rows visible")]

    admin.execute("ANALYZE")
    (public,) = admin.execute(
        "SELECT count(*) FROM document_chunks JOIN documents d ON d.id = document_id WHERE visibility = 'public'"
    ).fetchone() or (0,)
    shown = f"rows visible to no one: {public}; to two invented callers: {public} and {public}; of about 107"
    assert counted("ok") == [shown]
    admin.execute("CREATE POLICY slip ON documents USING (true)")
    (advice,) = counted("advice")
    assert advice.startswith(
        "rows visible to no one: 107; to two invented callers: 107 and 107; of about 107. Every caller sees all of it"
    )
    admin.execute("DROP POLICY slip ON documents; DROP POLICY chunks_visible ON document_chunks")
    admin.execute(
        "CREATE POLICY cast_claims ON document_chunks USING (current_setting('app.tenant_id')::uuid IS NULL"
        " OR current_setting('app.user_id')::integer < 0 OR 'x' IN (SELECT jsonb_array_elements_text("
        "current_setting('app.roles')::jsonb)))"
    )
    none = "rows visible to no one: none, the policies fail; to two invented callers: 0 and 0; of about 107"
    assert counted("ok") == [none]


def test_a_setting_that_a_policy_reads_and_no_claim_sets_is_named(
    settings: Settings, admin: psycopg.Connection[Any], engine: Engine
) -> None:
    """By doctor, and by the error of each job if the policy does not let it be missing."""
    assert not [one for one in said(settings, "corpus documents", "advice") if "reads the setting" in one]
    admin.execute("CREATE POLICY slip ON public.document_chunks USING (current_setting('app.tenannt') = document_id)")
    (advice,) = [one for one in said(settings, "corpus documents", "advice") if "reads the setting" in one]
    assert advice.endswith("reads the setting app.tenannt, to which principal.settings maps no claim")
    with pytest.raises(SettingsError, match=r"^a policy reads the setting app\.tenannt, which the worker does not set"):
        ask(engine, question="What hums on channel 18?", searches=[{"corpus": "documents"}])


def test_a_table_that_was_never_analysed_is_named(settings: Settings, admin: psycopg.Connection[Any]) -> None:
    """Its number of rows would be a guess; once analysed, it is told."""
    admin.execute("ANALYZE doc_embeddings")
    assert "about 111 rows" in said(settings, "corpus docs", "ok")
    admin.execute("UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid = 'doc_embeddings'::regclass")
    (advice,) = [one for one in said(settings, "corpus docs", "advice") if "never analysed" in one]
    assert advice.endswith(": ANALYZE doc_embeddings")
    assert not [one for one in said(settings, "corpus docs", "ok") if "rows" in one]


def test_hybrid_searches_that_nobody_names_are_named(make_settings: Callable[..., Settings], database: str) -> None:
    """A settings file of one's own has none: the first job would be the one to say so."""
    (advice,) = said(make_settings(database, hybrid={"searches": {}}), "hybrid", "advice")
    assert advice == (
        "hybrid.searches is empty: each retrieve_hybrid job without searches of its own fails. Name your corpora there"
    )


def test_a_field_of_metadata_that_no_row_has_is_named(
    make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """Citations show document ids then, and `temporal` finds no date. Rows that policies may hide are not judged."""
    corpora = read_values()["corpora"]
    public, hidden = corpora["docs"] | {"path_field": "page_nam"}, corpora["documents"] | {"path_field": "no such"}
    slipped = make_settings(database, corpora=corpora | {"docs": public, "documents": hidden})
    assert "path_field" not in str(said(slipped, "corpus documents", "advice"))
    assert (
        "path_field is page_nam, a field that the metadata of none of 111 rows has: name another one, or leave it out"
    ) in said(slipped, "corpus docs", "advice")
    columns = {name: column for name, column in corpora["docs"]["columns"].items() if name != "metadata"}
    bare = public | {"columns": columns, "date": "day", "metadata_columns": {"page_nam": "page_name"}}
    assert said(make_settings(database, corpora=corpora | {"docs": bare}), "corpus docs", "advice") == [
        "date is day, a field that the metadata of no row has: name another one, or leave it out"
    ]
    admin.execute('UPDATE doc_embeddings SET metadata = metadata || \'{"page_nam": "x"}\'')
    assert said(slipped, "corpus docs", "advice") == []


def test_a_server_of_models_that_is_away_names_its_setting(make_settings: Callable[..., Settings]) -> None:
    """Jobs wait for it, which only the settings can change."""
    away = {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", "api_key": SECRET}
    (advice,) = said(make_settings(language_model=away), "language model", "advice")
    assert advice.endswith(": check language_model.base_url and its key")


@pytest.mark.parametrize("level", ["ok", "problem"])
def test_an_embedder_is_asked_for_as_many_numbers_as_corpora_have(
    make_settings: Callable[..., Settings], level: str
) -> None:
    """A model that takes no wish for them is right where it gives a corpus's number, and wrong where it gives more."""
    wide = {"documents": read_values()["corpora"]["documents"] | {"dimensions": 1536}}
    with running() as provider:
        provider.embed = lambda texts: np.ones((len(texts), 1536 if level == "ok" else 3072)).tolist()
        model = {"kind": "openai", "base_url": provider.url, "api_key": SECRET, "send_dimensions": False}
        (finding,) = said(make_settings(corpora=wide, embedder=model), "embedder", level)
    assert finding.startswith(
        "text-embedding-3-small 1 embeds" if level == "ok" else "the model text-embedding-3-small"
    )
