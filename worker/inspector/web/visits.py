"""Visits: who is signed in, for how long, and how often someone may try."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from worker.model import Principal

MOST_SESSIONS = 1000
"""Sessions beyond it end, the oldest first."""

ATTEMPTS, WINDOW_SECONDS = 10, 60.0
"""Most attempts to sign in from one address in a window, and from all addresses ten times as many."""


@dataclass(frozen=True, slots=True)
class NamedVisitor:
    """Only visitor of a server on a loopback address, which every user of the machine can reach.

    Attributes:
        principal: the visitor.
        key: opens the visitor's sessions; part of the printed address.
    """

    principal: Principal
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Session:
    """Session of a visitor.

    Attributes:
        principal: the visitor; every page is read with this principal's permissions.
        csrf: token that each form must send.
        expires_at: end of the session, by the clock of `Sessions`.
        is_operator: True if the visitor may see and change the queue.
        unasked: fields of a question that was asked after an earlier session had ended; empty once one is asked.
    """

    principal: Principal
    csrf: str
    expires_at: float
    is_operator: bool
    unasked: dict[str, str] = field(default_factory=dict, repr=False)


class Sessions:
    """Sessions in this process's memory: by the digest of their secret, which only the visitor's cookie has.

    Args:
        seconds: lifetime of a session.
        clock: seconds, monotonic.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def open(
        self, principal: Principal, *, is_operator: bool, unasked: dict[str, str] | None = None
    ) -> tuple[str, Session]:
        """Begin a session; return its secret, and the session."""
        secret = secrets.token_urlsafe(32)
        expires_at = self._clock() + self.seconds
        session = Session(principal, secrets.token_urlsafe(32), expires_at, is_operator, unasked or {})
        with self._lock:
            self._sessions[_digest(secret)] = session
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return secret, session

    def find(self, secret: str) -> Session | None:
        """Return the session of a secret; None if there is none, or it ended."""
        with self._lock:
            session = self._sessions.get(_digest(secret))
            if session is not None and session.expires_at <= self._clock():
                session = None
                del self._sessions[_digest(secret)]
        return session

    def close(self, secret: str) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_digest(secret), None)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()


@dataclass
class Attempts:
    """Bound on failed attempts to sign in.

    Args:
        clock: seconds, monotonic.
    """

    clock: Callable[[], float]
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _times: deque[tuple[float, str]] = field(default_factory=deque, repr=False)

    def allow(self, address: str) -> bool:
        """Count an attempt; return whether it may be made."""
        current_time = self.clock()
        with self._lock:
            while self._times and self._times[0][0] <= current_time - WINDOW_SECONDS:
                self._times.popleft()
            own_attempts = sum(earlier_address == address for _, earlier_address in self._times)
            if own_attempts >= ATTEMPTS or len(self._times) >= 10 * ATTEMPTS:
                return False
            self._times.append((current_time, address))
            return True
