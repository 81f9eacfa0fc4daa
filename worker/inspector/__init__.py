"""Inspector: views of runs, traces and citations, and the pages that show them.

Read `view` first: pure views of answers and records. The browser, the terminal and the report draw the same ones.
"""

SESSION_SECONDS = 1800.0
"""Seconds after which a visitor with a token signs in again."""
