"""Application: six panes, the same keys in each; reads in the background, so that nothing freezes it."""

from __future__ import annotations

import asyncio
import functools
import secrets
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, ClassVar, TypeVar

from rich.text import Text
from textual.app import App
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import ContentSwitcher, Input, Static

from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.run_list import RunFilter
from worker.inspector.rendering import words
from worker.inspector.terminal.answer import answer_lines, cited_labels, no_source, source_lines, turn_lines
from worker.inspector.terminal.citations import MOST_CONFLICTS, citations_lines
from worker.inspector.terminal.desk import sentence
from worker.inspector.terminal.drift import drift_lines
from worker.inspector.terminal.lines import BLANK, CURRENT, PROBLEM, QUIET, QUOTED, Line, inline, joined, note, plain
from worker.inspector.terminal.pane import Choice, Pane
from worker.inspector.terminal.runs import FILTERS, run_entry, run_filter
from worker.inspector.terminal.trace import trace_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from worker.adapters.postgres.run_list import ListedRun
    from worker.inspector.reading import RunPage
    from worker.inspector.terminal.desk import Desk
    from worker.inspector.view.citations import CitationsView, Decision
    from worker.inspector.view.run import RunView

T = TypeVar("T")

PANES = ("ask", "answer", "trace", "citations", "drift", "runs")
PAGE = 50

KEYS = (
    ("1 … 6", "Ask, Answer, Trace, Citations, Drift, Runs"),
    ("r", "read again with current permissions; retry after an error"),
    ("↑ ↓ j k g G", "move or scroll; Space, PgUp, PgDn: by pages"),
    ("Tab", "next part of the screen"),
    ("i", "Ask: write; Enter sends the question, Esc stops writing"),
    ("m  p", "Ask: next mode, next profile"),
    ("c", "Ask: begin a new conversation"),
    ("n  b", "next and previous citation (Answer) or conflict (Citations)"),
    ("a  d", "Citations: accept or dismiss the chosen conflict, for this run"),
    ("Enter", "Answer: the whole source. Runs: open the run"),
    ("s", "Answer, Trace: next answer of a run with several"),
    ("/", "Runs: filter, by the words that the field shows"),
    ("?", "these keys"),
    ("q  Ctrl-C", "quit; while writing, only Ctrl-C"),
)
HINTS = {
    "ask": "i write  m mode  p profile  c new conversation",
    "answer": "n b citation  Enter whole source  Tab source",
    "trace": "j k scroll  Space page  s next answer",
    "citations": "n b conflict  a accept  d dismiss  Space page",
    "drift": "j k scroll  Space page",
    "runs": "Enter open  / filter",
}
WRITING = {"question": "Enter ask  Esc stop writing  Ctrl-C quit", "filter": "Enter filter  Esc stop  Ctrl-C quit"}


class Arrived(Message):
    """Result of what was done in the background.

    Args:
        show: shows it.
    """

    def __init__(self, show: Callable[[], None]) -> None:
        super().__init__()
        self.show = show


class Help(ModalScreen[None]):
    """Keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "dismiss", show=False)]

    def compose(self) -> ComposeResult:
        """Yield the list of keys."""
        rows = [joined(Text(f"{keys:<15}", "bold"), Text(meaning)) for keys, meaning in KEYS]
        yield Static(Text("\n").join([*rows, Text(), Text("Esc: back", QUIET)]))


class Terminal(App[None]):
    """Inspector in a terminal.

    Args:
        desk: reads and asks.
    """

    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (120, "-wide")]  # noqa: RUF012 -- as Textual declares it
    CSS = """
    Screen { layout: vertical; background: ansi_default; color: ansi_default; }
    #top, #status, #keys { height: 1; }
    #keys { dock: bottom; }
    #status { dock: bottom; margin-bottom: 1; }
    ContentSwitcher { height: 1fr; }
    #ask, #answer, #runs { layout: vertical; }
    Pane, Choice { height: 1fr; background: ansi_default; color: ansi_default; border: none; padding: 0; }
    Pane, Choice { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; }
    #source { border-top: solid ansi_blue; }
    .-wide #answer { layout: horizontal; }
    .-wide #text { width: 1fr; }
    .-wide #source { width: 1fr; border-top: none; border-left: solid ansi_blue; padding-left: 1; }
    Pane, Choice, Input { scrollbar-background: ansi_default; scrollbar-color: ansi_blue; }
    Input { height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default; }
    Input:focus { background: ansi_default; text-style: bold; }
    Input > .input--placeholder { color: ansi_default; text-style: dim; }
    Input > .input--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    #choice { height: 1; }
    Help { align: center middle; background: ansi_default; }
    Help > Static { width: 78; height: auto; border: round ansi_blue; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(i), f"open('{pane}')", show=False) for i, pane in enumerate(PANES, 1)),
        Binding("r", "again", show=False),
        Binding("i", "write", show=False),
        Binding("slash", "filter", show=False),
        Binding("m", "next_mode", show=False),
        Binding("p", "next_profile", show=False),
        Binding("c", "new_conversation", show=False),
        Binding("n", "cite(1)", show=False),
        Binding("b", "cite(-1)", show=False),
        Binding("a", "decide('accepted')", show=False),
        Binding("d", "decide('dismissed')", show=False),
        Binding("s", "next_answer", show=False),
        Binding("enter", "whole", show=False),
        Binding("escape", "stop_writing", show=False),
        Binding("question_mark", "help", show=False),
        Binding("q", "quit", show=False),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, desk: Desk) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._desk = desk
        self._pane = "ask"
        self._run_name: RunName | None = None
        self._page: RunPage | None = None
        self._chosen = 0
        self._mark = 0
        self._is_whole = False
        self._citations: CitationsView | None = None
        self._conflict = 0
        self._reads = 0
        self._mode = next(iter(desk.modes), "")
        self._profile = ""
        self._conversation = ""
        self._turns: list[Line] = []
        self._asking = False
        self._listed: list[ListedRun] = []
        self._run_filter = RunFilter()

    def compose(self) -> ComposeResult:
        """Yield tabs, panes, status and keys."""
        yield Static(id="top")
        with ContentSwitcher(initial="ask"):
            with Container(id="ask"):
                yield Pane("conversation")
                yield Static(id="choice")
                yield Input(placeholder="your question", id="question")
            with Container(id="answer"):
                yield Pane("text")
                yield Pane("source")
            yield Pane("trace")
            yield Pane("citations")
            yield Pane("drift")
            with Container(id="runs"):
                yield Input(placeholder=" ".join(f"{name}:…" for name in FILTERS), id="filter")
                yield Choice("list")
        yield Static(id="status")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Begin with a question; a signal to end leaves the terminal as it was."""
        if not self.is_headless:
            ended = functools.partial(self.exit, return_code=128 + signal.SIGTERM)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended)
            self.set_interval(1, self._end_without_terminal)
        self._begin_conversation()
        self._show_frame()
        self.query_one("#question").focus()

    def _end_without_terminal(self) -> None:
        """End when nobody is left at the terminal; SIGHUP says so only to who is in its session."""
        watched = select.poll()
        watched.register(sys.__stdin__ or 0, 0)
        if watched.poll(0):
            self.exit(return_code=128 + signal.SIGHUP)

    # --- background ---------------------------------------------------------------------------------

    def _in_background(self, work: Callable[[], T], show: Callable[[T], None], fail: Callable[[str], None]) -> None:
        """Do work in a thread that quitting need not wait for; show its result here."""

        def run() -> None:
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 -- a thread must not die unseen
                if not self.is_running:
                    return  # what it waited for was closed
                message = sentence(error)
                self.post_message(Arrived(lambda: fail(message)))
            else:
                self.post_message(Arrived(lambda: show(outcome)))

        threading.Thread(target=run, daemon=True).start()

    def on_arrived(self, arrived: Arrived) -> None:
        """Show what was done in the background."""
        arrived.show()

    def _read(self, work: Callable[[], T], show: Callable[[T], None]) -> None:
        """Read for the pane that is open; what arrives after another read began is not shown."""
        self._reads += 1
        number = self._reads
        self._say("reading …")

        def shown(outcome: T) -> None:
            if number == self._reads:
                self._say("")
                show(outcome)

        def failed(message: str) -> None:
            if number == self._reads:
                self._forget()
                self._say(f"{message} – r: try again", PROBLEM)

        self._in_background(work, shown, failed)

    def _forget(self) -> None:
        """Show nothing of a run that can't be read now."""
        self._page = self._citations = None
        for pane in self.query(Pane):
            if pane.id != "conversation":
                pane.show([])

    # --- frame --------------------------------------------------------------------------------------

    def _say(self, message: str, style: str = "") -> None:
        self.query_one("#status", Static).update(inline(message, 400, style))

    def _show_frame(self) -> None:
        tabs = (
            Text(f" {i} {pane.capitalize()} ", "bold reverse" if pane == self._pane else "")
            for i, pane in enumerate(PANES, 1)
        )
        self.query_one("#top", Static).update(joined(*tabs, inline(self._desk.owner, 20, QUIET), separator=" "))
        profile = self._profile or "the mode's"
        choice = joined(Text("mode", QUIET), self._mode, Text("profile", QUIET), profile, separator=" ")
        self.query_one("#choice", Static).update(choice)
        self._show_keys()

    def _show_keys(self) -> None:
        writing = WRITING.get(self.focused.id or "") if self.focused else None
        keys = writing or f"{HINTS[self._pane]}  r again  ? help  q quit"
        self.query_one("#keys", Static).update(Text(keys, QUIET))

    def on_descendant_focus(self) -> None:
        """Show the keys of what has the focus."""
        self._show_keys()

    # --- panes --------------------------------------------------------------------------------------

    def action_open(self, pane: str) -> None:
        """Open a pane, and read what it shows."""
        self._pane = pane
        self.query_one(ContentSwitcher).current = pane
        self._focus_pane()
        self._show_frame()
        self.action_again()

    def _focus_pane(self) -> None:
        inside = {"ask": "#conversation", "answer": "#text", "runs": "#list"}
        self.query_one(inside.get(self._pane, f"#{self._pane}")).focus()

    def action_again(self) -> None:
        """Read what the open pane shows, with the caller's current permissions."""
        name = self._run_name
        if self._pane == "ask":
            self._say("")
        elif self._pane == "runs":
            self._list(None)
        elif name is None:
            self._say("no run is open: ask a question, or open one of 6 Runs")
        elif self._pane == "citations":
            self._read(lambda: self._desk.citations(name), self._show_citations)
        elif self._pane == "drift":
            self._read(lambda: self._desk.drift(name), lambda view: self._fill("drift", drift_lines(view)))
        else:
            self._read(lambda: self._desk.run(name), self._show_run)

    def _fill(self, pane: str, lines: list[Line], reveal: str = "") -> None:
        self.query_one(f"#{pane}", Pane).show(lines, reveal)

    def _open_run(self, name: RunName) -> None:
        self._run_name, self._page, self._chosen, self._mark = name, None, 0, 0
        self._citations, self._conflict = None, 0

    def _show_run(self, page: RunPage) -> None:
        if self._page is None:
            self._chosen = chosen(page)
        self._page = page
        view = self._view
        if view is None:
            tasks = ", ".join(words(task) for task in page.other_tasks)
            self._fill(self._pane, [note(f"This run has no answer, only {tasks or 'events'}.")])
        elif self._pane == "trace":
            self._fill("trace", trace_lines(view))
        else:
            self._show_answer(view)
        if len(page.views) > 1:
            self._say(f"answer {self._chosen + 1} of {len(page.views)} – s: the next")

    @property
    def _view(self) -> RunView | None:
        views = self._page.views if self._page else ()
        return views[min(self._chosen, len(views) - 1)] if views else None

    def _show_answer(self, view: RunView) -> None:
        labels = cited_labels(view)
        self._mark = self._mark % len(labels) if labels else 0
        self._fill("text", answer_lines(view, self._mark), CURRENT if self._mark else "")
        source = next((source for source in view.sources if labels and source.label == labels[self._mark]), None)
        lines = no_source(view) if source is None else source_lines(source, is_whole=self._is_whole)
        self._fill("source", lines, QUOTED if self._is_whole else "")

    def _show_citations(self, view: CitationsView) -> None:
        self._citations = view
        count = min(len(view.conflicts), MOST_CONFLICTS)
        self._conflict = self._conflict % count if count else 0
        self._fill("citations", citations_lines(view, self._conflict), CURRENT if self._conflict else "")

    def action_decide(self, decision: Decision) -> None:
        """Accept or dismiss the chosen conflict: kept with the run, with the caller's current permissions."""
        name, view = self._run_name, self._citations
        if self._pane == "citations" and name and view and view.conflicts:
            key = view.conflicts[self._conflict].key
            self._read(lambda: self._desk.decide(name, key, decision), self._show_citations)

    def action_cite(self, step: int) -> None:
        """Go to the next citation mark with its source, or the next conflict; or to the one before."""
        if self._pane == "citations" and self._citations:
            self._conflict += step
            self._show_citations(self._citations)
        if self._pane == "answer" and self._view:
            self._mark, self._is_whole = self._mark + step, False
            self._show_answer(self._view)

    def action_whole(self) -> None:
        """Show the whole source, or its excerpt again."""
        if self._pane == "answer" and self._view:
            self._is_whole = not self._is_whole
            self._show_answer(self._view)

    def action_next_answer(self) -> None:
        """Show the next answer of the run."""
        if self._pane in {"answer", "trace"} and self._page and self._page.views:
            self._chosen, self._mark = (self._chosen + 1) % len(self._page.views), 0
            self._show_run(self._page)

    # --- asking -------------------------------------------------------------------------------------

    def action_write(self) -> None:
        """Write a question."""
        if self._pane != "ask":
            self.action_open("ask")
        self.query_one("#question").focus()

    def action_stop_writing(self) -> None:
        """Leave the field, so that keys are commands again."""
        self._focus_pane()

    def action_next_mode(self) -> None:
        """Choose the next mode."""
        if self._pane == "ask":
            self._mode = following(self._desk.modes, self._mode)
            self._show_frame()

    def action_next_profile(self) -> None:
        """Choose the next profile; after the last, the mode's own."""
        if self._pane == "ask":
            self._profile = following(("", *self._desk.profiles), self._profile)
            self._show_frame()

    def action_new_conversation(self) -> None:
        """Begin a new conversation."""
        if self._pane == "ask" and not self._asking:
            self._begin_conversation()

    def _begin_conversation(self) -> None:
        self._conversation = f"ui-{secrets.token_hex(6)}"
        self._turns = [note("Answered with your permissions, and recorded as one of your runs.")]
        self._show_turns()

    def _show_turns(self, *working: Line) -> None:
        self._fill("conversation", [*self._turns, *working], "end")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Ask, or filter."""
        if event.input.id == "filter":
            self._filter(event.value)
        elif self._asking:
            self._say("one question at a time")
        elif event.value.strip():
            event.input.value = ""
            self._ask(event.value.strip())

    def _ask(self, question: str) -> None:
        self._asking = True
        self._turns += [BLANK, *_asked(question)]
        self._progress("waiting", 0, 0)

        def report(stage: str, finished_stages: int, total: int) -> None:
            self.post_message(Arrived(lambda: self._progress(stage, finished_stages, total)))

        def work() -> tuple[RunName, RunPage]:
            name = self._desk.ask(question, self._mode, self._profile, self._conversation, report)
            return name, self._desk.run(name)

        self._in_background(
            work, lambda named_page: self._answered(*named_page), lambda message: self._not_answered(question, message)
        )

    def _progress(self, stage: str, finished_stages: int, total: int) -> None:
        if self._asking:
            count = f"{finished_stages} of {total}" if total else ""
            self._show_turns(
                Line(
                    joined(
                        "…", inline(words(stage)), Text("█" * finished_stages + "·" * (total - finished_stages)), count
                    )
                )
            )

    def _answered(self, name: RunName, page: RunPage) -> None:
        self._asking = False
        self._open_run(name)
        self._turns += [line for view in page.views for line in turn_lines(view)]
        self._turns.append(note("2: the answer with its sources, 3: its trace, i: the next question"))
        self._show_turns()
        if self._pane == "ask" and not self.query_one("#question", Input).value:
            self._focus_pane()  # digits open panes, unless the next question is being written

    def _not_answered(self, question: str, message: str) -> None:
        self._asking = False
        self._turns.append(Line(inline(message, 400, PROBLEM)))
        self._show_turns()
        field = self.query_one("#question", Input)
        if not field.value:
            field.value = question  # Enter tries again

    # --- runs ---------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Write a filter."""
        if self._pane == "runs":
            self.query_one("#filter").focus()

    def _filter(self, typed: str) -> None:
        try:
            self._run_filter = run_filter(typed)
        except InvalidJob as error:
            self._say(error.message, PROBLEM)
            return
        self._focus_pane()
        self._list(None)

    def _list(self, before_key: int | None) -> None:
        chosen_filter = self._run_filter
        self._read(
            lambda: self._desk.runs(chosen_filter, before_key, PAGE + 1),
            lambda listed_runs: self._show_runs(before_key, listed_runs),
        )

    def _show_runs(self, before_key: int | None, read_runs: list[ListedRun]) -> None:
        earlier_runs = [] if before_key is None else self._listed
        self._listed = [*earlier_runs, *read_runs[:PAGE]]
        older = [Text("Older runs", "bold")] if len(read_runs) > PAGE else []
        self.query_one(Choice).show([*map(run_entry, self._listed), *older], len(earlier_runs))
        if not self._listed:
            self._say("No run fits. A job with a run is recorded; so is a question asked here.")

    def on_choice_chosen(self, event: Choice.Chosen) -> None:
        """Open a run, or read older ones."""
        if event.index >= len(self._listed):
            self._list(self._listed[-1].key)
            return
        run = self._listed[event.index]
        self._open_run(RunName(subject_id=run.subject_id, run_id=run.run_id))
        self.action_open("answer")

    def action_help(self) -> None:
        """Show the keys."""
        self.push_screen(Help())


def _asked(question: str) -> Iterable[Line]:
    return [Line(joined(Text("›", "bold"), plain(question, "bold"), separator=" "))]


def following(values: Iterable[str], current: str) -> str:
    """Return the value after the current one; after the last, the first.

    >>> following(("a", "b"), "a"), following(("a", "b"), "b"), following((), "x")
    ('b', 'a', 'x')
    """
    choices = [*values]
    return choices[(choices.index(current) + 1) % len(choices)] if current in choices else current


def chosen(page: RunPage) -> int:
    """Return the number of the answer to show first: the last one with a text, else the last."""
    with_text = [i for i, view in enumerate(page.views) if view.answer]
    return with_text[-1] if with_text else max(len(page.views) - 1, 0)
