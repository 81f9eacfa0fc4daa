"""The words, marks and letters that rules put in, from ``words.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
