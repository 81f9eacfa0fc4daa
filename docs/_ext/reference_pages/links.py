"""Links of pages that are also read in the repository: to folders and to files that are no pages of the site."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_LINK = re.compile(r"\[((?:[^\[\]]|\\.)*)\]\((?!\w+:|#|/)([^()\s#]+)(#[^()\s]*)?\)")
_RESULTS = re.compile(r"^\[[^\[\]]*\]\(([./]*/benchmarks/results/\w+\.md)\)$", re.MULTILINE)
README = "<!-- README -->"


def adapted(text: str, folder: Path, docs: Path) -> str:
    """A page with links that the site can follow.

    A line that only links to a benchmark's results becomes these results. A Markdown file outside of the site becomes a
    download, the folder of the contract the page about it; any other folder has no page, and its name stands without a
    link.

    Args:
        text: the page.
        folder: where the page is.
        docs: the root of the site.
    """
    root = docs.parent
    if README in text:
        text = text.replace(README, _readme(root))
    text = _RESULTS.sub(lambda found: _results(folder, found[1]), text)

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        path = (folder / target).resolve()
        if path == docs / "contract":
            return f"[{label}]({'../' * len(folder.relative_to(docs).parts)}reference/contract.md)"
        if path.is_dir():
            return label
        if path.suffix == ".md" and docs not in path.parents:
            return f"[{label}](path:{target})"
        return f"[{label}]({target}{anchor})"

    return _LINK.sub(link, text)


def _readme(root: Path) -> str:
    """The README without its heading, its links as from the site's root."""
    _, _, text = (root / "README.md").read_text(encoding="utf-8").partition("\n")

    def link(found: re.Match[str]) -> str:
        target = found[2].removeprefix("docs/") if found[2].startswith("docs/") else f"../{found[2]}"
        return f"[{found[1]}]({target}{found[3] or ''})"

    return _LINK.sub(link, text)


def _results(folder: Path, target: str) -> str:
    """The results of a benchmark, its pictures as from the page that includes them."""
    text = (folder / target).read_text(encoding="utf-8")
    return re.sub(r"(!\[[^\[\]]*\]\()(?=\w)", rf"\g<1>{target.rpartition('/')[0]}/", text)
