"""The inspector's pages: who sees what, by every route; forms, headers, signing in; hostile texts."""

from __future__ import annotations

import html
import json
import re
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from markupsafe import escape
from pydantic import SecretStr
from tests.integration.asking import ask, asker
from tests.integration.inspecting import (
    ADDRESS,
    HUM,
    RUN,
    SIGN_IN,
    csrf,
    named,
    served,
    settings_of,
    token,
    visitor,
    without_secrets,
)
from tests.waiting import PATIENCE, wait_for

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import Unavailable
from worker.inspector.reading import RunViews
from worker.inspector.view.wording import said
from worker.inspector.web.app import ROUTES
from worker.inspector.web.asking import AT_ONCE, MOST_WAITING
from worker.inspector.web.pages import LONGEST_SEARCH, LONGEST_UNASKED
from worker.inspector.web.visits import ATTEMPTS, MOST_SESSIONS
from worker.jobs.engine import Engine
from worker.jobs.principal import as_principal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

WORDS = "The 50 Hz hum on channel 18 came back"
"""Words of a source that alice may see."""

OF_A_RUN: dict[str, dict[str, str]] = {
    "run": ADDRESS,
    "source": {**ADDRESS, "label": "S1"},
    "citations": ADDRESS,
    "decide": {**ADDRESS, "conflict": "x", "decision": "accepted"},
    "drift": ADDRESS,
    "report": ADDRESS,
    "compare": {**ADDRESS, "with": "r1"},
    "asked": {"ticket": "x"},
}
WITHOUT_A_RUN = {"runs", "quote", "ask", "queue", "evaluate", "sign-in", "sign-out", "static"}
HOSTILE = [
    "<script>document.title='stolen'</script>",
    "<img src=x onerror=alert(1)>",
    "</p></main><style>*{display:none}</style>",
    "{{ 7 * 7 }} {% raw %} ${7*7}",
    "\"><a href='javascript:alert(1)'>x</a>",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "\u202egnirts\u2066 hidden\u200b\ufeff\U000e0041",
    "\u0085\u2028\u2029 \x9b",
    "&lt;b&gt; &amp;amp; &#x3c;script&#x3e;",
    "<svg onload=alert(1)><![CDATA[x]]></svg><!-- ",
]
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e0fff]")


@pytest.fixture
def pages(
    make_settings: Callable[..., Settings], database: str, tmp_path: Any
) -> Iterator[tuple[str, Engine, Settings]]:
    """The address of the pages of an inspector that visitors sign in to, its engine and settings."""
    settings = settings_of(make_settings, database, tmp_path)
    engine = Engine(settings, time.perf_counter)
    try:
        with served(engine, settings) as url:
            yield url, engine, settings
    finally:
        engine.close()


def method(name: str) -> str:
    (route,) = (route for route in ROUTES if route.name == name)
    return "GET" if "GET" in (route.methods or ()) else "POST"


def visit(client: httpx.Client, name: str, given: dict[str, str]) -> httpx.Response:
    (path,) = (route.path for route in ROUTES if route.name == name)
    if method(name) == "GET":
        return client.get(path, params=given)
    return client.post(path, data={**given, "csrf": csrf(client)})


# --- who sees what ------------------------------------------------------------------------------


def test_the_routes_are_all_known_here() -> None:
    """A new route is put among those of a run, or among the others, before it can be forgotten."""
    assert {route.name for route in ROUTES} == OF_A_RUN.keys() | WITHOUT_A_RUN


@pytest.mark.parametrize("other", [{"user": "bob"}, {"tenant_id": "lighthouse"}], ids=["user", "tenant"])
@pytest.mark.parametrize("name", OF_A_RUN)
def test_another_callers_run_is_an_unknown_one(
    pages: tuple[str, Engine, Settings], name: str, other: dict[str, str]
) -> None:
    """By each route: the same 404 as for a run that does not exist, without a word of it, for her namesake as well."""
    url, engine, settings = pages
    ask(
        engine, as_principal({"user_id": "alice", "tenant_id": "harbour"}, settings, "principal"), question=HUM, run=RUN
    )
    with visitor(url, **other) as visitor_of_another:
        foreign = visit(visitor_of_another, name, OF_A_RUN[name])
        unknown = visit(visitor_of_another, name, {**OF_A_RUN[name], "subject": "no-such-subject"})
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert without_secrets(foreign.text) == without_secrets(unknown.text)
    assert WORDS not in foreign.text


def test_a_list_has_the_visitors_own_runs(pages: tuple[str, Engine, Settings]) -> None:
    """Newest first, by each filter, page by page; and nobody else's."""
    url, engine, _ = pages
    for i in range(3):
        ask(engine, question=HUM, run={"subject_id": "desk", "run_id": f"r{i}"})
    with visitor(url) as alice, visitor(url, "bob") as bob:
        names = re.findall(r"desk / (r\d)", alice.get("/").text)
        assert names == ["r2", "r1", "r0"]
        assert "desk / r" not in bob.get("/").text + bob.get("/", params={"text": "hum"}).text
        for wanted, count in (
            ({"task": "run_pipeline"}, 3),
            ({"task": "retrieve_top_k"}, 0),
            ({"mode": "grounded"}, 3),
            ({"outcome": "empty"}, 0),
            ({"outcome": "ok"}, 3),
            ({"drift": "unchecked"}, 3),
            ({"drift": "drifted"}, 0),
            ({"subject_id": "desk"}, 3),
            ({"subject_id": "other"}, 0),
            ({"text": "50 hz HUM"}, 3),
            ({"text": "K / r1"}, 1),
            ({"text": str(datetime.now(UTC).date())}, 3),
            ({"text": "50%hum"}, 0),
            ({"text": "no such words"}, 0),
            ({"text": f" hum{' ' * LONGEST_SEARCH}"}, 3),
            ({"since": "2999-01-01"}, 0),
            ({"until": "2999-01-01"}, 3),
            ({"before": "1"}, 0),
        ):
            assert len(re.findall(r"desk / (r\d)", alice.get("/", params=wanted).text)) == count, wanted


def test_rights_taken_away_between_two_clicks_are_gone_at_the_second(
    pages: tuple[str, Engine, Settings], admin: Admin
) -> None:
    """The answer is withheld, and no page has a word of the source any more."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    with visitor(url) as alice:
        assert WORDS in visit(alice, "run", ADDRESS).text
        admin.execute("DELETE FROM document_grants")
        admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol'")
        for name in ("run", "citations", "drift", "report", "source"):
            response = visit(alice, name, OF_A_RUN[name])
            assert WORDS not in response.text, name
            assert "came back in August" not in response.text, name
        assert "withheld" in visit(alice, "run", ADDRESS).text


def test_a_visitor_who_is_not_signed_in_sees_nothing(pages: tuple[str, Engine, Settings]) -> None:
    """Each page leads to the form to sign in."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    with httpx.Client(base_url=url) as client:
        for route in ROUTES:
            if route.name in {"sign-in", "sign-out", "static"}:
                continue
            response = client.request(method(route.name), route.path, params=OF_A_RUN.get(route.name, {}))
            assert response.status_code == 303
            assert response.headers["location"].partition("?")[0] == "/sign-in"


def test_the_queue_is_for_operators(pages: tuple[str, Engine, Settings], broker: Any) -> None:
    """By the claims that the settings name; a dead letter is deleted after a confirmation only."""
    url, _, _ = pages
    entry = broker.xadd(
        "retrieval.dead",
        {
            "at": "2026-01-01T00:00:00Z",
            "reason": "malformed",
            "error": "InvalidJob",
            "message": "m",
            "task": "t",
            "task_id": "i",
            "digest": "",
            "bytes": 1,
            "kept": "whole",
            "original": b"x",
            "deliveries": 1,
        },
    ).decode()
    broker.lpush("pipeline", b"waiting")
    with visitor(url, "bob") as bob, visitor(url, "olga", roles=["operator"]) as olga:
        assert bob.get("/queue").status_code == 404
        shown = olga.get("/queue").text
        assert "malformed" in shown
        change = {"csrf": csrf(olga), "queue": "retrieval", "entry": entry, "change": "purge"}
        assert "confirm" in olga.post("/queue", data=change).text
        assert broker.xlen("retrieval.dead") == 1
        assert bob.post("/queue", data={**change, "csrf": csrf(bob), "confirmed": "yes"}).status_code == 404
        assert "gone" in olga.post("/queue", data={**change, "confirmed": "yes", "entry": "no entry"}).text
        assert "Done" in olga.post("/queue", data={**change, "confirmed": "yes"}).text
        assert broker.xlen("retrieval.dead") == 0


# --- what is shown ------------------------------------------------------------------------------


def test_the_marks_of_a_source_are_the_stored_spans(pages: tuple[str, Engine, Settings]) -> None:
    """On the page: the same characters, at the same places, as the check of the answer found."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    view = RunViews(engine.reading).run(asker("alice"), RunName(**RUN)).views[0]
    with visitor(url) as alice:
        for source in (one for one in view.sources if one.quotes):
            page = alice.get("/source", params={**ADDRESS, "label": source.label}).text
            marks = re.findall(r'<mark data-start="(\d+)">([^<]*)</mark>', page)
            spans = sorted(span for quote in source.quotes for span in quote.spans)
            assert [(int(start), int(start) + len(text)) for start, text in marks] == spans
            assert all(text == source.text[int(start) : int(start) + len(text)] for start, text in marks)


def test_a_question_is_answered_and_recorded(pages: tuple[str, Engine, Settings]) -> None:
    """Its stages can be watched; then its run is shown. Two profiles are compared."""
    url, _, settings = pages
    profiles = [*settings.profiles][:2]
    with visitor(url) as alice, visitor(url, "bob") as bob:
        form = {"csrf": csrf(alice), "question": HUM, "mode": "grounded", "profile": profiles[0], "second": profiles[1]}
        asked = alice.post("/ask", data=form).headers["location"]
        assert bob.get(asked).status_code == 404
        deadline = time.monotonic() + 30
        while (response := alice.get(asked)).status_code != 303:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert response.headers["location"].startswith("/compare?subject=asked&run=")
        shown = alice.get(response.headers["location"]).text
        assert all(profile in shown for profile in profiles)
        assert WORDS in shown
        assert bob.get(response.headers["location"]).status_code == 404
        wrong = alice.post("/ask", data={**form, "question": " "})
        assert (wrong.status_code, "question" in wrong.text) == (400, True)


def test_visitors_take_turns_with_their_questions(
    pages: tuple[str, Engine, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One who asks many at once delays another by one answer; beyond a bound the next question is refused."""
    url, engine, _ = pages
    answered: list[str] = []
    may_answer, begun = threading.Semaphore(0), threading.Semaphore(0)

    def answer(job: Any, context: Any) -> dict[str, Any]:
        del job
        begun.release()
        assert may_answer.acquire(timeout=PATIENCE)
        answered.append(context.caller.owner)
        return {}

    monkeypatch.setattr(engine, "handlers", {**engine.handlers, "run_pipeline": answer})
    with visitor(url) as alice, visitor(url, "bob") as bob:
        form = {"question": HUM, "mode": "grounded", "csrf": csrf(alice)}
        for _ in range(AT_ONCE):
            assert alice.post("/ask", data=form).status_code == 303
            assert begun.acquire(timeout=PATIENCE)
        for _ in range(MOST_WAITING):
            assert alice.post("/ask", data=form).status_code == 303
        refused = alice.post("/ask", data=form)
        assert (refused.status_code, "wait for an answer first" in refused.text) == (400, True)
        asked = bob.post("/ask", data={**form, "csrf": csrf(bob)}).headers["location"]
        may_answer.release(AT_ONCE + 2)
        wait_for(lambda: len(answered) == AT_ONCE + 2)
        assert "bob" in answered
        wait_for(lambda: bob.get(asked).status_code == 303)
        may_answer.release(MOST_WAITING)
        wait_for(lambda: len(answered) == AT_ONCE + MOST_WAITING + 1)


def test_a_decision_on_a_conflict_is_kept_with_the_run(pages: tuple[str, Engine, Settings]) -> None:
    """The latest counts; the sources stay as they are, and an unknown conflict is a 404."""
    url, engine, _ = pages
    ask(engine, question="noise floor of the stereo bus of the Calder 32 desk, unweighted", run=RUN)
    name = RunName(**RUN)
    (conflict, *_) = RunViews(engine.reading).citations(asker("alice"), name).conflicts
    with visitor(url) as alice:
        given = {**ADDRESS, "conflict": conflict.key}
        for decision in ("dismissed", "accepted", "dismissed"):
            assert visit(alice, "decide", {**given, "decision": decision}).status_code == 303
        assert "decided-dismissed" in alice.get("/citations", params=ADDRESS).text
        assert visit(alice, "decide", {**given, "conflict": "0" * 16, "decision": "accepted"}).status_code == 404
        assert visit(alice, "decide", {**given, "decision": "deleted"}).status_code == 404
    (decided,) = (one for one in RunViews(engine.reading).citations(asker("alice"), name).conflicts if one.decision)
    assert (decided.key, decided.decision) == (conflict.key, "dismissed")


def test_drift_shows_the_words_that_changed(pages: tuple[str, Engine, Settings], admin: Admin) -> None:
    """Of an edited chunk that the visitor may see, if the run's citations were stored."""
    url, engine, _ = pages
    answer = ask(engine, question=HUM, run=RUN)
    from retrieval_client.contract.base import parse_job
    from retrieval_client.contract.run_jobs import BuildCitations
    from worker.jobs.context import JobContext

    engine.citing.build(parse_job(BuildCitations, {"cite": RUN, "run": RUN}), JobContext(lambda: asker("alice")))
    cited = [citation["chunk_id"] for citation in answer["citations"]]
    edit = "UPDATE document_chunks SET text_content = replace(text_content, 'August', 'December') WHERE id = ANY(%s)"
    admin.execute(edit, [cited])
    with visitor(url) as alice:
        shown = alice.get("/drift", params=ADDRESS).text
        assert re.search(r'<del class="removed">August\s*</del><ins>December\s*</ins>', shown)
        assert "withheld" in alice.get("/run", params=ADDRESS).text


def test_a_quote_is_checked(pages: tuple[str, Engine, Settings]) -> None:
    """Both texts with what differs, and what was left out; the words are in no address."""
    url, _, _ = pages
    text = "It was quiet. The gain of the desk may not be 3.5 dB above the floor. Nothing else was measured."
    checked = {
        "altered": ("gain of the desk may not be 35 dB", r"<dt>quote</dt>.*<dt>source</dt>.*<dt>differs</dt>"),
        "elided": ("gain of the desk may … be 3.5 dB", r"<dd.*<del>not</del>"),
        "not_found": ("the lightning struck twice", r"<dt>quote</dt>"),
    }
    with visitor(url) as alice:
        for verdict, (quote, shown) in checked.items():
            response = alice.post("/quote", data={"csrf": csrf(alice), "text": text, "quote": quote})
            assert f'<span class="badge {said("quote", verdict).tone}">{said("quote", verdict).words}' in response.text
            assert re.search(shown, response.text, re.DOTALL), verdict
            assert response.url.query == b""


def test_a_page_that_breaks_says_nothing_of_why(
    pages: tuple[str, Engine, Settings], admin: Admin, capfd: pytest.CaptureFixture[str]
) -> None:
    """A record that can't be read: 500, and neither the page nor the log has a word of it."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    admin.execute("""UPDATE retrieval.run_records SET answer = '{"package": "canary", "response": "canary"}'""")
    with visitor(url) as alice:
        response = visit(alice, "run", ADDRESS)
    assert response.status_code == 500
    captured = capfd.readouterr()
    assert "canary" not in response.text + captured.out + captured.err


def test_a_question_that_failed_can_be_asked_again(
    pages: tuple[str, Engine, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page shows the question, and a button asks it with the same mode and profiles."""
    url, engine, _ = pages

    def fails(job: Any, context: Any) -> dict[str, Any]:
        raise Unavailable(f"no answer to {job.profile} for {context.caller.owner}")

    monkeypatch.setattr(engine, "handlers", {**engine.handlers, "run_pipeline": fails})
    with visitor(url) as alice:
        first = {
            "question": HUM + " <b>",
            "mode": "grounded",
            "profile": "dense",
            "second": "hybrid",
            "csrf": csrf(alice),
        }
        form = first
        for _ in range(2):
            asked = alice.post("/ask", data=form).headers["location"]
            wait_for(lambda: "Ask again" in alice.get(asked).text)  # noqa: B023 -- called in this round
            shown = alice.get(asked).text
            assert shown.count("no answer to") == 2
            assert "<h1" in shown.partition(str(escape(HUM + " <b>")))[0]
            again = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', shown.partition('/ask">')[2]))
            form = {name: html.unescape(value) for name, value in again.items()}
        assert form == first


def test_profiles_that_need_a_model_are_not_offered_without_one(pages: tuple[str, Engine, Settings]) -> None:
    """The tests' settings have none."""
    url, _, settings = pages
    with visitor(url) as alice:
        offered = {*re.findall(r'<option value="(\w+)"', alice.get("/ask").text)}
    assert {"llm_rerank", "hyde_hybrid", "multi_query"} <= settings.profiles.keys()
    assert offered & settings.profiles.keys() == settings.profiles.keys() - {"llm_rerank", "hyde_hybrid", "multi_query"}


def test_two_answers_have_names_and_marks(pages: tuple[str, Engine, Settings]) -> None:
    """Of what stands on one side only: facts, words, sources."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN, profile="dense", k=2)
    ask(engine, question=HUM, run={**RUN, "run_id": "r2"}, profile="hybrid", k=5)
    with visitor(url) as alice:
        shown = alice.get("/compare", params={**ADDRESS, "with": "r2"}).text
        same = alice.get("/compare", params={**ADDRESS, "with": "r1"}).text
    assert all(name in shown for name in ("A: dense", "B: hybrid", "only in B"))
    assert {"dense", "hybrid", "2", "5"} <= {*re.findall(r'<span class="differs">([^<]*)</span>', shown)}
    assert same.count("differs") == 1, "the legend"


def test_a_run_with_conflicts_says_so_on_its_first_page(pages: tuple[str, Engine, Settings]) -> None:
    """And leads to them; a run without says nothing."""
    url, engine, _ = pages
    ask(engine, question="noise floor of the stereo bus of the Calder 32 desk, unweighted", run=RUN)
    count = len(RunViews(engine.reading).citations(asker("alice"), RunName(**RUN)).conflicts)
    ask(engine, question=HUM, run={**RUN, "run_id": "r2"}, k=1)
    with visitor(url) as alice:
        shown = visit(alice, "run", ADDRESS).text
        assert f"{count} conflict" in shown
        assert "/citations?subject=desk&amp;run=r1#conflicts-heading" in shown
        assert "conflict" not in visit(alice, "run", {**ADDRESS, "run": "r2"}).text


def test_a_source_stands_in_its_document(pages: tuple[str, Engine, Settings], admin: Admin) -> None:
    """Between the chunks next to it, in their order, as far as row-level security lets the visitor see them."""
    url, engine, _ = pages
    answer = ask(engine, question=HUM, run=RUN)
    chunk, label = answer["citations"][0]["chunk_id"], answer["citations"][0]["label"]
    admin.execute("UPDATE document_chunks SET page = 7 WHERE id = %s", [chunk])
    for i, page in enumerate((5, 6, 8, 9)):
        admin.execute(
            "INSERT INTO document_chunks (id, document_id, text_content, page, embedding)"
            " SELECT %s, document_id, %s, %s, embedding FROM document_chunks WHERE id = %s",
            [f"near-{i}", f"neighbour {i}", page, chunk],
        )
    address = {**ADDRESS, "label": label}
    with visitor(url) as alice:
        shown = visit(alice, "source", address).text
        in_order = ("neighbour 0", "neighbour 1", 'id="here"', "neighbour 2", "neighbour 3")
        places = [shown.index(text) for text in in_order]
        assert places == sorted(places)
        admin.execute("CREATE POLICY hidden ON document_chunks AS RESTRICTIVE FOR SELECT USING (id <> 'near-1')")
        shown = visit(alice, "source", address).text
        assert ("neighbour 0" in shown, "neighbour 1" in shown) == (True, False)
        for stored, is_link in (
            ("https://desk.example/a?b=c#page=7", True),
            *((wrong, False) for wrong in ("javascript:alert(1)", "https://a.example/\u202egnp", "//a.example")),
        ):
            metadata = json.dumps({"source_url": stored})
            admin.execute("UPDATE document_chunks SET metadata = %s WHERE id = %s", [metadata, chunk])
            links = re.findall(r'<a href="([^"]*)" rel="noreferrer', visit(alice, "source", address).text)
            assert links == [str(escape(stored))] * is_link, stored


# --- hostile texts ------------------------------------------------------------------------------


def test_a_hostile_text_is_text_on_every_page(pages: tuple[str, Engine, Settings], admin: Admin) -> None:
    """In chunks, titles, sections, paths and names of runs: no markup, and nothing that can't be seen."""
    url, engine, _ = pages
    with visitor(url) as alice:
        for i, hostile in enumerate(HOSTILE):
            admin.execute("UPDATE document_chunks SET text_content = text_content || %s, section = %s", [hostile] * 2)
            admin.execute("UPDATE documents SET title = %s, path = %s", [hostile, hostile])
            address = {"subject": "desk", "run": f"r{i}{hostile}"}
            ask(engine, question=HUM + hostile, run={"subject_id": "desk", "run_id": address["run"]})
            for name in ("runs", "run", "citations", "drift", "report", "source"):
                response = visit(alice, name, {**OF_A_RUN[name], **address} if name != "runs" else {})
                assert response.status_code == 200, name
                assert not CONTROL.search(response.text), name
                assert not re.search(r"<(script>|img|a href='|style>\*|svg onload|!--)", response.text), name


def test_a_text_of_a_megabyte_is_shown_in_parts(pages: tuple[str, Engine, Settings], admin: Admin) -> None:
    """A run's page stays small; the whole source is a page of its own."""
    url, engine, _ = pages
    admin.execute("UPDATE document_chunks SET text_content = text_content || repeat(' lorem', 170000)"
                  " WHERE id = 'report-2024-desk-budget-006'")  # fmt: skip
    ask(engine, question=HUM, run=RUN)
    with visitor(url) as alice:
        for name in ("run", "citations", "drift"):
            response = visit(alice, name, OF_A_RUN[name])
            assert response.status_code == 200
            assert len(response.content) < 200_000, name


# --- forms, headers, signing in -----------------------------------------------------------------


def test_every_response_has_the_headers(pages: tuple[str, Engine, Settings]) -> None:
    """A strict policy without exceptions for inline code or style; nothing is stored by the browser."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    with visitor(url, roles=["operator"]) as alice:
        for route in ROUTES:
            if route.name == "sign-out":
                continue
            response = visit(alice, route.name, {**OF_A_RUN.get(route.name, {})})
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["referrer-policy"] == "no-referrer"
            assert response.headers["cache-control"] == "no-store" or route.name == "static"
            if route.name != "report":  # a file, with its style inside
                assert not re.search(r"\sstyle=|<style|\son\w+=", response.text), route.name


def test_a_form_needs_the_token_of_its_session(pages: tuple[str, Engine, Settings]) -> None:
    """Without it, with another's, from another site, without a length, or too long: refused."""
    url, _, _ = pages
    with visitor(url) as alice, visitor(url, "bob") as bob:
        form = {"text": "a b c", "quote": "a b c"}
        assert alice.post("/quote", data=form).status_code == 403
        assert alice.post("/quote", data={**form, "csrf": csrf(bob)}).status_code == 403
        form["csrf"] = csrf(alice)
        assert alice.post("/quote", data=form).status_code == 200
        assert alice.post("/quote", data=form, headers={"sec-fetch-site": "cross-site"}).status_code == 403
        assert alice.post("/quote", content=iter([b"csrf=x"])).status_code == 411
        assert alice.post("/quote", content=b"x" * 4_000_001).status_code == 413


def test_a_deep_link_is_kept_through_signing_in(pages: tuple[str, Engine, Settings]) -> None:
    """With its parameters; an address that is not one of this site's pages is never gone to."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    with httpx.Client(base_url=url) as client:
        to = client.get("/source", params={**ADDRESS, "label": "S1"}).headers["location"]
        form = client.get(to).text
        (place,) = re.findall(r'name="next" value="([^"]*)"', form)
        signed_in = client.post("/sign-in", data={"token": token(), "next": html.unescape(place)})
        assert signed_in.headers["location"] == "/source?subject=desk&run=r1&label=S1"
        assert client.get(signed_in.headers["location"]).status_code == 200
        for wrong in (
            *("//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/@evil.example"),
            *("/run?x\r\nset-cookie: a=b", "/run?\u2028", "/run?" + "x" * 3000, " /run", "run", "/.evil.example", ""),
        ):
            assert 'name="next" value="/"' in client.get("/sign-in", params={"next": wrong}).text, wrong
            response = client.post("/sign-in", data={"token": token(), "next": wrong})
            assert response.headers["location"] == "/", wrong


def test_a_question_of_a_session_that_ended_is_kept(pages: tuple[str, Engine, Settings]) -> None:
    """It is in the form after signing in again, in this session only; it was not asked, nor put in an address."""
    url, _, _ = pages
    with httpx.Client(base_url=url) as client, visitor(url, "bob") as bob:
        form = {"question": HUM + ' "<b>', "mode": "grounded", "profile": "dense", "csrf": "of an old session"}
        ended = client.post("/ask", data=form)
        fields = {name: html.unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', ended.text)}
        assert (ended.status_code, fields["question"]) == (403, form["question"])
        assert "csrf" not in fields
        refused = client.post("/sign-in", data={**fields, "token": "x"}).text
        assert escape(form["question"]) in refused
        assert client.post("/sign-in", data={**fields, "token": token()}).headers["location"] == "/ask"
        shown = client.get("/ask").text
        assert f">{escape(form['question'])}</textarea>" in shown
        assert '<option value="dense" selected>' in shown
        assert "hum" not in client.get("/").text + bob.get("/ask").text
        expired = client.post("/ask", data={**form, "question": "another hum"})
        assert (expired.status_code, "kept" in expired.text) == (403, True)
        assert ">another hum</textarea>" in client.get("/ask").text
        asked = client.post("/ask", data={**form, "csrf": csrf(client)})
        assert asked.status_code == 303
        assert "hum" not in client.get("/ask").text
        client.cookies.clear()
        for longest in (LONGEST_UNASKED, 1_000_000):
            assert client.post("/ask", data={"question": "x" * longest}).headers["location"] == "/sign-in?next=%2Fask"


def test_a_page_that_is_not_there_has_the_navigation(pages: tuple[str, Engine, Settings]) -> None:
    """Of a visitor; a stranger gets none."""
    url, _, _ = pages
    with visitor(url) as alice, httpx.Client(base_url=url) as stranger:
        shown = [client.get("/no-such-page") for client in (alice, stranger)]
    assert [page.status_code for page in shown] == [404, 404]
    assert ['aria-label="Pages"' in page.text for page in shown] == [True, False]


def test_times_are_words_with_the_exact_one_beside(pages: tuple[str, Engine, Settings], admin: Admin) -> None:
    """In the list of runs and among the events."""
    url, engine, _ = pages
    ask(engine, question=HUM, run=RUN)
    admin.execute("UPDATE retrieval.runs SET created_at = now() - interval '3 hours'")
    with visitor(url) as alice:
        listed = alice.get("/").text
    assert re.search(r'<time datetime="(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^"]*)" title="\1">3 hours ago</time>', listed)


def test_a_token_signs_in_once_and_for_this_task_only(pages: tuple[str, Engine, Settings]) -> None:
    """The cookie is no script's and no other site's, and short-lived; signing out ends the session."""
    url, _, _ = pages
    with httpx.Client(base_url=url) as client:
        mine = token()
        first = client.post("/sign-in", data={"token": mine})
        cookie = first.headers["set-cookie"].lower()
        assert first.status_code == 303
        assert all(part in cookie for part in ("httponly", "samesite=strict", "max-age=1800", "path=/"))
        assert mine not in first.headers["location"]
        for wrong in (
            mine,
            token(task="retrieve_top_k"),
            token(key="another key of thirty-two bytes, and more"),
            token(seconds=-60),
            token(args_sha256="0" * 64),
            "no token",
        ):
            refused = client.post("/sign-in", data={"token": wrong})
            assert refused.status_code == 403
            assert wrong not in refused.text or wrong == "no token"
        assert client.get("/").status_code == 200
        client.post("/sign-out", data={"csrf": csrf(client)})
        assert client.get("/").status_code == 303


def test_a_used_token_is_used_after_a_restart(
    make_settings: Callable[..., Settings], database: str, tmp_path: Any, engine: Engine, stack: Stack, broker: Any
) -> None:
    """And in another inspector of the same broker, by the rights that the inspector's user has; without Redis: 503."""
    del broker  # emptied
    settings = settings_of(make_settings, database, tmp_path)
    settings = settings.model_copy(update={"broker_url": SecretStr(stack.redis.url(0, "inspector"))})
    mine = token()
    codes = []
    for _ in range(2):
        with served(engine, settings) as url:
            codes.append(httpx.post(f"{url}/sign-in", data={"token": mine}).status_code)
            assert httpx.post(f"{url}/sign-in", data={"token": token()}).status_code == 303
    assert codes == [303, 403]
    gone = settings.model_copy(update={"broker_url": SecretStr("redis://127.0.0.1:1/0")})
    with served(engine, gone) as url:
        assert httpx.post(f"{url}/sign-in", data={"token": token()}).status_code == 503


def test_attempts_to_sign_in_are_bounded(pages: tuple[str, Engine, Settings]) -> None:
    """Wrong ones: a visitor with a right token is not locked out by others behind the same proxy."""
    url, _, _ = pages
    with httpx.Client(base_url=url) as client:
        codes = [client.post("/sign-in", data={"token": "x"}).status_code for _ in range(ATTEMPTS + 1)]
        assert codes == [403] * ATTEMPTS + [429]
        assert client.post("/sign-in", data={"token": token()}).status_code == 303


def test_a_named_visitor_is_served_on_loopback_names_only(engine: Engine, settings: Settings) -> None:
    """Another name that leads to this machine is refused, so no other site can read through it; prefixes work."""
    with (
        served(engine, settings, visitor=named(), root="/inspector") as url,
        httpx.Client(base_url=url) as client,
    ):
        client.get(f"/inspector{SIGN_IN}")
        stripped = {"cookie": f"inspector_session={client.cookies['inspector_session']}"}
        assert client.get("/", headers=stripped).status_code == 200
        assert client.get("/inspector/").status_code == 200
        assert 'href="/inspector/ask"' in client.get("/inspector/").text
        assert client.get("/", headers={"host": "evil.example"}).status_code == 421
        assert client.get("/", headers={"host": "127.0.0.1.evil.example:80"}).status_code == 421


def test_a_named_visitors_session_needs_the_printed_key(engine: Engine, settings: Settings) -> None:
    """Another user of the machine, or another site, gets no session, and no number of their requests ends one."""
    ask(engine, question=HUM, run=RUN)
    with served(engine, settings, visitor=named()) as url, httpx.Client(base_url=url) as alice:
        pasted = alice.post("/sign-in", data={"key": f" {url}{SIGN_IN.replace('+', ' ')}", "next": "/run?run=r1"})
        assert pasted.headers["location"] == "/run?run=r1"
        alice.cookies.clear()
        assert alice.get(SIGN_IN).headers["location"] == "/"
        with httpx.Client(base_url=url) as other:
            for path in ("/", "/run?subject=desk&run=r1", "/queue", "/sign-in", "/sign-in?key=", "/sign-in?key=x%ff"):
                response = other.get(path, headers={"sec-fetch-site": "cross-site"})
                assert "set-cookie" not in response.headers, path
                assert (response.status_code, WORDS in response.text) != (200, True), path
            for path in ("/sign-in", "/sign-in?key=x", "/ask"):
                assert "set-cookie" not in other.post(path, data={"token": token(), "key": "x"}).headers, path
            for _ in range(MOST_SESSIONS + 5):
                other.get("/")
        assert WORDS in visit(alice, "run", ADDRESS).text


def test_cookies_are_secure_under_tls(engine: Engine, settings: Settings) -> None:
    """And the browser is told to come back by TLS."""
    with served(engine, settings, visitor=named(), is_secure=True) as url:
        response = httpx.get(url + SIGN_IN)
    assert "secure" in response.headers["set-cookie"].lower()
    assert "max-age" in response.headers["strict-transport-security"]


def test_the_three_faces_have_the_same_facts(pages: tuple[str, Engine, Settings]) -> None:
    """The page, the report and the answer itself: text, verdicts, chunks, and how many were dropped."""
    url, engine, _ = pages
    answer = PipelineAnswer.model_validate(ask(engine, question=HUM, run=RUN))
    with visitor(url) as alice:
        texts = [visit(alice, name, ADDRESS).text for name in ("run", "report")]
    for text in texts:
        plain = re.sub(r"<[^>]+>", "", text)
        assert "".join(str(answer.answer).split()) in "".join(plain.split())
        assert all(one.chunk_id in plain for one in answer.package.candidates)
        assert f"{len(answer.trace.left)} dropped" in plain
