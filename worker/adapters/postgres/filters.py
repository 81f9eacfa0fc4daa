"""Filters as SQL conditions: identifiers come from settings and are quoted, values are parameters."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from psycopg import sql

from retrieval_client.errors import InvalidJob
from worker.adapters.postgres.catalog import identifier
from worker.core.ranking.total_order import INTEGER_TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.catalog import CorpusTypes
    from worker.adapters.postgres.column_types import ColumnType
    from worker.model import FilterSet
    from worker.settings.serving import CorpusSettings

NAMES = ("document_ids", "sections", "pages", "path_contains", "ext_allow", "ext_deny")
"""The filters that are lists; `metadata` is the other one."""


class FilterSql:
    """The conditions of one corpus. In them the chunk table is `c` and the table of documents `d`.

    Args:
        name: the corpus's name in the settings, for error messages.
        settings: its table and columns.
        types: types of its key columns.
    """

    def __init__(self, name: str, settings: CorpusSettings, types: CorpusTypes) -> None:
        self._name = name
        self._settings = settings
        self._types = types

    def shape(self, filters: FilterSet) -> tuple[Any, ...]:
        """Return what determines the conditions' SQL text; filters of equal shape differ only in values."""
        columns = self._settings.metadata_columns
        return (
            *(getattr(filters, name) is not None for name in NAMES),
            *(columns.get(key) for key in sorted(filters.metadata or {})),
        )

    def values(self, filters: FilterSet) -> dict[str, Any]:
        """Return the parameters of the conditions."""
        ids = filters.document_ids
        return {
            "document_ids": self._document_ids(ids) if ids is not None else None,
            "sections": list(filters.sections or ()),
            "pages": list(filters.pages or ()),
            "path_contains": list(filters.path_contains or ()),
            "ext_allow": [_extension(ext) for ext in filters.ext_allow or ()],
            "ext_deny": [_extension(ext) for ext in filters.ext_deny or ()],
            **{
                f"metadata_{i}": self._metadata_value(key, (filters.metadata or {})[key])
                for i, key in enumerate(sorted(filters.metadata or {}))
            },
            **{f"metadata_key_{i}": key for i, key in enumerate(sorted(filters.metadata or {}))},
        }

    def _metadata_value(self, key: str, value: Any) -> str:
        """A value as the JSON that it is compared as: of a `numeric` column, the text in an answer is a number here."""
        kind = self._types.columns.get(self._settings.metadata_columns.get(key, ""))
        return _as_number(value) if kind and kind.name.removesuffix("[]") == "numeric" else json.dumps(value)

    def _document_ids(self, ids: Sequence[str]) -> list[Any]:
        """Convert ids to the column's type; an id that can't be converted names no document."""
        document_ids: list[Any] = []
        for text in ids:
            value = as_type(text, self._types.document_id)
            if value is not None:
                document_ids.append(value)
        return document_ids

    def check(self, filters: FilterSet) -> None:
        """Raise InvalidJob for a filter on a column that the corpus does not map."""
        self.on_chunks(filters)
        self.on_chunk_paths(filters)

    def on_chunks(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose the conditions on the chunk table's own columns; raises as `on_content` does."""
        document_id = sql.Identifier("c", self._settings.columns.document_id)
        return [*self.ids_among(document_id, filters), *self.on_content(filters)]

    def on_content(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose the conditions on the chunk table's own columns but the document's id.

        Raises:
            InvalidJob: a filter on a column that the corpus does not map.
        """
        columns = self._settings.columns
        conditions: list[sql.Composable] = []
        if filters.sections is not None:
            section = self._mapped(columns.section, "sections")
            conditions.append(sql.SQL("{} = ANY (%(sections)s::text[])").format(section))
        if filters.pages is not None:
            page = page_number(self._mapped(columns.page, "pages"), self._types.columns.get(columns.page or ""))
            conditions.append(sql.SQL("{} = ANY (%(pages)s::integer[])").format(page))
        for i, key in enumerate(sorted(filters.metadata or {})):
            value = sql.Placeholder(f"metadata_{i}")
            if key in self._settings.metadata_columns:
                column = sql.Identifier("c", self._settings.metadata_columns[key])
                conditions.append(sql.SQL("to_jsonb({}) = {}::jsonb").format(column, value))
            else:
                name = sql.Placeholder(f"metadata_key_{i}")
                metadata = self._metadata(columns.metadata)
                conditions.append(sql.SQL("{} -> {} = {}::jsonb").format(metadata, name, value))
        return conditions

    def ids_among(self, column: sql.Identifier, filters: FilterSet) -> list[sql.Composable]:
        """Compose the filter on document ids, for the column of the chunks or of the documents."""
        if filters.document_ids is None:
            return []
        array = sql.SQL(self._types.document_id)
        return [sql.SQL("{} = ANY (%(document_ids)s::{}[])").format(column, array)]

    def on_chunk_paths(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose the conditions on the document's path, as conditions on a chunk."""
        conditions = self.on_paths(filters)
        documents = self._settings.documents
        if not conditions or self._settings.columns.path or documents is None:
            return conditions
        return [
            sql.SQL("c.{} IN (SELECT d.{} FROM {} AS d WHERE {})").format(
                sql.Identifier(self._settings.columns.document_id),
                sql.Identifier(documents.id),
                identifier(documents.table),
                all_of(conditions),
            )
        ]

    def on_paths(self, filters: FilterSet) -> list[sql.Composable]:
        """Compose the conditions on the path column: of the chunk table (alias c), else of the documents (alias d)."""
        clauses = {
            "path_contains": "EXISTS (SELECT FROM unnest(%(path_contains)s::text[]) AS part"
            " WHERE strpos({path}, part) > 0)",
            "ext_allow": "EXISTS (SELECT FROM unnest(%(ext_allow)s::text[]) AS ext WHERE {ends_with_ext})",
            "ext_deny": "NOT EXISTS (SELECT FROM unnest(%(ext_deny)s::text[]) AS ext WHERE {ends_with_ext})",
        }
        fields = [name for name in clauses if getattr(filters, name) is not None]
        if not fields:
            return []
        path = self._path_column(fields[0])
        # Under the C collation lower() changes ASCII letters only, whatever the database's locale.
        ends = sql.SQL('right(lower({path} COLLATE "C"), length(ext) + 1) = \'.\' || lower(ext COLLATE "C")')
        return [sql.SQL(clauses[name]).format(path=path, ends_with_ext=ends.format(path=path)) for name in fields]

    def _path_column(self, filter_name: str) -> sql.Identifier:
        documents, chunk_path = self._settings.documents, self._settings.columns.path
        if chunk_path is not None:
            return sql.Identifier("c", chunk_path)
        if documents is None or documents.path is None:
            raise self._not_mapped(filter_name)
        return sql.Identifier("d", documents.path)

    def _mapped(self, column: str | None, filter_name: str) -> sql.Identifier:
        if column is None:
            raise self._not_mapped(filter_name)
        return sql.Identifier("c", column)

    def _metadata(self, column: str | None) -> sql.Composable:
        """Cast the column of metadata to jsonb, which has operators that json lacks."""
        mapped = self._mapped(column, "metadata")
        kind = self._types.columns.get(column or "")
        return mapped if kind is None or kind.name == "jsonb" else sql.SQL("to_jsonb({})").format(mapped)

    def _not_mapped(self, filter_name: str) -> InvalidJob:
        return InvalidJob(f"the corpus {self._name} has no column for this filter", f"filters.{filter_name}")


def page_number(column: sql.Composable, kind: ColumnType | None) -> sql.Composable:
    """Compose a column of pages as a number; a text that is none (``xii``) counts as no page."""
    if kind is None or not kind.is_text:
        return column
    return sql.SQL("CASE WHEN {0} ~ '^[0-9]{{1,9}}$' THEN {0}::integer END").format(column)


def all_of(conditions: Sequence[sql.Composable]) -> sql.Composable:
    """Join conditions by AND; no conditions are true."""
    return sql.SQL(" AND ").join(conditions) if conditions else sql.SQL("true")


def _extension(text: str) -> str:
    return text.removeprefix(".")


def _as_number(value: Any) -> str:
    """JSON of a value; a text that Postgres reads as a number becomes that number, with all its digits.

    >>> _as_number("1.50"), _as_number("NaN"), _as_number([1.5, "2"]), _as_number("1e999999")
    ('1.50', '"NaN"', '[1.5, 2]', '"1e999999"')
    """
    if isinstance(value, list):
        return f"[{', '.join(map(_as_number, value))}]"
    if isinstance(value, str) and _NUMBER.fullmatch(value) and abs(Decimal(value).adjusted()) < _MOST_DIGITS:
        return value
    return json.dumps(value)


_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[Ee][+-]?[0-9]{1,6})?")
_MOST_DIGITS = 16_000
"""Places before or behind the point up to which a number of any form fits into Postgres' `numeric`."""


def as_type(text: str, database_type: str) -> Any:
    """Convert an id from a job to its column's type; None if it can't be converted."""
    if database_type in INTEGER_TYPES:
        return _as_integer(text, database_type)
    if database_type == "uuid":
        try:
            return UUID(text)
        except ValueError:
            return None
    return text


def _as_integer(text: str, database_type: str) -> int | None:
    bits = INTEGER_TYPES[database_type]
    try:
        value = int(text)
    except ValueError:
        return None
    return value if str(value) == text and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
