"""Documents that people have: read by kind, cut into chunks, or refused with one sentence."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pdf_files import pdf
from tests.unit.growth import assert_linear

from worker.cli.documents import folders
from worker.cli.documents.html import read_html, read_markdown
from worker.cli.documents.page_breaks import join_page_breaks
from worker.cli.documents.passages import Passage, UnreadableError
from worker.cli.documents.reading import Reader
from worker.cli.documents.splitting import split

if TYPE_CHECKING:
    from pathlib import Path


def words(text: str) -> int:
    return len(text.split())


# --- readers ------------------------------------------------------------------------------------


def test_a_pdf_has_pages_and_the_sections_of_its_outline(tmp_path: Path) -> None:
    """A page is cut where the outline's title stands; what is before it belongs to the section before."""
    path = tmp_path / "desk.pdf"
    pages = [["1 Hum", "The desk hums.", "2 Noise", "The desk is noisy."], ["It stays so.", "3 Repair", "Patch it."]]
    path.write_bytes(pdf(pages, [("Hum", 1), ("Noise", 1), ("Repair", 2)]))
    with Reader() as reader:
        content = reader.read(path)
    assert content.passages == [
        ("1 Hum\nThe desk hums.\n", 1, "Hum"),
        ("2 Noise\nThe desk is noisy.", 1, "Noise"),
        ("It stays so.\n", 2, "Noise"),
        ("3 Repair\nPatch it.", 2, "Repair"),
    ]


def test_pages_of_a_pdf_without_text_are_counted(tmp_path: Path) -> None:
    """Scanned pages are said; a file of nothing else is refused."""
    some, none = tmp_path / "some.pdf", tmp_path / "none.pdf"
    some.write_bytes(pdf([["It hums."], [], []]))
    none.write_bytes(pdf([[], []]))
    with Reader() as reader:
        assert reader.read(some).empty_pages == 2
        with pytest.raises(UnreadableError, match="its pages have no text: scanned pages need OCR first"):
            reader.read(none)


def test_an_address_over_two_lines_is_whole_where_the_page_links_to_it(tmp_path: Path) -> None:
    """Nobody quotes it with a line's end; what only looks like an address stays as it is."""
    path = tmp_path / "desk.pdf"
    lines = ["See https://a.example/", "hum-and-noise, or https:", "//b.example/, or https://c.example/", "noise."]
    path.write_bytes(pdf([lines], links=["https://a.example/hum-and-noise", "https://b.example/", "mailto:a@b.c"]))
    with Reader() as reader:
        assert reader.read(path).passages == [
            ("See https://a.example/hum-and-noise, or https://b.example/, or https://c.example/\nnoise.", 1, None)
        ]


def test_a_path_over_two_lines_is_whole_if_the_document_has_it_whole_elsewhere(tmp_path: Path) -> None:
    """As a torn word is."""
    path = tmp_path / "desk.pdf"
    path.write_bytes(pdf([["Read /var/log/hum first: the file /var/", "log/hum, tells all, and/", "or nothing."]]))
    with Reader() as reader:
        assert reader.read(path).passages == [
            ("Read /var/log/hum first: the file /var/log/hum, tells all, and/\nor nothing.", 1, None)
        ]


def test_the_number_of_a_footnote_is_no_part_of_its_first_word(tmp_path: Path) -> None:
    """A quote begins where words do; a name that begins with a digit stays."""
    path = tmp_path / "desk.pdf"
    lines = ["It hums. The lamp is on.", "1The hum is loud.", "3Com is off.", "12 May", "1st", "2L'écho."]
    path.write_bytes(pdf([lines, ["5Gnomes", "3³And so on."]]))
    with Reader() as reader:
        texts = [passage.text for passage in reader.read(path).passages]
    assert texts == [
        "It hums. The lamp is on.\n1 The hum is loud.\n3Com is off.\n12 May\n1st\n2 L'écho.",
        "5Gnomes\n3³ And so on.",
    ]


HEADER, LONG = "Manual of the desk", "It hums at 50 Hz whenever the lamp over it is on,"


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        # A header of each page, and page numbers.
        (
            [[HEADER, LONG, "1"], [HEADER, "and it stays so. It is loud.", "2"]],
            [[HEADER, LONG, "and it stays so.", "1"], [HEADER, "It is loud.", "2"]],
        ),
        # Left and right pages have footers of their own, and the sentence goes on with a capital letter.
        (
            [[LONG, "2 Desk"], [f"Dr. Groß says of it. {LONG}", "It is on.", "1.2. Noise 3"], ["It is off.", "4 Desk"]],
            [[LONG, "Dr. Groß says of it.", "2 Desk"], [LONG, "It is on.", "1.2. Noise 3"], ["It is off.", "4 Desk"]],
        ),
        # The last sentence is whole; a heading follows; a table of contents; a listing.
        ([["It hums.", "1"], ["not loudly, though.", "2"]], None),
        ([[LONG, "1"], ["Noise", f"{LONG} and it is loud.", "2"]], None),
        ([["1.1 Hum . . . . . . . . 1"], ["noise . . . . . . . . 2"]], None),
        ([[LONG, "1"], ["hum = 50", "noise = hum * 2 + offset_of_the_lamp(hum)", "It is loud.", "2"]], None),
        ([[LONG], []], None),
    ],
)
def test_a_sentence_over_a_page_end_is_whole_on_the_page_where_it_begins(
    pages: list[list[str]], expected: list[list[str]] | None
) -> None:
    """Quotes are looked for in one chunk, and a chunk is of one page; headers and footers stay."""
    texts = ["\n".join(page) for page in pages]
    assert join_page_breaks(texts) == (["\n".join(page) for page in expected] if expected else texts)


LINE = st.text(st.sampled_from("ab A.1\ufffe\n"), max_size=30)


@given(st.lists(LINE, max_size=6))
def test_joining_pages_loses_no_sign(texts: list[str]) -> None:
    """For any of them: lines only move to the page before."""
    joined = join_page_breaks(texts)
    assert len(joined) == len(texts)
    assert sorted("".join("".join(joined).split())) == sorted("".join("".join(texts).split()))


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("locked.pdf", pdf([["It hums."]], encrypted=True), "it is encrypted"),
        ("broken.pdf", b"%PDF-1.4 and no more", "it is no PDF, or broken"),
        ("empty.md", b"\n\n", "it has no text"),
        ("latin.txt", "Ein Satz.\nDie Düne.\n".encode("latin-1"), "line 2: expected text in UTF-8"),
        ("odd.html", b"<meta charset=klingon><p>hum", "unknown encoding: klingon"),
        ("away.txt", None, "No such file or directory"),
    ],
)
def test_what_can_not_be_read_is_one_sentence_and_the_next_file_is_read(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    """The reading process goes on."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "good.txt").write_text("It hums.")
    with Reader() as reader:
        with pytest.raises(UnreadableError) as caught:
            reader.read(tmp_path / name)
        assert str(caught.value) == reason
        assert reader.read(tmp_path / "good.txt").passages == [("It hums.", None, None)]


def test_a_file_that_takes_too_long_ends_its_reader_only(tmp_path: Path) -> None:
    """The parser's time grows with the square of the nesting; the next file gets a new process."""
    (tmp_path / "deep.html").write_text("<div>" * 500_000)
    (tmp_path / "good.html").write_text("<p>It hums.")
    with Reader(seconds=1) as reader:
        with pytest.raises(UnreadableError, match="it needs more than 1 seconds"):
            reader.read(tmp_path / "deep.html")
        (tmp_path / "deep.html").unlink()
    with Reader() as reader:
        assert reader.read(tmp_path / "good.html").passages == [("It hums.", None, None)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_byte_order_mark_tells_the_encoding(tmp_path: Path, encoding: str) -> None:
    """As editors on Windows write it."""
    (tmp_path / "note.txt").write_bytes("Die Düne – 砂丘.\r\nSie summt.".encode(encoding))
    with Reader() as reader:
        assert reader.read(tmp_path / "note.txt").passages == [("Die Düne – 砂丘.\nSie summt.", None, None)]


def test_html_is_read_as_it_is_shown() -> None:
    """Without scripts, navigation and hidden text; bad HTML as a browser repairs it."""
    page = """<title>The  desk</title><nav>Home</nav><p>Before.
      <h2>Hum <b>of</b> the desk<a class=headerlink>¶</a></h2><p>It <i>hums</i> at 50&nbsp;Hz<p hidden>not this
      <div style="display: none">nor this</div><script>nor()</script><ul><li>one<li>two</ul>
      <table><tr><th>A<th>B<tr><td>a<td>b<tr><td>c</table><pre>  x = 1\n  y = 2</pre>"""
    content = read_html(page)
    assert content.title == "The desk"
    assert content.passages == [
        ("Before.", None, None),
        (
            "Hum of the desk\n\nIt hums at 50\u00a0Hz\n\none\n\ntwo\n\nA\tB\n\na\tb\nc\n\n  x = 1\n  y = 2",
            None,
            "Hum of the desk",
        ),
    ]


def test_markdown_is_read_as_the_page_that_it_makes() -> None:
    """Links and emphasis leave their words; what stands before the first heading has no section."""
    content = read_markdown(
        "---\ntitle: Desk notes\n---\nSee [the *manual*](m.md).\n\n# Hum\n\nIt hums.\n\n```\n# no heading\n```\n"
    )
    assert content.title == "Desk notes"
    assert content.passages == [
        ("See the manual.", None, None),
        ("Hum\n\nIt hums.\n\n# no heading", None, "Hum"),
    ]


def test_a_section_says_the_way_down_to_its_heading() -> None:
    """From the page's own on; a heading without a text stands above the next one's."""
    headings = ["# Tools", "## Saw", "### Care", "## Lathe", "#### Speed", "2,400.", "### Care", "Oil it.", "# Desk"]
    passages = read_markdown("\n\n".join(headings)).passages
    assert [passage.section for passage in passages] == [
        *("Tools", "Tools › Saw", "Tools › Saw › Care", "Tools › Lathe"),
        *("Tools › Lathe › Speed", "Tools › Lathe › Care", "Desk"),
    ]
    assert [(chunk.text, chunk.section) for chunk in split(passages, words)] == [
        ("Tools\n\nSaw\n\nCare\n\nLathe\n\nSpeed\n\n2,400.", "Tools › Lathe › Speed"),
        ("Care\n\nOil it.", "Tools › Lathe › Care"),
        ("Desk", "Desk"),
    ]


# --- chunks -------------------------------------------------------------------------------------

PIECE = st.text(st.sampled_from("ab.。!? \n\tÄ砂"), max_size=60)
PASSAGES = st.lists(st.builds(Passage, PIECE, st.integers(1, 3), st.sampled_from([None, "Hum"])), max_size=5)


@given(PASSAGES, st.integers(1, 9))
def test_chunks_are_within_the_limit_and_lose_no_word(passages: list[Passage], limit: int) -> None:
    """All signs of any text are in chunks that the embedder reads whole, in order."""
    chunks = [*split(passages, len, limit)]
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(
        "".join(passage.text.split()) for passage in passages
    )
    assert all(len(chunk.text) <= limit for chunk in chunks)


def test_a_sentence_stays_whole_and_a_heading_stays_with_its_text() -> None:
    """A heading alone would be found instead of what it is about."""
    passages = [
        Passage("Faults", 1, "Faults"),
        Passage("Hum\n\nThe desk hums at fifty hertz. " + "It hums on and on. " * 5, 1, "Hum"),
    ]
    chunks = [*split(passages, words, 20)]
    assert chunks[0].text.startswith("Faults\n\nHum\n\nThe desk hums at fifty hertz.")
    assert {chunk.section for chunk in chunks} == {"Hum"}
    assert all(chunk.text.endswith(".") for chunk in chunks)


@pytest.mark.parametrize("length", [2**15, 2**18])
def test_little_of_a_sentence_is_counted_again_however_long_it_is(length: int) -> None:
    """A file that is one line of words would be counted at each of its halvings; and progress is told meanwhile."""
    counted: list[int] = []
    told: list[int] = []
    text = ("the pump valve of the harbour master " * length)[:length].strip()

    def count(part: str) -> int:
        counted.append(len(part))
        return words(part)

    chunks = [*split([Passage(text)], count, 256, told.append)]
    assert sum(counted) <= 3 * length
    assert len(told) > len(text) // 4096
    assert sum(told) == len(text)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())


def test_a_long_line_takes_linear_time() -> None:
    assert_linear(lambda text: [*split([Passage(text)], len, 256)], "ab ", 2**15)


def test_progress_is_told_while_a_file_is_cut(tmp_path: Path) -> None:
    """A bar of files alone stands still while a large one is read."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("It hums. " * 5)
    folder_files, told = folders.FolderFiles(), list[float]()
    folders.find(tmp_path, folder_files)
    folders.read(folder_files, folders.Rights("alice"), folders.Window(words, 20), told.append)
    assert told == sorted(told)
    assert told[-1] == 2
    assert sum(0 < files < 1 for files in told) >= 4


@pytest.mark.parametrize("heading", ["Machines", "3.1 Machines", "Heavy\nmachines"])
def test_a_short_text_stays_in_its_section(heading: str) -> None:
    """Only headings without a text join what follows: a sentence would be cited under another heading."""
    passages = [
        Passage(heading, 1, " ".join(heading.removeprefix("3.1 ").split())),
        Passage("Saw\n\n180 mm.", 1, "Saw"),
        Passage("Lathe\n\nLathe", 1, "Lathe"),
        Passage("Care\n\nOil it.", 1, "Care"),
        Passage("End", 1, "End"),
    ]
    assert [(chunk.text, chunk.section) for chunk in split(passages, words)] == [
        (f"{heading}\n\nSaw\n\n180 mm.", "Saw"),
        ("Lathe\n\nLathe", "Lathe"),
        ("Care\n\nOil it.", "Care"),
        ("End", "End"),
    ]


# --- folders ------------------------------------------------------------------------------------


def test_no_link_leads_out_of_a_folder(tmp_path: Path) -> None:
    """Links, hidden files and other kinds are left out; all but the hidden ones are counted."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("secret")
    folder = tmp_path / "manuals"
    (folder / "en").mkdir(parents=True)
    (folder / "en" / "Hum.TXT").write_text("It hums.")
    (folder / "a.png").write_bytes(b"")
    (folder / ".git.txt").write_text("hidden")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret" / "key.txt")
    os.mkfifo(folder / "pipe.txt")
    found = folders.FolderFiles()
    folders.find(folder, found)
    assert [*found.paths] == ["manuals/pipe.txt", "manuals/en/Hum.TXT"]
    assert found.unread == {"manuals/pipe.txt": "it is no regular file"}
    assert found.other_kinds == {"symbolic links": 2, ".png": 1}


def test_a_file_that_is_too_large_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its size is looked at before."""
    monkeypatch.setattr(folders, "MOST_BYTES", 2**20)
    (tmp_path / "long.txt").write_bytes(b"x" * (2**20 + 1))
    found = folders.FolderFiles()
    folders.find(tmp_path / "long.txt", found)
    assert [*found.unread.values()] == ["it has 1 MiB, more than 1"]


def test_ids_of_chunks_stay_where_others_come_and_pages_shift(tmp_path: Path) -> None:
    """An id is of section and text alone; what stands twice has two."""
    rights, window = folders.Rights("alice"), folders.Window(words, 20)
    path = tmp_path / "manual.pdf"

    def chunks(pages: list[list[str]]) -> dict[str, tuple[str, int | None]]:
        path.write_bytes(pdf(pages))
        found = folders.FolderFiles()
        folders.find(path, found)
        (document,) = folders.read(found, rights, window, lambda _: None)
        return {chunk.id: (chunk.text, chunk.page) for chunk in document.chunks}

    long = [
        "The desk hums at fifty hertz and it does not stop until",
        "somebody patches the source to another channel.",
    ]
    first = chunks([long, long])
    second = chunks(
        [["Something new stands on a page that was put before all of the others that there were."], long, long]
    )
    assert len(first) == 2
    assert {one: page for one, (_, page) in second.items() if one in first} == dict(zip(first, (2, 3), strict=True))
