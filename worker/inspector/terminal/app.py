"""Application: what the commands print, in panes; reads in the background, so that nothing freezes it."""

from __future__ import annotations

import asyncio
import functools
import select
import signal
import sys
import threading
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on
from textual.app import App
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Footer, Input, OptionList, RichLog, Select, Static, TabbedContent, TabPane

from retrieval_client.contract.run_jobs import RunName
from worker.adapters.terminal import printed, styled
from worker.inspector.terminal.desk import sentence
from worker.inspector.text.answers import citations_table, conflicts_table, replay_table
from worker.inspector.text.pipeline_answer import answer_report, source_report
from worker.inspector.text.runs import run_entry
from worker.inspector.text.trace import trace_report
from worker.inspector.view.wording import QUESTION_WIDTH, QUIET, STYLES, short

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType
    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.events import Resize

    from worker.adapters.postgres.run_list import ListedRun
    from worker.inspector.reading import RunPage
    from worker.inspector.terminal.desk import Desk
    from worker.inspector.view.sources import SourceView

T = TypeVar("T")
PANES = ("ask", "answer", "trace", "citations", "drift", "runs")
_PAGES = (("up", -1), ("down", 1))


class Pane(RichLog):
    """Area that shows what a command would print, at its own width; a log at its end."""

    reports: Sequence[RenderableType] = ()

    def show(self, reports: Sequence[RenderableType] = ()) -> None:
        """Show reports in place of those before."""
        self.reports = reports
        self.on_resize()
        if not self.auto_scroll:
            self.scroll_home(animate=False)

    def on_resize(self, event: Resize | None = None) -> None:
        """Print again."""
        del event
        self.clear()
        self.write(printed(*self.reports, width=max(self.scrollable_content_region.width, 20)), shrink=False)


class Terminal(App[None]):
    """Inspector in a terminal, at a desk; ``choices``: field of a question's job → the values to choose from."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    TabbedContent { height: 1fr; }
    TabPane { padding: 0; }
    Pane, #runs-lines { height: 1fr; border: none; padding: 0; }
    #choices, #status { height: 1; }
    #choices Select { width: 28; }
    #choices #chat_mode { width: 24; }
    .-few-rows #choices, .-few-rows #starting_prompt, .-few-rows #filters, .-few-rows Footer { display: none; }
    #source { border-top: solid ansi_blue; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-few-rows"), (10, "-rows")]  # noqa: RUF012 -- as Textual types it
    BINDINGS: ClassVar[list[BindingType]] = [
        # Keys that can't be typed as text, so that typing on after an answer only writes.
        *(Binding(f"f{i}", f"open('{pane}')", pane.capitalize(), show=False) for i, pane in enumerate(PANES, 2)),
        Binding("ctrl+n", "begin", "new chat"),
        Binding("n", "cite(1)", "next source"),
        Binding("b", "cite(-1)", "back"),
        Binding("ctrl+r", "again", "reload"),
        Binding("f1", "show_help_panel", "keys"),
        Binding("ctrl+q", "quit", "quit", priority=True),
        Binding("ctrl+c", "interrupt", "quit, with exit code 130", show=False, priority=True),
        Binding("escape", "leave", "hide the keys, or write", show=False),
        *(Binding(f"page{way}", f"page({pages})", f"scroll {way}", show=False) for way, pages in _PAGES),
    ]

    def __init__(self, desk: Desk, choices: Mapping[str, Sequence[str]]) -> None:
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self._desk, self._choices = desk, choices
        self._turns: list[RenderableType] = []
        # What stands below the answer that is waited for.
        self._beginning: list[RenderableType] = []
        self._is_asking = False
        self._was_chat = True
        self._run_name: RunName | None = None
        self._sources: Sequence[SourceView] = ()
        self._listed: Sequence[ListedRun] = ()
        self._source = self._reads = 0

    def compose(self) -> ComposeResult:
        """Yield panes, status and keys."""
        with TabbedContent():
            with TabPane("F2 Ask", id="ask"):
                yield Pane(id="ask-lines", min_width=0)
                with Horizontal(id="choices"):
                    for name, values in self._choices.items():
                        options = [(f"{name} {value}", value) for value in values]
                        yield Select(options, id=name, prompt=f"default {name}", compact=True)
                    kinds = [("chat", "chat"), ("single questions", "single")]
                    yield Select(kinds, id="chat_mode", value="chat", allow_blank=False, compact=True)
                yield Input(placeholder="starting prompt, in place of the mode's", id="starting_prompt", compact=True)
                yield Input(placeholder='filters, such as {"pages": [3]}', id="filters", compact=True)
                yield Input(placeholder="your question", id="question", compact=True, select_on_focus=False)
            for i, pane in enumerate(PANES[1:5], 3):
                with TabPane(f"F{i} {pane.capitalize()}", id=pane):
                    yield Pane(id=f"{pane}-lines", min_width=0, auto_scroll=False)
                    if pane == "answer":
                        yield Pane(id="source", min_width=0, auto_scroll=False)
            yield TabPane("F7 Runs", OptionList(id="runs-lines"), id="runs")
        yield Static(id="status")
        yield Footer()

    def on_mount(self) -> None:
        """Begin with a question; a signal to end leaves the terminal as it was."""
        if not self.is_headless:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, functools.partial(self.exit, return_code=143))
            self.set_interval(1, self._end_without_terminal)
        self.action_begin()
        self.query_one("#question").focus()

    def _end_without_terminal(self) -> None:
        """End when nobody is left at the terminal; SIGHUP says so only to who is in its session."""
        watched = select.poll()
        watched.register(sys.__stdin__ or 0, 0)
        if watched.poll(0):
            self.exit(return_code=128 + signal.SIGHUP)

    def _in_background(self, work: Callable[[], T], show: Callable[[T], None], fail: Callable[[str], None]) -> None:
        """Do work in a thread that quitting need not wait for; show its result here."""

        def run() -> None:
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 -- a thread must not die unseen
                if self.is_running:  # else what it waited for was closed
                    self.call_later(fail, sentence(error))
            else:
                self.call_later(show, outcome)

        threading.Thread(target=run, daemon=True).start()

    def _read(self, work: Callable[[], T], show: Callable[[T], None]) -> None:
        """Read for the pane that is open; what arrives after another read began is not shown."""
        self._reads, self._sources = self._reads + 1, ()
        number = self._reads
        self._say("reading …")
        for pane in self.query(Pane).exclude("#ask-lines"):
            pane.show()  # nothing of a run that can't be read now

        def shown(outcome: T) -> None:
            if number == self._reads:
                self._say("")
                show(outcome)

        def failed(message: str) -> None:
            if number == self._reads:
                self._say(f"{message} – ctrl+r: reload", STYLES["bad"])

        self._in_background(work, shown, failed)

    def _say(self, message: str, style: str = "") -> None:
        self.query_one("#status", Static).update(styled((message, style)))

    def action_interrupt(self) -> None:
        """End as at SIGINT."""
        self.exit(return_code=128 + signal.SIGINT)

    def action_open(self, pane: str) -> None:
        """Open a pane, and so read what it shows; hide the list of keys."""
        self.action_hide_help_panel()
        self.set_focus(None)  # of what is hidden, Textual would give the focus to the tabs
        self.query_one(TabbedContent).active = pane
        widget = self.query_one("#question" if pane == "ask" else f"#{pane}-lines")
        self.call_after_refresh(widget.focus)  # before that, a pane that is opened is hidden

    def action_leave(self) -> None:
        """Hide the list of keys; without it, go to the question."""
        self.action_open(self.query_one(TabbedContent).active if self.screen.query("HelpPanel") else "ask")

    def action_show_help_panel(self) -> None:
        """List the keys, without those of a field: they would stand first."""
        self.set_focus(None)
        super().action_show_help_panel()

    def action_page(self, pages: int) -> None:
        """Scroll the open pane, also from a field."""
        lines = self.query_one(f"#{self.query_one(TabbedContent).active}-lines")
        lines.scroll_relative(y=pages * lines.size.height, animate=False)

    def action_again(self) -> None:
        """Read what the open pane shows, with the caller's current permissions."""
        desk, pane, name = self._desk, self.query_one(TabbedContent).active, self._run_name
        if pane == "ask":
            self._say("")
        elif pane == "runs":
            self._read(desk.runs, self._show_runs)
        elif name is None:
            self._say("no run is open: ask a question, or open one of F7 Runs")
        elif pane == "answer":
            self._read(lambda: desk.views.run(desk.caller, name), self._show_answer)
        else:
            self._read(lambda: self._reports(pane, name), self.query_one(f"#{pane}-lines", Pane).show)

    on_tabbed_content_tab_activated = action_again

    def _reports(self, pane: str, name: RunName) -> list[RenderableType]:
        """Return what the commands `trace`, `cite` and `replay` would print."""
        desk, title = self._desk, " / ".join(filter(None, (name.subject_id, name.run_id, name.step)))
        if pane == "trace":
            return [trace_report(title, answer_trace, everything=True) for answer_trace in desk.traces(name)]
        if pane == "citations":
            view = desk.views.citations(desk.caller, name)
            return [citations_table(title, view), *([conflicts_table(view)] if view.conflicts else [])]
        drift = desk.views.drift(desk.caller, name)
        return [replay_table(title, drift) if drift else "this run recorded no chunks"]

    def _show_answer(self, page: RunPage) -> None:
        pairs = (
            (styled((short(view.about.question, QUESTION_WIDTH), "bold")), answer_report(view)) for view in page.views
        )
        self.query_one("#answer-lines", Pane).show([report for pair in pairs for report in pair])
        self._sources = [source for view in page.views for source in view.sources if source.is_cited]
        self._source = 0
        self.action_cite(0)

    def action_cite(self, step: int) -> None:
        """Show the next cited source, or the one before, at its quoted words."""
        self._source = (self._source + step) % len(self._sources) if self._sources else 0
        chosen = self._sources[self._source : self._source + 1]
        self.query_one("#source", Pane).show([*map(source_report, chosen)] or ["no source is cited"])

    def _show_runs(self, runs: Sequence[ListedRun]) -> None:
        self._listed = runs
        self.query_one("#runs-lines", OptionList).set_options(map(run_entry, runs))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Open a run."""
        run = self._listed[event.option_index]
        self._run_name = RunName(subject_id=run.subject_id, run_id=run.run_id)
        self.action_open("answer")

    def action_begin(self) -> None:
        """Begin a new conversation, below the answer that is waited for; also where a chat begins or ends."""
        self._desk.chain = {}
        kind = "a new conversation" if self._is_chat else "each question stands alone"
        line = styled((f"— {kind}, with your permissions; recorded as your runs —", QUIET))
        if self._is_asking:
            self._beginning = [line]
            self._say(f"after this answer: {kind}")
        else:
            self._show_turn(line)

    @on(Select.Changed, "#chat_mode")
    def _change_kind(self) -> None:
        if self._is_chat != self._was_chat:
            self._was_chat = self._is_chat
            self.action_begin()

    @property
    def _is_chat(self) -> bool:
        return self.query_one("#chat_mode", Select).value == "chat"

    def _show_turn(self, *lines: RenderableType, working: str = "") -> None:
        self._turns += lines
        self.query_one("#ask-lines", Pane).show([*self._turns, working])

    def on_input_submitted(self) -> None:
        """Ask."""
        question = self.query_one("#question", Input)
        if self._is_asking:
            self._say("one question at a time")
        elif not (typed := question.value.strip()):
            self._say("write a question first")
        else:
            self._is_asking, question.value = True, ""
            self._say("")
            self._show_turn("", styled((f"› {typed}", "bold")), working="… waiting")
            work = functools.partial(self._answer, typed, self._fields())
            self._in_background(work, self._show_answered, functools.partial(self._show_failed, typed))

    def _fields(self) -> dict[str, str]:
        """Return the fields of a question's job that were chosen or written."""
        inputs = self.query("#starting_prompt, #filters").results(Input)
        fields = {str(field.id): field.value.strip() for field in inputs}
        return fields | {str(field.id): "" if field.is_blank() else str(field.value) for field in self.query(Select)}

    def _answer(self, question: str, fields: Mapping[str, str]) -> RunPage:
        def report(stage: str, finished_stages: int, total: int) -> None:
            self.call_later(self._show_turn, working=f"… {stage}, {finished_stages} of {total}")

        name = self._desk.ask(question, fields, report)
        return self._desk.views.run(self._desk.caller, name)

    def _show_answered(self, page: RunPage) -> None:
        self._run_name = page.name
        self._show_end(*(answer_report(view, brief=True) for view in page.views))

    def _show_end(self, *lines: RenderableType) -> None:
        """Show what has become of a question, and what was begun meanwhile."""
        beginning, self._is_asking, self._beginning = self._beginning, False, []
        self._show_turn(*lines, *beginning)
        if self.query_one(TabbedContent).active == "ask":
            self._say("")

    def _show_failed(self, question: str, message: str) -> None:
        self._show_end(styled((message, STYLES["bad"])))
        field = self.query_one("#question", Input)
        field.value = field.value or question  # Enter tries again
