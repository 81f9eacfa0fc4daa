from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.jobs.principal import identify
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.settings import Settings

    Trusting = Callable[[dict[str, Any]], Principal | None]


@pytest.fixture
def trusting(make_settings: Callable[..., Settings]) -> Trusting:
    """Identifies the caller of a job with these claims, where the queue is trusted."""
    settings = make_settings(trust_queue=True)

    def ask(claims: dict[str, Any]) -> Principal | None:
        raw = {"query_embedding": [1.0], "principal": claims}
        return identify(parse_job(RetrieveTopK, raw), raw, task="retrieve_top_k", task_id="id-1", settings=settings)

    return ask


def test_claims_become_settings_in_the_order_of_the_mapping(trusting: Trusting) -> None:
    """Each mapped claim becomes its Postgres setting, lists as JSON; what is not mapped is left aside."""
    asker = trusting({"roles": ["editor", "é\"'"], "user_id": "u1", "unmapped": {"deep": [1]}})
    assert asker == Principal(
        claims={"user_id": "u1", "roles": ("editor", "é\"'")},
        settings=(("app.user_id", "u1"), ("app.tenant_id", ""), ("app.roles", '["editor","é\\"\'"]')),
        owner="u1",
    )


def test_a_claim_that_is_absent_or_null_is_stated_as_empty(trusting: Trusting) -> None:
    """Every mapped setting is stated every time, so that nothing of an earlier caller stands."""
    asker = trusting({"tenant_id": "t1", "user_id": None})
    assert asker is not None
    assert asker.settings == (("app.user_id", ""), ("app.tenant_id", "t1"), ("app.roles", ""))
    assert (asker.owner, dict(asker.claims)) == ("", {"tenant_id": "t1"})


@pytest.mark.parametrize(
    ("claim", "stated"),
    [
        ("u1", "u1"),
        ("'; DROP TABLE x; --", "'; DROP TABLE x; --"),
        (17, "17"),
        (-(2**63), str(-(2**63))),
        (10**40, str(10**40)),
        (True, "true"),
        (["a", "b"], '["a","b"]'),
        (["\n"], '["\\n"]'),
    ],
    ids=repr,
)
def test_each_type_of_claim_has_one_text(trusting: Trusting, claim: Any, stated: str) -> None:
    """Strings as they are, numbers and booleans and lists as JSON."""
    asker = trusting({"user_id": claim})
    assert asker is not None
    assert (asker.settings[0], asker.owner) == (("app.user_id", stated), stated)


def test_a_user_numbered_zero_is_somebody(trusting: Trusting) -> None:
    """An integer id of 0 names a caller like any other."""
    asker = trusting({"user_id": 0})
    assert asker is not None
    assert asker.owner == "0"


@pytest.mark.parametrize(
    "claims",
    [{}, {"unmapped": "u1"}, {"user_id": ""}, {"user_id": None}, {"roles": []}, {"user_id": "", "roles": []}],
    ids=repr,
)
def test_claims_that_name_nobody_are_not_authorised(trusting: Trusting, claims: dict[str, Any]) -> None:
    """A principal that states nothing is no principal."""
    with pytest.raises(NotAuthorised, match="at least one of the claims user_id, tenant_id, roles"):
        trusting(claims)


@pytest.mark.parametrize(
    ("claim", "path"),
    [
        (1.5, "principal.user_id"),
        ({"id": "canary"}, "principal.user_id"),
        ([["canary"]], "principal.user_id[0]"),
        (["a", 5], "principal.user_id[1]"),
        (["a", None], "principal.user_id[1]"),
        ("canary" * 100, "principal.user_id"),
        ("canary\0", "principal.user_id"),
        (["a", "canary\0"], "principal.user_id[1]"),
        (["canary"] * 1001, "principal.user_id"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_claim_of_a_wrong_type_is_named(trusting: Trusting, claim: Any, path: str) -> None:
    """The claim's path and what was expected, not what it said."""
    with pytest.raises(InvalidJob) as caught:
        trusting({"user_id": claim})
    assert caught.value.path == path
    assert "canary" not in caught.value.message


def test_claims_on_a_queue_that_is_not_trusted_are_refused(make_settings: Callable[..., Settings]) -> None:
    """Without `trust_queue`, write access to Redis is not enough to ask as a caller."""
    raw = {"query_embedding": [1.0], "principal": {"user_id": "u1"}}
    job = parse_job(RetrieveTopK, raw)
    with pytest.raises(NotAuthorised, match="does not trust its queue"):
        identify(job, raw, task="retrieve_top_k", task_id="id-1", settings=make_settings())
    malformed = parse_job(RetrieveTopK, {**raw, "principal": {"user_id": {}}})
    with pytest.raises(InvalidJob):
        identify(malformed, {}, task="retrieve_top_k", task_id="id-1", settings=make_settings())


@pytest.mark.parametrize("trust", [True, False])
def test_a_job_that_names_nobody_has_no_principal(make_settings: Callable[..., Settings], trust: bool) -> None:
    """No caller is ever made up: only a public corpus answers a job without one."""
    raw = {"query_embedding": [1.0]}
    job = parse_job(RetrieveTopK, raw)
    assert identify(job, raw, task="retrieve_top_k", task_id="id-1", settings=make_settings(trust_queue=trust)) is None


def test_the_mapping_and_the_owner_come_from_settings(make_settings: Callable[..., Settings]) -> None:
    """Another backend's claims and settings, and another claim as the owner."""
    mapping = {"owner_claims": ["org"], "settings": {"sub": "my.subject", "org": "my.organisation"}}
    settings = make_settings(trust_queue=True, principal=mapping)
    raw = json.loads('{"query_embedding": [1.0], "principal": {"org": "o1", "user_id": "ignored"}}')
    asker = identify(parse_job(RetrieveTopK, raw), raw, task="retrieve_top_k", task_id="id-1", settings=settings)
    assert asker == Principal({"org": "o1"}, (("my.subject", ""), ("my.organisation", "o1")), "o1")
