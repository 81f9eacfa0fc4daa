"""The examples of Python in README and docs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "client" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

FILES = {
    "celery": ["app.py"],
    "django": ["site_of_test/settings.py", "search/views.py", "site_of_test/urls.py", "test_search.py"],
    "fastapi": ["app.py", "test_app.py"],
}
"""Pages whose examples need packages that this project lacks, and the files that their reader makes of them."""


def examples(page: Path) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)


def write_files(page: str, folder: Path) -> None:
    """Write the files of a page; settings are added to those that are there."""
    for name, text in zip(FILES[page], examples(ROOT / "docs" / f"{page}.md"), strict=True):
        file = folder / name
        file.parent.mkdir(exist_ok=True)
        with file.open("a" if file.name == "settings.py" else "w") as opened:
            opened.write(text)


def of_the_client() -> dict[str, str]:
    """The examples that use the client, and nothing that this project lacks."""
    return {
        f"{'_'.join(page.relative_to(ROOT).with_suffix('').parts)}_{i}": text
        for page in PAGES
        for i, text in enumerate(examples(page))
        if page.stem not in FILES and ("retrieval_client" in text or "Client(" in text)
    }
