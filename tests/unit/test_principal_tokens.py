"""`principal_token`: the caller as a signed JWT, bound to one task, one id and one job."""

from __future__ import annotations

import base64
import datetime as dt
import json
import pickle
import time
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from retrieval_client.canonical import canonical_sha256
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import InvalidJob, NotAuthorised, RetrievalError, SettingsError
from retrieval_client.jobs import Signer
from worker.jobs.principal import LEEWAY_SECONDS, check_keys, identify

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.model import Principal
    from worker.settings import Settings

TASK, TASK_ID = "retrieve_top_k", "6f1c0a52-0000-4000-8000-000000000001"
JOB = {"query_embedding": [1.0], "k": 12, "filters": {"metadata": {"é": 0.1}}}
KEY = "a key of 32 bytes or more for HS256"
OTHER_KEY = "another key of 32 bytes for HS256, too"
ALGORITHMS = ["HS256", "RS256", "EdDSA"]


def pem(private: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> tuple[str, str]:
    form = serialization.PrivateFormat.PKCS8
    secret = private.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    public = private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return secret.decode(), public.decode()


RSA = pem(rsa.generate_private_key(65537, 2048))
ED = pem(ed25519.Ed25519PrivateKey.generate())
SIGNING = {"HS256": KEY, "RS256": RSA[0], "EdDSA": ED[0]}
CHECKING = {"HS256": KEY, "RS256": RSA[1], "EdDSA": ED[1]}


def claims(**changes: Any) -> dict[str, Any]:
    bound = {
        "exp": int(time.time()) + 60,
        "aud": "retrieval-worker",
        "task": TASK,
        "jti": TASK_ID,
        "args_sha256": canonical_sha256(JOB),
        "user_id": "u1",
        **changes,
    }
    return {name: value for name, value in bound.items() if value is not ...}


def token(key: str = KEY, algorithm: str = "HS256", kid: Any = "k1", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm, headers={"kid": kid} if kid else None)


def rules(make_settings: Callable[..., Settings], *algorithms: str, **keys: str) -> Settings:
    allowed = {"token": {"algorithms": list(algorithms or ["HS256"])}}
    return make_settings(principal=allowed, token_keys=keys or {"k1": KEY})


def ask(settings: Settings, signed: str, job: dict[str, Any] = JOB, **called: str) -> Principal | None:
    raw = {**job, "principal_token": signed}
    call = {"task": TASK, "task_id": TASK_ID, **called}
    return identify(parse_job(RetrieveTopK, raw), raw, settings=settings, **call)


@pytest.fixture
def settings(make_settings: Callable[..., Settings]) -> Settings:
    """One HS256 key, k1, and a queue that is not trusted."""
    return rules(make_settings)


def refusal(settings: Settings, signed: str, job: dict[str, Any] = JOB, **called: str) -> str:
    with pytest.raises(NotAuthorised) as caught:
        ask(settings, signed, job, **called)
    message = caught.value.message
    assert message.startswith(("principal_token: ", "principal_token."))
    assert signed not in message or not signed
    return message


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_signed_caller_is_believed(make_settings: Callable[..., Settings], algorithm: str) -> None:
    """By each algorithm that settings allow: the claims become the caller, of a queue that is not trusted."""
    settings = rules(make_settings, algorithm, k1=CHECKING[algorithm])
    asker = ask(settings, token(SIGNING[algorithm], algorithm, roles=["editor"]))
    assert asker is not None
    assert asker.settings == (("app.user_id", "u1"), ("app.tenant_id", ""), ("app.roles", '["editor"]'))
    assert asker.owner == "u1"


def test_the_same_delivery_may_come_again(settings: Settings) -> None:
    """At-least-once: the same token with the same id and job is believed each time."""
    signed = token()
    assert ask(settings, signed) == ask(settings, signed)


def test_the_digest_is_over_the_meaning_of_a_job(settings: Settings) -> None:
    """Key order and the spelling of numbers do not matter: RFC 8785 decides."""
    respelled = json.loads('{"filters": {"metadata": {"\\u00e9": 1e-1}}, "k": 12, "query_embedding": [1]}')
    assert ask(settings, token(), respelled) is not None


@pytest.mark.parametrize("sent", [2**53 + 1, 2**53 + 2, 10**400], ids=["odd", "even", "no double"])
def test_a_signed_job_has_no_integer_that_is_written_as_another(settings: Settings, sent: int) -> None:
    """2^53 + 1 and 2^53 are one number to RFC 8785: refused by its field, whichever of them was signed."""
    signed = {**JOB, "filters": {"metadata": {"n": 2**53}}}
    token_of_it = token(args_sha256=canonical_sha256(signed))
    assert ask(settings, token_of_it, signed) is not None
    with pytest.raises(InvalidJob, match=r"^filters\.metadata\.n: expected an integer of at most 2\^53"):
        ask(settings, token_of_it, {**JOB, "filters": {"metadata": {"n": sent}}})
    with pytest.raises(InvalidJob, match=r"^filters\.metadata\.n: "):
        Signer(KEY, "k1").sign({"filters": {"metadata": {"n": sent}}}, {}, task=TASK, task_id=TASK_ID, now=time.time())


def test_malformed_claims_of_a_good_signature_count_as_forged(settings: Settings) -> None:
    """So no task takes the job as one of nobody."""
    with pytest.raises(NotAuthorised) as caught:
        ask(settings, token(user_id={"a": 1}))
    assert caught.value.forged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "pinned_replay"}, "another task"),
        ({"task": None}, "no claim task"),
        ({"jti": "6f1c0a52-0000-4000-8000-000000000002"}, "another task id"),
        ({"args_sha256": canonical_sha256({**JOB, "k": 15})}, "another job"),
        ({"args_sha256": "é"}, "another job"),
        ({"args_sha256": ["x"]}, "another job"),
        ({"aud": "another-worker"}, "another audience"),
        ({"aud": ["one", "two"]}, "another audience"),
        ({"exp": 10**9}, "expired"),
        ({"exp": 0}, "expired"),
        *(({name: ...}, f"no claim {name}") for name in ("exp", "aud", "task", "jti", "args_sha256")),
        ({"exp": "never"}, "can verify"),
        ({"exp": []}, "can verify"),
        ({"exp": float("inf")}, "can verify"),
        ({"nbf": 10**11}, "can verify"),
        ({"user_id": ...}, "at least one of the claims"),
        ({"user_id": ""}, "at least one of the claims"),
        ({"user_id": 1.5}, "principal_token.user_id: expected a string"),
        ({"user_id": {"a": "b"}}, "principal_token.user_id: expected a string"),
        ({"user_id": "a\0"}, "principal_token.user_id: expected"),
        ({"user_id": "\ud800"}, "principal_token.user_id: expected"),
        ({"roles": ["a", 5]}, "principal_token.roles[1]: expected"),
    ],
    ids=lambda value: ascii(value).replace("Ellipsis", "absent") if isinstance(value, dict) else "",
)
def test_a_token_for_something_else_is_refused(settings: Settings, changes: dict[str, Any], message: str) -> None:
    """Another task, id, job or audience, expired, without a bound claim, or without a caller: one sentence says so."""
    assert message in refusal(settings, token(**changes))


@pytest.mark.parametrize(
    ("sign", "forged"),
    [
        (lambda: token(OTHER_KEY), True),
        (lambda: token(kid="k9"), True),
        (lambda: token(task="pinned_replay"), True),
        (lambda: token(jti="another"), True),
        (lambda: token(args_sha256="x"), True),
        (lambda: token(aud="another"), True),
        (lambda: token(exp=...), True),
        (lambda: "rubbish", True),
        (lambda: token(exp=10**9), False),
        (lambda: token(user_id=...), False),
    ],
    ids=["key", "kid", "task", "id", "job", "audience", "unbound", "rubbish", "expired", "nobody"],
)
def test_a_token_that_was_never_good_for_its_job_counts_as_forged(
    settings: Settings, sign: Callable[[], str], forged: bool
) -> None:
    """Its message is a dead letter; one that expired in the queue is answered. A pool process hands it over pickled."""
    with pytest.raises(NotAuthorised) as caught:
        ask(settings, sign())
    assert caught.value.forged is forged
    handed_over = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 -- our own
    assert (handed_over.message, handed_over.forged) == (caught.value.message, forged)


def test_another_task_id_or_task_refuses_a_good_token(settings: Settings) -> None:
    """A token that was seen on the queue can't be spent on a job of one's own."""
    assert "another task id" in refusal(settings, token(), task_id="6f1c0a52-0000-4000-8000-000000000009")
    assert "another task" in refusal(settings, token(), task="pinned_replay")


@pytest.mark.parametrize(
    "job",
    [{**JOB, "k": 13}, {**JOB, "exact": False}, {"query_embedding": [1.0]}, {**JOB, "query_embedding": [1.0, 0.0]}],
    ids=["changed", "added", "removed", "other query"],
)
def test_a_job_changed_after_signing_is_refused(settings: Settings, job: dict[str, Any]) -> None:
    """Even a default that is written out makes it another job."""
    assert "another job" in refusal(settings, token(), job)


def test_claims_changed_after_signing_are_refused(settings: Settings) -> None:
    """The payload of one token under the signature of another is worth nothing."""
    header, _, signature = token().split(".")
    payload = base64.urlsafe_b64encode(json.dumps(claims(user_id="root")).encode()).rstrip(b"=").decode()
    assert "can verify" in refusal(settings, f"{header}.{payload}.{signature}")


def test_a_leeway_forgives_a_clock(make_settings: Callable[..., Settings]) -> None:
    """A token that expired within the leeway is still believed, one beyond it is not."""
    settings, now = rules(make_settings), int(time.time())
    assert ask(settings, token(exp=now)) is not None
    assert "expired" in refusal(settings, token(exp=now - LEEWAY_SECONDS - 1))


def test_a_token_for_longer_than_a_day_is_refused(make_settings: Callable[..., Settings]) -> None:
    """One that is stolen is not worth years."""
    now = int(time.time())
    shipped = make_settings(token_keys={"k1": KEY})
    assert ask(shipped, token(exp=now + 86_000)) is not None
    assert "than a day" in refusal(shipped, token(exp=now + 90_000))
    assert "than a day" in refusal(shipped, token(exp=10**15))
    assert "than a day" in refusal(shipped, token(exp=str(10**15)))


# --- keys -------------------------------------------------------------------------------------------

RSA_SMALL = pem(rsa.generate_private_key(65537, 1024))  # noqa: S505 -- to be refused
ELLIPTIC = ec.generate_private_key(ec.SECP256R1()).public_key()
ELLIPTIC_PEM = ELLIPTIC.public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
).decode()
SSH = ELLIPTIC.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()


_NAME = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "backend.test")])
_SIGNED = ed25519.Ed25519PrivateKey.generate()
CERTIFICATE = (
    x509.CertificateBuilder(
        *(_NAME, _NAME, _SIGNED.public_key(), 1),
        *(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2036, 1, 1, tzinfo=dt.UTC)),
    )
    .sign(_SIGNED, None)
    .public_bytes(serialization.Encoding.PEM)
    .decode()
)


@pytest.mark.parametrize(
    ("algorithms", "key", "message"),
    [
        (["HS256"], "", "at least 32 bytes"),
        (["HS256"], " ", "at least 32 bytes"),
        (["HS256"], " " * 40, "at least 32 bytes"),
        (["HS256"], "x" * 31, "at least 32 bytes"),
        (["HS256", "RS256"], "x" * 31, "at least 32 bytes"),
        (["HS256"], RSA[1], "principal.token.algorithms allows HS256 only, and this is a public key for RS256"),
        (["HS256"], SSH, "expected a secret"),
        (["HS256"], '{"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3JldA"}', "expected a secret"),
        (["RS256"], KEY, "expected a public key in PEM"),
        (["EdDSA"], KEY, "expected a public key in PEM"),
        (["RS256", "EdDSA"], SSH, "expected a public key in PEM"),
        (["RS256"], ED[1], "principal.token.algorithms allows RS256 only, and this is a public key for EdDSA"),
        (["EdDSA"], RSA[1], "principal.token.algorithms allows EdDSA only, and this is a public key for RS256"),
        (["RS256"], RSA[0], "its private key"),
        (["EdDSA"], ED[0], "its private key"),
        (["RS256"], RSA_SMALL[1], "at least 2048 bits"),
        (["RS256", "EdDSA"], ELLIPTIC_PEM, "neither for RS256 nor for EdDSA"),
        (["RS256"], RSA[1].replace("\n", "\\n"), "can't be read"),
        (["RS256"], RSA[1][:200], "can't be read"),
        (["EdDSA"], CERTIFICATE, "this is a certificate: openssl x509 -pubkey -noout -in FILE prints its key"),
    ],
)
def test_a_key_that_checks_nothing_or_is_too_weak_is_refused(
    make_settings: Callable[..., Settings], algorithms: list[str], key: str, message: str
) -> None:
    """Each in one sentence, which names the key and the setting, and repeats nothing of the key."""
    with pytest.raises(SettingsError) as caught:
        check_keys(rules(make_settings, *algorithms, k1=key))
    said = caught.value.message
    assert message in said
    assert said.startswith("RETRIEVAL_WORKER_TOKEN_KEYS: the key k1: ")
    assert not any(line in said for line in key.split("\n") if len(line) > 1)


def test_a_key_in_the_place_of_its_id_is_not_shown(make_settings: Callable[..., Settings]) -> None:
    """The two are exchanged: the sentence counts the keys, and repeats neither."""
    with pytest.raises(SettingsError) as caught:
        check_keys(rules(make_settings, "HS256", **{"k1": KEY, OTHER_KEY: "k2"}))
    said = caught.value.message
    assert said.startswith("RETRIEVAL_WORKER_TOKEN_KEYS: the key number 2 (its id is not shown, because it may be a ")
    assert OTHER_KEY not in said


def test_good_keys_are_taken(make_settings: Callable[..., Settings]) -> None:
    """One of each kind, each for an algorithm that the settings allow; or none at all."""
    check_keys(rules(make_settings, *ALGORITHMS, a=KEY, b=RSA[1], c=ED[1]))
    for algorithm in ALGORITHMS:
        check_keys(rules(make_settings, algorithm, k1=CHECKING[algorithm]))
    check_keys(make_settings())


def test_kid_chooses_the_key(make_settings: Callable[..., Settings]) -> None:
    """With several keys, each token is checked by the one it names, and by no other."""
    settings = rules(make_settings, k1=KEY, k2=OTHER_KEY)
    assert ask(settings, token(OTHER_KEY, kid="k2")) is not None
    assert "can verify" in refusal(settings, token(OTHER_KEY, kid="k1"))


def test_a_token_without_kid_needs_an_only_key(make_settings: Callable[..., Settings]) -> None:
    """One key is no choice; of several, none is guessed."""
    assert ask(rules(make_settings), token(kid=None)) is not None
    assert "names no key" in refusal(rules(make_settings, k1=KEY, k2=OTHER_KEY), token(kid=None))


@pytest.mark.parametrize("kid", ["k9", "../k1", "k1\0", "K1", " k1"])
def test_an_unknown_kid_is_refused(settings: Settings, kid: str) -> None:
    """A key that is not in settings is never looked for elsewhere."""
    assert "names no key" in refusal(settings, token(kid=kid))


@pytest.mark.parametrize("kid", [["k1"], {"k1": 1}, 5, True, None], ids=repr)
def test_a_kid_that_is_no_string_is_refused(settings: Settings, kid: Any) -> None:
    """A list or an object as `kid` is one more token that can't be verified."""
    header = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT", "kid": kid}).encode()).rstrip(b"=")
    assert "can verify" in refusal(settings, ".".join([header.decode(), *token().split(".")[1:]]))


def test_another_key_is_refused(settings: Settings) -> None:
    """A signature by a key of one's own is no signature."""
    assert "can verify" in refusal(settings, token(OTHER_KEY))


def test_a_worker_without_keys_believes_no_token(make_settings: Callable[..., Settings]) -> None:
    """The sentence tells an operator what is missing."""
    assert "has no keys" in refusal(make_settings(trust_queue=True), token())


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "nOnE"])
def test_an_unsigned_token_is_refused(settings: Settings, alg: str) -> None:
    """`alg: none`, in any letter case, is no algorithm of ours."""
    parts = [{"alg": alg, "typ": "JWT", "kid": "k1"}, claims()]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    assert "can verify" in refusal(settings, ".".join([*encoded, ""]))


@pytest.mark.parametrize("algorithm", ["RS256", "EdDSA"])
@pytest.mark.parametrize("allowed", [ALGORITHMS, None], ids=["all allowed", "its own only"])
def test_a_public_key_is_no_secret(
    make_settings: Callable[..., Settings], algorithm: str, allowed: list[str] | None
) -> None:
    """Key confusion: an HS256 token made with the public key is refused, even where HS256 is allowed too."""
    public = CHECKING[algorithm]
    settings = rules(make_settings, *(allowed or [algorithm]), k1=public)
    forged = _hs256_by_hand(public, claims())
    assert "can verify" in refusal(settings, forged)


def _hs256_by_hand(key: str, payload: dict[str, Any]) -> str:
    import hashlib
    import hmac

    parts = [json.dumps({"alg": "HS256", "typ": "JWT", "kid": "k1"}), json.dumps(payload)]
    signed = b".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in parts)
    mac = hmac.new(key.encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + base64.urlsafe_b64encode(mac).rstrip(b"=")).decode()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_that_settings_do_not_allow_is_refused(
    make_settings: Callable[..., Settings], algorithm: str
) -> None:
    """A good signature by an algorithm that is switched off counts for nothing."""
    allowed = [other for other in ALGORITHMS if other != algorithm]
    settings = rules(make_settings, *allowed, k1=CHECKING[algorithm])
    assert "can verify" in refusal(settings, token(SIGNING[algorithm], algorithm))


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "a.b.c", "no token at all", "é.é.é", "e30.e30.e30", "x" * 16_384, ".".join(["W1tb" * 1300] * 3)],
    ids=lambda text: text[:12],
)
def test_what_is_no_token_is_refused(settings: Settings, text: str) -> None:
    """Any string ends in `NotAuthorised`, never in another error."""
    assert "can verify" in refusal(settings, text)


def test_a_deep_header_is_refused(settings: Settings) -> None:
    """JSON nested beyond Python's recursion in the header is one more token that can't be verified."""
    header = b'{"alg":"HS256","kid":"k1","x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    encoded = base64.urlsafe_b64encode(header).rstrip(b"=").decode()
    assert "can verify" in refusal(settings, f"{encoded}.e30.e30")


def test_every_refusal_is_of_the_tree(settings: Settings) -> None:
    """Cutting a good token anywhere never raises anything but `NotAuthorised`."""
    signed = token()
    for end in range(0, len(signed), 7):
        with pytest.raises(RetrievalError) as caught:
            ask(settings, signed[:end])
        assert type(caught.value) is NotAuthorised
