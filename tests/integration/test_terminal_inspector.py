"""The inspector in a terminal of 80 × 24, by its keys, on real runs: what it shows, and to whom."""

from __future__ import annotations

import asyncio
import functools
import re
import time
from typing import TYPE_CHECKING, Any

import psycopg
from tests.integration.asking import HUM, ask, asker
from tests.integration.terminal import SIZE, UNSEEN, desk_of, seated

from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import Unavailable
from worker.adapters.postgres.run_list import RunFilter
from worker.inspector.reading import RunViews
from worker.inspector.terminal.desk import UNKNOWN
from worker.inspector.terminal.lines import CURRENT
from worker.inspector.view.wording import said

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from worker.jobs.engine import Engine
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]

RUN = {"subject_id": "desk", "run_id": "r1"}
WORDS = "50 Hz hum on channel 18 came back"
"""Words of a source that alice may see."""

HOSTILE = "[red]x[/red] [/] \x1b[2J\x1b]0;title\x07\x9b31m\u202egnp\u2066\u200b\U000e0041 <b>"


def keyed(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test that presses keys."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))  # type: ignore[arg-type] # a coroutine

    return run


@keyed
async def test_a_question_goes_on_and_leads_to_every_pane(engine: Engine, settings: Settings) -> None:
    """Stages as they happen, the answer with its sources; a second question of the conversation; then by digits."""
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        seen = []
        show = seat.app._progress
        seat.app._progress = lambda stage, done, total: (seen.append(stage), show(stage, done, total))  # type: ignore[method-assign] # to see what is shown
        await seat.write(HUM)
        await seat.until(lambda: "[S1]" in seat.pane("conversation"))
        assert {"waiting", "search", "execute"} <= {*seen}
        assert all(
            said in seat.pane("conversation") for said in (HUM, "copied word for word", "reports/2023/mixing-desk.pdf")
        )
        await seat.press("2")
        assert HUM in seat.pane("text")
        await seat.press("i")
        await seat.write("And what was done against it?")
        await seat.until(lambda: seat.pane("conversation").count("its trace") == 2)
        names = [RunName(subject_id=run.subject_id, run_id=run.run_id) for run in seat.app._desk.runs(*WHOLE_LIST)]
        assert len(names) == 2
        records = [engine.reading.records(asker("alice"), name)[0] for name in names]
        assert len({record.job["conversation_id"] for record in records}) == 1
        for key, pane, said in (
            *(
                ("2", "text", "And what was done against it?"),
                ("3", "trace", "Stages"),
                ("4", "citations", "Citations"),
            ),
            *(("5", "drift", "digest"), ("1", "conversation", "its trace")),
        ):
            await seat.press(key)
            assert said in seat.pane(pane)
            assert said in seat.screen()
        await seat.press("6", "down", "enter")
        assert HUM in seat.pane("text")


@keyed
async def test_a_conflict_is_accepted_or_dismissed_as_in_a_browser(
    engine: Engine, settings: Settings, admin: Admin
) -> None:
    """Kept with the run, the latest counts; with rights taken away meanwhile nothing is kept, and nothing shown."""
    ask(engine, question="noise floor of the stereo bus", run=RUN)
    views, name = RunViews(engine.reading), RunName(**RUN)

    def decisions() -> list[str | None]:
        return [one.decision for one in views.citations(asker("alice"), name).conflicts]

    assert len(decisions()) > 1
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6", "enter", "a")
        assert set(decisions()) == {None}
        await seat.press("4", "d", "n", "d", "a")
        assert decisions()[:2] == ["dismissed", "accepted"]
        assert seat.pane("citations").index("dismissed") < seat.pane("citations").index("accepted")
        (current,) = (
            row.plain[span.start : span.end]
            for row in seat.app.query_one("#citations")._rows
            for span in row.spans
            if span.style == CURRENT
        )
        assert current == "possible disagreement"
        await seat.press("b", "a")
        assert decisions()[:2] == ["accepted", "accepted"]
        events = len(engine.reading.events(asker("alice"), name))
        admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol'")
        admin.execute("DELETE FROM document_grants")
        await seat.press("d")
        assert "no such conflict" in seat.status
        assert "possible disagreement" not in seat.pane("citations")
        assert len(engine.reading.events(asker("alice"), name)) == events


WHOLE_LIST: Any = (RunFilter(), None, 50)


@keyed
async def test_citation_marks_lead_to_their_sources_at_the_quoted_words(engine: Engine, settings: Settings) -> None:
    """One after the other and round; what is marked on the screen is what the stored spans say."""
    ask(engine, question=HUM, run=RUN)
    (view,) = RunViews(engine.reading).run(asker("alice"), RunName(**RUN)).views
    sources = {source.label: source for source in view.sources}
    marks = [segment.labels[0] for segment in view.answer.segments if segment.labels] if view.answer else []
    assert len(marks) > 1
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6", "enter")
        for label in [*marks, marks[0]]:
            source = sources[label]
            shown = seat.pane("source")
            assert shown.startswith(f"[{label}]  {source.title}  {said('quote', source.verdict).words}")
            assert all(source.text[start:end] in shown for quote in source.quotes for start, end in quote.spans)
            rows = seat.app.query_one("#text")._rows
            assert [
                row.plain[span.start : span.end] for row in rows for span in row.spans if span.style == CURRENT
            ] == [label]
            assert f"[{label}]" in seat.screen()
            await seat.press("n")
        await seat.press("b", "b")
        assert seat.pane("source").startswith(f"[{marks[-1]}]")
        await seat.press("enter")
        assert sources[marks[-1]].text in seat.pane("source")


@keyed
async def test_another_callers_run_is_an_unknown_one(engine: Engine, settings: Settings) -> None:
    """Not in the list; opened by its name it says the same as one that does not exist, in every pane."""
    ask(engine, question=HUM, run=RUN)
    said = []
    for name in (RunName(**RUN), RunName(subject_id="no", run_id="such")):
        async with seated(desk_of(engine, settings, asker("bob"))) as seat:
            await seat.press("escape", "6")
            assert seat.runs == []
            seat.app._open_run(name)
            for key in "2345":
                await seat.press(key)
                said.append((key, seat.status, seat.screen()))
                assert WORDS not in seat.screen()
    assert said[:4] == said[4:]
    assert {status for _, status, _ in said} == {f"{UNKNOWN} – r: try again"}


@keyed
async def test_rights_taken_away_are_gone_at_the_next_key(engine: Engine, settings: Settings, admin: Admin) -> None:
    """The answer is withheld, and its words are nowhere."""
    ask(engine, question=HUM, run=RUN)
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6", "enter", "n", "n")
        assert "hum" in seat.pane("source")
        admin.execute("DELETE FROM document_grants")
        admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol'")
        await seat.press("r")
        assert "withheld" in seat.pane("text")
        for key, pane in (("2", "source"), ("3", "trace"), ("4", "citations"), ("5", "drift")):
            await seat.press(key)
            assert WORDS not in seat.pane(pane)
            assert WORDS not in seat.screen()


@keyed
async def test_the_visit_of_a_token_ends(engine: Engine, settings: Settings) -> None:
    """After that nothing is read, and one sentence says why."""
    async with seated(desk_of(engine, settings, asker("alice"), ends_at=time.monotonic())) as seat:
        await seat.press("escape", "6")
        assert seat.status == "NotAuthorised: the visit has ended: start it again with a new token – r: try again"
        await seat.press("i")
        await seat.write(HUM)
        await seat.until(lambda: "the visit has ended" in seat.pane("conversation"))


@keyed
async def test_a_caller_without_the_owner_claim_may_not_ask(engine: Engine, settings: Settings) -> None:
    """One sentence; the question stays in the field."""
    async with seated(desk_of(engine, settings, asker(""))) as seat:
        await seat.write(HUM)
        await seat.until(lambda: "only a caller with the owner claim" in seat.pane("conversation"))
        assert seat.app.query_one("#question").value == HUM


@keyed
async def test_postgres_away_is_told_and_tried_again_by_a_key(engine: Engine, settings: Settings, admin: Admin) -> None:
    """No stack trace, and nothing of the run stays on the screen; r reads it once Postgres is back."""
    ask(engine, question=HUM, run=RUN)
    name = admin.info.dbname
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6", "enter")
        with psycopg.connect(
            host=admin.info.host, port=admin.info.port, user=admin.info.user, autocommit=True
        ) as other:
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            await seat.press("2")
            assert seat.status.startswith("Unavailable: ")
            assert seat.status.endswith("r: try again")
            assert "Traceback" not in seat.screen()
            assert seat.pane("text") == ""
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        async with asyncio.timeout(30):
            while HUM not in seat.pane("text"):
                await seat.press("r")


@keyed
async def test_an_error_is_one_sentence_and_the_question_can_be_sent_again(engine: Engine, settings: Settings) -> None:
    """Of any kind; one of this project's bugs is named by its class alone, for its words may hold a text."""
    desk = desk_of(engine, settings, asker("alice"))
    errors = [Unavailable("Redis is unavailable"), ZeroDivisionError("a secret text")]
    desk._answers = Failing(errors, desk._answers)
    async with seated(desk) as seat:
        await seat.write(HUM)
        await seat.until(lambda: "Unavailable: Redis is unavailable" in seat.pane("conversation"))
        await seat.press("enter")
        await seat.until(lambda: "internal error (ZeroDivisionError)" in seat.pane("conversation"))
        await seat.press("enter")
        await seat.until(lambda: "[S1]" in seat.pane("conversation"))
        assert "secret" not in seat.pane("conversation")


class Failing:
    """Answers that fail first."""

    def __init__(self, failures: list[Exception], then: Any) -> None:
        self.failures = failures
        self.then = then

    def answer(self, *given: Any) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.then.answer(*given)


@keyed
async def test_hostile_texts_do_nothing(engine: Engine, settings: Settings, admin: Admin) -> None:
    """In sources, titles, ids and questions: shown as signs, in every pane; nothing is taken for markup."""
    admin.execute("UPDATE document_chunks SET text_content = text_content || %s, section = %s", [HOSTILE, HOSTILE])
    admin.execute("UPDATE documents SET title = %s, path = %s", [HOSTILE, HOSTILE])
    run = {"subject_id": f"desk{HOSTILE}", "run_id": f"r1{HOSTILE}"}
    ask(engine, question=HUM + HOSTILE, run=run)
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6")
        assert "[red]x[/red]" in seat.screen()
        await seat.press("enter")
        for key in ("n", "enter", "3", "4", "5", "6"):
            await seat.press(key)
            rows = seat.screen().split("\n")
            assert not UNSEEN.search("".join(rows))
            assert len(rows) == SIZE[1]
            assert not list(seat.app.query("Link"))
        await seat.press("i")
        await seat.write(HUM + HOSTILE)
        await seat.until(lambda: "its trace" in seat.pane("conversation") or "InvalidJob" in seat.pane("conversation"))
        assert not UNSEEN.search(seat.screen().replace("\n", ""))


@keyed
async def test_runs_are_filtered_and_read_page_by_page(engine: Engine, settings: Settings) -> None:
    """A wrong filter is one sentence; the last entry reads older runs."""
    for i in range(3):
        ask(engine, question=HUM, run={"subject_id": "desk", "run_id": f"r{i}"})
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6")
        assert [entry[:9] for entry in seat.runs] == ["desk / r2", "desk / r1", "desk / r0"]
        await seat.press("slash")
        await seat.write("colour:red")
        assert seat.status.startswith("filter: expected one of subject:")
        await seat.write("subject:other")
        assert seat.runs == []
        await seat.press("slash")
        await seat.write("drift:unchecked outcome:ok")
        assert len(seat.runs) == 3


@keyed
async def test_the_keys_are_told_in_each_pane(engine: Engine, settings: Settings) -> None:
    """The last row says them; ? shows all of them, and Esc leads back; q ends it."""
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        assert seat.screen().split("\n")[-1].startswith("Enter ask  Esc stop writing")
        await seat.press("escape")
        for key in "123456":
            await seat.press(key)
            row = seat.screen().split("\n")[-1]
            assert "r again  ? help  q quit" in row
            await seat.press("question_mark")
            assert "Answer, Trace: next answer of a run with several" in seat.screen()
            await seat.press("escape")
            assert "r again" in seat.screen()
        await seat.press("q")
        assert not seat.app.is_running or seat.app._exit


@keyed
async def test_no_color_leaves_no_colour(engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks with a meaning still differ: the chosen mark is reversed, quoted words are underlined."""
    monkeypatch.setenv("NO_COLOR", "1")
    ask(engine, question="noise floor of the stereo bus", run=RUN)
    async with seated(desk_of(engine, settings, asker("alice"))) as seat:
        await seat.press("escape", "6", "enter")
        rows = seat.app.screen._compositor.render_strips(seat.app.size)
        for one in seat.app._filters:
            if one.enabled:
                rows = [row.apply_filter(one, seat.app.screen.background_colors[1]) for row in rows]
        segments = [segment for row in rows for segment in row if segment.style]
        assert {
            str(color)
            for one in segments
            for color in (one.style.color, one.style.bgcolor)
            if color and not color.is_default
        } == set()
        assert any(one.style.reverse and re.fullmatch(r"S\d", one.text) for one in segments)
        assert any(one.style.underline for one in segments)
