"""HTML as a browser shows it, by the parser Lexbor, which repairs it as browsers do; and Markdown, by way of HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from worker.cli.documents.passages import Content, Passage
from worker.core.text.embedded_text import LEVELS

if TYPE_CHECKING:
    from collections.abc import Iterator

_HIDDEN = {
    *("head", "script", "style", "template", "noscript", "nav", "svg", "iframe", "object", "select", "button"),
    *("textarea", "audio", "video", "canvas", "dialog"),
}
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_BLOCKS = _HEADINGS | {
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt"),
    *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "legend", "li", "main", "ol", "p", "pre"),
    *("section", "summary", "table", "ul"),
}
_BREAKS = {"br": "\n", "tr": "\n", "td": "\t", "th": "\t"}
_UNSHOWN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_SPACE = re.compile(r"[ \t\n\f\r]++")
_AROUND_BREAK = re.compile(r"[ \t]*+\n[ \t\n]*+")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.{0,20000}?)\n(?:---|\.\.\.)[ \t]*\n", re.DOTALL)
_TITLE = re.compile(r"^title:[ \t]*[\"']?([^\n]*?)[\"']?[ \t]*$", re.MULTILINE)


def charset_of(content: bytes) -> str:
    """Return the encoding that a page declares in its first kilobyte; UTF-8 if it declares none."""
    declared = _CHARSET.search(content[:1024])
    return declared[1].decode("ascii") if declared else "utf-8"


def read_markdown(text: str) -> Content:
    """Read Markdown (CommonMark with tables), as the page that it makes."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 -- an extra

    front = _FRONT_MATTER.match(text)
    page = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text[front.end() :] if front else text)
    titled = _TITLE.search(front[1]) if front else None
    content = read_html(page)
    return content._replace(title=titled[1] if titled else content.title)


def read_html(text: str) -> Content:
    """Read a page: what it shows, without its navigation."""
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415 -- an extra

    tree = LexborHTMLParser(text)
    root = tree.css_first("main, [role=main]") or tree.body
    title = tree.css_first("title")
    passages = [*_passages(root)] if root else []
    page_title = title.text() if title else next((passage.section for passage in passages if passage.section), "")
    return Content(_SPACE.sub(" ", page_title or "").strip(), passages)


def _passages(root: Any) -> Iterator[Passage]:
    """Yield a passage for each heading with what follows it; its section is the way down to it."""
    section: str | None = None
    way_down: dict[str, str] = {}
    blocks: list[str] = []
    for tag, block in _blocks(root):
        if tag in _HEADINGS:
            if blocks:
                yield Passage("\n\n".join(blocks), section=section)
            heading, blocks = _SPACE.sub(" ", block), []
            higher = {level: above for level, above in way_down.items() if level < tag}
            way_down = {**higher, tag: heading}
            section = LEVELS.join(way_down.values())
        blocks.append(block)
    if blocks:
        yield Passage("\n\n".join(blocks), section=section)


def _blocks(root: Any) -> Iterator[tuple[str, str]]:
    """Yield the shown blocks of a tree, each with the heading or other element that it stands in; not recursive."""
    pieces: list[str] = []
    preformatted = 0
    tag = ""

    def flushed() -> Iterator[tuple[str, str]]:
        block = "".join(pieces)
        block = block.strip("\n") if preformatted else _AROUND_BREAK.sub("\n", block).strip()
        pieces.clear()
        if block.strip():
            yield tag, block

    for node, entering in _walk(root):
        if node.tag == "-text":
            text = node.text_content or ""
            pieces.append(text if preformatted else _SPACE.sub(" ", text))
        elif node.tag in _BREAKS:
            if entering == (node.tag == "br"):
                pieces.append(_BREAKS[node.tag])
            if not entering and {cell.tag for cell in node.iter()} == {"th"}:  # a header stands apart
                yield from flushed()
        elif node.tag in _BLOCKS:
            yield from flushed()
            preformatted += (1 if entering else -1) * (node.tag == "pre")
            tag = node.tag if entering else ""


def _walk(root: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the shown nodes of a tree in order: each as it begins, elements as they end, too."""
    stack = [(root, True)]
    while stack:
        node, entering = stack.pop()
        if entering and _is_hidden(node):
            continue
        yield node, entering
        if entering and node.tag != "-text":
            stack.append((node, False))
            stack.extend((child, True) for child in reversed([*node.iter(include_text=True)]))


def _is_hidden(node: Any) -> bool:
    if node.tag == "-text":
        return False
    if node.tag in _HIDDEN or not node.tag[:1].isalpha():
        return True
    attributes = node.attributes
    return (
        "hidden" in attributes
        or "headerlink" in (attributes.get("class") or "").split()  # the sign after a heading of Sphinx
        or bool(_UNSHOWN.search(attributes.get("style") or ""))
    )
