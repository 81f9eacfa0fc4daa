"""The caller of a command, by one of three options: `--as`, `--claims` or `--token`.

Commands that read records need a principal; commands that send a job put the caller into it, signed where the settings
have a key.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retrieval_client.errors import InvalidJob, NotAuthorised
from retrieval_client.json_values import path_of_large

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from retrieval_client import Client, Signer, TaskId
    from retrieval_client.contract.base import AnsweredBy, AnswerT
    from retrieval_client.contract.jobs import Job
    from worker.model import Principal
    from worker.settings import Settings

AS, CLAIMS, TOKEN = "--as", "--claims", "--token"
TOKEN_VARIABLE = "INSPECTOR_TOKEN"  # noqa: S105 -- its name
_NAME_CALLER = f"name the caller: give one of {AS}, {CLAIMS} and {TOKEN}"


def stated_caller(context: typer.Context, parameter: typer.CallbackParam, value: str) -> str:
    """Refuse an empty text, such as a shell's unset variable: taken for no caller, it could mean every one."""
    source = context.get_parameter_source(str(parameter.name))
    if value == "" and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter("expected a caller, got an empty text")
    return value


Caller = Annotated[
    str,
    typer.Option(
        AS,
        metavar="USER",
        callback=stated_caller,
        help="The caller: the user's id (owner claim), or all claims as JSON.",
    ),
]
JobCaller = Annotated[
    str,
    typer.Option(
        AS,
        metavar="USER",
        callback=stated_caller,
        help="The caller: the user's id (owner claim), or all claims as JSON. Signed if the settings have a secret in "
        "RETRIEVAL_WORKER_TOKEN_KEYS; otherwise the worker must trust its queue.",
    ),
]
Claims = Annotated[
    str,
    typer.Option(
        CLAIMS,
        metavar="JSON",
        callback=stated_caller,
        help='Instead of --as: all claims of the caller: \'{"user_id": "u1", "roles": ["editor"]}\'.',
    ),
]
Token = Annotated[
    str,
    typer.Option(
        TOKEN,
        metavar="TOKEN",
        callback=stated_caller,
        envvar=TOKEN_VARIABLE,
        help="Instead of --as: a principal token for the task inspect, best by its variable.",
    ),
]
JobToken = Annotated[
    str,
    typer.Option(
        TOKEN,
        metavar="TOKEN",
        callback=stated_caller,
        envvar=TOKEN_VARIABLE,
        help="Instead of --as: a principal token for the task inspect, or for this very job (its jti becomes the task "
        "id), best by its variable.",
    ),
]


def is_named(caller: str, claims: str, token: str) -> bool:
    """Return whether one of the options names a caller.

    Raises:
        typer.BadParameter: several do.
    """
    given_options = [option for option in (caller, claims, token) if option]
    if len(given_options) > 1:
        raise typer.BadParameter(f"give one of {AS}, {CLAIMS} and {TOKEN} ({TOKEN_VARIABLE})")
    return bool(given_options)


def principal_of(settings: Settings, caller: str, claims: str, token: str) -> Principal:
    """Return the caller that one of the options names.

    Raises:
        InvalidJob: a claim is wrong; the message names the option.
        NotAuthorised: the token isn't valid for a visit, or no claim is mapped.
        typer.BadParameter: none of the options names a caller, or several do.
    """
    from worker.jobs.principal import as_principal

    if not is_named(caller, claims, token):
        raise _nobody()
    if token:
        return visitor_of(settings, token)
    return as_principal(_stated_claims(settings, caller, claims), settings, CLAIMS if claims else AS)


def visitor_of(settings: Settings, token: str) -> Principal:
    """Return the caller of a token for the task inspect.

    Raises:
        NotAuthorised: it isn't valid for a visit, or none of its claims is mapped.
    """
    from worker.jobs.principal import identify_visitor

    try:
        return identify_visitor(token.strip(), settings)[0]
    except NotAuthorised as error:
        raise NotAuthorised(f"{TOKEN}: {error.message.removeprefix('principal_token: ')}") from None


def claims_of(settings: Settings, caller: str, claims: str, token: str) -> dict[str, Any] | None:
    """Return the claims of the caller that one of the options names; None without one. A token is verified.

    Raises:
        NotAuthorised, typer.BadParameter: as `principal_of`.
    """
    if not is_named(caller, claims, token):
        return None
    if not token:
        return _stated_claims(settings, caller, claims)
    verified = visitor_of(settings, token).claims
    return {name: list(value) if isinstance(value, tuple) else value for name, value in verified.items()}


def _stated_claims(settings: Settings, caller: str, claims: str) -> dict[str, Any]:
    if caller and not caller.startswith("{"):
        return {settings.principal.owners[-1]: caller}
    return _json_claims(claims or caller, CLAIMS if claims else AS)


def _json_claims(text: str, option: str) -> dict[str, Any]:
    """Return claims from a JSON object."""
    try:
        claims = json.loads(text)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise typer.BadParameter('expected a JSON object: \'{"user_id": "u1"}\'', param_hint=option)
    return claims


def _nobody() -> typer.BadParameter:
    return typer.BadParameter(_NAME_CALLER)


# --- jobs ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SentAs:
    """The caller of the jobs of a command.

    Attributes:
        name: its name for people.
        fields: fields of a job that state it.
        signer: signs its claims; None: they are sent as they are, or there is a token.
    """

    name: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    signer: Signer | None = None

    @property
    def is_for_one_job(self) -> bool:
        """Whether a token allows one job only."""
        return "principal_token" in self.fields


def sent_as(caller: str, claims: str, token: str, timeout: float, *, required: bool = True) -> SentAs:
    """Return how a command states the caller in its jobs.

    Args:
        caller: of `--as`.
        claims: of `--claims`.
        token: of `--token`.
        timeout: seconds that a job may wait.
        required: refuse a command that names no caller.

    Raises:
        NotAuthorised, typer.BadParameter: as `principal_of`.
        SettingsError: the settings are wrong.
    """
    from worker.jobs.principal import VISIT
    from worker.settings import load_unconnected

    if not is_named(caller, claims, token):
        if required:
            raise _nobody()
        return SentAs()
    if token and (bound := _unverified(token.strip())).get("task") != VISIT:
        return SentAs(_name_of(bound), {"principal_token": token.strip()})
    settings = load_unconnected()
    stated_claims = claims_of(settings, caller, claims, token) or {}
    name = caller or claims or str(stated_claims.get(settings.principal.owners[-1], ""))
    return SentAs(name, {"principal": stated_claims}, signer_of(settings, timeout))


def signer_of(settings: Settings, timeout: float) -> Signer | None:
    """Return a signer by a secret of the settings; None without one, and where the worker trusts its queue."""
    from retrieval_client import Signer
    from worker.jobs.principal import MAX_TOKEN_SECONDS

    rules = settings.principal.token
    keys = {kid: key.get_secret_value() for kid, key in settings.token_keys.items()}
    secret = next((kid for kid, key in keys.items() if not key.lstrip().startswith("-----BEGIN")), None)
    if settings.trust_queue or secret is None or "HS256" not in rules.algorithms:
        return None
    lifetime = min(MAX_TOKEN_SECONDS, max(600, int(timeout) + 60))
    return Signer(keys[secret], secret, audience=rules.audience, lifetime_seconds=lifetime)


@contextlib.contextmanager
def naming_options(sender: SentAs) -> Iterator[None]:
    """Have a worker's refusal of a job without a caller name the options that state one.

    Raises:
        typer.BadParameter: the job needs a caller, and no option names one.
    """
    try:
        yield
    except NotAuthorised as error:
        if sender.fields:
            raise
        refusal, *_ = error.message.split(": ")
        raise typer.BadParameter(f"{refusal}: {_NAME_CALLER}") from None


def enqueue(client: Client, job: AnsweredBy[AnswerT], expires: float) -> TaskId[AnswerT]:
    """Put a job on its queue: its claims signed if the client has a signer, under the id of its token if it has one.

    Raises:
        RetrievalError: as `Client.enqueue`.
        typer.BadParameter: the token is not for this job.
    """
    from retrieval_client.jobs import as_job

    contract_job = as_job(job)
    if contract_job.principal_token is not None:
        task_id = _check_bound(contract_job, contract_job.principal_token)
        return client.enqueue(job, task_id=task_id, expires=expires)
    if client.signer is None or contract_job.principal is None:
        return client.enqueue(job, expires=expires)
    unsigned: Any = type(contract_job).model_validate(
        contract_job.model_dump(exclude_unset=True, exclude={"principal"})
    )
    return client.enqueue(unsigned, claims=contract_job.principal, expires=expires)


def _unverified(token: str) -> dict[str, Any]:
    """Return what a token says, which the worker will verify."""
    import jwt

    try:
        return jwt.decode(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise typer.BadParameter("expected a principal token, a signed JWT", param_hint=TOKEN) from None


def _name_of(claims: Mapping[str, Any]) -> str:
    return str(claims.get("user_id") or "the token's caller")


def _check_bound(job: Job, token: str) -> str:
    """Return the task id of a token that is for a job; what the job expects is said here, a worker can't.

    Raises:
        typer.BadParameter: it is for another one.
        InvalidJob: the job has an integer that can't be signed.
    """
    from retrieval_client.canonical import canonical_sha256
    from retrieval_client.contract.registry import task_of

    bound, task = _unverified(token), task_of(type(job)).name
    body = job.model_dump(mode="json", exclude_unset=True, exclude={"principal_token"})
    try:
        digest = canonical_sha256(body)
    except ValueError as error:
        raise InvalidJob(str(error), path_of_large(body)) from None
    task_id = bound.get("jti")
    if bound.get("task") != task or bound.get("args_sha256") != digest or not (task_id and isinstance(task_id, str)):
        raise typer.BadParameter(
            f"it is not for this job: expected a jti, task {task} and args_sha256 {digest}", param_hint=TOKEN
        )
    return task_id
