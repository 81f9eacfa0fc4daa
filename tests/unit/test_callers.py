"""The caller of a command: one of `--as`, `--claims` and `--token`, to a principal or to the fields of a job."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import typer

from retrieval_client import RecordFeedback, Signer
from retrieval_client.canonical import canonical_sha256
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.cli.commands.callers import (
    SentAs,
    claims_of,
    enqueue,
    is_named,
    naming_options,
    principal_of,
    sent_as,
    signer_of,
)
from worker.jobs.principal import MAX_TOKEN_SECONDS
from worker.settings import load_unconnected

if TYPE_CHECKING:
    from worker.settings import Settings

KEY = "a secret of at least thirty-two bytes"
NOBODY = ("", "", "")
CLAIMS = {"user_id": "alice", "roles": ["editor"]}
JOB = {"run": {"subject_id": "song-1", "run_id": "r1"}, "rating": 1}


def token(task: str = "inspect", *, key: str = KEY, job: Any = None, **claims: Any) -> str:
    """A token of alice, for a visit unless something else is said."""
    signer = Signer(key, "k1", lifetime_seconds=80_000)  # made when tests are collected, which may be long before
    return signer.sign(job or {}, claims or CLAIMS, task=task, task_id="task-1", now=time.time())


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a worker that does not trust its queue, also for what loads them itself."""
    monkeypatch.setenv("RETRIEVAL_WORKER_TOKEN_KEYS", json.dumps({"k1": KEY}))
    return load_unconnected()


@pytest.mark.parametrize("given", [("alice", "{}", ""), ("alice", "", "x"), ("", "{}", "x"), ("alice", "{}", "x")])
def test_at_most_one_option_names_the_caller(given: tuple[str, str, str], settings: Settings) -> None:
    """The sentence has all three, and the variable that may have set the third."""
    with pytest.raises(typer.BadParameter, match=r"give one of --as, --claims and --token \(INSPECTOR_TOKEN\)"):
        principal_of(settings, *given)


def test_a_caller_is_needed_to_read_records(settings: Settings) -> None:
    """The sentence has the options; commands that also do without one see that there is none."""
    assert not is_named(*NOBODY)
    assert claims_of(settings, *NOBODY) is None
    for reading in (lambda: principal_of(settings, *NOBODY), lambda: sent_as(*NOBODY, 30)):
        with pytest.raises(typer.BadParameter, match="name the caller: give one of --as, --claims and --token"):
            reading()
    assert sent_as(*NOBODY, 30, required=False).fields == {}


def test_all_three_name_the_same_caller(settings: Settings) -> None:
    """Claims as JSON may stand in --as, too."""
    text = json.dumps(CLAIMS)
    by_claims = [principal_of(settings, *given) for given in ((text, "", ""), ("", text, ""), ("", "", token()))]
    assert by_claims[0].claims == {"user_id": "alice", "roles": ("editor",)}
    assert all(one == by_claims[0] for one in by_claims)
    assert principal_of(settings, "alice", "", "").owner == by_claims[0].owner
    assert claims_of(settings, "", "", token()) == claims_of(settings, "", text, "") == CLAIMS


def test_the_users_id_is_the_last_owner_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the settings name it."""
    monkeypatch.setenv("RETRIEVAL_WORKER_PRINCIPAL__SETTINGS", '{"sub": "app.sub"}')
    monkeypatch.setenv("RETRIEVAL_WORKER_PRINCIPAL__OWNER_CLAIMS", '["sub"]')
    assert sent_as("alice", "", "", 30).fields == {"principal": {"sub": "alice"}}


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        (("{", "", ""), typer.BadParameter, "expected a JSON object"),
        (("", "[]", ""), typer.BadParameter, "expected a JSON object"),
        (("", "{" * 5000, ""), typer.BadParameter, "expected a JSON object"),
        (("", '{"user_id": {}}', ""), InvalidJob, "^--claims.user_id: expected a string"),
        (('{"user_id": {}}', "", ""), InvalidJob, "^--as.user_id: expected a string"),
        (("", '{"other": "x"}', ""), NotAuthorised, "^--claims: expected at least one of the claims"),
        (("", "", "x"), NotAuthorised, "^--token: it is not a token"),
        (("", "", token(key="x" * 40)), NotAuthorised, "^--token: it is not a token"),
        (("", "", token("retrieve_top_k")), NotAuthorised, "^--token: it was issued for another task"),
        (("", "", token(other="x")), NotAuthorised, "^--token: expected at least one of the claims"),
    ],
)
def test_the_error_of_a_caller_names_the_option(
    given: tuple[str, str, str], kind: type[Exception], said: str, settings: Settings
) -> None:
    """And what was expected; the command line adds the option's name to wrong usage."""
    with pytest.raises(kind, match=said) as raised:
        principal_of(settings, *given)
    option = "--claims" if given[1] else "--as"
    assert not isinstance(raised.value, typer.BadParameter) or raised.value.param_hint == option


@pytest.mark.parametrize(
    ("changes", "signs"),
    [
        ({}, True),
        ({"TRUST_QUEUE": "true"}, False),
        ({"TOKEN_KEYS": ""}, False),
        ({"TOKEN_KEYS": '{"k1": "-----BEGIN PUBLIC KEY-----"}'}, False),
        ({"PRINCIPAL__TOKEN__ALGORITHMS": '["EdDSA"]'}, False),
    ],
)
def test_claims_are_signed_where_the_settings_can(
    changes: dict[str, str], signs: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a secret, for a worker that does not trust its queue; a public key can't sign."""
    del settings
    for name, value in changes.items():
        monkeypatch.setenv(f"RETRIEVAL_WORKER_{name}", value)
    made = sent_as("alice", "", "", 30)
    assert (made.signer is not None, made.name, dict(made.fields)) == (
        signs,
        "alice",
        {"principal": {"user_id": "alice"}},
    )


def test_a_signature_lasts_as_long_as_the_command_waits(settings: Settings) -> None:
    """Within what the worker accepts."""
    signers = [signer_of(settings, seconds) for seconds in (5000, 1, 10 * MAX_TOKEN_SECONDS)]
    assert [signer.lifetime_seconds for signer in signers if signer] == [5060, 600, MAX_TOKEN_SECONDS]


def test_a_token_for_a_visit_is_verified_and_its_claims_are_sent(settings: Settings) -> None:
    """Signed again for each job."""
    made = sent_as("", "", token(), 30)
    assert (made.name, made.fields, made.is_for_one_job) == ("alice", {"principal": CLAIMS}, False)
    assert made.signer == signer_of(settings, 30)
    with pytest.raises(NotAuthorised, match=r"^--token: it is not a token that this worker can verify"):
        sent_as("", "", token(key="x" * 40), 30)


def test_a_token_for_a_job_is_passed_on_without_a_key() -> None:
    """The worker verifies it; here only what it is for is compared."""
    signed = token("record_feedback", job=JOB)
    made = sent_as("", "", signed, 30)
    assert (made.name, made.fields, made.signer) == ("alice", {"principal_token": signed}, None)
    assert made.is_for_one_job


@pytest.mark.parametrize(
    "signed", [token("pinned_replay", job=JOB), token("record_feedback", job={**JOB, "rating": 0}), "x"]
)
def test_a_token_for_another_job_is_wrong_usage(signed: str) -> None:
    """The sentence says what this job's must have: a backend can sign it then. Nothing is sent."""
    job = RecordFeedback.model_validate({**JOB, "principal_token": signed})
    nowhere: Any = None
    with pytest.raises(typer.BadParameter) as raised:
        enqueue(nowhere, job, 30)
    assert raised.value.param_hint == "--token"
    said = f"expected a jti, task record_feedback and args_sha256 {canonical_sha256(JOB)}"
    assert raised.value.message == (
        "expected a principal token, a signed JWT" if signed == "x" else f"it is not for this job: {said}"
    )


def test_a_refused_job_without_a_caller_names_the_options() -> None:
    """Of the command line, not the fields of a job; with a caller the worker's own words say what is wrong."""
    refusal = "the corpus documents is not public: send a principal_token, or a principal"
    with (
        pytest.raises(typer.BadParameter, match="is not public: name the caller: give one of --as, --claims and"),
        naming_options(SentAs()),
    ):
        raise NotAuthorised(refusal)
    with (
        pytest.raises(NotAuthorised, match="send a principal_token"),
        naming_options(SentAs("alice", {"principal": CLAIMS})),
    ):
        raise NotAuthorised(refusal)
