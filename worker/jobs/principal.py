"""Identification of the caller: from a job's `principal` or `principal_token` to a `Principal`, trusted or verified."""

from __future__ import annotations

import hmac
import json
import time
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from retrieval_client.canonical import canonical_json, canonical_sha256
from retrieval_client.contract.base import LEAST_SECRET_BYTES
from retrieval_client.errors import InvalidJob, NotAuthorised, SettingsError
from retrieval_client.json_values import as_integer, join_path, path_of_large
from worker.core.shape import MAX_ID, is_storable
from worker.model import Principal
from worker.settings.serving import is_showable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from retrieval_client.contract.jobs import Job
    from worker.settings import Settings
    from worker.settings.serving import TokenSettings

LEEWAY_SECONDS = 5
"""Tolerated difference between the clocks of who signs a token and of who checks it; NTP keeps them closer."""
MAX_TOKEN_SECONDS = 86_400
"""Maximum time from now to a token's `exp`: a token that is stolen is not worth years."""
_BOUND_CLAIMS = ["exp", "aud", "task", "jti", "args_sha256"]


def identify(job: Job, raw: Mapping[str, Any], *, task: str, task_id: str, settings: Settings) -> Principal | None:
    """Identify the caller of one job.

    Args:
        job: the validated job.
        raw: the same job as received, for the token's digest.
        task: name of the task.
        task_id: Celery's id of the task.
        settings: the worker's settings.

    Returns:
        The caller; ``None`` if the job names none, which is enough for public corpora only.

    Raises:
        InvalidJob: a claim of `principal` has a wrong type.
        NotAuthorised: a principal on an untrusted queue, a token that isn't valid for this job, or either of them
            without a mapped claim.
    """
    if job.principal is not None:
        caller = as_principal(job.principal, settings, "principal")
        if not settings.trust_queue:
            raise NotAuthorised("principal: this worker does not trust its queue; send a principal_token")
        return caller
    if job.principal_token is not None:
        claims = _verified_claims(job.principal_token, raw, task=task, task_id=task_id, settings=settings)
        try:
            return as_principal(claims, settings, "principal_token")
        except InvalidJob as error:
            raise NotAuthorised(error.message, forged=True) from None
    return None


VISIT = "inspect"
"""Value of the claim `task` in a token that signs in to the inspector; no task has this name."""


def identify_visitor(token: str, settings: Settings) -> tuple[Principal, str, int]:
    """Identify a visitor of the inspector by a token: its `task` is `inspect`, its `args_sha256` that of ``{}``.

    Returns:
        The visitor, the token's `jti`, which may be used once, and its `exp`.

    Raises:
        NotAuthorised: the token is not valid for a visit, or has no mapped claim.
    """
    claims = _decode(token, settings)
    _check_bound(claims, {}, task=VISIT, task_id=claims["jti"])
    try:
        return as_principal(claims, settings, "principal_token"), str(claims["jti"]), int(claims["exp"])
    except InvalidJob as error:
        raise NotAuthorised(error.message) from None


def as_principal(claims: Mapping[str, Any], settings: Settings, path: str) -> Principal:
    """Return the principal of trusted claims.

    Args:
        claims: claim → a string, an integer, a boolean or a list of strings; unmapped ones are ignored.
        settings: the worker's settings.
        path: path of the claims in errors.

    Raises:
        InvalidJob: a claim of a wrong type.
        NotAuthorised: no mapped claim among them.
    """
    mapping = settings.principal
    mapped = {
        name: _claim(claims[name], join_path(path, name), settings.limits.bounds.max_keys)
        for name in mapping.settings
        if claims.get(name) is not None
    }
    if all(value in {"", ()} for value in mapped.values()):
        raise NotAuthorised(f"{path}: expected at least one of the claims {', '.join(mapping.settings)}")
    session_settings = tuple((setting, _as_setting(mapped.get(name))) for name, setting in mapping.settings.items())
    return Principal(mapped, session_settings, _owner({name: _as_setting(mapped.get(name)) for name in mapping.owners}))


def _owner(claims: Mapping[str, str]) -> str:
    """Return the owner of a caller's runs: a single claim as it is; several as a JSON object, distinct from any claim.

    The last claim names the user: without it there is no owner. A user without any of the others (no tenant) is stored
    as if the user's claim were the only one, for compatibility with older versions.

    >>> _owner({"tenant_id": "A", "user_id": "dave"}), _owner({"tenant_id": "", "user_id": "dave"})
    ('{"tenant_id":"A","user_id":"dave"}', 'dave')
    >>> _owner({"tenant_id": "A", "user_id": ""})
    ''
    """
    *other_claims, user = claims.values()
    if not user or not other_claims or not (any(other_claims) or user.startswith("{")):
        return user
    return canonical_json({name: claim for name, claim in claims.items() if claim}).decode()


def _claim(value: Any, path: str, most_items: int) -> Any:
    """Validate a claim: a string, an integer, a boolean, or a list of strings (returned as a tuple)."""
    if isinstance(value, list):
        if len(value) > most_items:
            raise InvalidJob(f"expected at most {most_items} items", path)
        return tuple(_short_string(item, join_path(path, i)) for i, item in enumerate(value))
    value = as_integer(value)
    if isinstance(value, bool | int):
        return value
    return _short_string(value, path)


def _short_string(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidJob("expected a string, an integer, a boolean or a list of strings", path)
    if len(value) > MAX_ID or "\x00" in value or not is_storable(value):
        raise InvalidJob(f"expected at most {MAX_ID} characters, without U+0000 and lone surrogates", path)
    return value


def _as_setting(value: Any) -> str:
    """Return the text of a Postgres setting: strings unchanged, None as '', everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --- signed tokens ------------------------------------------------------------------------------


def _verified_claims(
    token: str, raw: Mapping[str, Any], *, task: str, task_id: str, settings: Settings
) -> dict[str, Any]:
    """Return the claims of a token after checking that it is for this task, this task id and this exact job."""
    claims = _decode(token, settings)
    _check_bound(claims, raw, task=task, task_id=task_id)
    return claims


def _check_bound(claims: Mapping[str, Any], raw: Mapping[str, Any], *, task: str, task_id: str) -> None:
    """Check that verified claims are for this task, this task id and this exact job."""
    _refuse_long_lived(claims)
    if claims["task"] != task:
        raise _forged("it was issued for another task")
    if claims["jti"] != task_id:
        raise _forged("it was issued for another task id")
    unsigned = {key: value for key, value in raw.items() if key != "principal_token"}
    try:
        digest = canonical_sha256(unsigned)
    except ValueError as error:
        raise InvalidJob(str(error), path_of_large(unsigned)) from None
    if not hmac.compare_digest(str(claims["args_sha256"]).encode("utf-8", "replace"), digest.encode()):
        raise _forged("it was issued for another job (args_sha256 differs)")


def _decode(token: str, settings: Settings) -> dict[str, Any]:
    rules: TokenSettings = settings.principal.token
    if not settings.token_keys:
        raise NotAuthorised("principal_token: this worker has no keys to check it with")
    try:
        # Of the header alone: PyJWT looks at each character of a token, twice otherwise.
        key = _key_for(jwt.get_unverified_header(token.partition(".")[0] + ".."), settings)
        return jwt.decode(
            token,
            key,
            algorithms=list(rules.algorithms),
            audience=rules.audience,
            leeway=LEEWAY_SECONDS,
            options={"require": _BOUND_CLAIMS},
        )
    except jwt.ExpiredSignatureError:
        raise NotAuthorised("principal_token: it has expired") from None
    except jwt.MissingRequiredClaimError as error:
        raise _forged(f"it has no claim {error.claim}") from None
    except jwt.InvalidAudienceError:
        raise _forged("it is for another audience") from None
    except (jwt.PyJWTError, ValueError, TypeError):
        # PyJWT's own words may quote the token's header.
        raise _forged("it is not a token that this worker can verify") from None


def _refuse_long_lived(claims: Mapping[str, Any]) -> None:
    """Refuse a token whose lifetime exceeds the maximum; it does not count as forged, because a known key signed it."""
    if int(claims["exp"]) - time.time() > MAX_TOKEN_SECONDS + LEEWAY_SECONDS:
        raise NotAuthorised(f"principal_token: its exp is further ahead than a day ({MAX_TOKEN_SECONDS} seconds)")


def _forged(why: str) -> NotAuthorised:
    """Return the error for a token that was never valid for this job, unlike an expired one."""
    return NotAuthorised(f"principal_token: {why}", forged=True)


def _key_for(header: Mapping[str, Any], settings: Settings) -> str:
    """Return the key that `kid` names; for a token without one, the only key."""
    keys = settings.token_keys
    kid = header.get("kid")
    if kid is None and len(keys) == 1:
        return next(iter(keys.values())).get_secret_value()
    if kid not in keys:
        raise _forged("it names no key (kid) that this worker knows")
    return keys[kid].get_secret_value()


# --- keys ---------------------------------------------------------------------------------------

_LEAST_RSA_BITS = 2048


def check_keys(settings: Settings) -> None:
    """Check that each of `token_keys` can verify tokens by an algorithm that the settings allow.

    Raises:
        SettingsError: one can't, or is too weak; the message has its id but none of its content.
    """
    for number, (kid, key) in enumerate(settings.token_keys.items(), 1):
        problem = _problem_of(key.get_secret_value(), settings.principal.token.algorithms)
        if problem:
            name = kid if is_showable(kid) else f"number {number} (its id is not shown, because it may be a key)"
            raise SettingsError(f"RETRIEVAL_WORKER_TOKEN_KEYS: the key {name}: {problem}")


def _problem_of(key: str, allowed: Sequence[str]) -> str | None:
    """Describe the problem of a key, or return None; a key that begins as PEM does is public, any other a secret."""
    if key.lstrip().startswith("-----BEGIN"):
        return _problem_of_public(key, allowed)
    if "HS256" not in allowed:
        return f"expected a public key in PEM, because principal.token.algorithms allows {' and '.join(allowed)} only"
    if len(key.strip().encode()) < LEAST_SECRET_BYTES:
        return f"expected a secret of at least {LEAST_SECRET_BYTES} bytes for HS256 (openssl rand -base64 32)"
    try:
        jwt.get_algorithm_by_name("HS256").prepare_key(key)
    except jwt.InvalidKeyError:
        return "expected a secret for HS256, or a public key in PEM: this is a key in another form (SSH, DER, JWK)"
    return None


_NOT_PUBLIC = {
    "PRIVATE KEY-----": "expected the public key, this is its private key: a worker only checks tokens. Sign with "
    "another pair",
    "CERTIFICATE-----": "expected the public key, this is a certificate: openssl x509 -pubkey -noout -in FILE prints "
    "its key",
}


def _problem_of_public(key: str, allowed: Sequence[str]) -> str | None:
    for mark, problem in _NOT_PUBLIC.items():
        if mark in key:
            return problem
    try:
        public = load_pem_public_key(key.encode())
    except (ValueError, UnsupportedAlgorithm):
        return "expected a public key in PEM, and this one can't be read (in JSON its line ends are \\n)"
    if isinstance(public, rsa.RSAPublicKey):
        algorithm = "RS256"
    elif isinstance(public, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        algorithm = "EdDSA"
    else:
        return "this public key is neither for RS256 nor for EdDSA"
    if algorithm not in allowed:
        only = " and ".join(allowed)
        return f"principal.token.algorithms allows {only} only, and this is a public key for {algorithm}"
    if isinstance(public, rsa.RSAPublicKey) and public.key_size < _LEAST_RSA_BITS:
        return f"expected an RSA key of at least {_LEAST_RSA_BITS} bits"
    return None
