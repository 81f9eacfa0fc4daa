"""Text files as people have them: UTF-8 or UTF-16, with a byte order mark or without."""

from __future__ import annotations

import codecs

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before that of UTF-16, which it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class EncodingError(ValueError):
    """A file has bytes that are none of its encoding; the message has the line."""


def decoded(content: bytes, encoding: str = "utf-8") -> str:
    r"""Decode a file by its byte order mark, or else by an encoding; line ends become ``\n``.

    >>> decoded("\ufeffDüne\r\n".encode("utf-16-le"))
    'Düne\n'

    Raises:
        EncodingError: it is in another encoding.
        LookupError: Python does not know the encoding.
    """
    mark, encoding = next(
        (mark_and_encoding for mark_and_encoding in _MARKS if content.startswith(mark_and_encoding[0])), (b"", encoding)
    )
    content = content[len(mark) :]
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].decode(encoding, "replace").count("\n") + 1
        raise EncodingError(f"line {line}: expected text in {encoding.upper()}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
