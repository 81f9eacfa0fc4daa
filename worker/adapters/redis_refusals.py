"""Reasons why a connection to Redis fails for good: one sentence with the problem of the URL and its fix.

An unavailable server has no such reason: it may come back, and a worker waits for it.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from urllib.parse import SplitResult

_SCHEMES = ("redis", "rediss", "redis+socket", "unix")
_EXAMPLE = "redis://user:password@host:6379/0"
_ENCODED = f"expected a URL like {_EXAMPLE}, in which / # ? @ : and % of a password are percent-encoded (@ is %40)"
_PROBE_SECONDS = 2.0
UNKNOWN_NAMES = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


SURROUNDED = "remove the white space or the quotation marks around it"
_AROUND = " \t\r\n\"'"


def is_surrounded(url: str) -> bool:
    """Return whether something stands around a URL, as a shell or a file of secrets may leave it there."""
    return url.strip(_AROUND) != url


UNSUPPORTED = (
    "an option behind its question mark is not supported: leave it out (those of TLS, ssl_…, are of rediss:// only)"
)


def queue_url_problem(url: str) -> str | None:
    """Return the problem of a URL of queues, whose options Celery does not support, except those of TLS."""
    return url_problem(url) or (None if has_tls_options_only(url) else UNSUPPORTED)


def has_tls_options_only(url: str) -> bool:
    """Return whether a URL has no options but those of TLS."""
    return all(not option or option.startswith("ssl_") for option in urlsplit(url).query.split("&"))


def url_problem(url: str) -> str | None:
    """Return the problem of a URL; the URL is not repeated, because it may hold a password."""
    problem = _form_problem(url)
    return SURROUNDED if problem and is_surrounded(url) else problem


def _form_problem(url: str) -> str | None:
    try:
        parsed = urlsplit(url)
        _ = parsed.port
    except ValueError:
        return _ENCODED
    if parsed.scheme not in _SCHEMES:
        return f"expected a URL of redis:// or rediss://, like {_EXAMPLE}"
    if parsed.scheme in {"redis", "rediss"} and _has_password_behind_host(parsed):
        return _ENCODED
    if parsed.scheme in {"redis", "rediss"} and parsed.path.strip("/") and not parsed.path.strip("/").isdecimal():
        return f"expected the number of a database behind the host, like {_EXAMPLE}"
    return None


def _has_password_behind_host(parsed: SplitResult) -> bool:
    """Return whether an unexpected @ shows that the parsed host is part of a password."""
    names = (pair.partition("=")[0] for pair in parsed.query.split("&"))
    return "@" in parsed.path or "@" in parsed.fragment or any("@" in name for name in names)


def refusal(error: Exception, url: str) -> str | None:
    """Return why a connection failed for good; None if the server is unavailable.

    Args:
        error: redis-py's error of the connection.
        url: the URL of the connection.
    """
    if isinstance(error, redis.AuthenticationError):
        return "Redis refuses this user or password. Check both against users.acl of that Redis"
    if isinstance(error, redis.ResponseError):
        number = urlsplit(url).path.strip("/") or "0"
        return (
            f"Redis refuses its database {number}: it has fewer (CONFIG GET databases), or the user may not SELECT it. "
            "Choose another number"
        )
    if isinstance(error, TypeError):  # of the connection's class, which does not know the option
        return UNSUPPORTED
    if isinstance(error, ValueError):
        if is_surrounded(url):
            return SURROUNDED
        return f"expected a URL like {_EXAMPLE}, with known options behind the question mark"
    return _connection_problem([*_chain(error)], url) or _protocol_problem(error, url)


def _connection_problem(causes: Sequence[BaseException], url: str) -> str | None:
    """Return the problem of the connection itself: a certificate, a file, a name."""
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return (
            "the certificate of Redis is not trusted: name the authority that signed it (?ssl_ca_certs=/path/ca.crt), "
            "and the host as the certificate does"
        )
    if any(_is_of_a_file(cause) for cause in causes) and "ssl_" in url:
        return "a file of its ssl_ca_certs, ssl_certfile or ssl_keyfile can't be read, or is no PEM. Check the paths"
    if any(isinstance(cause, socket.gaierror) and cause.errno in UNKNOWN_NAMES for cause in causes):
        return unknown_host(urlsplit(url).hostname or "")
    return None


def _is_of_a_file(cause: BaseException) -> bool:
    if isinstance(cause, ssl.SSLError):
        return cause.library in {"PEM", "X509"}
    return isinstance(cause, FileNotFoundError | PermissionError | IsADirectoryError)


def unknown_host(name: str) -> str:
    """Return the sentence for a host without an address."""
    return f"there is no host {name}. Check its name, and that this machine can resolve it"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _protocol_problem(error: Exception, url: str) -> str | None:
    """Return the problem of a server that expects TLS or no TLS, unlike the URL, or is not a Redis."""
    parsed = urlsplit(url)
    if parsed.scheme not in {"redis", "rediss"}:
        return None
    address = parsed.hostname or "localhost", parsed.port or 6379
    if parsed.scheme == "rediss" and _speaks_plainly(address):
        return "rediss:// asks for TLS, and this Redis speaks none there: write redis://, or the port of its TLS"
    if parsed.scheme == "redis" and _speaks_tls(address):
        return "this Redis speaks TLS only: write rediss:// and ?ssl_ca_certs=/path/ca.crt (docs/redis.md)"
    if isinstance(error, redis.InvalidResponse):
        return "what answers there is no Redis. Check the host and the port"
    return None


def _speaks_plainly(address: tuple[str, int]) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(address, _PROBE_SECONDS) as link:
        link.sendall(b"PING\r\n")
        return link.recv(1) in {b"+", b"-"}
    return False


def _speaks_tls(address: tuple[str, int]) -> bool:
    """Return whether a TLS handshake succeeds."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    with (
        contextlib.suppress(OSError),
        socket.create_connection(address, _PROBE_SECONDS) as link,
        context.wrap_socket(link),
    ):
        return True
    return False
