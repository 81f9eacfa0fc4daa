"""From the tables of popular projects to the first right, authorised answer with its source named, in five commands."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.layouts import BLUE, LAYOUTS, RED, Layout, Row, rows
from tests.integration.provider import Provider, running

from worker.cli.devstack.workers import celery_worker, stack_environment
from worker.core.text import lexical

if TYPE_CHECKING:
    from tests.integration.adopting import Site

MOST_COMMANDS = 5


def fill(site: Site, layout: Layout) -> list[Row]:
    """Create the tables of a project and their rows, as the application's owner does."""
    made = rows(layout.dimensions)
    if layout.pgvector != "public":
        site.admin.execute(
            "DROP EXTENSION vector; CREATE SCHEMA extensions"
        )
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
    environment = {
        **stack_environment(
            site.stack,
            TRUST_QUEUE="true",
            CONFIG=str(site.folder / "adopted" / "worker.toml"),
            EMBEDDER__BASE_URL=provider.url,
            EMBEDDER__API_KEY="k",
        ),
        "DATABASE_CONNECTION_STRING": re.sub(r"//[^@]*@", "//retrieval_worker@", site.url),
    }
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
