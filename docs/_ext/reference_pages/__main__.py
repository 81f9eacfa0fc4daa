"""``python -m reference_pages``: write what is generated into every page under ``docs``."""

from __future__ import annotations

from pathlib import Path

from reference_pages import completed

if __name__ == "__main__":
    for page in sorted(Path(__file__).parents[2].rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (whole := completed(text)) != text:
            page.write_text(whole, encoding="utf-8")
            print(f"written: {page.name}")  # noqa: T201 -- a program for developers
