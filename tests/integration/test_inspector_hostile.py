"""Every page that is served, made of 200 kinds of hostile texts: our markup only, our policy, nothing unseen."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from starlette.testclient import TestClient
from tests.integration.asking import asker
from tests.integration.hostile_site import QUESTIONS, TEXTS, HostileSite, dead_letter, evaluation
from tests.integration.inspecting import SIGN_IN, csrf, named
from tests.integration.parsed import parsed
from tests.unit.inspector.hostile import UNSEEN

from worker.inspector.reading import RunViews
from worker.inspector.web.app import ROUTES, make_app
from worker.jobs.engine import Engine
from worker.queue.overview import Overview
from worker.settings.serving import QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    import psycopg
    from tests.integration.parsed import Node

    from worker.settings import Settings

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
SCRIPTS = {"/static/htmx.min.js", "/static/inspector.js"}
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "link",
        "script",
        "body",
        "header",
        "nav",
        "main",
        "footer",
        "section",
        "article",
    ),
    *("div", "p", "span", "a", "strong", "h1", "h2", "h3", "ol", "ul", "li", "dl", "dt", "dd", "code", "br", "time"),
    *("form", "label", "input", "select", "option", "textarea", "button", "progress", "details", "summary", "noscript"),
    *("table", "thead", "tbody", "tr", "th", "td", "mark", "del", "ins", "svg", "rect", "title", "style"),
}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "rel", "href", "src", "defer", "class", "id", "title", "dir", "role"),
    *("method", "action", "type", "value", "required", "checked", "selected", "maxlength", "rows", "autocomplete"),
    *("scope", "tabindex", "datetime", "max", "download", "data-start", "data-label", "http-equiv", "hx-get"),
    *("hx-trigger", "hx-select", "hx-swap", "viewbox", "preserveaspectratio", "width", "height", "x", "rx", "open"),
    *("aria-current", "aria-label", "aria-labelledby", "aria-live"),
}
PER_RUN = 4
"""Kinds in the names of one run: its subject, its id, its step, its question."""

ALICE = asker("alice")


@pytest.fixture
def site(
    make_settings: Callable[..., Settings], database: str, tmp_path: Path, broker: Any
) -> Iterator[tuple[TestClient, Engine, Path]]:
    """A visitor who sees everything of alice's, and the queue; the engine; the folder of reports."""
    del broker  # emptied
    reports = tmp_path / "reports"
    reports.mkdir()
    settings = make_settings(
        database, artifacts={"url": str(tmp_path / "files")}, inspector={"evaluations": str(reports)}
    )
    engine = Engine(settings, time.perf_counter)
    overview = Overview(settings.broker_url.get_secret_value(), QUEUES)
    app: Any = make_app(settings, engine, overview, visitor=named())
    try:
        with TestClient(app, base_url="http://127.0.0.1", follow_redirects=False) as client:
            client.get(SIGN_IN)
            yield client, engine, reports
    finally:
        engine.close()


def visits(client: TestClient, address: dict[str, str], before: dict[str, str], texts: list[str], key: str) -> Any:
    """A visit of each route: its name, and how to make it."""
    client.get(SIGN_IN)  # the visit before ended with the session
    form = {"csrf": csrf(client)}  # type: ignore[arg-type] # it is an httpx.Client
    one, two, three, four = texts
    asked = {"question": one, "mode": two, "profile": three, "second": four}
    return {
        "runs": [
            lambda: client.get("/"),
            lambda: client.get("/", params={"subject_id": one, "outcome": two}),
            lambda: client.get("/", params={"text": one}),
        ],
        "run": [lambda: client.get("/run", params={**address, "all": "1"})],
        "source": [lambda: client.get("/source", params={**address, "label": "S1"})],
        "citations": [lambda: client.get("/citations", params=address)],
        "decide": [
            lambda: client.post("/citations/decide", data={**form, **address, "conflict": key, "decision": "accepted"})
        ],
        "drift": [lambda: client.get("/drift", params=address), lambda: client.get("/drift", params=before)],
        "report": [lambda: client.get("/report", params=address)],
        "quote": [lambda: client.post("/quote", data={**form, "text": f"{one} {two} {three}", "quote": two})],
        "ask": [
            lambda: client.post("/ask", data={**form, **asked}),
            lambda: client.post("/ask", data={**asked, "csrf": one}),
            lambda: client.get("/ask"),
        ],
        "asked": [lambda: client.get("/asked", params={"ticket": one})],
        "compare": [lambda: client.get("/compare", params={**address, "with": address["run"]})],
        "queue": [
            lambda: client.get("/queue"),
            lambda: client.post(
                "/queue", data={**form, "confirmed": "yes", "queue": one, "entry": two, "change": three}
            ),
        ],
        "evaluate": [lambda: client.get("/evaluate", params={"report": "report.json"})],
        "static": [lambda: client.get("/static/inspector.css")],
        "sign-in": [
            lambda: client.post("/sign-in", data={"token": one}),
            lambda: client.post("/sign-in", data={**asked, "key": one, "next": two}),
            lambda: client.get("/sign-in", params={**asked, "next": f"/run?{one}"}),
        ],
        "sign-out": [lambda: client.post("/sign-out", data=form)],
    }


def test_every_page_of_200_kinds_of_texts_is_our_markup_only(
    site: tuple[TestClient, Engine, Path], admin: psycopg.Connection[Any], broker: Any
) -> None:
    """List made from the routes; each kind in chunks, sections, titles and paths, and in a name of a run."""
    client, engine, reports = site
    hostile = HostileSite(engine, admin)
    assert len(TEXTS) >= 200
    before: dict[str, str] = {}
    statuses: dict[str, set[int]] = {}
    for i in range(0, len(TEXTS), PER_RUN):
        texts = (TEXTS[i : i + PER_RUN] + TEXTS[:PER_RUN])[:PER_RUN]
        hostile.write(TEXTS[i:] + TEXTS[:i])
        name = hostile.ask(*texts[:3], QUESTIONS[i // PER_RUN % 2] + texts[3])
        dead_letter(broker, texts[i // PER_RUN % PER_RUN])
        evaluation(reports, texts[i // PER_RUN % PER_RUN])
        conflicts = RunViews(engine.reading).citations(ALICE, name).conflicts
        address = {"subject": name.subject_id, "run": name.run_id, "step": name.step or ""}
        made = visits(client, address, before or address, texts, conflicts[0].key if conflicts else "none")
        assert made.keys() == {route.name for route in ROUTES}
        for route, calls in made.items():
            for call in calls:
                response = call()
                statuses.setdefault(route, set()).add(response.status_code)
                check(response, route)
        before = address
    assert not any(500 in found for found in statuses.values()), statuses
    read = ("runs", "run", "citations", "drift", "report", "quote", "compare", "queue", "evaluate", "static")
    assert all(statuses[route] == {200} for route in read), statuses
    assert 303 in statuses["decide"], "a conflict was decided on"
    assert 200 in statuses["source"]


def check(response: httpx.Response, route: str) -> None:
    """A strict policy; elements and attributes of ours; addresses of ours; no character that can't be seen."""
    assert response.headers["content-security-policy"] == POLICY
    assert "\n" not in "".join(response.headers.values())
    if route == "static" or not response.text:
        return
    assert response.headers["content-type"].startswith(("text/html", "text/plain"))
    assert not UNSEEN.search(response.text), route
    top = parsed(response.text)
    elements = [*top.every()]
    assert {one.tag for one in elements} <= TAGS, route
    assert {name for one in elements for name in one.given} <= ATTRIBUTES, route
    assert {one.given.get("src") for one in elements if one.tag == "script"} <= SCRIPTS, route
    assert all(not one.text for one in elements if one.tag == "script")
    assert len([one for one in elements if one.tag == "style"]) == (route == "report")
    assert all(_is_ours(one) for one in elements for name in ("href", "action", "hx-get") if name in one.given), route
    (main,) = top.every("main")
    assert main.above is not None
    assert main.above.tag == "body"


def _is_ours(element: Node) -> bool:
    """An address within this site, or a place on the page."""
    addresses = [element.given[name] for name in ("href", "action", "hx-get") if name in element.given]
    return all(re.match(r"/(?!/)|#", one) for one in addresses)
