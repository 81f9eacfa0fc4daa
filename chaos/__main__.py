"""The command line: ``python -m chaos --help``."""

from __future__ import annotations

import sys

import chaos.further  # noqa: F401 -- defines its commands
from chaos.commands import main

if __name__ == "__main__":
    sys.exit(main())
