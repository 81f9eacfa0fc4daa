"""The proposals as files: settings for the worker, and SQL to review and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.adapters.postgres.index_advice import EF_CONSTRUCTION, M
from worker.cli.adoption.proposals import documents_of
from worker.cli.usage import WrongUsage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worker.cli.adoption.proposals import Choice, Proposal, Skipped
    from worker.cli.adoption.tables import Table

SETTINGS, STATEMENTS = "worker.toml", "tables.sql"
_ROLE = "retrieval_worker"
_LINE = 96


def new_folder(wanted: Path | None) -> Path:
    """Return the folder to write to: as wanted, else the first of ``adopted``, ``adopted-2``, … that is not there.

    Raises:
        WrongUsage: a file that would be written is there.
    """
    if wanted is None:
        names = ("adopted", *(f"adopted-{n}" for n in range(2, 10_000)))
        return next(Path(name) for name in names if not Path(name).exists())
    for name in (SETTINGS, STATEMENTS):
        if (wanted / name).exists():
            raise WrongUsage(f"{wanted / name} is there, and nothing is overwritten: name another folder with --out")
    return wanted


def write(folder: Path, proposals: Sequence[Proposal], skipped: Sequence[Skipped]) -> list[Path]:
    """Write both files; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {SETTINGS: settings_file(proposals), STATEMENTS: statements_file(proposals, skipped)}
    for name, text in texts.items():
        with (folder / name).open("x", encoding="utf-8") as file:
            file.write(text)
    return [folder / name for name in texts]


# --- the settings -------------------------------------------------------------------------------


def settings_file(proposals: Sequence[Proposal]) -> str:
    """Return the settings of the worker."""
    first = proposals[0].dimensions
    searches = [f"  {{ corpus = {_toml(one.corpus)}, top_k = 5 }}," for one in proposals if one.dimensions == first]
    return "\n".join(
        [
            "# Proposed by 'retrieval-worker adopt'. Review it, and name it in RETRIEVAL_WORKER_CONFIG.",
            "# docs/configuration.md has all settings; 'retrieval-worker doctor' checks them.",
            "",
            "trust_queue = false  # true only where no one but your backend writes to Redis; else jobs carry a token",
            "",
            "# [embedder]         # for queries of text: the model that filled the tables (docs/configuration.md)",
            "",
            *(line for proposal in proposals for line in _corpus(proposal)),
            "[hybrid]",
            "searches = [",
            *searches,
            "]",
            "",
        ]
    )


def _corpus(proposal: Proposal) -> Iterator[str]:
    yield f"# {_one_line(_about(proposal))}"
    yield f"[corpora.{proposal.corpus}]"
    yield f"table = {_toml(proposal.relation)}"
    yield f"dimensions = {proposal.dimensions}"
    yield "# public = true    # everybody may read it, without a policy; else choose one in tables.sql"
    yield ""
    yield f"[corpora.{proposal.corpus}.columns]"
    yield from (f"{field} = {_toml(_named(proposal, field))}" for field in proposal.fields)
    yield ""
    if proposal.extra:
        yield f"[corpora.{proposal.corpus}.metadata_columns]"
        yield from (f"{_toml(name)} = {_toml(_shown(proposal, column))}" for name, column in proposal.extra.items())
        yield ""
    yield from _documents(proposal)


def _documents(proposal: Proposal) -> Iterator[str]:
    """Yield the table of documents, as a comment where it has no row-level security yet."""
    found = documents_of(proposal)
    if found is None or proposal.view:
        return
    table, reference = found
    path = next((one.name for one in table.columns if one.name in {"path", "file_path", "url"}), None)
    lines = [
        f"[corpora.{proposal.corpus}.documents]",
        f"table = {_toml(f'{table.schema}.{table.name}')}",
        f"id = {_toml(reference.target)}",
        *([f"path = {_toml(path)}"] if path else []),
    ]
    if table.row_security:
        yield from [*lines, ""]
        return
    yield "# Path filters, and faster searches for callers who see few documents, once it has row-level security:"
    yield from (f"#{line}" for line in lines)
    yield ""


def _named(proposal: Proposal, field: str) -> str:
    """Return the column that the settings name for a field: a view names its columns as the fields."""
    return field if proposal.view else proposal.fields[field].column or field


def _shown(proposal: Proposal, column: str) -> str:
    """Return the name of a further column: a view may have it for a field already."""
    return f"own_{column}" if proposal.view and column in proposal.fields else column


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a basic string of TOML


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _about(proposal: Proposal) -> str:
    table = proposal.source.table
    return f"{table.quoted} ({proposal.origin}), about {proposal.source.rows:,} rows, {proposal.dimensions} dimensions"


# --- SQL ----------------------------------------------------------------------------------------


def statements_file(proposals: Sequence[Proposal], skipped: Sequence[Skipped]) -> str:
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
    for i, proposal in enumerate(proposals):
        lines += [*_statements(proposal, proposals[:i]), ""]
    if skipped:
        lines.append("-- Left out:")
        lines += [f"-- {_one_line(one.table)}: {_one_line(one.reason)}" for one in skipped]
        lines.append("")
    return "\n".join(lines)


def _statements(proposal: Proposal, before: Sequence[Proposal]) -> Iterator[str]:
    table = proposal.source.table
    yield f"-- {'=' * 12} corpus {proposal.corpus}: {_one_line(_about(proposal))}"
    yield from (f"-- Note: {note}." for note in proposal.notes)
    yield ""
    read = [table, *(one.reference.table for one in proposal.choices if one.reference)]
    yield from dict.fromkeys(f"GRANT USAGE ON SCHEMA {_schema(one)} TO {_ROLE};" for one in read)
    yield from dict.fromkeys(f"GRANT SELECT ON {one.quoted} TO {_ROLE};" for one in read)
    yield from _view(proposal)
    sharing = [one for one in before if one.source is proposal.source]
    if sharing:
        yield f"-- The policies chosen for the corpus {sharing[0].corpus} hold for it, too: it is the same table."
    else:
        yield from _policies(proposal)
    if not any(one.embedded == proposal.embedded for one in sharing):
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
    name = f"{_schema(proposal.source.table)}.{proposal.view}"
    yield ""
    yield "-- A view, because:"
    yield from (f"--   {_one_line(reason)}" for reason in proposal.reasons)
    yield f"CREATE OR REPLACE VIEW {name} WITH (security_invoker = true) AS"
    yield "  SELECT " + ",\n         ".join(columns)
    yield f"    FROM {proposal.source.table.quoted} AS c" + (f"\n   WHERE {proposal.where};" if proposal.where else ";")
    yield f"GRANT SELECT ON {name} TO {_ROLE};"


def _policies(proposal: Proposal) -> Iterator[str]:
    table = proposal.source.table
    yield ""
    if table.row_security and table.policies:
        yield f"-- Who may see a row: the {table.policies} policies that {_one_line(table.quoted)} has decide."
        return
    yield "-- Who may see a row: choose one policy or more (a row is visible if one allows it), or public = true in"
    yield "-- worker.toml. Row-level security hides all rows from other roles that are not the owner, until a policy"
    yield f"-- is theirs: CREATE POLICY app ON {_one_line(table.quoted)} TO your_app USING (true) WITH CHECK (true)"
    for other in dict.fromkeys(one.reference.table.quoted for one in proposal.choices if one.reference):
        yield f"-- and, where a choice below names it, the same ON {_one_line(other)}"
    for choice in proposal.choices:
        yield f"-- Choice: callers see the rows of their claim {choice.claim}."
        yield from (f"--{line}" for line in _choice(proposal, choice))
    yield "-- Choice: every caller with a claim sees all rows."
    yield f"--ALTER TABLE {table.quoted} ENABLE ROW LEVEL SECURITY;"
    yield f"--CREATE POLICY retrieval_everybody ON {table.quoted} FOR SELECT TO {_ROLE} USING (true);"


def _choice(proposal: Proposal, choice: Choice) -> Iterator[str]:
    table = proposal.source.table
    name = f"retrieval_by_{choice.claim}"
    if choice.reference:
        other = choice.reference.table.quoted
        yield f"ALTER TABLE {other} ENABLE ROW LEVEL SECURITY;"
        yield f"CREATE POLICY {name} ON {other} FOR SELECT TO {_ROLE} USING ({choice.there});"
    yield f"ALTER TABLE {table.quoted} ENABLE ROW LEVEL SECURITY;"
    yield f"CREATE POLICY {name} ON {table.quoted} FOR SELECT TO {_ROLE} USING ({choice.condition});"
    if choice.indexed:
        yield f"CREATE INDEX ON {table.quoted} ({choice.indexed});"


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
    how = "" if table.partitioned else "CONCURRENTLY "
    yield (
        f"--CREATE INDEX {how}ON {table.quoted} USING hnsw "
        f"({proposal.embedded} {proposal.source.pgvector}.{proposal.index}_cosine_ops) "
        f"WITH (m = {M}, ef_construction = {EF_CONSTRUCTION});"
    )


# --- for programs -------------------------------------------------------------------------------


def document(proposals: Sequence[Proposal], skipped: Sequence[Skipped], files: Sequence[Path]) -> dict[str, Any]:
    """Return the proposals as plain JSON."""
    return {
        "corpora": [
            {
                "corpus": one.corpus,
                "table": one.source.table.quoted,
                "origin": one.origin,
                "rows": one.source.rows,
                "dimensions": one.dimensions,
                "index": one.index,
                "has_index": one.has_index,
                "view": one.view,
                "columns": {field: value.column or value.sql for field, value in one.fields.items()},
                "claims": [choice.claim for choice in one.choices],
                "notes": [*one.notes],
            }
            for one in proposals
        ],
        "left_out": [{"table": one.table, "reason": one.reason} for one in skipped],
        "files": [str(file) for file in files],
    }
