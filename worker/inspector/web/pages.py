"""Pages: each reads with the visitor's current permissions; what is unknown and what is another's look the same."""

from __future__ import annotations

import contextlib
import functools
import hmac
import re
import time
import traceback
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, RedirectResponse, Response

from retrieval_client.contract.registry import TASKS
from retrieval_client.errors import InvalidJob, NotAuthorised, RetrievalError, Unavailable
from worker.adapters import logs
from worker.adapters.parts import needs_model
from worker.adapters.postgres.run_list import RunFilter
from worker.core.shape import is_storable
from worker.inspector.reading import run_name
from worker.inspector.rendering import query
from worker.inspector.rendering import static as read_static
from worker.inspector.report import report_html
from worker.inspector.view.citations import DECISIONS
from worker.inspector.view.pieces import word_diff
from worker.inspector.view.quotes import checked_quote
from worker.inspector.view.run import About
from worker.inspector.view.sources import SourceView
from worker.jobs.principal import identify_visitor

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from starlette.requests import Request

    from worker.inspector.view.run import RunView
    from worker.inspector.web.site_parts import Site
    from worker.inspector.web.visits import NamedVisitor, Session
    from worker.model import Principal

log = logs.logger("worker.inspector")

COOKIE = "inspector_session"
PAGE = 50
MOST_CANDIDATES, MOST_CONFLICTS, MOST_LETTERS = 30, 50, 50
LONGEST_FORM, LONGEST_FORM_BEFORE_SIGN_IN = 4_000_000, 16_384
"""Most bytes of a form: a text of 1 MB, escaped; and a token."""

MOST_FIELDS = 40
LONGEST_UNASKED = 5000
"""Most bytes of a question, escaped, that is kept until its visitor has signed in again."""

LONGEST_SEARCH = 200
NEXT_TO = 3
"""Chunks of a document on each side of a source."""

SECONDS_THAT_CLOCKS_DIFFER = 3600
SEE_OTHER = 303
GO_TO = "x-go-to"
"""Header of an answer to the script: the page that takes the place of the one that asked, also in the history."""

NO_REPORTS = "No reports are shown here: the setting inspector.evaluations names a report of retrieval-worker evaluate."
NO_REPORT = "There is no report yet: retrieval-worker evaluate --report writes one."
NOT_THERE = "There is no such page, or it is not yours."
EXPIRED = "This form has expired, and nothing was done: load its page again. A question is kept under Ask."
ENDED = "Your session has ended: sign in again. Your question is kept."
UNREADABLE_REPORT = "This report can't be read: it is not one of retrieval-worker evaluate, or too long."
_KEY = re.compile(r"[0-9]{1,18}")
_PLACE = re.compile(r"/[a-z]*(\?[!-~]{0,2000})?")
"""Path and query of a page: within this site, whatever the query is."""

_STATIC = {
    "inspector.css": "text/css",
    "inspector.js": "text/javascript",
    "htmx.min.js": "text/javascript",
}


@dataclass(frozen=True, slots=True)
class Visit:
    """Request of a visitor who is signed in.

    Attributes:
        site: parts that the pages share.
        session: the visitor's session.
        fields: parameters of the address, or fields of the form.
        is_post: True for a form.
        is_partial: True if the script asks for a part of the page.
    """

    site: Site
    session: Session
    fields: Mapping[str, str]
    is_post: bool
    is_partial: bool

    @property
    def caller(self) -> Principal:
        """The visitor."""
        return self.session.principal

    def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Return a page."""
        shared = {"browser": True, "csrf": self.session.csrf, "who": self.caller, "session": self.session}
        return _rendered(self.site, template, status, **shared, **values)

    def to(self, path: str, **parameters: str | None) -> Response:
        """Return a redirection to a page."""
        query_string = query(**parameters)
        return RedirectResponse(f"{self.site.root}{path}{'?' if query_string else ''}{query_string}", SEE_OTHER)


def _rendered(site: Site, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    shared = {
        "now": datetime.now(UTC),
        "root": site.root,
        "most_candidates": MOST_CANDIDATES,
        "most_conflicts": MOST_CONFLICTS,
        "here": template,
    }
    return HTMLResponse(site.templates.get_template(template).render({**shared, **values}), status)


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _session(request: Request) -> Session | None:
    return _site(request).sessions.find(request.cookies.get(COOKIE, ""))


def page(handler: Callable[[Visit], Response]) -> Callable[[Request], Awaitable[Response]]:
    """Make a page of a handler: find the visitor, check the form, and translate errors."""

    @functools.wraps(handler)
    async def answer(request: Request) -> Response:
        site, session = _site(request), _session(request)
        if session is None:
            return await _to_sign_in(request)
        is_post = request.method == "POST"
        fields = await _form(request, LONGEST_FORM) if is_post else dict(request.query_params)
        visit = Visit(site, session, fields, is_post, "hx-request" in request.headers)
        if is_post and not hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
            session.unasked.update(_unasked(fields))
            return visit.page("error.html", 403, sentence=EXPIRED)
        return await run_in_threadpool(_answered, handler, visit)

    return answer


def _answered(handler: Callable[[Visit], Response], visit: Visit) -> Response:
    """Answer; an unknown run and another caller's are the same page."""
    try:
        if not visit.is_post:
            _check_storable(visit.fields, "address")
        return handler(visit)
    except (InvalidJob, NotAuthorised):
        return visit.page("error.html", 404, sentence=NOT_THERE)
    except RetrievalError as error:
        log.warning("page failed", error=type(error).__name__)
        return visit.page(
            "error.html", 503, sentence=f"This can't be read now ({type(error).__name__}). Try again later."
        )
    except Exception as error:  # noqa: BLE001 -- the server would log its words, which may hold a text
        log.error("page broken", error=type(error).__name__, where=_where(error))  # noqa: TRY400 -- the same
        return visit.page("error.html", 500, sentence="This page is broken. The log names the place.")


def _where(error: Exception) -> str:
    """Return file and line of an error, without its words."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def _check_storable(fields: Mapping[str, str], path: str) -> None:
    if any("\x00" in text or not is_storable(text) for text in fields.values()):
        raise InvalidJob("expected text without U+0000 and lone surrogates", path)


async def _form(request: Request, longest: int = LONGEST_FORM_BEFORE_SIGN_IN) -> dict[str, str]:
    """Read a form, whose bytes are counted as they arrive.

    Raises:
        starlette.exceptions.HTTPException: it is too long, has too many fields, or breaks off.
    """
    body = bytearray()
    try:
        async for piece in request.stream():
            body += piece
            if len(body) > longest:
                raise HTTPException(413, f"the form is longer than {longest} bytes")
    except ClientDisconnect:  # else anybody could fill the log with stack traces
        raise HTTPException(400, "the form breaks off") from None
    try:
        return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise HTTPException(400, f"the form has more than {MOST_FIELDS} fields") from None


async def not_found(request: Request, _: Exception) -> Response:
    """Answer an address that there is not, as that of an unknown run."""
    site, session = _site(request), _session(request)
    if session is None:
        return _rendered(site, "error.html", 404, sentence=NOT_THERE)
    return Visit(site, session, {}, False, False).page("error.html", 404, sentence=NOT_THERE)


# --- runs ---------------------------------------------------------------------------------------


@page
def runs(visit: Visit) -> Response:
    """List the visitor's runs, newest first."""
    fields = visit.fields
    run_filter = RunFilter(
        **{name: fields.get(name) or None for name in ("subject_id", "task", "mode", "outcome", "drift")},
        text=fields.get("text", "").strip()[:LONGEST_SEARCH] or None,
        since=_day(fields.get("since")),
        until=_day(fields.get("until")),
    )
    before_key = int(fields["before"]) if _KEY.fullmatch(fields.get("before", "")) else None
    listed_runs = visit.site.engine.reading.page(visit.caller, run_filter, before_key, PAGE + 1)
    return visit.page(
        "runs.html",
        listed_runs=listed_runs[:PAGE],
        older_key=listed_runs[PAGE - 1].key if len(listed_runs) > PAGE else None,
        fields={name: value for name, value in fields.items() if name != "before"},
        tasks=[task.name for task in TASKS],
        modes=list(visit.site.settings.modes),
    )


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        return None


def _chosen(views: tuple[RunView, ...], step: str | None, task: str | None = None) -> RunView | None:
    """Return the answer to show: of task and step asked for, else the last with a text, else the last."""
    if task:
        return next((view for view in views if (view.task, view.about.step) == (task, step or "")), None)
    of_step = [view for view in views if not step or view.about.step == step]
    return next((view for view in reversed(of_step) if view.answer), of_step[-1] if of_step else None)


@page
def run(visit: Visit) -> Response:
    """Show an answer of a run: text with sources, candidates, legs, stages, context, costs."""
    name = run_name(visit.fields)
    run_page = visit.site.views.run(visit.caller, name.model_copy(update={"step": None}))
    step, task = visit.fields.get("step"), visit.fields.get("task")
    view = _chosen(run_page.views, step, task)
    if (step or task) and view is None:
        raise InvalidJob("no such answer", "step")
    limits = {"most_candidates": 100_000} if visit.fields.get("all") else {}
    about = view.about if view else _about(visit)
    cited = visit.site.views.citations(visit.caller, run_name({**visit.fields, "step": about.step}))
    return visit.page("run.html", run_page=run_page, view=view, about=about, conflicts=cited.conflicts, **limits)


def _about(visit: Visit) -> About:
    return About(visit.fields.get("subject", ""), visit.fields.get("run", ""), visit.fields.get("step", ""))


@page
def source(visit: Visit) -> Response:
    """Show the whole text of a source of an answer, marked at its quotes, between its neighbours in the document."""
    name = run_name(visit.fields)
    run_page = visit.site.views.run(visit.caller, name)
    label = visit.fields.get("label", "")
    view = _chosen(run_page.views, visit.fields.get("step"))
    sources = [source_view for source_view in view.sources if source_view.label == label] if view else []
    if not view or not sources:
        raise InvalidJob("no such source", "label")
    found_source = sources[0]
    place = (found_source.document_id or "", found_source.chunk_id or "")
    reading = visit.site.engine.reading
    around = reading.around(visit.caller, found_source.corpus, place, NEXT_TO) if all(place) else []
    position = next((i for i, chunk in enumerate(around) if chunk.id == place[1]), 0)
    sides = around[:position], around[position + 1 :]
    metadata = around[position].metadata if around else {}
    address = found_source.url or metadata.get("source_url") or metadata.get("url")
    template_values: dict[str, Any] = {
        "source": found_source,
        "address": address,
        "before": sides[0],
        "after": sides[1],
    }
    return visit.page("source.html", about=view.about, **template_values)


@page
def citations(visit: Visit) -> Response:
    """Show the citations of a run, checked now, and their conflicts."""
    name = run_name(visit.fields)
    citations_view = visit.site.views.citations(visit.caller, name)
    return visit.page("citations.html", about=_about(visit), citations=citations_view, decide=True)


@page
def decide(visit: Visit) -> Response:
    """Keep a decision on a conflict with the run."""
    name, decision = run_name(visit.fields), visit.fields.get("decision", "")
    chosen = next((valid_decision for valid_decision in DECISIONS if valid_decision == decision), None)
    if chosen is None:
        raise InvalidJob(f"expected one of {', '.join(DECISIONS)}", "decision")
    visit.site.views.decide(visit.caller, name, visit.fields.get("conflict", ""), chosen, datetime.now(UTC))
    return visit.to("/citations", subject=name.subject_id, run=name.run_id, step=name.step)


@page
def drift(visit: Visit) -> Response:
    """Show the state of a run's pins now."""
    drift_view = visit.site.views.drift(visit.caller, run_name(visit.fields))
    return visit.page("drift.html", about=_about(visit), drift=drift_view)


@page
def report(visit: Visit) -> Response:
    """Send the run as one HTML file."""
    content = report_html(visit.site.views, visit.caller, run_name(visit.fields), datetime.now(UTC))
    return HTMLResponse(content, headers={"content-disposition": 'attachment; filename="run.html"'})


# --- quotes and questions -----------------------------------------------------------------------


@page
def quote(visit: Visit) -> Response:
    """Check a quote against a text."""
    text, quoted = visit.fields.get("text", ""), visit.fields.get("quote", "")
    checked: SourceView | None = None
    if visit.is_post:
        quote_check = checked_quote(quoted, text, visit.site.settings.citations.accepted)
        checked = SourceView("", "", None, None, "", None, None, None, text, quote_check.verdict, (quote_check,))
    return visit.page("quote.html", text=text, quoted=quoted, checked=checked)


@page
def ask(visit: Visit) -> Response:
    """Take a question, and begin to answer it; with two profiles, side by side."""
    fields, error = {**visit.session.unasked, **visit.fields}, ""
    if visit.is_post:
        profiles = tuple(
            dict.fromkeys([fields.get("profile", ""), *([fields["second"]] if fields.get("second") else [])])
        )
        try:
            _check_storable(fields, "question")
            ticket = visit.site.asking.ask(visit.caller, fields.get("question", ""), fields.get("mode", ""), profiles)
        except InvalidJob as invalid:
            error = invalid.message
        else:
            visit.session.unasked.clear()
            return visit.to("/asked", ticket=ticket)
    settings = visit.site.settings
    has_model = settings.language_model.kind != "none"
    return visit.page(
        "ask.html",
        400 if error else 200,
        fields=fields,
        error=error,
        modes=list(settings.modes),
        profiles=[name for name, profile in settings.profiles.items() if has_model or not needs_model(profile)],
        owner=visit.caller.owner,
    )


@page
def asked(visit: Visit) -> Response:
    """Show how far a question is; once it is answered, its run."""
    ticket = visit.site.asking.find(visit.fields.get("ticket", ""), visit.caller)
    if ticket is None:
        raise InvalidJob("no such ticket", "ticket")
    if ticket.is_over and all(answer.state == "done" for answer in ticket.answers):
        target = _answer_path(ticket.answers)
        return _redirect_script(visit, *target) if visit.is_partial else visit.to(target[0], **target[1])
    template = "parts/asked.html" if visit.is_partial else "asked.html"
    return visit.page(template, ticket=ticket, ticket_id=visit.fields["ticket"])


def _answer_path(answers: Any) -> tuple[str, dict[str, str | None]]:
    first_run = answers[0].run
    if len(answers) == 1:
        return "/run", {"subject": first_run.subject_id, "run": first_run.run_id}
    return "/compare", {"subject": first_run.subject_id, "run": first_run.run_id, "with": answers[1].run.run_id}


def _redirect_script(visit: Visit, path: str, parameters: dict[str, str | None]) -> Response:
    return Response(headers={GO_TO: f"{visit.site.root}{path}?{query(**parameters)}"})


@page
def compare(visit: Visit) -> Response:
    """Show the answers of two runs side by side, with what differs."""
    first_run = run_name(visit.fields)
    second_run = run_name({**visit.fields, "run": visit.fields.get("with", "")})
    pages = [visit.site.views.run(visit.caller, name) for name in (first_run, second_run)]
    views = [_chosen(run_page.views, None) for run_page in pages]
    if views[0] is None or views[1] is None:
        raise InvalidJob("no such answer", "run")
    answers = [
        "".join(segment.text for segment in view.answer.segments) if view and view.answer else "" for view in views
    ]
    return visit.page(
        "compare.html",
        sides=list(zip("AB", views, reversed(views), ("removed", "added"), strict=True)),
        common={candidate.place for candidate in views[0].kept} & {candidate.place for candidate in views[1].kept},
        pieces=word_diff(answers[0], answers[1]),
    )


# --- queue --------------------------------------------------------------------------------------


@page
def queue(visit: Visit) -> Response:
    """Show the queues and their dead letters; send a dead letter again, or delete it."""
    if not visit.session.is_operator:
        raise NotAuthorised("only for operators")
    outcome = _changed(visit) if visit.is_post else ""
    state = visit.site.overview.look(MOST_LETTERS)
    template = "parts/queue.html" if visit.is_partial else "queue.html"
    return visit.page(template, state=state, done=outcome)


def _changed(visit: Visit) -> str:
    fields = visit.fields
    if fields.get("confirmed") != "yes":
        return "Nothing was done: confirm it first."
    change = {"retry": visit.site.overview.retry, "purge": visit.site.overview.purge}.get(fields.get("change", ""))
    if change is None:
        return "Nothing was done."
    try:
        is_changed = change(fields.get("queue", ""), fields.get("entry", ""))
    except InvalidJob as error:
        return error.message
    return "Done." if is_changed else "That dead letter is gone."


# --- evaluations --------------------------------------------------------------------------------


@page
def evaluate(visit: Visit) -> Response:
    """Show a report of `evaluate`, the newest unless another is asked for; without one, a sentence."""
    reports, name = visit.site.evaluations, visit.fields.get("report", "")
    try:
        names, view = reports.names(), reports.read(name)
    except (ValueError, OSError) as error:
        log.warning("evaluation unreadable", error=type(error).__name__)
        return visit.page("evaluate.html", 503, view=None, names=[], sentence=UNREADABLE_REPORT)
    if view is None and name:
        raise InvalidJob("no such report", "report")
    sentence = "" if view else NO_REPORT if reports.is_set else NO_REPORTS
    return visit.page("evaluate.html", view=view, names=names, sentence=sentence)


# --- signing in ---------------------------------------------------------------------------------


async def sign_in(request: Request) -> Response:
    """Sign in with a principal token for the task ``inspect``, which may be used once; or with the printed key."""
    site, is_post = _site(request), request.method == "POST"
    fields = await _form(request) if is_post else {**request.query_params}
    if site.visitor is not None:
        return _sign_in_by_key(site, site.visitor, fields)
    if not is_post:
        return _sign_in_page(site, fields)
    token = fields.get("token", "").strip()
    try:
        principal = await run_in_threadpool(_identify_once, site, token)
    except Unavailable:
        return _sign_in_page(
            site, fields, 503, "Nobody can sign in now, because Redis does not answer. Try again later."
        )
    except RetrievalError as error:
        # Right tokens always sign in: else anybody could lock out all visitors behind the same proxy.
        if not site.attempts.allow(request.client.host if request.client else ""):
            return _sign_in_page(site, fields, 429, "Too many attempts: wait a minute.")
        log.warning("sign in refused", reason=error.message)
        return _sign_in_page(site, fields, 403, error.message)
    return _signed_in(site, principal, fields, is_operator=_is_operator(principal, site))


async def _to_sign_in(request: Request) -> Response:
    """Lead to the form to sign in, which leads back to the page; a question is kept in it."""
    site, path, fields = _site(request), request.url.path, {}
    if request.method == "POST" and path == "/ask":
        with contextlib.suppress(HTTPException):  # too long to be kept
            fields = _unasked(await _form(request))
    if fields:
        return _sign_in_page(site, fields, 403, ENDED)
    query_string = request.scope["query_string"].decode("latin-1")
    place = _place(f"{path}?{query_string}" if query_string and request.method == "GET" else path)
    to = f"{site.root}/sign-in{'' if place == '/' else '?'}{query(next='' if place == '/' else place)}"
    # A part of a page that its script asked for can't hold the form.
    return Response(headers={GO_TO: to}) if "hx-request" in request.headers else RedirectResponse(to, SEE_OTHER)


def _place(text: str) -> str:
    """Return the page of this site that an address names, the list of runs for any other address."""
    return text if _PLACE.fullmatch(text) else "/"


def _unasked(form: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of a question that a form has; none of one that is too long to be kept."""
    fields = {name: form[name] for name in ("question", "mode", "profile", "second") if form.get(name)}
    return fields if "question" in fields and len(urlencode(fields)) <= LONGEST_UNASKED else {}


def _sign_in_page(site: Site, fields: Mapping[str, str], status: int = 200, error: str = "") -> Response:
    template_values = {"browser": True, "is_named": site.visitor is not None, "error": error}
    return _rendered(
        site, "sign-in.html", status, **template_values, place=_place(fields.get("next", "")), unasked=_unasked(fields)
    )


def _identify_once(site: Site, token: str) -> Principal:
    """Identify a visitor by a token, and mark the token as used: it signs in once."""
    principal, token_id, expires = identify_visitor(token, site.settings)
    if not site.overview.use_token(token_id, max(0.0, expires - time.time()) + SECONDS_THAT_CLOCKS_DIFFER):
        raise NotAuthorised("principal_token: it was used before")
    return principal


def _sign_in_by_key(site: Site, visitor: NamedVisitor, fields: Mapping[str, str]) -> Response:
    """Exchange the key of the printed address for a session; without it no request opens one, from whatever site."""
    key = fields.get("key", "").strip().rpartition("key=")[2]  # or the whole address
    if not hmac.compare_digest(key.encode("utf-8", "replace"), visitor.key.encode()):
        return _sign_in_page(site, fields, 403 if key else 200, "This is not its key." if key else "")
    return _signed_in(site, visitor.principal, fields, is_operator=True)


def _signed_in(site: Site, principal: Principal, fields: Mapping[str, str], *, is_operator: bool) -> Response:
    unasked = _unasked(fields)
    secret, _ = site.sessions.open(principal, is_operator=is_operator, unasked=unasked)
    place = "/ask" if unasked else _place(fields.get("next", ""))
    response = RedirectResponse(f"{site.root}{place}", SEE_OTHER)
    response.set_cookie(
        COOKIE,
        secret,
        int(site.sessions.seconds),
        path=site.root or "/",
        secure=site.is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


def _is_operator(principal: Principal, site: Site) -> bool:
    """Return whether a visitor has each claim that the settings ask of operators; of a list, one value at least."""
    required_claims = site.settings.inspector.operators
    return bool(required_claims) and all(
        _has(principal.claims.get(name), value) for name, value in required_claims.items()
    )


def _has(claim: Any, required_claim: Any) -> bool:
    if isinstance(required_claim, list):
        return isinstance(claim, list | tuple) and not {*required_claim}.isdisjoint(claim)
    return bool(claim == required_claim)


async def sign_out(request: Request) -> Response:
    """End the session."""
    site, secret = _site(request), request.cookies.get(COOKIE, "")
    session, fields = site.sessions.find(secret), await _form(request)
    if session is not None and hmac.compare_digest(fields.get("csrf", "").encode(), session.csrf.encode()):
        site.sessions.close(secret)
    response = RedirectResponse(f"{site.root}/sign-in", SEE_OTHER)
    response.delete_cookie(COOKIE, path=site.root or "/")
    return response


async def static(request: Request) -> Response:
    """Send a file of the package."""
    name = request.path_params["name"]
    if name not in _STATIC:
        return await not_found(request, InvalidJob("no such file"))
    return Response(read_static(name), media_type=_STATIC[name], headers={"cache-control": "max-age=3600"})
