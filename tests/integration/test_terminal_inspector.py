"""The inspector in a terminal of 80 × 24, by its keys, on real runs: what it asks and shows, and to whom."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import string
import threading
import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.integration.asking import HUM, ask, asker
from tests.integration.provider import running
from tests.integration.terminal import SIZE, UNSEEN, desk_of, seated
from textual.widgets import Input, Select

from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import Unavailable
from worker.cli.commands.ui import in_this_process
from worker.inspector.reading import RunViews
from worker.inspector.view.wording import said
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.integration.terminal import Seat

    from retrieval_client.contract.jobs import RunPipeline
    from worker.inspector.terminal.desk import Desk
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    Exchanges = list[tuple[RunPipeline, Any]]

RUN = {"subject_id": "desk", "run_id": "r1"}
WORDS = "50 Hz hum on channel 18 came back"
"""Words of a source that alice may see."""

FURTHER = "And what was done against it?"
HOSTILE = "[red]x[/red] [/] \x1b[2J\x1b]0;title\x07\x9b31m\u202egnp\u2066\u200b\U000e0041 <b>"
CHOICES = {"mode": "grounded", "chat_mode": "chat"}


def keyed(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test that presses keys."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))  # type: ignore[arg-type] # a coroutine

    return run


def noted(desk: Desk) -> Exchanges:
    """Jobs of a desk's questions from now on, each with its answer."""
    exchanges: Exchanges = []
    answers = desk._answers

    def answer(job: RunPipeline, *others: Any) -> Any:
        exchanges.append((job, answers(job, *others)))
        return exchanges[-1][1]

    desk._answers = answer
    return exchanges


@contextlib.asynccontextmanager
async def alice_noted(engine: Engine, settings: Settings) -> AsyncIterator[tuple[Seat, Exchanges]]:
    """Alice at the terminal, and the jobs of her questions, each with its answer."""
    desk = desk_of(engine, asker("alice"))
    exchanges = noted(desk)
    async with seated(desk, settings) as seat:
        yield seat, exchanges


# --- conversations ------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["grounded", "code", "lyrics", "extraction"])
@keyed
async def test_a_second_question_continues_the_conversation_in_every_mode(
    engine: Engine, settings: Settings, mode: str
) -> None:
    """From the answer before it, by both ids; nothing says that the chain was reset."""
    async with alice_noted(engine, settings) as (seat, exchanges):
        seat.app.query_one("#mode", Select).value = mode
        await seat.ask(HUM)
        assert "chain: reset" not in await seat.ask(FURTHER)
    (first, answer), (second, _) = exchanges
    assert (first.mode, first.chat_mode, first.prior_response_id) == (mode, "chat", None)
    assert (second.prior_response_id, second.conversation_id) == (answer.response_id, answer.conversation_id)
    assert answer.response_id


@keyed
async def test_the_next_question_is_typed_straight_away(engine: Engine, settings: Settings) -> None:
    """An answer leaves the focus in the field: letters and digits are written, and continue the conversation."""
    async with alice_noted(engine, settings) as (seat, exchanges):
        seat.app.query_one("#mode", Select).value = "grounded"
        await seat.ask(HUM)
        for question in ("quick check: And E-4012?", "2nd: can i bring 470 µF?"):
            await seat.press(*question)
            assert seat.app.query_one("#question", Input).value == question
            await seat.press("enter")
            await seat.until(lambda: not seat.app._is_asking)
    assert [job.prior_response_id for job, _ in exchanges[1:]] == [answer.response_id for _, answer in exchanges[:-1]]


@keyed
async def test_another_mode_resets_the_chain_and_the_answer_says_so(engine: Engine, settings: Settings) -> None:
    """In a warning below it; the question after that goes on in the new mode."""
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await seat.ask(HUM)
        seat.app.query_one("#mode", Select).value = "extraction"
        assert "warning: chain: reset, another mode" in await seat.ask(FURTHER)
        assert "chain: reset" not in await seat.ask("And then?")


@keyed
async def test_another_model_or_provider_resets_the_chain_and_the_answer_says_so(
    engine: Engine, settings: Settings, make_settings: Callable[..., Settings], database: str
) -> None:
    """Of the worker that answers, which may have been started again with other settings."""
    with running() as provider, contextlib.ExitStack() as engines:
        desk = desk_of(engine, asker("alice"))
        async with seated(desk, settings) as seat:
            await seat.ask(HUM)
            for model, resets in (("m", ["provider", "model"]), ("n", ["model"])):
                server = {"kind": "openai", "model": model, "base_url": provider.url}
                other = Engine(make_settings(database, language_model=server), time.perf_counter)
                desk._answers = in_this_process(engines.enter_context(contextlib.closing(other)))
                said = await seat.ask(f"{FURTHER} ({model})")
                assert [reason for reason in ("provider", "model") if f"another {reason}" in said] == resets


@keyed
async def test_single_questions_stand_alone(engine: Engine, settings: Settings) -> None:
    """Without ids of what was asked before, and the screen says so; a chat after them begins anew."""
    async with alice_noted(engine, settings) as (seat, exchanges):
        await seat.ask(HUM)
        chat = seat.app.query_one("#chat_mode", Select)
        chat.value = "single"
        await seat.until(lambda: "each question stands alone" in seat.pane("ask-lines"))
        await seat.ask(FURTHER)
        await seat.ask(HUM)
        chat.value = "chat"
        await seat.until(lambda: seat.pane("ask-lines").count("a new conversation") == 2)
        await seat.ask(FURTHER)
    assert [job.chat_mode for job, _ in exchanges] == ["chat", "single", "single", "chat"]
    assert {(job.prior_response_id, job.conversation_id) for job, _ in exchanges} == {(None, None)}


@keyed
async def test_a_new_conversation_is_begun_by_a_key(engine: Engine, settings: Settings) -> None:
    """Its first question continues from nothing."""
    async with alice_noted(engine, settings) as (seat, exchanges):
        await seat.ask(HUM)
        await seat.press("ctrl+n")
        await seat.ask(FURTHER)
    assert exchanges[1][0].prior_response_id is None
    assert len({answer.conversation_id for _, answer in exchanges}) == 2


@keyed
async def test_what_is_begun_while_a_question_runs_stands_below_its_answer(engine: Engine, settings: Settings) -> None:
    """By the key or the menu; the status line says so until then, and that there is one question at a time."""
    desk = desk_of(engine, asker("alice"))
    exchanges, may_answer = noted(desk), threading.Event()
    answers = desk._answers
    desk._answers = lambda *given: may_answer.wait(30) and answers(*given)
    async with seated(desk, settings) as seat:
        await seat.press("enter")
        assert seat.status == "write a question first"
        await seat.write(HUM)
        assert seat.status == ""
        await seat.write(FURTHER)
        assert seat.status == "one question at a time"
        seat.app.query_one("#question", Input).value = ""
        await seat.press("ctrl+n")
        assert seat.status == "after this answer: a new conversation"
        assert "a new conversation" not in seat.below(HUM)
        seat.app.query_one("#chat_mode", Select).value = "single"
        await seat.until(lambda: seat.status == "after this answer: each question stands alone")
        may_answer.set()
        await seat.until(lambda: "each question stands alone" in seat.below(HUM))
        answer, _, after = seat.below(HUM).partition("— each question stands alone")
        assert ("[S1]" in answer, "[S1]" in after, seat.status) == (True, False, "")
        assert "--after" not in seat.pane("ask-lines")
        await seat.ask(FURTHER)
    assert [job.prior_response_id for job, _ in exchanges] == [None, None]


def test_a_cache_hit_keeps_the_chain(engine: Engine) -> None:
    """An answer over sources from the cache is continued from like any other."""
    desk = desk_of(engine, asker("alice"))
    answers = desk._answers

    def from_cache(*given: Any) -> Any:
        answer = answers(*given)
        return answer.model_copy(update={"trace": answer.trace.model_copy(update={"cache": "hit"})})

    desk._answers = from_cache
    exchanges = noted(desk)
    for question in (HUM, FURTHER):
        desk.ask(question, CHOICES, lambda *_: None)
    assert exchanges[1][0].prior_response_id == exchanges[0][1].response_id
    assert desk.chain["prior_response_id"] == exchanges[1][1].response_id


def test_an_answer_is_not_continued_from_in_a_conversation_that_was_begun_meanwhile(engine: Engine) -> None:
    """It arrives after the key that began the next one."""
    desk = desk_of(engine, asker("alice"))
    answers = desk._answers

    def slowly(*given: Any) -> Any:
        desk.chain = {}
        return answers(*given)

    desk._answers = slowly
    desk.ask(HUM, CHOICES, lambda *_: None)
    assert desk.chain == {}


@keyed
async def test_starting_prompt_and_filters_are_part_of_the_job(engine: Engine, settings: Settings) -> None:
    """As the fields say; filters that are no JSON, or none of the contract, are one sentence."""
    async with alice_noted(engine, settings) as (seat, exchanges):
        seat.app.query_one("#starting_prompt", Input).value = "Answer as a pirate."
        filters = seat.app.query_one("#filters", Input)
        for typed, sentence in (("{", "filters: expected JSON"), ('{"colour": 1}', "filters.colour")):
            filters.value = typed
            await seat.press("escape")
            await seat.until(lambda: isinstance(seat.app.focused, Input))
            await seat.write(HUM)
            await seat.until(lambda sentence=sentence: sentence in seat.below(HUM))
            assert seat.app.query_one("#question", Input).value == HUM
        filters.value = '{"document_ids": ["report-2023-desk"]}'
        seat.app.query_one("#profile", Select).value = "dense"
        await seat.write(FURTHER)
        await seat.until(lambda: exchanges and not seat.app._is_asking)
    ((job, answer),) = exchanges
    assert (job.starting_prompt, job.profile) == ("Answer as a pirate.", "dense")
    assert job.filters
    assert job.filters.document_ids == ["report-2023-desk"]
    assert {candidate.document_id for candidate in answer.package.candidates} <= {"report-2023-desk"}


# --- panes --------------------------------------------------------------------------------------


@keyed
async def test_an_answer_leads_to_every_pane(engine: Engine, settings: Settings) -> None:
    """Stages as they happen, the answer with its sources; then, by other keys, what the commands print of the run."""
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        stages = []
        show = seat.app._show_turn
        seat.app._show_turn = lambda *lines, working="": (stages.append(working), show(*lines, working=working))  # type: ignore[method-assign, assignment] # to see what is shown
        answer = await seat.ask(HUM)
        assert {stage.removeprefix("… ").split(",")[0] for stage in stages} >= {"waiting", "search", "execute"}
        assert all(part in answer for part in ("[S1]", "copied word for word", "reports/2023/mixing-desk.pdf"))
        for key, pane, part in (
            ("f3", "answer-lines", HUM),
            ("f4", "trace-lines", "ms together"),
            ("f5", "citations-lines", "conflicts:"),
            ("f6", "drift-lines", "digest"),
            ("f2", "ask-lines", HUM),
        ):
            await seat.press(key)
            await seat.until(lambda pane=pane, part=part: part in seat.pane(pane))
        await open_first(seat)
        await seat.until(lambda: HUM in seat.pane("answer-lines"))
        assert HUM in seat.screen()


@keyed
async def test_citations_lead_to_their_sources_at_the_quoted_words(engine: Engine, settings: Settings) -> None:
    """One after the other and round: label, title, verdict, and the words that the stored spans say."""
    ask(engine, question=HUM, run=RUN)
    (view,) = RunViews(engine.reading, engine.paths).run(asker("alice"), RunName(**RUN)).views
    sources = [source for source in view.sources if source.is_cited]
    assert len(sources) > 1
    async with seated(desk_of(engine, asker("alice")), settings, (120, 40)) as seat:
        await open_first(seat)
        for source in [*sources, sources[0]]:
            shown = seat.pane("source")
            assert shown.startswith(f"[{source.label}] {source.title}  {said('quote', source.verdict or '').words}")
            flat = " ".join(shown.split())
            for quote in source.quotes:
                assert all(" ".join(source.text[start:end].split()) in flat for start, end in quote.spans)
            await seat.press("n")
        await seat.press("b", "b")
        assert seat.pane("source").startswith(f"[{sources[-1].label}]")


async def open_first(seat: Any) -> None:
    """Open the newest run of the list."""
    await seat.press("f7")
    await seat.until(lambda: seat.runs and seat.app.focused is seat.app.query_one("#runs-lines"))
    await seat.press("home", "enter")
    await seat.until(lambda: seat.pane("source"))


@keyed
async def test_another_callers_run_is_an_unknown_one(engine: Engine, settings: Settings) -> None:
    """Not in the list; opened by its name it says the same as one that does not exist, in every pane."""
    ask(engine, question=HUM, run=RUN)
    screens = []
    for name in (RunName(**RUN), RunName(subject_id="no", run_id="such")):
        async with seated(desk_of(engine, asker("bob")), settings) as seat:
            await seat.press("f7")
            await seat.until(lambda: seat.status == "")
            assert seat.runs == []
            seat.app._run_name = name
            for key in ("f3", "f4", "f5", "f6"):
                await seat.press(key)
                await seat.until(lambda: seat.status == "There is no such run, or it is not yours. – ctrl+r: reload")
                screens.append((key, seat.screen()))
                assert WORDS not in seat.screen()
    assert screens[:4] == screens[4:]


@keyed
async def test_rights_taken_away_are_gone_at_the_next_key(engine: Engine, settings: Settings, admin: Admin) -> None:
    """The answer is withheld, and its words are nowhere."""
    ask(engine, question=HUM, run=RUN)
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await open_first(seat)
        await seat.until(lambda: "hum" in seat.pane("source"))
        admin.execute("DELETE FROM document_grants")
        admin.execute("UPDATE documents SET visibility = 'private', owner_id = 'carol'")
        await seat.press("ctrl+r")
        await seat.until(lambda: "held back" in seat.pane("answer-lines"))
        for key, pane in (("n", "source"), ("f4", "trace-lines"), ("f5", "citations-lines"), ("f6", "drift-lines")):
            await seat.press(key)
            await seat.until(lambda pane=pane: seat.pane(pane))
            assert WORDS not in seat.pane(pane)
            assert WORDS not in seat.screen()


@keyed
async def test_the_visit_of_a_token_ends(engine: Engine, settings: Settings) -> None:
    """After that nothing is read, and one sentence says why."""
    async with seated(desk_of(engine, asker("alice"), ends_at=time.monotonic()), settings) as seat:
        await seat.press("f7")
        ended = "NotAuthorised: the visit has ended: start it again with a new token"
        await seat.until(lambda: seat.status == f"{ended} – ctrl+r: reload")
        await seat.press("escape")
        await seat.until(lambda: isinstance(seat.app.focused, Input))
        await seat.write(HUM)
        await seat.until(lambda: "the visit has ended" in seat.below(HUM))


@keyed
async def test_a_caller_without_the_owner_claim_may_not_ask(engine: Engine, settings: Settings) -> None:
    """One sentence; the question stays in the field."""
    async with seated(desk_of(engine, asker("")), settings) as seat:
        await seat.write(HUM)
        await seat.until(lambda: "only a caller with the owner claim" in seat.below(HUM))
        assert seat.app.query_one("#question", Input).value == HUM


@keyed
async def test_postgres_away_is_told_and_tried_again_by_a_key(engine: Engine, settings: Settings, admin: Admin) -> None:
    """No stack trace, and nothing of the run stays on the screen; r reads it once Postgres is back."""
    ask(engine, question=HUM, run=RUN)
    name = admin.info.dbname
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await open_first(seat)
        with psycopg.connect(
            host=admin.info.host, port=admin.info.port, user=admin.info.user, autocommit=True
        ) as other:
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            await seat.press("ctrl+r")
            await seat.until(lambda: seat.status.startswith("Unavailable: "))
            assert seat.status.endswith("ctrl+r: reload")
            assert "Traceback" not in seat.screen()
            assert seat.pane("answer-lines") == seat.pane("source") == ""
            other.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        async with asyncio.timeout(30):
            while HUM not in seat.pane("answer-lines"):
                await seat.press("ctrl+r")


@keyed
async def test_an_error_is_one_sentence_and_the_question_can_be_sent_again(engine: Engine, settings: Settings) -> None:
    """Of any kind; one of this project's bugs is named by its class alone, for its words may hold a text."""
    desk = desk_of(engine, asker("alice"))
    errors: list[Exception] = [Unavailable("Redis is unavailable"), ZeroDivisionError("a secret text")]
    answers = desk._answers

    def failing(*given: Any) -> Any:
        if errors:
            raise errors.pop(0)
        return answers(*given)

    desk._answers = failing
    async with seated(desk, settings) as seat:
        await seat.write(HUM)
        await seat.until(lambda: "Unavailable: Redis is unavailable" in seat.below(HUM))
        await seat.press("enter")
        await seat.until(lambda: "internal error (ZeroDivisionError)" in seat.below(HUM))
        await seat.press("enter")
        await seat.until(lambda: "[S1]" in seat.below(HUM))
        assert "secret" not in seat.pane("ask-lines")


@keyed
async def test_hostile_texts_do_nothing(engine: Engine, settings: Settings, admin: Admin) -> None:
    """In sources, titles, ids and questions: shown as signs, in every pane; nothing is taken for markup."""
    admin.execute("UPDATE document_chunks SET text_content = text_content || %s, section = %s", [HOSTILE, HOSTILE])
    admin.execute("UPDATE documents SET title = %s, path = %s", [HOSTILE, HOSTILE])
    run = {"subject_id": f"desk{HOSTILE}", "run_id": f"r1{HOSTILE}"}
    ask(engine, question=HUM + HOSTILE, run=run)
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await open_first(seat)
        for key in ("n", "f4", "f5", "f6", "f7"):
            await seat.press(key)
            await seat.until(lambda: seat.status == "")
            rows = seat.screen().split("\n")
            assert not UNSEEN.search("".join(rows))
            assert len(rows) == SIZE[1]
        assert "[red]x[/red]" in seat.screen()
        await seat.press("escape")
        await seat.until(lambda: isinstance(seat.app.focused, Input))
        await seat.write(HUM + HOSTILE)
        await seat.until(lambda: not seat.app._is_asking)
        assert "[red]x[/red]" in seat.pane("ask-lines")
        assert not UNSEEN.search(seat.screen().replace("\n", ""))


@keyed
async def test_ids_are_whole_in_a_narrow_terminal(engine: Engine, settings: Settings) -> None:
    """Where a table is wider than the screen, its lines go on to the right, and are not wrapped."""
    ask(engine, question=HUM, run=RUN)
    (record,) = engine.reading.records(asker("alice"), RunName(**RUN))
    async with seated(desk_of(engine, asker("alice")), settings, (40, 24)) as seat:
        await open_first(seat)
        await seat.press("f5")
        await seat.until(lambda: "kept" in seat.pane("citations-lines"))
        lines = seat.pane("citations-lines").splitlines()
        assert all(any(pin.pin.document_id in line for line in lines) for pin in record.pins)


@keyed
async def test_keys_are_listed(engine: Engine, settings: Settings) -> None:
    """The last row says the most used; F1 shows all of them, and Esc hides them; Ctrl+Q ends it."""
    async with seated(desk_of(engine, asker("alice")), settings, (80, 40)) as seat:
        assert "^q quit" in seat.screen().split("\n")[-1]
        await seat.press("f1")
        await seat.until(lambda: "next source" in seat.screen().rpartition("\n")[0])
        assert all(described in seat.screen() for described in ("scroll up", "scroll down"))
        await seat.press("escape")
        await seat.until(lambda: "next source" not in seat.screen().rpartition("\n")[0])
        await seat.until(lambda: seat.app.focused is seat.app.query_one("#question"))
        await seat.press("ctrl+q")
        assert not seat.app.is_running or seat.app._exit


@keyed
async def test_ctrl_c_ends_it_as_interrupted(engine: Engine, settings: Settings) -> None:
    """With the exit code of every command that is."""
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await seat.press("ctrl+c")
        assert seat.app.return_code == 130


@pytest.mark.parametrize("size", [SIZE, (20, 5)])
@keyed
async def test_the_field_for_a_question_is_always_seen(
    engine: Engine, settings: Settings, size: tuple[int, int]
) -> None:
    """In a window of few rows, too; and F2 leads to it from every other field."""
    async with seated(desk_of(engine, asker("alice")), settings, size) as seat:
        question = seat.app.query_one("#question", Input)
        for field in seat.app.query("#filters, #starting_prompt, #mode, #chat_mode, #ask-lines, Tabs"):
            field.focus()
            await seat.until(lambda field=field: seat.app.focused is field)
            await seat.press("f2")
            await seat.until(lambda: seat.app.focused is question)
        await seat.press(*"Qzx")
        assert "Qzx" in seat.screen()


@keyed
async def test_chat_and_single_questions_differ_in_words(engine: Engine, settings: Settings) -> None:
    """Not by colours alone."""
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        assert "chat " in seat.screen()
        seat.app.query_one("#chat_mode", Select).value = "single"
        await seat.until(lambda: "single questions" in seat.screen())


@keyed
async def test_a_long_question_leaves_room_for_its_answer(engine: Engine, settings: Settings) -> None:
    """Its beginning is shown."""
    ask(engine, "carol", question=f"{HUM} {'and why ' * 120}", run=RUN)
    async with seated(desk_of(engine, asker("carol")), settings) as seat:
        await open_first(seat)
        assert "Nearest source" in seat.screen()
        await seat.press("f4")
        await seat.until(lambda: seat.pane("trace-lines"))
        assert seat.pane("trace-lines").count("and why") < 60


@keyed
async def test_no_letter_or_digit_is_a_command_that_cannot_be_undone(engine: Engine, settings: Settings) -> None:
    """In a pane without a field: it stays open, its run too, and the conversation goes on."""
    ask(engine, question=HUM, run=RUN)
    desk = desk_of(engine, asker("alice"))
    async with seated(desk, settings) as seat:
        desk.chain = {"conversation_id": "c1"}
        await open_first(seat)
        await seat.press(*string.ascii_letters, *string.digits)
        assert seat.app._exit is False
        assert HUM in seat.screen()
        assert desk.chain == {"conversation_id": "c1"}


@pytest.mark.parametrize("size", [SIZE, (130, 45)])
@keyed
async def test_a_menu_shows_all_its_choices(engine: Engine, settings: Settings, size: tuple[int, int]) -> None:
    """Though it opens near the last row; one is taken by arrow keys, and Esc then leads back to the question."""
    async with seated(desk_of(engine, asker("alice")), settings, size) as seat:
        menu = seat.app.query_one("#mode", Select)
        menu.focus()
        await seat.press("enter")
        await seat.until(lambda: all(f"mode {mode}" in seat.screen() for mode in settings.modes))
        await seat.press("home", "down", "enter", "escape")
        assert menu.value == next(iter(settings.modes))
        await seat.until(lambda: seat.app.focused is seat.app.query_one("#question"))


@keyed
async def test_a_conversation_is_scrolled_from_the_field(engine: Engine, settings: Settings) -> None:
    """A page up shows the question again, and the field keeps the focus."""
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await seat.ask(HUM)
        assert HUM not in seat.screen()
        await seat.press("pageup")
        await seat.until(lambda: HUM in seat.screen())
        await seat.press("pagedown")
        await seat.until(lambda: HUM not in seat.screen())
        assert seat.app.focused is seat.app.query_one("#question")


@keyed
async def test_no_color_leaves_no_colour(engine: Engine, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marks with a meaning still differ: quoted words are underlined."""
    monkeypatch.setenv("NO_COLOR", "1")
    ask(engine, question="noise floor of the stereo bus", run=RUN)
    async with seated(desk_of(engine, asker("alice")), settings) as seat:
        await open_first(seat)
        segments = [segment for strip in seat.app.query_one("#source").lines for segment in strip if segment.style]  # type: ignore[attr-defined] # a pane
        assert {segment.style.color for segment in segments} <= {None}
        assert any(segment.style.underline for segment in segments)
