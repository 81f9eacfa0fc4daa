"""What the commands share: where they print."""

from __future__ import annotations

import sys

from rich.console import Console

# Where no terminal says how wide it is (a pipe, a CI log), tables need more than the usual 80 columns.
console = Console(width=None if sys.stdout.isatty() else 120)
# Progress for people, while what another program reads goes to standard output alone.
screen = Console(stderr=True)
