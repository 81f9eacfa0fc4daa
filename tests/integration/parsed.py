"""Pages as trees: what a browser's parser would make of them, as far as these pages need it."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VOID = {"meta", "link", "input", "br", "rect", "base", "img", "hr"}


class Node:
    """Element of a page.

    Attributes:
        tag: its name.
        given: its attributes.
        inside: elements and texts in it.
    """

    def __init__(self, tag: str, given: dict[str, str], above: Node | None) -> None:
        self.tag, self.given, self.above = tag, given, above
        self.inside: list[Node | str] = []

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(one if isinstance(one, str) else one.text for one in self.inside)

    @property
    def line(self) -> str:
        """All text in it, on one line."""
        return " ".join(self.text.split())

    @property
    def classes(self) -> set[str]:
        """Its classes."""
        return {*self.given.get("class", "").split()}

    def every(self, tag: str = "", wanted: str = "") -> Iterator[Node]:
        """Elements below of a tag and a class."""
        for one in self.inside:
            if isinstance(one, Node):
                if tag in {"", one.tag} and (not wanted or wanted in one.classes):
                    yield one
                yield from one.every(tag, wanted)

    def by_heading(self, heading: str) -> Node | None:
        """The section with a heading of an id."""
        return next((one for one in self.every("section") if one.given.get("aria-labelledby") == heading), None)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.top = self.here = Node("", {}, None)
        self.faults: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len({*names}):
            self.faults.append(f"<{tag}> has an attribute twice")
        node = Node(tag, {name: value or "" for name, value in attrs}, self.here)
        self.here.inside.append(node)
        if tag not in VOID:
            self.here = node

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.here.tag != tag or self.here.above is None:
            self.faults.append(f"</{tag}> inside <{self.here.tag}>")
            return
        self.here = self.here.above

    def handle_data(self, data: str) -> None:
        self.here.inside.append(data)

    def handle_comment(self, data: str) -> None:
        self.faults.append(f"comment {data[:40]!r}")


def parsed(page: str) -> Node:
    """The tree of a page, in which every element is closed where it should be.

    Raises:
        AssertionError: it is not.
    """
    parser = _Parser()
    parser.feed(page)
    parser.close()
    assert parser.faults == [], parser.faults[:5]
    assert parser.here is parser.top, f"<{parser.here.tag}> is not closed"
    return parser.top
