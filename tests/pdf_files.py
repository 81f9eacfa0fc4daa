"""PDF files as small as they can be, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def pdf(
    pages: Sequence[Sequence[str]],
    outline: Sequence[tuple[str, int]] = (),
    links: Sequence[str] = (),
    *,
    encrypted: bool = False,
) -> bytes:
    """Make a PDF of pages of lines, with an outline of titles and pages from 1; an encrypted one has no key.

    Each page links to all addresses.
    """
    shown_links = "".join(
        f"<< /Type /Annot /Subtype /Link /Rect [72 700 99 720] /A << /S /URI /URI ({link}) >> >>" for link in links
    )
    numbers = [10 + 2 * i for i in range(len(pages))]
    entries = [10_000 + i for i in range(len(outline))]
    objects = {
        1: f"<< /Type /Catalog /Pages 2 0 R {'/Outlines 4 0 R' if outline else ''} >>",
        2: f"<< /Type /Pages /Count {len(pages)} /Kids [{' '.join(f'{n} 0 R' for n in numbers)}] >>",
        3: "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        5: f"<< /Filter /Standard /V 1 /R 2 /Length 40 /P -44 /O <{'41' * 32}> /U <{'42' * 32}> >>",
    }
    for number, lines in zip(numbers, pages, strict=True):
        shown = "".join(f"({line}) Tj T*\n" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td\n{shown}ET"
        objects[number] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R "
            f"/Annots [{shown_links}] /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects[number + 1] = f"<< /Length {len(stream.encode('cp1252'))} >>\nstream\n{stream}\nendstream"
    if outline:
        objects[4] = f"<< /First {entries[0]} 0 R /Last {entries[-1]} 0 R /Count {len(entries)} >>"
        for i, (title, page) in enumerate(outline):
            after = f"/Next {entries[i + 1]} 0 R" if i + 1 < len(entries) else ""
            objects[entries[i]] = f"<< /Title ({title}) /Parent 4 0 R /Dest [{numbers[page - 1]} 0 R /Fit] {after} >>"
    content = b"%PDF-1.4\n"
    places = {}
    for number, body in sorted(objects.items()):
        places[number] = len(content)
        content += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{number} 1\n{place:010} 00000 n \n" for number, place in places.items())
    key = f"/Encrypt 5 0 R /ID [<{'00' * 16}> <{'00' * 16}>]" if encrypted else ""
    trailer = f"trailer\n<< /Size 20000 /Root 1 0 R {key} >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + f"xref\n0 1\n0000000000 65535 f \n{table}{trailer}".encode()
