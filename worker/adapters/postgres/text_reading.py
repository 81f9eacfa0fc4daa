"""How full-text search reads the texts of a corpus, and its queries.

Texts are folded (accents, widths, hyphens; `retrieval.search_text` in config/records.sql) where `migrate` has installed
that, and the corpus's column of words was made by `retrieval.text_vector`. A column that was made otherwise has words
as Postgres' parser reads them, and so must a query have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from worker.adapters.postgres.sql import blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from worker.settings.serving import CorpusSettings


@dataclass(frozen=True, slots=True)
class TextReading:
    """Text search configurations of a corpus, as Postgres names them.

    Attributes:
        texts: configuration of its texts.
        queries: configuration of its queries; of folded texts, the one that leaves out stop words.
        is_folded: whether texts were folded.
        signature_fits: False if the column of signatures was made of texts that were read otherwise.
    """

    texts: str
    queries: str
    is_folded: bool = False
    signature_fits: bool = True

    def vector(self, text: sql.Composable) -> sql.Composable:
        """Compose the words of a text."""
        function = sql.SQL("retrieval.text_vector" if self.is_folded else "to_tsvector")
        return sql.SQL("{}({}, {})").format(function, configuration(self.texts), text)

    def folded(self, query: sql.Composable) -> sql.Composable:
        """Compose a query as its texts were folded; else with the parts of compounds, which texts hold whole, too.

        In web search syntax (``web_search``), the names that follow a folded text would be required, although their
        parts may be excluded, or an alternative: there they are left out.
        """
        if not self.is_folded:
            return sql.SQL("regexp_replace({}, '([[:alpha:]])-(?=[[:alpha:]])', '\\1 ', 'g')").format(query)
        return sql.SQL(_FOLDED_QUERY).format(configuration(self.texts), query)

    def parts(self, query: sql.Composable) -> sql.Composable:
        """Compose a query in which what the parser reads as a host or a path (sine.range, a/b) is its parts.

        NULL where folding has done it.
        """
        return sql.SQL("NULL::text" if self.is_folded else "translate({}, './<>', '    ')").format(query)


_FOLDED_QUERY = r"""
regexp_replace(retrieval.search_text({}, {}),
               CASE WHEN %(web_search)s THEN '[A-Za-z0-9]+(?:\u02D1+[A-Za-z0-9]+)+' ELSE '^$' END, '', 'g')
"""


def configuration(name: str) -> sql.Composable:
    """Compose a text search configuration."""
    return sql.SQL("{}::regconfig").format(sql.Literal(name))


_SQL = blocks("text_reading")
_IS_FOLDED = _SQL["is_folded"]
_CONFIGURATIONS = _SQL["configurations"]


def text_reading(
    connection: psycopg.Connection[Any], corpus: CorpusSettings, tables: Sequence[int]
) -> TextReading | None:
    """Return how a corpus's texts are read; None if the database has no configuration of its language.

    Args:
        connection: a connection of the role that reads the corpus.
        corpus: its settings.
        tables: oids of the tables that hold its rows.
    """
    words, signature = corpus.columns.text_search, corpus.columns.text_signature
    is_folded = _is_folded(connection, words or signature, tables)
    signature_fits = not words or not signature or _is_folded(connection, signature, tables) == is_folded
    language, own_configuration = corpus.language, f"retrieval.{corpus.language}"
    is_own = {row[0] for row in connection.execute(_CONFIGURATIONS, (language,)).fetchall()}
    if not is_own or (not is_folded and False not in is_own):
        return None
    texts = own_configuration if is_folded and True in is_own else language
    return TextReading(texts, language if False in is_own else own_configuration, is_folded, signature_fits)


def _is_folded(connection: psycopg.Connection[Any], column: str | None, tables: Sequence[int]) -> bool:
    (is_folded,) = connection.execute(_IS_FOLDED, {"column": column, "tables": [*tables]}).fetchone() or (False,)
    return bool(is_folded)
