"""The proposals as files: settings for the worker, and SQL to review and run."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.adoption.tables import COUNTED, snake_case
from worker.adapters.postgres.index_advice import EF_CONSTRUCTION, M
from worker.cli.usage import WrongUsage
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from workbench.adoption.preview import Preview
    from workbench.adoption.proposals import Choice, Proposal, Skipped
    from workbench.adoption.tables import Table

SETTINGS, MODES, STATEMENTS = "worker.toml", "modes.toml", "tables.sql"
_ROLE = "retrieval_worker"
_LINE = 96


def new_folder(folder: Path | None) -> Path:
    """Return the folder to write to: as wanted, else the first of ``adopted``, ``adopted-2``, … that is not there.

    Raises:
        WrongUsage: a file that would be written is there.
    """
    if folder is None:
        names = ("adopted", *(f"adopted-{n}" for n in range(2, 10_000)))
        return next(Path(name) for name in names if not Path(name).exists())
    for name in (SETTINGS, MODES, STATEMENTS):
        if (folder / name).exists():
            raise WrongUsage(f"{folder / name} is there, and nothing is overwritten: name another folder with --out")
    return folder


def write(
    folder: Path, proposals: Sequence[Proposal], skipped: Sequence[Skipped], previews: Mapping[str, Preview]
) -> list[Path]:
    """Write the files; return their paths.

    Args:
        folder: the folder.
        proposals: the corpora.
        skipped: what can't be one.
        previews: what callers would see, by corpus.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        SETTINGS: settings_file(proposals),
        MODES: modes_file(proposals),
        STATEMENTS: statements_file(proposals, skipped, previews),
    }
    for name, text in texts.items():
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(text)
    return [folder / name for name in texts]


# --- the settings -------------------------------------------------------------------------------


def settings_file(proposals: Sequence[Proposal]) -> str:
    """Return the settings of the worker."""
    first_dimensions = proposals[0].dimensions
    searches = [f"{_toml(proposal.corpus)} = 5" for proposal in proposals if proposal.dimensions == first_dimensions]
    sizes = dict.fromkeys(proposal.dimensions for proposal in proposals)
    return "\n".join(
        [
            "# Proposed by 'retrieval-worker adopt'. Review it, and name it in RETRIEVAL_WORKER_CONFIG.",
            "# docs/configuration.md has all settings; 'retrieval-worker doctor' checks them.",
            "",
            "trust_queue = false  # true only where no one but your backend writes to Redis; else jobs carry a token",
            "",
            "[embedder]           # the model that filled the tables",
            'kind = "none"        # choose: replace this line. Until then vectors are answered, and no texts',
            *(line for size in sizes for line in _guess(size)),
            "",
            *(line for proposal in proposals for line in _corpus(proposal)),
            "[hybrid]",
            f"searches = {{ {', '.join(searches)} }}  # chunks of each",
            "",
        ]
    )


_OPENAI = 'kind = "openai"'
_GUESSES = {
    384: ("all-MiniLM-L6-v2", ['kind = "local"']),
    512: ("OpenAI's text-embedding-3-small, if asked for as many", [_OPENAI, 'model = "text-embedding-3-small"']),
    768: (
        "nomic-embed-text, and of most models named base; here by Ollama",
        [_OPENAI, 'model = "nomic-embed-text"', 'base_url = "http://localhost:11434/v1"', "send_dimensions = false"],
    ),
    1024: (
        "bge-m3, and of Titan v2, Cohere v3 and most models named large; here by Ollama",
        [_OPENAI, 'model = "bge-m3"', 'base_url = "http://localhost:11434/v1"', "send_dimensions = false"],
    ),
    1536: (
        "OpenAI's text-embedding-3-small; for its ada-002 also set send_dimensions = false",
        [_OPENAI, 'model = "text-embedding-3-small"'],
    ),
    3072: ("OpenAI's text-embedding-3-large", [_OPENAI, 'model = "text-embedding-3-large"']),
}
"""Dimensions → the best known model that makes as many, and its settings."""


def _guess(dimensions: int) -> Iterator[str]:
    """Yield the settings of the embedder that a number of dimensions suggests, as a comment with the reason."""
    if dimensions not in _GUESSES:
        yield f"# {dimensions:,} dimensions suggest no model: docs/reference/settings.md has the kinds"
        return
    reason, lines = _GUESSES[dimensions]
    yield f"# A guess, as {dimensions:,} dimensions are those of {reason}:"
    yield from (f"#{line}" for line in lines)


def modes_file(proposals: Sequence[Proposal]) -> str:
    """Return the modes of questions: one for all corpora of the same dimensions, that of the first corpus first."""
    shipped = tomllib.loads((config_folder() / MODES).read_text(encoding="utf-8"))["modes"]["grounded"]
    lines = ["# What a question is for (docs/pipeline.md). The first mode is that of a question that names none."]
    for size in dict.fromkeys(proposal.dimensions for proposal in proposals):
        together = [proposal.corpus for proposal in proposals if proposal.dimensions == size]
        is_first = size == proposals[0].dimensions
        lines += [
            "",
            f"[modes.{'grounded' if is_first else f'grounded_{size}'}]",
            f"corpora = {{ {', '.join(f'{name} = 0' for name in together)} }}  # most chunks of it; 0: as fit into k",
            f"profile = {_toml(shipped['profile'])}",
            f"k = {shipped['k']}",
            f'instructions = """\n{shipped["instructions"]}"""',
        ]
    return "\n".join([*lines, ""])


def _corpus(proposal: Proposal) -> Iterator[str]:
    yield f"# {_one_line(_about(proposal))}"
    yield f"[corpora.{proposal.corpus}]"
    yield f"table = {_toml(proposal.relation)}"
    yield f"dimensions = {proposal.dimensions}"
    if proposal.path_field is not None:
        yield f"path_field = {_toml(proposal.path_field)}  # names the document in citations"
    yield "# public = true    # everybody may read it, without a policy; else choose one in tables.sql"
    yield ""
    yield f"[corpora.{proposal.corpus}.columns]"
    yield from (f"{field} = {_toml(_settings_column(proposal, field))}" for field in proposal.fields)
    yield ""
    further = {name: _view_column(proposal, column) for name, column in proposal.extra.items()}
    further |= {name: f"document_{name}" for name in proposal.joined}
    if further:
        yield f"[corpora.{proposal.corpus}.metadata_columns]"
        yield from (f"{_toml(name)} = {_toml(_as_psql(column))}" for name, column in further.items())
        yield ""
    yield from _documents(proposal)


def _documents(proposal: Proposal) -> Iterator[str]:
    """Yield the table of documents: path filters, and faster searches for callers who see few of them."""
    documents = proposal.documents
    if documents is None or proposal.fields["document_id"].column is None:
        return
    path = next((name for name in ("path", "file_path", "storage_path") if name in proposal.joined), None)
    yield f"[corpora.{proposal.corpus}.documents]"
    yield f"table = {_toml(documents.table.quoted)}"
    yield f"id = {_toml(_as_psql(documents.target))}"
    if path is not None:
        column_name = next(column.name for column in documents.table.columns if snake_case(column.name) == path)
        yield f"path = {_toml(_as_psql(column_name))}"
    yield ""


def _settings_column(proposal: Proposal, field: str) -> str:
    """Return the column that the settings name for a field: a view names its columns as the fields."""
    return field if proposal.view else _as_psql(proposal.fields[field].column or field)


def _as_psql(name: str) -> str:
    """Return a column's name as the settings have it: in quotation marks where it has some around it itself."""
    quoted = name.startswith('"') and name.endswith('"')
    return '"' + name.replace('"', '""') + '"' if quoted else name


def _view_column(proposal: Proposal, column: str) -> str:
    """Return the name of a further column: a view may have it for a field already."""
    return f"own_{column}" if proposal.view and column in proposal.fields else column


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a basic string of TOML


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _about(proposal: Proposal) -> str:
    table = proposal.source.table
    return f"{table.quoted} ({proposal.origin}), {rows_of(proposal)} rows, {proposal.dimensions} dimensions"


def rows_of(proposal: Proposal) -> str:
    """Return the number of rows in words."""
    rows = proposal.source.rows
    return f"more than {COUNTED:,}" if rows == COUNTED + 1 else f"about {rows:,}"


# --- SQL ----------------------------------------------------------------------------------------


def statements_file(proposals: Sequence[Proposal], skipped: Sequence[Skipped], previews: Mapping[str, Preview]) -> str:
    """Return the SQL that makes the tables readable for the worker."""
    lines = [
        "-- Proposed by 'retrieval-worker adopt', which changed nothing. Review it; remove the dashes of the lines",
        "-- that you choose (those without a space after them); then run it as the owner of the tables, after",
        "-- 'retrieval-worker migrate --records-only', which makes the role retrieval_worker. Then let",
        "-- 'retrieval-worker doctor' count who sees what.",
        "",
        "SET search_path = pg_catalog, pg_temp;  -- no name is looked up in a schema of another role",
        "",
    ]
    if not proposals[0].source.granted:
        lines += [f"GRANT USAGE ON SCHEMA {proposals[0].source.pgvector} TO {_ROLE};  -- pgvector's", ""]
    for i, proposal in enumerate(proposals):
        lines += [*_statements(proposal, proposals[:i], previews[proposal.corpus]), ""]
    if skipped:
        lines.append("-- Left out:")
        lines += [
            f"-- {_one_line(skipped_table.table)}: {_one_line(skipped_table.reason)}" for skipped_table in skipped
        ]
        lines.append("")
    return "\n".join(lines)


def _statements(proposal: Proposal, earlier_proposals: Sequence[Proposal], preview: Preview) -> Iterator[str]:
    table = proposal.source.table
    yield f"-- {'=' * 12} corpus {proposal.corpus}: {_one_line(_about(proposal))}"
    yield from (f"-- Note: {note}." for note in proposal.notes)
    yield ""
    read_tables = [table, *(policy.table for choice in proposal.choices for policy in choice.policies)]
    yield from dict.fromkeys(f"GRANT USAGE ON SCHEMA {_schema(read_table)} TO {_ROLE};" for read_table in read_tables)
    yield from dict.fromkeys(f"GRANT SELECT ON {read_table.quoted} TO {_ROLE};" for read_table in read_tables)
    yield from _view(proposal)
    sharing = [earlier for earlier in earlier_proposals if earlier.source is proposal.source]
    if sharing:
        yield f"-- The policies chosen for the corpus {sharing[0].corpus} hold for it, too: it is the same table."
    else:
        yield from _policies(proposal, preview)
    if not any(earlier.embedded == proposal.embedded for earlier in sharing):
        yield from _index(proposal)


def _schema(table: Table) -> str:
    return table.quoted.removesuffix(f".{table.quoted.rpartition('.')[2]}")


def _view(proposal: Proposal) -> Iterator[str]:
    if not proposal.view:
        return
    columns = [f"{value.sql} AS {field}" for field, value in proposal.fields.items()]
    for column in proposal.extra.values():
        quoted = proposal.source.columns[column].quoted
        alias = "" if column not in proposal.fields else f" AS own_{column}"
        columns.append(f"c.{quoted}{alias}")
    columns += [f"{value.sql} AS document_{field}" for field, value in proposal.joined.items()]
    name = f"{proposal.schema}.{proposal.view}"
    yield ""
    yield "-- A view, because:"
    yield from (f"--   {_one_line(reason)}" for reason in proposal.reasons)
    yield f"CREATE OR REPLACE VIEW {name} WITH (security_invoker = true) AS"
    yield "  SELECT " + ",\n         ".join(columns)
    yield f"    FROM {proposal.source.table.quoted} AS c{_join(proposal)}" + (
        f"\n   WHERE {proposal.where};" if proposal.where else ";"
    )
    yield f"GRANT SELECT ON {name} TO {_ROLE};"


def _join(proposal: Proposal) -> str:
    documents = proposal.documents
    if documents is None or not proposal.joined:
        return ""
    target = next(column.quoted for column in documents.table.columns if column.name == documents.target)
    referring_column = proposal.source.columns[documents.column].quoted
    return f" JOIN {documents.table.quoted} AS d ON d.{target} = c.{referring_column}"


def _policies(proposal: Proposal, preview: Preview) -> Iterator[str]:
    table = proposal.source.table
    yield ""
    if table.row_security and table.policies:
        yield f"-- Who may see a row: the {table.policies} policies that {_one_line(table.quoted)} has decide."
        return
    yield "-- Who may see a row: choose one policy or more (a row is visible if one allows it), or public = true in"
    yield "-- worker.toml. Row-level security hides all rows from other roles that are not the owner, until a policy"
    yield "-- is theirs, on each table that a choice names:"
    yield f"-- CREATE POLICY app ON {_one_line(table.quoted)} TO your_app USING (true) WITH CHECK (true)"
    for choice in proposal.choices:
        if choice.claim:
            within = f"in those of their claim {choice.within.claim}, " if choice.within else ""
            yield f"-- Choice: {within}callers see the rows of their claim {choice.claim}."
            yield from (f"--   {line}" for line in preview.callers.get(choice.claim, ()))
        else:
            yield "-- Choice: every caller with a claim sees all rows."
        yield from (f"--{line}" for line in _choice(proposal, choice))
    if not preview.hidden:
        return
    yield "-- Columns that may mean hidden, at which no choice above looks. Beside one of them, choose what hides:"
    for hidden, text in preview.hidden:
        yield f"-- Choice: leave out rows by {text}."
        if hidden.visible_where:
            name = f"retrieval_hides_by_{snake_case(hidden.column.name)}"
            yield from (f"--{line}" for line in _policy(hidden.table, name, hidden.visible_where, " AS RESTRICTIVE"))


def _choice(proposal: Proposal, choice: Choice) -> Iterator[str]:
    for policy in choice.policies:
        yield f"ALTER TABLE {policy.table.quoted} ENABLE ROW LEVEL SECURITY;"
        yield from _policy(policy.table, policy.name, policy.condition)
    if choice.indexed:
        yield f"CREATE INDEX ON {proposal.source.table.quoted} ({choice.indexed});"


def _policy(table: Table, name: str, condition: str, kind: str = "") -> Iterator[str]:
    yield f"DROP POLICY IF EXISTS {name} ON {table.quoted};"
    yield f"CREATE POLICY {name} ON {table.quoted}{kind} FOR SELECT TO {_ROLE} USING ({condition});"


def _index(proposal: Proposal) -> Iterator[str]:
    if proposal.index is None:
        return
    table = proposal.source.table
    yield ""
    if proposal.has_index:
        yield f"-- It has an HNSW index over {proposal.index}."
        return
    yield "-- Without an HNSW index every search compares all visible rows. CONCURRENTLY lets others write while it is"
    yield "-- built, and runs outside a transaction."
    concurrently = "" if table.partitioned else "CONCURRENTLY "
    yield (
        f"--CREATE INDEX {concurrently}ON {table.quoted} USING hnsw "
        f"({proposal.embedded} {proposal.source.pgvector}.{proposal.index}_cosine_ops) "
        f"WITH (m = {M}, ef_construction = {EF_CONSTRUCTION});"
    )


# --- for programs -------------------------------------------------------------------------------


def document(
    proposals: Sequence[Proposal],
    skipped: Sequence[Skipped],
    files: Sequence[Path],
    previews: Mapping[str, Preview],
) -> dict[str, Any]:
    """Return the proposals as plain JSON."""
    return {
        "corpora": [
            {
                "corpus": proposal.corpus,
                "table": proposal.source.table.quoted,
                "origin": proposal.origin,
                "rows": proposal.source.rows,
                "dimensions": proposal.dimensions,
                "index": proposal.index,
                "has_index": proposal.has_index,
                "view": proposal.view,
                "columns": {field: value.column or value.sql for field, value in proposal.fields.items()},
                "claims": [choice.claim for choice in proposal.choices if choice.claim],
                "callers": {claim: [*lines] for claim, lines in previews[proposal.corpus].callers.items()},
                "may_be_hidden": [text for _, text in previews[proposal.corpus].hidden],
                "notes": [*proposal.notes],
            }
            for proposal in proposals
        ],
        "left_out": [{"table": skipped_table.table, "reason": skipped_table.reason} for skipped_table in skipped],
        "files": [str(file) for file in files],
    }
