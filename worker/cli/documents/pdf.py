"""PDF files, read by PDFium as Chromium's viewer copies from them.

Of the free readers it tears and glues fewest words. Three things are mended:

- a hyphen at a line's end stays with its line, unless the document has the word whole elsewhere;
- accents that a font draws as characters of their own (``F¨ur``) join their letters;
- the outline gives sections: a page is cut where it has an entry's title.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any

from worker.cli.documents.passages import Content, Passage, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MOST_PAGES = 20_000
_MOST_ENTRIES = 100_000
_MOST_CHARACTERS = 100_000_000
_PASSWORD, _SECURITY = 4, 5  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

_ACCENTS = {"¨": "\u0308", "´": "\u0301", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "˚": "\u030a", "ˇ": "\u030c"}
_ACCENTED = re.compile(f"([{''.join(_ACCENTS)}])([A-Za-zı])")
# PDFium says where it takes a hyphen for that of a line's end.
_HYPHENATED = re.compile(r"\b(\w++)(?:[\x02\ufffe]|-\n)(\w++)")
_WORD = re.compile(r"\w++")


def read(path: Path) -> Content:
    """Read a PDF.

    Raises:
        UnreadableError: it is encrypted, broken, has too many pages, or no text.
    """
    import pypdfium2  # noqa: PLC0415 -- an extra

    try:
        document = pypdfium2.PdfDocument(path)
        pages = len(document)
    except pypdfium2.PdfiumError as error:
        locked = error.err_code in (_PASSWORD, _SECURITY)
        raise UnreadableError("it is encrypted" if locked else "it is no PDF, or broken") from None
    if pages > MOST_PAGES:
        raise UnreadableError(f"it has {pages:,} pages, more than {MOST_PAGES:,}")
    texts = _mended([*_texts(document, pages)])
    if not any(text.strip() for text in texts):
        raise UnreadableError("its pages have no text: scanned pages need OCR first")
    title = document.get_metadata_dict().get("Title", "")
    passages = [*_sections(texts, _outline(document))]
    return Content(title, passages, sum(not text.strip() for text in texts))


def _texts(document: Any, pages: int) -> Iterator[str]:
    import pypdfium2  # noqa: PLC0415 -- an extra

    characters = 0
    for i in range(pages):
        try:
            page = document[i]
            text = page.get_textpage().get_text_range().replace("\r\n", "\n")
            page.close()
        except pypdfium2.PdfiumError:
            raise UnreadableError(f"its page {i + 1} is broken") from None
        characters += len(text)
        if characters > _MOST_CHARACTERS:
            raise UnreadableError(f"it has more than {_MOST_CHARACTERS:,} characters")
        yield text


def _mended(texts: Sequence[str]) -> list[str]:
    r"""Return pages with accents on their letters, and words that the document has whole not torn.

    >>> _mended(["A f¨ur exam\x02ple, well-\nread", "An example"])
    ['A für example, well-\nread', 'An example']
    """
    accented = [_ACCENTED.sub(_composed, text) for text in texts]
    words = {word for text in accented for word in _WORD.findall(_HYPHENATED.sub(" ", text))}

    def joined(match: re.Match[str]) -> str:
        whole = match[1] + match[2]
        return whole if whole in words else f"{match[1]}-\n{match[2]}"

    return [re.sub("[\x02\ufffe]", "-\n", _HYPHENATED.sub(joined, text)) for text in accented]


def _composed(match: re.Match[str]) -> str:
    letter = unicodedata.normalize("NFC", match[2].replace("ı", "i") + _ACCENTS[match[1]])
    return letter if len(letter) == 1 else match[0]


def _outline(document: Any) -> dict[int, list[str]]:
    """Return the titles of the outline's entries, by index of their page."""
    titles: dict[int, list[str]] = {}
    for entry in islice(document.get_toc(), _MOST_ENTRIES):
        destination, title = entry.get_dest(), entry.get_title().strip()
        page = destination.get_index() if destination else None
        if page is not None and title:
            titles.setdefault(page, []).append(title)
    return titles


def _sections(texts: Sequence[str], outline: dict[int, list[str]]) -> Iterator[Passage]:
    """Yield the passages of pages, cut at the titles of the outline where the page has them as lines, in order."""
    section = None
    for i, text in enumerate(texts):
        start = 0
        for title in outline.get(i, ()):
            # A line that ends with the title: most have a number before it.
            words = r"\s++".join(map(re.escape, title.split()))
            found = re.compile(rf"^[^\n]{{0,24}}?{words}[ \t]*$", re.MULTILINE).search(text, start)
            if found:
                yield Passage(text[start : found.start()], i + 1, section)
                start = found.start()
            section = title
        yield Passage(text[start:], i + 1, section)
