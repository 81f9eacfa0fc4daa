"""From the tables of popular projects to the first right, authorised answer with its source named, in five commands."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.layouts import BLUE, LAYOUTS, RED, Layout, Row, rows
from tests.integration.provider import Provider, running

from workbench.devstack.workers import celery_worker, stack_environment
from worker.core.text import lexical

if TYPE_CHECKING:
    from tests.integration.adopting import Site

MOST_COMMANDS = 5


def fill(site: Site, layout: Layout) -> list[Row]:
    """Create the tables of a project and their rows, as the application's owner does."""
    made = rows(layout.dimensions)
    if layout.pgvector != "public":
        site.admin.execute("DROP EXTENSION vector; CREATE SCHEMA extensions")
        site.admin.execute("CREATE EXTENSION vector SCHEMA extensions")
    site.admin.execute(layout.tables.encode())
    for row in made:
        values = {**asdict(row), "id": row.id, "document_id": row.document_id, **layout.values(row)}
        for statement in layout.insert:
            site.admin.execute(statement.encode(), values)
    return made


def choose_embedder(site: Site) -> None:
    """Choose the embedder that worker.toml guesses: its line away, the dashes of the guess too."""
    file = site.folder / "adopted" / "worker.toml"
    text = re.sub(r'(?m)^kind = "none".*\n', "", file.read_text())
    file.write_text(re.sub(r"(?m)^#(?=\S)", "", text))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_five_commands_lead_to_the_first_right_answer(site: Site, layout: Layout) -> None:
    """Each caller gets the right chunk of its own, under its document's name; and nothing is edited but choices."""
    made = fill(site, layout)
    with running() as provider:
        provider.embed = lambda texts: lexical.embed(texts, layout.dimensions).tolist()
        check_answers(site, layout, made, provider)


def check_answers(site: Site, layout: Layout, made: list[Row], provider: Provider) -> None:
    site.adopt()  # the first two
    commands = 2
    choose_embedder(site)
    site.choose(*([layout.claim] if layout.claim else []), everybody=not layout.claim, hidden=layout.hidden)
    commands += 1
    environment = environment_of(site, provider)
    with celery_worker(environment, site.folder / "worker.log", "--concurrency=1"):
        commands += 1
        for caller in (RED, BLUE):
            claims = {layout.claim or "user_id": caller}
            wanted = [row for row in made if layout.visible(row) and (not layout.claim or row.caller == caller)]
            row = wanted[-1]
            found = ask(site, row.text, claims, environment)
            assert found[0]["text"] == row.text
            assert {one["text"] for one in found} <= {one.text for one in wanted}
            assert len(found) == min(15, len(wanted))
            assert name_of(found[0], site) == layout.name(row)
        commands += 1
        check_question(site, made, layout, environment)
        if layout.claim:
            assert ask(site, made[0].text, {layout.claim: str(made[0].document_id)}, environment) == []
    assert commands <= MOST_COMMANDS


def environment_of(site: Site, provider: Provider | None = None) -> dict[str, str]:
    """The variables of the page, and where the embedder's server is."""
    server = {} if provider is None else {"EMBEDDER__BASE_URL": provider.url, "EMBEDDER__API_KEY": "k"}
    config = str(site.folder / "adopted" / "worker.toml")
    return {
        **stack_environment(site.stack, TRUST_QUEUE="true", CONFIG=config, **server),
        "DATABASE_CONNECTION_STRING": re.sub(r"//[^@]*@", "//retrieval_worker@", site.url),
    }


def ask(site: Site, question: str, claims: dict[str, Any], environment: dict[str, str]) -> list[dict[str, Any]]:
    done = site.run("query", question, "--as", json.dumps(claims), "--json", **environment)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["chunks"]
    return found


def check_question(site: Site, made: list[Row], layout: Layout, environment: dict[str, str]) -> None:
    """A question without a mode is answered from sources that have names, too."""
    claims = {layout.claim or "user_id": RED}
    row = next(one for one in made if layout.visible(one) and one.caller == RED)
    done = site.run("ask", row.text, "--as", json.dumps(claims), "--json", **environment)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert row.text in answer["answer"]
    assert layout.name(row) in answer["package"]["context_block"]


def name_of(chunk: dict[str, Any], site: Site) -> str:
    (corpus,) = site.settings().corpora.values()
    return str(chunk["metadata"].get(corpus.path_field) if corpus.path_field else chunk["document_id"])


def test_nothing_answers_a_text_until_the_right_embedder_is_chosen(site: Site) -> None:
    """Neither with none, nor with one that made other vectors; each is one sentence that says what to do."""
    layout = LAYOUTS["Spring AI"]
    made = fill(site, layout)
    site.adopt()
    site.choose(everybody=True)
    environment = environment_of(site)
    asked = ("query", made[0].text, "--as", "u1", "--timeout", "1")
    none = site.run(*asked, **environment)
    assert (none.returncode, none.stderr.count("\n")) == (78, 1)
    assert "no embedder is chosen, so nothing answers a text: set [embedder] in the settings" in none.stderr
    with running() as provider:
        provider.embed = lambda texts: (-lexical.embed(texts, layout.dimensions)).tolist()
        choose_embedder(site)
        other = site.run(*asked, **environment_of(site, provider))
    assert other.returncode == 78
    assert "those of text-embedding-3-small 1, which the settings name, are others" in other.stderr


def test_it_is_shown_what_callers_would_see_before_a_policy_is_there(site: Site) -> None:
    """Two callers with their rows, and the columns that may mean hidden with theirs, beside the choices."""
    fill(site, LAYOUTS["Django"])
    (corpus,) = site.adopt()["corpora"]
    seen = [f'{{"tenant_id": "{caller}"}} would see 12 of 24 rows' for caller in (RED, BLUE)]
    hidden = ["kb_document.status, 1 of 6", "kb_document.deleted_at, 1 of 6"]
    assert (corpus["rows"], corpus["callers"], corpus["may_be_hidden"]) == (24, {"tenant_id": seen}, hidden)
    text = (site.folder / "adopted" / "tables.sql").read_text()
    assert all(f"--   {line}\n" in text for line in seen)
    assert all(f"-- Choice: leave out rows by {line}.\n" in text for line in hidden)


def test_a_condition_is_written_once(site: Site) -> None:
    """Of a user's choice within a tenant's, where the documents decide both."""
    fill(site, LAYOUTS["Django"])
    site.admin.execute("ALTER TABLE kb_document ADD owner_id uuid")
    site.adopt()
    text = (site.folder / "adopted" / "tables.sql").read_text()
    (policy,) = re.findall(r"--CREATE POLICY retrieval_by_user_id ON public.kb_chunk .*", text)
    assert policy.count("EXISTS") == 1
