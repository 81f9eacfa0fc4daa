"""The command that loads documents and files of items into the reference tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path  # noqa: TC003 -- typer reads the annotations when it runs
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from retrieval_client.errors import SettingsError
from worker.adapters.terminal import complain, console, progress, screen, write_json
from worker.cli.commands.install import AdminDsn, admin_connection
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs
from worker.cli.usage import WrongUsage
from worker.core.shape import is_storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.providers.embedder import Embedder
    from worker.cli.corpus_files import CorpusFile, Document
    from worker.cli.documents.folders import FolderFiles, Rights, Window
    from worker.settings import Settings

_NAMED = 5
"""Most documents that are named."""


def load(
    dsn: AdminDsn,
    places: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FOLDER|FILE",
            help="Folders of documents, documents, or JSON files of items; default the three sample corpora.",
        ),
    ] = None,
    owner: Annotated[str, typer.Option(help="User who owns the documents; needed for them.", show_default=False)] = "",
    tenant: Annotated[str | None, typer.Option(help="Tenant of the owner.")] = None,
    visibility: Annotated[
        Literal["private", "tenant", "public"],
        typer.Option(help="Who else may see the documents: only --grant, the tenant's callers, or everyone."),
    ] = "private",
    grant: Annotated[
        list[str] | None, typer.Option(help="A further user who may see the documents, or role:NAME; repeatable.")
    ] = None,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete documents of these folders whose files are no longer there.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Embed unchanged chunks as well.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read everything, and write nothing.")] = False,
    as_json: JsonDocument = False,
) -> None:
    """Load documents, or files of items, into the reference tables; texts are embedded as the settings say.

    Documents are PDF, HTML, Markdown and text files. They are split at headings and sentences into chunks that the
    embedder reads whole. A chunk has its page, its section and its document's path, from the name of the folder on. A
    second run embeds only what changed, also after an interruption. Exit code 1 if a file could not be read; the others
    are loaded.

    A file of items holds one list, named after its corpus, or an item on each line (.jsonl). All fields: docs/schema.md

    {"documents": [{"id": …, "owner": …, "chunks": [{"id": …, "text": …}]}]}

    {"docs": [{"id": …, "page_name": …, "page_url": …, "section_title": …, "content": …}]}

    {"examples": [{"id": …, "title": …, "description": …, "code": …, "tags": […], "url": …}]}

    It also counts the words of their corpora again, as [bold]retrieval-worker statistics[/bold] does.

    Examples: [bold]retrieval-worker load manuals --owner alice[/bold],
    [bold]retrieval-worker load documents.json --dsn postgresql://postgres@db/app[/bold]
    """
    from worker import settings
    from worker.adapters.providers import embedder
    from worker.cli import corpus_files, loader, sample_vectors
    from worker.cli.documents.folders import ITEMS, Rights, check_places

    sources = places or [*corpus_files.SAMPLES.values()]
    roots = [place for place in sources if place.is_dir() or place.suffix.lower() not in ITEMS]
    check_places(roots)
    if roots and not owner:
        raise WrongUsage("name the user who owns the documents: --owner alice")
    if tenant == "" or (roots and visibility == "tenant" and tenant is None):
        raise WrongUsage("name the tenant of the owner: --tenant acme")
    contents = [corpus_files.read(place) for place in sources if place not in roots]
    loaded = settings.load_unconnected()
    embedding_model = embedder.make(loaded.embedder)
    model = sample_vectors.known(embedding_model)
    columns = loader.columns_to_embed(loaded.corpora)
    window = _window(embedding_model, columns["documents"])
    shown_on = screen if as_json or roots else console
    folder_files, documents = _read(roots, Rights(owner, tenant, visibility, grant or ()), window, shown_on)
    contents += [corpus_files.CorpusFile("documents", tuple(documents))] if documents else []
    with admin_connection(dsn) as connection, progress(shown_on) as progress_bars:
        stored = [
            document_id
            for root in roots
            for document_id in loader.check_rights(connection, _document_root(root), owner, tenant)
        ]
        vanished = [document_id for document_id in stored if document_id not in folder_files.paths]
        loader.check_chunk_ids(connection, contents)
        loader.check_embedders(connection, contents, model)
        for content in [] if dry_run else contents:
            bar = progress_bars.add_task(f"loading {content.corpus}", total=content.chunks)
            loader.load(connection, content, model, partial(progress_bars.advance, bar), columns, embed_unchanged=again)
        if prune and not dry_run:
            loader.delete_documents(connection, vanished)
        uncounted = None if dry_run else _count_words(connection, loaded, contents)
    report = {
        "loaded": [
            {"corpus": content.corpus, "items": len(content.items), "chunks": content.chunks} for content in contents
        ],
        **_unread_texts(embedding_model, contents, columns),
        "unread": folder_files.unread,
        "empty_pages": folder_files.empty_pages,
        "others": dict(folder_files.other_kinds),
        "vanished": vanished,
    }
    if as_json:
        write_json(report)
    else:
        _tell(report, prune=prune, dry_run=dry_run)
    for document_id, reason in folder_files.unread.items():
        complain(f"{document_id}: {reason}")
    if uncounted:
        raise uncounted
    if folder_files.unread:
        raise typer.Exit(1)


def _document_root(root: Path) -> str:
    """Return the beginning of the ids of a folder's documents, or the id of a file's.

    Raises:
        WrongUsage: it is not in UTF-8, so that no id can be made of it.
    """
    path = root.absolute()
    name = path.name if root.is_dir() else path.relative_to(path.parent.parent).as_posix()
    if not is_storable(name):
        raise WrongUsage(f"{name}: its name is not in UTF-8, and ids of documents begin with it")
    return name


def _window(embedder: Embedder, columns: Sequence[str]) -> Window:
    """Return what the embedder reads; one without a known window gets chunks of the usual size, by an estimate."""
    from worker.adapters.providers.local_embedder import LocalEmbedder
    from worker.cli.documents.folders import Window
    from worker.cli.documents.splitting import TOKENS
    from worker.core.prompting.context import ESTIMATE

    if not isinstance(embedder, LocalEmbedder):
        return Window(ESTIMATE.count, TOKENS, columns)
    return Window(embedder.encoder.count, min(embedder.encoder.window, TOKENS), columns)


def _read(roots: Sequence[Path], rights: Rights, window: Window, shown_on: Any) -> tuple[FolderFiles, list[Document]]:
    """Read folders and documents."""
    from worker.cli.documents import folders, reading

    folder_files = folders.FolderFiles()
    if not roots:
        return folder_files, []
    reading.check_installed()
    for root in roots:
        folders.find(root, folder_files)
    with progress(shown_on) as progress_bars:
        bar = progress_bars.add_task("reading files", total=len(folder_files.paths))
        return folder_files, folders.read(
            folder_files, rights, window, lambda files: progress_bars.update(bar, completed=files)
        )


def _unread_texts(
    embedder: Embedder, contents: Sequence[CorpusFile], columns: dict[str, Sequence[str]]
) -> dict[str, Any]:
    """Count the texts whose ends the embedder does not read, and by corpus those that are not of its languages."""
    from worker.adapters.providers.local_embedder import LONGEST, LocalEmbedder, misreads
    from worker.core.text.legibility import is_foreign_corpus

    too_long, foreign = 0, dict[str, int]()
    if not isinstance(embedder, LocalEmbedder):
        return {"too_long": 0, "not_of_the_embedders_languages": foreign}
    for content in contents:
        texts = [text for item in content.items for _, text in item.to_embed(columns[content.corpus])]
        too_long += sum(len(text) > LONGEST for text in texts)
        verdicts = [misreads(embedder, text) for text in texts]
        if is_foreign_corpus(verdicts):
            foreign[content.corpus] = sum(verdicts)
    return {"too_long": too_long, "not_of_the_embedders_languages": foreign}


def _count_words(connection: Any, settings: Settings, contents: Sequence[CorpusFile]) -> SettingsError | None:
    """Count the words of the loaded corpora; return why they could not be: what is loaded must be reported first."""
    from worker.cli import loader

    try:
        loader.count_words(connection, settings.corpora, contents)
    except SettingsError as error:
        return SettingsError(f"all is loaded, and words are not counted: {error.message}")
    return None


def _tell(report: dict[str, Any], *, prune: bool, dry_run: bool) -> None:
    would, are = ("would be ", "would be") if dry_run else ("", "are")
    for row in report["loaded"] or [{"corpus": "documents", "items": 0, "chunks": 0}]:
        console.print(f"{row['chunks']} chunks of {row['items']} {row['corpus']} {are} loaded")
    if report["too_long"]:
        console.print(
            f"{report['too_long']} of {sum(row['chunks'] for row in report['loaded'])} chunks are longer than the "
            "embedder reads: their ends are not in their embeddings",
            soft_wrap=True,
        )
    for corpus, count in report["not_of_the_embedders_languages"].items():
        console.print(
            f"{count} {corpus} chunks are not of the embedder's languages, so searches by meaning miss them: "
            "docs/configuration.md names a multilingual embedder",
            soft_wrap=True,
        )
    for document_id, pages in report["empty_pages"].items():
        console.print(f"{document_id}: {pages} pages without text", soft_wrap=True)
    if report["others"]:
        other_kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report["others"].items()))
        console.print(f"not read, being of other kinds: {other_kinds}", soft_wrap=True)
    if report["vanished"]:
        names = report["vanished"][:_NAMED]
        rest_note = f" and {len(report['vanished']) - len(names)} more" if len(report["vanished"]) > len(names) else ""
        fate = f"{would}deleted" if prune else "still there: --prune deletes them"
        console.print(f"without a file, {fate}: {', '.join(names)}{rest_note}", soft_wrap=True)
