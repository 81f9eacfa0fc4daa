"""PDF files, read by PDFium as Chromium's viewer copies from them.

Of the free readers it tears and glues fewest words. These are mended:

- a hyphen at a line's end stays with its line, unless the document has the word whole elsewhere; a path that goes on in
  the next line is joined if it has that whole;
- accents that a font draws as characters of their own (``F¨ur``) join their letters;
- the number of a footnote is no part of its first word;
- an address over several lines is whole where the page links to it;
- a sentence that goes on over a page's end is whole on the page where it begins;
- the outline gives sections: a page is cut where it has an entry's title.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Any

from worker.cli.documents.page_breaks import join_page_breaks
from worker.cli.documents.passages import Content, Passage, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

MOST_PAGES = 20_000
_MOST_ENTRIES = 100_000
_MOST_CHARACTERS = 100_000_000
_MOST_LINKS, _LONGEST_ADDRESS = 200, 500
"""Of a page; bytes."""
_PASSWORD, _SECURITY = 4, 5  # FPDF_ERR_PASSWORD, FPDF_ERR_SECURITY

_ACCENTS = {"¨": "\u0308", "´": "\u0301", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "˚": "\u030a", "ˇ": "\u030c"}
_ACCENTED = re.compile(f"([{''.join(_ACCENTS)}])([A-Za-zı])")
# PDFium says where it takes a hyphen for that of a line's end.
_HYPHENATED = re.compile(r"\b(\w++)(?:[\x02\ufffe]|-\n)(\w++)")
_UNBROKEN = {ord("\n"): None, 0x02: "-", 0xFFFE: "-"}
_NUMBERED = re.compile(r"^[\d¹²³⁴-⁹⁰]{1,3}(?=[^\W\d_¹²³⁴-⁹⁰])", re.MULTILINE)
_GLUED = re.compile(r"^([\d¹²³⁴-⁹⁰]{1,3})([^\W\d_¹²³⁴-⁹⁰][’'\w])", re.MULTILINE)
_RAISED_NUMBER = re.compile(r"^\d{0,2}[¹²³⁴-⁹⁰]{1,3}(?=[^\W\d_¹²³⁴-⁹⁰])", re.MULTILINE)
_NEAREST = 2
_RAISED = 0.2
"""Distance from a line's foot to that of a footnote's number, at least, by the number's height."""
_PATH_BREAKS = ("/", ".", "_", "~", "=", "&", "?")
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
    texts = _mended(join_page_breaks([*_texts(document, pages)]))
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
            text = _with_numbers_apart(page.get_textpage()).replace("\r\n", "\n")
            text = _with_whole_addresses(text, islice(_addresses(document, page), _MOST_LINKS))
            page.close()
        except pypdfium2.PdfiumError:
            raise UnreadableError(f"its page {i + 1} is broken") from None
        characters += len(text)
        if characters > _MOST_CHARACTERS:
            raise UnreadableError(f"it has more than {_MOST_CHARACTERS:,} characters")
        yield text


def _with_numbers_apart(page: Any) -> str:
    """Return the text of a page, with a blank after a raised number that begins a line, glued to a word."""
    from pypdfium2 import raw  # noqa: PLC0415 -- an extra

    x, baseline = ctypes.c_double(), ctypes.c_double()

    def apart(match: re.Match[str]) -> str:
        raw.FPDFText_GetCharOrigin(page, match.end(), x, baseline)
        _, bottom, _, top = page.get_charbox(match.start())
        return f"{match[0]} " if bottom - baseline.value > _RAISED * (top - bottom) else match[0]

    return _NUMBERED.sub(apart, page.get_text_range())


def _addresses(document: Any, page: Any) -> Iterator[str]:
    """Yield the addresses that a page links to."""
    from pypdfium2 import raw  # noqa: PLC0415 -- an extra

    place, link, address = ctypes.c_int(0), raw.FPDF_LINK(), ctypes.create_string_buffer(_LONGEST_ADDRESS)
    while raw.FPDFLink_Enumerate(page, place, link):
        action = raw.FPDFLink_GetAction(link)
        if 0 < raw.FPDFAction_GetURIPath(document, action, address, _LONGEST_ADDRESS) <= _LONGEST_ADDRESS:
            yield address.value.decode("latin-1")


def _with_whole_addresses(text: str, addresses: Iterable[str]) -> str:
    r"""Return a page without the line ends inside of addresses.

    >>> _with_whole_addresses("See https://\na.example/x\ufffey, or", ["https://a.example/x-y"])
    'See https://a.example/x-y, or'
    """
    unbroken_text = text.translate(_UNBROKEN)
    for address in dict.fromkeys(addresses):
        if unbroken_text.count(address) > text.count(address):
            torn = r"\n?".join("[-\x02\ufffe]" if sign == "-" else re.escape(sign) for sign in address)
            text = re.sub(torn, address.replace("\\", r"\\"), text)
    return text


def _mended(texts: Sequence[str]) -> list[str]:
    r"""Return pages with accents on their letters, and not torn what the document has whole elsewhere.

    >>> _mended(["A f¨ur exam\x02ple, well-\nread, in /var/\nlog, and/\nor", "1An example: /var/log.\n3Com\n2See /srv"])
    ['A für example, well-\nread, in /var/log, and/\nor', '1 An example: /var/log.\n3Com\n2 See /srv']
    """
    accented = _with_footnotes_apart([_ACCENTED.sub(_composed, text) for text in texts])
    words = {word for text in accented for word in _WORD.findall(_HYPHENATED.sub(" ", text))}
    tokens = {_bare(token) for text in accented for token in text.split() if "/" in token or _is_hangul(token[:1])}

    def joined(match: re.Match[str]) -> str:
        whole_word = match[1] + match[2]
        return whole_word if whole_word in words else f"{match[1]}-\n{match[2]}"

    whole_words = (re.sub("[\x02\ufffe]", "-\n", _HYPHENATED.sub(joined, text)) for text in accented)
    return [_with_whole_tokens(text, tokens) for text in whole_words]


def _with_footnotes_apart(texts: Sequence[str]) -> list[str]:
    """Return pages with a blank between a number that begins a line and a word, where it counts on from such a number.

    Not all such numbers are raised. A word begins with one capital, unlike ``3D`` and ``1st``.
    """
    texts = [_RAISED_NUMBER.sub(r"\g<0> ", text) for text in texts]
    glued = [match for text in texts for match in _GLUED.finditer(text) if match[2].istitle()]
    numbers = [int(unicodedata.normalize("NFKC", match[1])) for match in glued]
    counted = {
        (id(match.string), match.start())
        for i, (match, number) in enumerate(zip(glued, numbers, strict=True))
        if number - 1 in numbers[max(0, i - _NEAREST) : i] or number + 1 in numbers[i + 1 : i + 1 + _NEAREST]
    }

    def apart(match: re.Match[str]) -> str:
        return f"{match[1]} {match[2]}" if (id(match.string), match.start()) in counted else match[0]

    return [_GLUED.sub(apart, text) for text in texts]


def _with_whole_tokens(text: str, whole_tokens: Collection[str]) -> str:
    """Return a page whose paths and Korean words, which break without a hyphen, are joined if they are among others."""
    pieces: list[str] = []
    last_token = ""
    for line in text.split("\n"):
        tokens = line.split()
        first_token = tokens[0] if tokens else ""
        is_path = (last_token.endswith(_PATH_BREAKS) and "/" in last_token) or (
            last_token and first_token.startswith("/")
        )
        is_torn = bool(
            first_token
            and (is_path or _is_hangul(last_token[-1:] + first_token[0]))
            and _bare(last_token + first_token) in whole_tokens
        )
        pieces += ["" if is_torn or not pieces else "\n", line]
        last_token = last_token + first_token if is_torn and len(tokens) == 1 else tokens[-1] if tokens else ""
    return "".join(pieces)


def _is_hangul(text: str) -> bool:
    return bool(text) and all("가" <= sign <= "힣" for sign in text)


def _bare(token: str) -> str:
    """Return a path without the marks around it."""
    return token.strip("()[]{}<>\"'“”‘’«»„‚,;:.!?")


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
            match = re.compile(rf"^[^\n]{{0,24}}?{words}[ \t]*$", re.MULTILINE).search(text, start)
            if match:
                yield Passage(text[start : match.start()], i + 1, section)
                start = match.start()
            section = title
        yield Passage(text[start:], i + 1, section)
