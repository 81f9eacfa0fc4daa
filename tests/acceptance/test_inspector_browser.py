"""The inspector in a real Chromium: citations open their sources at the stored spans; no page fails axe."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest
from tests.integration.asking import ask, asker
from tests.integration.hostile_site import QUESTIONS, TEXTS, HostileSite, dead_letter
from tests.integration.inspecting import HUM, RUN, served, settings_of, token

from retrieval_client.contract.run_jobs import RunName
from worker.core.text.visible import visible
from worker.inspector.reading import RunViews
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg
    from playwright.sync_api import Browser, BrowserContext, Page

    from worker.settings import Settings

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
AXE = Path(__file__).with_name("axe") / "axe.min.js"
ADDRESS = "subject=desk&run=r1"
PAGES = (
    *("/", f"/run?{ADDRESS}", f"/citations?{ADDRESS}", f"/drift?{ADDRESS}", f"/source?{ADDRESS}&label=S1"),
    *("/quote", "/ask", "/queue", "/evaluate", f"/compare?{ADDRESS}&with=r2", "/run?subject=no&run=such"),
)

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on PATH: apt-get install chromium")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    with api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def inspected(
    make_settings: Callable[..., Settings], database: str, tmp_path: Path, broker: Any
) -> Iterator[tuple[str, Engine]]:
    """The address of the pages, with two runs of alice's, and the engine."""
    del broker  # emptied
    settings = settings_of(make_settings, database, tmp_path)
    engine = Engine(settings, time.perf_counter)
    try:
        for run_id in ("r1", "r2"):
            ask(engine, question=HUM, run={**RUN, "run_id": run_id})
        with served(engine, settings) as url:
            yield url, engine
    finally:
        engine.close()


def signed_in(browser: Browser, url: str, user: str = "alice", **options: Any) -> tuple[BrowserContext, Page]:
    """A window of a visitor who signs in by the form."""
    context = browser.new_context(base_url=url, viewport={"width": 1280, "height": 800}, **options)
    page = context.new_page()
    page.goto("/sign-in")
    page.fill("input[name=token]", token(user, roles=["operator"]))
    page.click("button:has-text('Sign in')")
    page.wait_for_url("**/")
    return context, page


def test_a_citation_opens_its_source_at_the_stored_spans(browser: Browser, inspected: tuple[str, Engine]) -> None:
    """By a click and by the keys: what is highlighted is what the spans say, and can be seen."""
    url, engine = inspected
    view = RunViews(engine.reading).run(asker("alice"), RunName(**RUN)).views[0]
    sources = {source.label: source for source in view.sources}
    context, page = signed_in(browser, url)
    page.goto(f"/run?{ADDRESS}")
    links = page.locator("a.cite")
    assert links.count() == sum(bool(segment.labels) for segment in view.answer.segments)
    for i in range(links.count()):
        links.nth(i).click()
        source = sources[links.nth(i).inner_text()]
        card = page.locator(f"#source-{source.label}")
        marks = card.locator("mark")
        spans = sorted(span for quote in source.quotes for span in quote.spans)
        assert marks.all_text_contents() == [source.text[start:end] for start, end in spans]
        assert [int(mark.get_attribute("data-start") or -1) for mark in marks.all()] == [start for start, _ in spans]
        assert "current" in (card.get_attribute("class") or "")
        page.wait_for_function(IS_SEEN, arg=marks.first.element_handle())
    for key, expected in (("n", 0), ("n", 1), ("p", 0), ("p", links.count() - 1)):
        page.keyboard.press(key)
        assert page.evaluate("[...document.querySelectorAll('a.cite')].indexOf(document.activeElement)") == expected
    context.close()


IS_SEEN = """mark => {
  const box = mark.getClientRects()[0];
  const seen = document.elementFromPoint(box.left + 2, box.top + box.height / 2);
  return seen === mark || mark.contains(seen);
}"""


def test_two_visitors_see_their_own_runs(browser: Browser, inspected: tuple[str, Engine]) -> None:
    """Side by side in one browser: bob gets for alice's run what he gets for one that is not there."""
    url, _ = inspected
    (alices, alice), (bobs, bob) = signed_in(browser, url), signed_in(browser, url, "bob")
    alice.goto("/")
    assert alice.locator("tbody tr").count() == 2
    bob.goto("/")
    assert bob.locator("tbody tr").count() == 0
    response = bob.goto(f"/run?{ADDRESS}")
    assert response is not None
    assert response.status == 404
    assert "hum" not in bob.inner_text("main")
    alices.close()
    bobs.close()


def test_a_question_shows_its_stages_and_leads_to_its_run(browser: Browser, inspected: tuple[str, Engine]) -> None:
    """With the script, without a click."""
    url, _ = inspected
    context, page = signed_in(browser, url)
    page.goto("/ask")
    page.fill("textarea[name=question]", HUM)
    page.click("button:has-text('Ask')")
    page.wait_for_url("**/run?subject=asked&run=*", timeout=30_000)
    assert page.locator("a.cite").count()
    page.go_back()
    assert page.url == f"{url}/ask", "the waiting page is not in the history"
    context.close()


def test_a_phone_shows_sources_first_and_candidates_as_cards(browser: Browser, inspected: tuple[str, Engine]) -> None:
    """The sources before the stopwatch; no page is wider than the screen."""
    url, _ = inspected
    context, page = signed_in(browser, url)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"/run?{ADDRESS}")
    tops = [page.locator(f"section[aria-labelledby={name}-heading]").bounding_box() for name in SECTIONS]
    assert [box["y"] for box in tops if box] == sorted(box["y"] for box in tops if box)
    assert page.evaluate("[...document.querySelectorAll('.cards td')].every((cell) => cell.scrollWidth <= 390)")
    assert page.locator(".cards td[data-label]").first.evaluate("(cell) => getComputedStyle(cell).display") == "block"
    for path in PAGES:
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
    context.close()


SECTIONS = ("answer", "sources", "stages")


def test_the_queue_looks_again_by_itself(browser: Browser, inspected: tuple[str, Engine], broker: Any) -> None:
    """Counts and rates; what a visitor is about to confirm below stays as it is."""
    url, _ = inspected
    dead_letter(broker, "x")
    context, page = signed_in(browser, url)
    page.goto("/queue")
    page.click("summary:has-text('Change')")
    page.check("input[name=confirmed]")
    broker.lpush("pipeline", b"waiting")
    page.wait_for_selector("#now th:has-text('arriving a minute')", timeout=60_000)
    row = page.locator("#now tr:has-text('pipeline') td").all_inner_texts()
    assert row[0] == "1"
    assert float(row[-2]) > 0
    assert page.is_checked("input[name=confirmed]")
    context.close()


def test_everything_can_be_read_without_javascript(browser: Browser, inspected: tuple[str, Engine]) -> None:
    """A citation is a link to its source on the same page."""
    url, _ = inspected
    context, page = signed_in(browser, url, java_script_enabled=False)
    page.goto(f"/run?{ADDRESS}")
    link = page.locator("a.cite").first
    target = link.get_attribute("href") or ""
    link.click()
    assert page.url.endswith(target)
    assert page.locator(f"{target} mark").count()
    context.close()


VIOLATIONS = """window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective), true);"""


def test_200_kinds_of_hostile_texts_run_no_script(
    browser: Browser, inspected: tuple[str, Engine], admin: psycopg.Connection[Any], broker: Any, tmp_path: Path
) -> None:
    """All of them on each page, the report as a file too: no violation of a policy, dialog, request or error."""
    url, engine = inspected
    hostile = HostileSite(engine, admin)
    share = -(-len(TEXTS) // 5)  # a fifth of all in each chunk: the answer has more sources than that
    hostile.write(["\n".join(TEXTS[i : i + share]) for i in range(0, len(TEXTS), share)])
    name = hostile.ask(*TEXTS[:3], QUESTIONS[1] + TEXTS[3])
    for text in TEXTS[:50]:
        dead_letter(broker, text)
    address = urlencode({"subject": name.subject_id, "run": name.run_id, "step": name.step or ""})
    context, page = signed_in(browser, url)
    said: list[str] = []
    page.add_init_script(VIOLATIONS)
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: None if request.url.startswith((url, "file:")) else said.append(request.url))
    report = tmp_path / "report.html"
    report.write_text(context.request.get(f"/report?{address}").text())
    pages = ["/", "/queue", *(f"{path}?{address}" for path in ("/run", "/citations", "/drift"))]
    pages += [f"/compare?{address}&{urlencode({'with': name.run_id})}", report.as_uri()]
    (view,) = RunViews(engine.reading).run(asker("alice"), name).views
    pages += [f"/source?{address}&label={source.label}" for source in view.sources]
    seen = ""
    for path in pages:
        response = page.goto(path)
        assert response is None or response.status == 200, path
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert page.evaluate("violations") == [], path
        assert page.locator("main img, main script, main iframe, main style, main base").count() == 0, path
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), path
        assert page.locator("main").count() == 1
        seen += page.inner_text("body")
    page.goto("/quote")
    page.fill("textarea[name=text]", "\n".join(TEXTS))
    page.fill("textarea[name=quote]", TEXTS[0])
    page.click("button:has-text('Check')")
    seen += page.inner_text("section p.text")
    assert page.evaluate("violations") == []
    assert said == []
    seen = " ".join(seen.split())
    assert [text for text in TEXTS if " ".join(visible(text).split()) not in seen] == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_violation(browser: Browser, inspected: tuple[str, Engine], scheme: str) -> None:
    """By axe-core, in both colour schemes: contrast, names, structure, focus."""
    url, _ = inspected
    context, page = signed_in(browser, url, color_scheme=scheme)
    found: dict[str, list[Any]] = {}
    for path in PAGES:
        page.goto(path)
        page.evaluate(AXE.read_text())  # as the debugger does, which the page's policy does not bind
        result = page.evaluate("axe.run()")
        found[path] = [
            (one["id"], [node["html"] for node in one["nodes"]][:3])
            for one in result["violations"]
            if one["impact"] in {"serious", "critical"}
        ]
    assert {path: violations for path, violations in found.items() if violations} == {}
    context.close()
