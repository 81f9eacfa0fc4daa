"""Inspection of the database: the worker's role can't bypass the policies, and the corpora's column types.

Checked in full once per process, before the first job, and again where a read finds that something has changed since
(`worker.adapters.postgres.row_security`). Anything that could return a row that the policies hide stops the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from psycopg import sql

from retrieval_client.errors import SettingsError
from worker.adapters.postgres.column_types import ColumnType, wrong_document_types, wrong_types
from worker.adapters.postgres.indexes import indexed_kinds
from worker.adapters.postgres.ownership import vector_schema
from worker.adapters.postgres.policies import policy_problems, reach, with_policies
from worker.adapters.postgres.privileges import (
    Role,
    hidden_schema,
    oid_of,
    operator_problems,
    quoted_name,
    read_refusal,
    unreadable,
    usage,
)
from worker.adapters.postgres.row_security import RECORDS, UNPROTECTED, Protection, version_of
from worker.adapters.postgres.text_reading import TextReading, text_reading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import psycopg

    from worker.settings.serving import CorpusSettings


@dataclass(frozen=True, slots=True)
class CorpusTypes:
    """Types and storage of a corpus's tables.

    Attributes:
        id: type of the id column, as Postgres names it (``text``, ``bigint``, ``uuid``); below a domain, of its base.
        document_id: type of the document id column.
        storage: oids of the tables that hold the rows (below a view, the leaves of a partitioned table).
        documents_storage: the same of the table of documents.
        protection: the conditions that every read of the corpus checks.
        columns: column → its type.
        embedding: type of the stored embeddings: ``vector`` or ``halfvec``.
        has_statistics: True if the role can read the tables of word statistics.
        full_text_index: True if policies let full-text search use a GIN index: ``@@`` was declared leakproof.
        indexed: what the HNSW indexes are over, of ``vector`` and ``halfvec``.
        pgvector: schema of pgvector's types, operators and functions, as SQL.
        reading: how full-text search reads its texts; None: as its settings say.
    """

    id: str
    document_id: str
    storage: tuple[int, ...] = ()
    documents_storage: tuple[int, ...] = ()
    protection: Protection = UNPROTECTED
    columns: Mapping[str, ColumnType] = field(default_factory=dict)
    embedding: str = "vector"
    has_statistics: bool = False
    full_text_index: bool = False
    indexed: frozenset[str] = frozenset()
    pgvector: str = "public"
    reading: TextReading | None = None

    @property
    def index(self) -> Literal["vector", "halfvec"]:
        """Type of the HNSW index to search: ``halfvec``, of half the size, unless only the other is there.

        An index of a ``halfvec`` column is always over that.
        """
        return "vector" if self.embedding != "halfvec" and {*self.indexed} == {"vector"} else "halfvec"


# The worker's role, and every role whose privileges it can use (by SET ROLE, inherited or not).
_ROLE = """
SELECT rolname, quote_ident(rolname), rolsuper, rolbypassrls,
       ARRAY(SELECT m.oid FROM pg_roles m WHERE pg_has_role(r.oid, m.oid, 'MEMBER')),
       ARRAY(SELECT m.rolname FROM pg_roles m
              WHERE pg_has_role(r.oid, m.oid, 'MEMBER') AND m.oid <> r.oid
                AND (m.rolsuper OR m.rolbypassrls) ORDER BY 1),
       current_setting('row_security') = 'off', quote_ident(current_database())
  FROM pg_roles r WHERE rolname = current_user
"""

_RELATION = """
SELECT c.oid, c.relkind::text, c.relowner, pg_get_userbyid(c.relowner), c.relrowsecurity,
       coalesce(c.reloptions @> '{security_invoker=true}' OR c.reloptions @> '{security_invoker=on}'
                OR c.reloptions @> '{security_invoker=1}' OR c.reloptions @> '{security_invoker=yes}', false),
       has_table_privilege(c.oid, 'SELECT') OR has_any_column_privilege(c.oid, 'SELECT')
  FROM pg_class c WHERE c.oid = %s
"""

STATISTICS = ("retrieval.text_statistics", "retrieval.term_statistics")
"""The tables of word statistics (config/records.sql); an older installation has none."""

_STATISTICS = """
SELECT count(*) = cardinality(%(names)s::text[]) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname || '.' || c.relname = ANY (%(names)s::text[])
   AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
"""

_IS_LEAKPROOF = "SELECT proleakproof FROM pg_proc WHERE oid = 'ts_match_vq(tsvector, tsquery)'::regprocedure"

# A domain's values are of its base type, and the driver sees only that.
_COLUMNS = """
WITH RECURSIVE typed AS (
  SELECT attname, atttypid AS type, atttypmod AS modifier, format_type(atttypid, atttypmod) AS full_name,
         NOT attnotnull AS nullable
    FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT attname, t.typbasetype, t.typtypmod, full_name, nullable AND NOT t.typnotnull
    FROM typed JOIN pg_type t ON t.oid = typed.type WHERE t.typtype = 'd'
)
SELECT attname, format_type(type, -1), modifier, full_name, nullable
  FROM typed JOIN pg_type t ON t.oid = typed.type WHERE t.typtype <> 'd'
"""

# The tables that hold the rows of a relation: through views of any depth, and in partitions and children.
_STORAGE = """
WITH RECURSIVE below AS (
  SELECT to_regclass(%s)::oid AS oid
  UNION
  SELECT child FROM below b, LATERAL (
    SELECT d.refobjid AS child
      FROM pg_rewrite w JOIN pg_depend d
        ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid
       AND d.refclassid = 'pg_class'::regclass AND d.deptype = 'n'
     WHERE w.ev_class = b.oid
    UNION ALL
    SELECT inhrelid FROM pg_inherits WHERE inhparent = b.oid
  ) AS children
)
SELECT c.oid FROM below JOIN pg_class c USING (oid) WHERE c.relkind = 'r' ORDER BY 1
"""

# All that a view reads or calls, through any depth: relations, functions, operators. Partitions and children are read
# through their parent, whose policies apply. Of a function whose body is text, every function and relation counts whose
# name is a word of it: rather one too many. What is in pg_catalog is Postgres' own. Trusted functions are not followed.
_BELOW_VIEW = """
WITH RECURSIVE own AS (
  SELECT oid FROM pg_namespace WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
), below (class, oid) AS (
  SELECT 'pg_class'::regclass::oid, %(view)s::oid
  UNION
  SELECT child.class, child.oid FROM below b, LATERAL (
    SELECT d.refclassid AS class, d.refobjid AS oid
      FROM pg_rewrite w JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.deptype = 'n'
     WHERE b.class = 'pg_class'::regclass AND w.ev_class = b.oid
    UNION ALL
    SELECT d.refclassid, d.refobjid FROM pg_depend d
     WHERE b.class = 'pg_proc'::regclass AND d.classid = b.class AND d.objid = b.oid AND d.deptype = 'n'
    UNION ALL
    SELECT 'pg_proc'::regclass, o.oprcode::oid FROM pg_operator o
     WHERE b.class = 'pg_operator'::regclass AND o.oid = b.oid
    UNION ALL
    SELECT 'pg_proc'::regclass, part.oid
      FROM pg_aggregate a, unnest(ARRAY[a.aggtransfn, a.aggfinalfn, a.aggcombinefn]::oid[]) AS part (oid)
     WHERE b.class = 'pg_proc'::regclass AND a.aggfnoid = b.oid
    UNION ALL
    SELECT named.class, named.oid
      FROM pg_proc f JOIN pg_language l ON l.oid = f.prolang,
           LATERAL regexp_split_to_table(lower(f.prosrc), '[^[:alnum:]_$]+') AS word,
           LATERAL (SELECT 'pg_proc'::regclass::oid AS class, p.oid FROM pg_proc p JOIN own ON own.oid = p.pronamespace
                     WHERE lower(p.proname) = word
                    UNION ALL
                    SELECT 'pg_class'::regclass, c.oid FROM pg_class c JOIN own ON own.oid = c.relnamespace
                     WHERE lower(c.relname) = word) AS named
     WHERE b.class = 'pg_proc'::regclass AND f.oid = b.oid AND l.lanname NOT IN ('internal', 'c')
  ) AS child
   WHERE child.class IN ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_operator'::regclass)
     AND NOT (child.class = 'pg_proc'::regclass
              AND child.oid = ANY (SELECT p.oid FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
                                    WHERE n.nspname || '.' || p.proname = ANY (%(trusted)s::text[])
                                       OR p.proname = ANY (%(trusted)s::text[]) AND pg_function_is_visible(p.oid)))
)
SELECT c.oid, c.relkind::text, false, quote_ident(n.nspname) || '.' || quote_ident(c.relname) AS name
  FROM below b JOIN pg_class c ON b.class = 'pg_class'::regclass AND c.oid = b.oid
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.oid <> %(view)s AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
UNION ALL
SELECT p.oid, 'function', p.prosecdef, n.nspname || '.' || p.proname
  FROM below b JOIN pg_proc p ON b.class = 'pg_proc'::regclass AND p.oid = b.oid
  JOIN pg_namespace n ON n.oid = p.pronamespace
 ORDER BY name, 1
"""


_TEXT, _VECTOR = ColumnType("text"), ColumnType("vector")
"""Types assumed for a missing column until its problem is reported."""

_OR_PUBLIC = " (and add policies), or declare the corpus public = true"
_OR_MIGRATE = ", or run 'retrieval-worker migrate', which does it"  # config/records.sql; they are no corpus
"""Other ways to fix a table without row-level security."""


def inspect(
    connection: psycopg.Connection[Any], corpora: Mapping[str, CorpusSettings], *, try_reads: bool = True
) -> dict[str, CorpusTypes]:
    """Check the role and every corpus; return the types of each corpus's keys.

    Args:
        connection: a connection of the worker's role.
        corpora: the corpora of the settings, by name.
        try_reads: also run a read of no rows on each corpus, which waits a moment for a locked table.

    Raises:
        SettingsError: the role could bypass row-level security, or a corpus is missing, not readable, neither protected
            nor public, or lacks a mapped column. The message names all problems.
    """
    problems: list[str] = []
    role = _check_role(connection, problems)
    types = {}
    has_statistics = _has_statistics(connection)
    for name, corpus in corpora.items():
        columns = _check_relation(connection, f"corpus {name}", corpus.table, corpus, role, problems)
        if columns is None:
            continue
        problems += _missing_columns(name, corpus, columns)
        problems += wrong_types(name, corpus, columns)
        keys = corpus.columns
        documents, storage = corpus.documents, tables_of(connection, corpus.table)
        reading = text_reading(connection, corpus, storage)
        if reading is None:
            problems.append(f"corpora.{name}.language: the database has no text search configuration {corpus.language}")
        if documents is not None:
            _check_documents(connection, name, corpus, role, columns.get(keys.document_id), problems)
        types[name] = CorpusTypes(
            columns.get(keys.id, _TEXT).name,
            columns.get(keys.document_id, _TEXT).name,
            storage,
            tables_of(connection, documents.table) if documents is not None else (),
            UNPROTECTED if corpus.public else _protection(connection, corpus),
            columns,
            columns.get(keys.embedding, _VECTOR).embedding,
            has_statistics,
            is_leakproof(connection),
            indexed_kinds(connection, storage),
            vector_schema(connection) or "public",
            reading,
        )
    _check_records(connection, role, problems)
    problems += operator_problems(connection)
    if try_reads and not problems:
        problems += _unreadable(connection, corpora, types, role)
    if problems:
        raise SettingsError("; ".join(problems))
    return types


def is_leakproof(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a superuser declared ``@@`` of full-text search leakproof."""
    row = connection.execute(_IS_LEAKPROOF).fetchone()
    return bool(row and row[0])


def _has_statistics(connection: psycopg.Connection[Any]) -> bool:
    row = connection.execute(_STATISTICS, {"names": [*STATISTICS]}).fetchone()
    return bool(row and row[0])


def _check_role(connection: psycopg.Connection[Any], problems: list[str]) -> Role:
    """Add the role's problems to ``problems``; return the role."""
    row = connection.execute(_ROLE).fetchone()
    if row is None:
        raise SettingsError("the database does not know the role that is connected")
    name, quoted, superuser, bypass, memberships, powerful, refuses, database = row
    cure = "connect as a role without it (config/schema.sql makes retrieval_worker)"
    if superuser:
        problems.append(f"the role {name} is a superuser, whom row-level security does not bind: {cure}")
    if bypass:
        problems.append(f"the role {name} has BYPASSRLS: {cure}")
    problems.extend(
        f"the role {name} is a member of {group}, which row-level security does not bind: {cure}" for group in powerful
    )
    if refuses:
        problems.append(
            f"row_security is off for the role {name}, so Postgres refuses each read that policies would filter: "
            f"ALTER ROLE {quoted} IN DATABASE {database} SET row_security = on"
        )
    return Role(quoted, frozenset(memberships))


def _check_relation(
    connection: psycopg.Connection[Any],
    label: str,
    table: str,
    corpus: CorpusSettings,
    role: Role,
    problems: list[str],
) -> dict[str, ColumnType] | None:
    """Add the problems of a table or view; return its columns' types, or None if it can't be read."""
    schema = hidden_schema(connection, table)
    if schema is not None:
        problems.append(f"{label}: the worker's role may not use the schema of {table}: {usage(schema, role)}")
        return None
    table_sql = quoted_name(connection, *table.split("."))
    oid = oid_of(connection, table_sql)
    row = connection.execute(_RELATION, (oid,)).fetchone()
    if oid is None or row is None:
        problems.append(f"{label}: there is no table {table} ('retrieval-worker migrate' makes the reference tables)")
        return None
    _, kind, owner, owner_name, row_security, security_invoker, readable = row
    if not readable:
        problems.append(
            f"{label}: the worker's role may not read {table}: GRANT SELECT ON {table_sql} TO {role.quoted}"
        )
        return None
    if owner in role.memberships:
        problems.append(
            f"{label}: the worker's role owns {table} or is a member of its owner {owner_name}, "
            "whom row-level security does not bind: connect as another role"
        )
    if not corpus.public:
        problems += _unprotected(label, table_sql, kind, row_security, security_invoker)
        dependencies = _below_view(connection, oid, corpus) if kind == "v" else []
        tables = [oid, *(dependency.oid for dependency in dependencies if dependency.kind != "function")]
        problems += [f"{label}: {problem}" for problem in policy_problems(connection, tables, corpus.trusted_functions)]
        for below in dependencies:
            if below.kind != "function":
                _check_below(connection, label, below.name, below.oid, role, problems)
            elif below.security_definer:
                problems.append(
                    f"{label}: the function {below.name} below the view {table} is SECURITY DEFINER and reads with its "
                    f"owner's rights: ALTER FUNCTION {below.name} SECURITY INVOKER, or name it in trusted_functions"
                )
    return {column: ColumnType(*kind) for column, *kind in connection.execute(_COLUMNS, (oid,)).fetchall()}


class _Dependency(NamedTuple):
    """A relation or function that a view reads or calls."""

    oid: int
    kind: str
    security_definer: bool
    name: str


def _below_view(connection: psycopg.Connection[Any], view: int, corpus: CorpusSettings) -> list[_Dependency]:
    values = {"view": view, "trusted": corpus.trusted_functions}
    return [_Dependency(*row) for row in connection.execute(_BELOW_VIEW, values).fetchall()]


def _unprotected(
    label: str, table: str, kind: str, row_security: bool, security_invoker: bool, otherwise: str = _OR_PUBLIC
) -> Iterator[str]:
    if kind == "v":
        if not security_invoker:
            yield (
                f"{label}: the view {table} runs with its owner's rights: "
                f"ALTER VIEW {table} SET (security_invoker = true)"
            )
    elif kind in {"r", "p"}:
        if not row_security:
            yield (
                f"{label}: {table} has no row-level security: ALTER TABLE {table} ENABLE ROW LEVEL SECURITY{otherwise}"
            )
    else:
        yield f"{label}: {table} is neither a table nor a view, so row-level security can't protect it"


def _check_below(
    connection: psycopg.Connection[Any],
    label: str,
    quoted: str,
    oid: int | None,
    role: Role,
    problems: list[str],
    otherwise: str = _OR_PUBLIC,
) -> None:
    """Check a table or view below a corpus's view, or one of the worker's own: policies must bind the worker there."""
    row = connection.execute(_RELATION, (oid,)).fetchone()
    if row is None:
        return
    _, kind, owner, owner_name, row_security, security_invoker, _ = row
    if owner in role.memberships:
        problems.append(f"{label}: the worker's role owns {quoted} or is a member of its owner {owner_name}")
    problems += _unprotected(label, quoted, kind, row_security, security_invoker, otherwise)


def _check_records(connection: psycopg.Connection[Any], role: Role, problems: list[str]) -> None:
    """Add the problems of the worker's own tables; missing tables are no problem at the start."""
    schema = hidden_schema(connection, RECORDS[0])
    if schema is not None:
        problems.append(
            f"records: the worker's role may not use the worker's own schema: {usage(schema, role)}, and the rights "
            "on its tables (docs/schema.md)"
        )
        return
    for table in RECORDS:
        _check_below(connection, "records", table, oid_of(connection, table), role, problems, _OR_MIGRATE)


def _unreadable(
    connection: psycopg.Connection[Any],
    corpora: Mapping[str, CorpusSettings],
    types: Mapping[str, CorpusTypes],
    role: Role,
) -> Iterator[str]:
    """Read no row of each corpus: only this shows missing privileges on single columns and on what a view reads."""
    for name, corpus in corpora.items():
        columns = [*corpus.columns.model_dump(exclude_none=True).values(), *corpus.metadata_columns.values()]
        reads = {corpus.table: [column for column in columns if column in types[name].columns]}
        if corpus.documents is not None:
            document_columns = (corpus.documents.id, corpus.documents.path)
            reads[corpus.documents.table] = [column for column in document_columns if column is not None]
        for table, read_columns in reads.items():
            state = read_refusal(connection, table, read_columns)
            if state is not None:
                oid = oid_of(connection, quoted_name(connection, *table.split(".")))
                oids = [] if oid is None else [oid, *(below.oid for below in _below_view(connection, oid, corpus))]
                yield f"corpus {name}: {unreadable(connection, table, state, oids, reach(connection, oids), role)}"


def _check_documents(
    connection: psycopg.Connection[Any],
    name: str,
    corpus: CorpusSettings,
    role: Role,
    document_id: ColumnType | None,
    problems: list[str],
) -> None:
    documents = corpus.documents
    if documents is None:
        return
    label = f"documents of corpus {name}"
    columns = _check_relation(connection, label, documents.table, corpus, role, problems)
    problems += [
        f"corpora.{name}.documents.{field}: {documents.table} has no column {column}"
        for field, column in (("id", documents.id), ("path", documents.path))
        if columns is not None and column is not None and column not in columns
    ]
    problems += wrong_document_types(name, corpus, document_id, columns or {})


def _protection(connection: psycopg.Connection[Any], corpus: CorpusSettings) -> Protection:
    """Return the conditions that every read of a corpus checks; the corpus was just found safe."""
    tables: list[str] = []
    views: list[str] = []
    below: list[int] = []
    definitions: list[int] = []
    governed: list[int] = []
    for name in _relations(corpus):
        quoted = identifier(name).as_string(connection)
        if hidden_schema(connection, name) is not None:
            continue  # already reported
        oid = oid_of(connection, quoted)
        row = connection.execute(_RELATION, (oid,)).fetchone()
        governed += [] if oid is None else [oid]
        if row is None or row[1] != "v":
            tables.append(quoted)
            continue
        views.append(quoted)
        for dependency in _below_view(connection, row[0], corpus):
            (definitions if dependency.kind in {"v", "function"} else below).append(dependency.oid)
    reached = reach(connection, [*governed, *below])
    below += with_policies(connection, [oid for oid in reached.relations if oid not in {*governed, *below}])
    protection = Protection(tuple(tables), tuple(views), tuple(below), tuple(definitions), *reached)
    (version,) = connection.execute(sql.SQL("SELECT ") + version_of(protection)).fetchone() or ("",)
    return replace(protection, version=version)


def _relations(corpus: CorpusSettings) -> list[str]:
    """Return the names of a corpus's tables in the settings."""
    return [corpus.table, *([corpus.documents.table] if corpus.documents is not None else [])]


def tables_of(connection: psycopg.Connection[Any], table: str) -> tuple[int, ...]:
    """Return the oids of the tables that hold a relation's rows: below a view, and a partitioned table's leaves."""
    if hidden_schema(connection, table) is not None:
        return ()
    quoted = identifier(table).as_string(connection)
    return tuple(oid for (oid,) in connection.execute(_STORAGE, (quoted,)).fetchall())


_OPTIONAL = "columns.text_signature"
"""A table that was made before it may lack it: it changes how fast full-text search is, never what it finds."""


def _missing_columns(name: str, corpus: CorpusSettings, columns: Mapping[str, ColumnType]) -> list[str]:
    mapped = {
        **{f"columns.{field}": column for field, column in corpus.columns.model_dump(exclude_none=True).items()},
        **{f"metadata_columns.{field}": column for field, column in corpus.metadata_columns.items()},
    }
    return [
        f"corpora.{name}.{field}: {corpus.table} has no column {column}"
        for field, column in mapped.items()
        if column not in columns and field != _OPTIONAL
    ]


def identifier(name: str) -> sql.Identifier:
    """Quote a table's name from settings (``schema.table`` or ``table``)."""
    return sql.Identifier(*name.split("."))
