"""Workers whose clocks are wrong: libfaketime gives a process and its pool another time of day."""

from __future__ import annotations

from pathlib import Path

SKEWS = (0.0, 1.0, -1.0)
"""Skew of each worker of the fleet in turn, in units of the run's skew."""

_FOLDERS = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")
_LIBRARY = "libfaketimeMT.so.1"


def library() -> Path | None:
    """Return the path of libfaketime; None if it is not installed."""
    return next((path for folder in _FOLDERS for path in sorted(Path("/").glob(f"{folder[1:]}/{_LIBRARY}"))), None)


def skewed(seconds: float, faketime: Path | None) -> dict[str, str]:
    """Return the environment of a process whose wall clock is ahead; its monotonic clock is left alone.

    >>> skewed(-1200, Path("/lib/faketime.so"))["FAKETIME"]
    '-1200s'
    >>> skewed(0, None)
    {}
    """
    if not seconds or faketime is None:
        return {}
    return {
        "LD_PRELOAD": str(faketime),
        "FAKETIME": f"{seconds:+.0f}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "PYTHONPATH": str(Path(__file__).with_name("skewed")),
    }
