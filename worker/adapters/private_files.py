"""Files with texts of sources, made for this user alone."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Write a file; a new one is made so that only this user can read it. The mode of one that is there is kept.

    Raises:
        OSError: it can't be written.
    """
    with open(path, "wb", opener=partial(os.open, mode=0o600)) as file:
        file.write(content)
