"""Mends `time.sleep` in processes whose clock is wrong: under libfaketime its system call fails with EINVAL.

Python imports it at its start, before anything else, where its folder is in PYTHONPATH.
"""

from __future__ import annotations

import select
import time
from typing import SupportsIndex


def sleep(seconds: SupportsIndex | float, /) -> None:
    """Wait by another system call."""
    select.select([], [], [], float(seconds))


time.sleep = sleep
