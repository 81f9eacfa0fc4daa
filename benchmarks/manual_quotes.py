"""Sentences of manuals' text editions, quoted from the chunks of their PDF editions, and why some are refused."""

from __future__ import annotations

import random
import re
import subprocess
import unicodedata
from collections import defaultdict
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING

from retrieval_client.errors import SettingsError
from worker.adapters.providers.local_embedder import encoder_of
from worker.cli import loader
from worker.cli.documents import folders
from worker.cli.documents.splitting import TOKENS
from worker.core.citations.quoting import QuotedChunk, check_quote
from worker.settings import load_unconnected
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from worker.cli.corpus_files import DocumentChunk

REASONS = (
    "line-end hyphen kept or lost",
    "blank glued or torn",
    "ligature",
    "crosses a chunk boundary",
    "crosses a page",
    "header or footer in between",
    "footnote mark",
    "URL broken",
    "reading order",
    "other",
)
_SHORTEST, _LONGEST = 8, 40
"""Words of a sentence."""
_AT_EDGE, _FOOTERS, _HEADERS = 10, 2, 3
"""Lines of a page that a sentence may take on one side of its edge; the most that are no part of the text there."""
_PROBE = 8
"""Letters by which the chunks are found that may have a sentence."""
_SHARE_OF_WORDS = 0.9
"""Of a sentence that are on one page, if it is there in another order."""

_WIDE = r"\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef"
_WORD = re.compile(rf"[{_WIDE}]{{1,2}}|[^\W{_WIDE}]+")  # two characters without spaces count as a word
_WIDE_BREAK = re.compile(rf"(?<=[{_WIDE}])\s*\n\s*(?=[{_WIDE}])")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+(?=[^\W\d_])|(?<=[。！？])")
_SENTENCE = re.compile(r"[^\W\d_].*[.!?…。！？][\"'”’»)\]」』]*")
# Tables, words and URLs that the edition wraps, contents, lists in lists.
_NO_PROSE = re.compile(r"[|─-╿]|\w-\n|/\n|:\s+//|\.{4}|\n\s*(?:[*+•-]|[A-Z\d]+\.(?:\d+\.)*)\s")
_UNCOUNTED = re.compile("[-\u2010\u2011\u00ad\\d]")
_QUOTATION = re.compile("[\"'`´‘’‚‹›“”„«»″]")
_DASH = re.compile("[–—―]")
_OWN_BLANK = re.compile(r"(?<=\)) (?=[:;])| (?=[,.](?:\s|$))")
_ITEM = re.compile(r"\s*(?:[*+•◦○●–-]|\d{1,3}\.)\s+")
_OWN_MARK = re.compile(r"\s?\^?\[\d{1,3}\]")
_URL = re.compile(r"(?:https?://|www\.)[^\s)>]+")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_HYPHENS = re.compile("[-\u2010\u00ad]")


@dataclass(frozen=True, slots=True)
class Refusal:
    """An honest quote that no chunk verifies.

    Attributes:
        language: of the manual.
        name: of the manual.
        quote: the sentence.
        reason: one of `REASONS`.
        text: what the chunks have in its place; empty if that is not known.
    """

    language: str
    name: str
    quote: str
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A manual whose sentences were quoted: how many, and those that were refused."""

    name: str
    language: str
    sentences: int
    refused: Sequence[Refusal]


def find_manuals(editions: Path) -> list[Path]:
    """Return the PDF files of a folder that have a text edition beside them.

    Raises:
        SettingsError: there is none.
    """
    manuals = [path for path in sorted(editions.glob("*/*.pdf")) if path.with_suffix(".txt").exists()]
    if not manuals:
        raise SettingsError(f"{editions}: expected manuals as LANGUAGE/NAME.pdf and LANGUAGE/NAME.txt")
    return manuals


def judge(pdf: Path, seed: int, sample_size: int) -> Judged:
    """Quote a sample of a manual's sentences.

    Args:
        pdf: the one edition; the other lies beside it.
        seed: of the sample.
        sample_size: sentences of the sample.
    """
    language, name = pdf.parent.name, pdf.stem
    text = pdf.with_suffix(".txt").read_text(encoding="utf-8", errors="replace")
    printed = [(letters(piece), piece) for piece in with_joints(pages_of(pdf))]
    sentences = sentences_of(text)
    random.Random(f"{seed} {language} {name}").shuffle(sentences)  # noqa: S311 -- reproducible, not secret
    sample = [*islice((sentence for sentence in sentences if is_printed(sentence, printed)), sample_size)]
    source = Source(chunks_of(pdf))
    refused = [sentence for sentence in sample if not source.verifies(sentence)]
    refusals = [Refusal(language, name, sentence, *source.reason(sentence)) for sentence in refused]
    return Judged(name, language, len(sample), refusals)


# --- both editions ------------------------------------------------------------------------------


def sentences_of(text: str) -> list[str]:
    """Return the whole sentences of an edition in text, each once, without its own marks and blanks."""
    sentences: dict[str, None] = {}
    for paragraph in re.split(r"\n[ \t]*\n", text):
        if not _NO_PROSE.search(paragraph):
            item = _ITEM.match(paragraph)
            line = " ".join(_WIDE_BREAK.sub("", _OWN_MARK.sub("", paragraph[item.end() if item else 0 :])).split())
            for sentence in map(str.strip, _SENTENCE_END.split(_OWN_BLANK.sub("", line))):
                if _SENTENCE.fullmatch(sentence) and _SHORTEST <= len(_WORD.findall(sentence)) <= _LONGEST:
                    sentences[sentence] = None
    return [*sentences]


def pages_of(pdf: Path) -> list[str]:
    """Return the pages of a PDF as a reader of another family than the worker's has them."""
    command = ["pdftotext", "-enc", "UTF-8", str(pdf), "-"]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    return output.decode("utf-8", errors="replace").split("\f")


def letters(text: str) -> str:
    """Return the letters of a text, without their accents and case: the loosest key."""
    return "".join(filter(str.isalpha, unicodedata.normalize("NFKD", text).casefold()))


def with_joints(pages: Sequence[str]) -> list[str]:
    """Return pages, and what meets at each page's end: without some last and first lines, which may be running ones."""
    lines = [[line for line in page.splitlines() if letters(line)] for page in pages]
    joints = [
        "\n".join(
            [*upper_lines[-_AT_EDGE - footers : len(upper_lines) - footers], *lower_lines[headers : headers + _AT_EDGE]]
        )
        for upper_lines, lower_lines in pairwise(lines)
        for footers in range(_FOOTERS + 1)
        for headers in range(_HEADERS + 1)
    ]
    return [*pages, *joints]


def is_printed(sentence: str, pieces: Iterable[tuple[str, str]]) -> bool:
    """Return whether a piece, given with its letters, has a sentence's signs, and its blanks but at line ends."""
    key = letters(sentence)
    pattern = "\n?".join("[ \n]" if sign == " " else re.escape(sign) for sign in _signs(sentence))
    return any(key in piece_letters and re.search(pattern, _signs(piece)) for piece_letters, piece in pieces)


def _signs(text: str) -> str:
    """Return a text without digits, of which some are footnotes' marks, and hyphens; all quotation marks are one."""
    text = _UNCOUNTED.sub("", _QUOTATION.sub('"', _DASH.sub("—", unicodedata.normalize("NFKC", text))))
    return re.sub(r" *\n\s*", "\n", re.sub(r"[^\S\n]+", " ", text))


def chunks_of(pdf: Path) -> Sequence[DocumentChunk]:
    """Return the chunks that `retrieval-worker load` makes, with the local embedder."""
    encoder = encoder_of(EmbedderSettings(kind="local"))
    columns = loader.columns_to_embed(load_unconnected().corpora)["documents"]
    folder_files = folders.FolderFiles()
    folders.find(pdf, folder_files)
    window = folders.Window(encoder.count, min(encoder.window, TOKENS), columns)
    documents = folders.read(folder_files, folders.Rights("alice"), window, lambda _: None)
    return documents[0].chunks if documents else []


# --- verdicts -----------------------------------------------------------------------------------


class Source:
    """Chunks of one document.

    Args:
        chunks: in the document's order.
    """

    def __init__(self, chunks: Sequence[DocumentChunk]) -> None:
        self._chunks = chunks
        self._keys = [letters(chunk.text) for chunk in chunks]
        self._quoted = [QuotedChunk.of(chunk.id, chunk.text) for chunk in chunks]
        pages: dict[int | None, list[str]] = defaultdict(list)
        for chunk in chunks:
            pages[chunk.page].append(chunk.text)
        self._pages = ["\n".join(texts) for texts in pages.values()]
        self._joints = [letters(joint) for joint in with_joints(self._pages)]

    def verifies(self, sentence: str) -> bool:
        """Return whether a chunk has the sentence, by the worker's check."""
        key = letters(sentence)
        middle = len(key) // 2
        probes = {key[:_PROBE], key[middle : middle + _PROBE], key[-_PROBE:]}
        likely = [
            chunk
            for chunk, chunk_letters in zip(self._quoted, self._keys, strict=True)
            if any(probe in chunk_letters for probe in probes)
        ]
        # Those that are not likely are asked as well, before it counts as refused.
        return any(bool(check_quote(sentence, "", chunks).elsewhere) for chunks in (likely, self._quoted))

    def reason(self, sentence: str) -> tuple[str, str]:
        """Return why a sentence is refused, and the text in its place."""
        key = letters(sentence)
        for chunk, chunk_letters in zip(self._chunks, self._keys, strict=True):
            if (at := chunk_letters.find(key)) >= 0:
                text = part(chunk.text, at, len(key))
                return difference(part(sentence, 0, len(key)), text), text
        for (chunk, chunk_letters), (following, following_letters) in pairwise(
            zip(self._chunks, self._keys, strict=True)
        ):
            if (at := (chunk_letters + following_letters).find(key)) >= 0:
                where = "a chunk boundary" if chunk.page == following.page else "a page"
                return f"crosses {where}", part(f"{chunk.text}\n⁂\n{following.text}", at, len(key))
        if any(key in joint for joint in self._joints):
            return "header or footer in between", ""
        words = {*map(letters, _WORD.findall(sentence))}
        for page in self._pages:
            if len(words & {*map(letters, _WORD.findall(page))}) >= _SHARE_OF_WORDS * len(words):
                return "reading order", page
        return "other", ""


def part(text: str, at: int, length: int) -> str:
    """Return the part of a text that has some of its letters, and the number that the first word is glued to."""
    places = [i for i, character in enumerate(text) for _ in letters(character)]
    start = len(text[: places[at]].rstrip("0123456789"))
    return text[start : places[at + length - 1] + 1]


def difference(quote: str, text: str) -> str:
    """Return the reason why one of two texts with the same letters is not taken for the other."""
    solid_quote, solid_text = (_solid(compared) for compared in (quote, text))
    if any(url not in text and _HYPHENS.sub("", url) in _HYPHENS.sub("", solid_text) for url in _URL.findall(quote)):
        return "URL broken"
    if solid_quote == solid_text:
        return "ligature" if _LIGATURE.search(text) else "blank glued or torn"
    for reason, pattern in (("line-end hyphen kept or lost", _HYPHENS), ("footnote mark", re.compile(r"\d+"))):
        if pattern.sub("", solid_quote) == pattern.sub("", solid_text):
            return reason
    return "other"


def _solid(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).split())
