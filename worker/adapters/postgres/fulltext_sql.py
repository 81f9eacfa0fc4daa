"""Full-text search as SQL: one statement for a corpus, which itself chooses the query and the way to narrow it.

It matches all words of the query and, only where no chunk has them all, any of them. Under row-level security
``@@`` is not leakproof, so Postgres evaluates it only after the policy, and the GIN index can't be used. Callers who
see few documents are answered from the chunks of these documents, others by a scan of all chunks (by the index, where
``ts_match_vq`` was declared leakproof; docs/performance.md).

``ts_rank_cd`` uses one row and the query, no statistics: rows that a caller can't see change no score. All matches are
ranked before the cut, so the chunk's id decides a tie there, never the plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from worker.adapters.postgres.filters import all_of
from worker.adapters.postgres.statements import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.statements import Statements
    from worker.model import FilterSet
    from worker.settings import CorpusSettings

# An operand of a tsquery as Postgres writes it: quoted, with quotes and backslashes doubled. What is excluded is one
# operand or a phrase of them. Matched from left to right, so that no text inside an operand counts as an operator.
_OPERAND = r"'(?:[^'\\]|''|\\\\)*'"
_OPERANDS = rf"(!(?:{_OPERAND}|\((?:{_OPERAND}|[^()'])*\)))|({_OPERAND})"

# `loose` also has the parts of what the parser reads as a host or a path (sine.range, a/b). A query of only excluded
# words matches nothing. Values that are NULL match no row.
_ASKED = """
parsed AS MATERIALIZED (
  SELECT websearch_to_tsquery({language}, %(text)s::text) AS strict,
         websearch_to_tsquery({language}, translate(%(text)s::text, './<>', '    ')) AS parts
),
operands AS (
  SELECT operand[1] AS excluded, operand[2] AS word
    FROM parsed, regexp_matches(strict::text || ' ' || parts::text, {operands}, 'g') AS operand
),
asked AS MATERIALIZED (
  SELECT CASE WHEN count(word) > 0 THEN (SELECT strict FROM parsed) END AS strict,
         CASE WHEN count(DISTINCT word) > 1 THEN
           concat_ws(
             ' & ', '(' || string_agg(DISTINCT word, ' | ') || ')', string_agg(DISTINCT excluded, ' & '))::tsquery
         END AS loose
    FROM operands
)
"""

_RANKED = """
(SELECT * FROM (
   SELECT ts_rank_cd({document}, (SELECT {asked} FROM asked)) AS score, c.{embedding} AS embedding, {fields}
     FROM {table} AS c
    WHERE {when} AND {where} AND {document} @@ (SELECT {asked} FROM asked)
 ) AS matching ORDER BY score DESC, id {collate} LIMIT %(k)s)
"""

_BEST = """
WITH {choice} {parsed},
strict AS MATERIALIZED ({strict}),
loose AS MATERIALIZED ({loose}),
best AS (SELECT *, false AS loosely FROM strict UNION ALL SELECT *, true FROM loose)
SELECT loosely, score, {outputs}
  FROM (SELECT *, embedding <=> %(query)s AS distance, {vector} AS vector FROM best) AS compared
 ORDER BY score DESC, id {collate}
"""


def best_matching(corpus: Statements, filters: FilterSet, vectors: bool) -> bytes:
    """Compose the statement for the ``k`` chunks that match a text best.

    Its rows are (any word only, score, distance, vector or NULL, fields). Its parameters are those of
    `Statements.values` and ``text``.

    Args:
        corpus: the statements of the corpus.
        filters: the filters of the search.
        vectors: also return the chunks' embeddings (else NULL).
    """
    return corpus.cached(("matching", vectors), filters, lambda: _compose(corpus, filters, vectors))


def document(settings: CorpusSettings) -> sql.Composable:
    """Compose the searched document of a chunk ``c``: its column or, without one, its text, parsed in each search."""
    columns = settings.columns
    if columns.text_search is not None:
        return sql.SQL("c.{}").format(sql.Identifier(columns.text_search))
    return sql.SQL("to_tsvector({}, c.{})").format(language(settings), sql.Identifier(columns.text))


def language(settings: CorpusSettings) -> sql.Composable:
    """Return a corpus's text search configuration."""
    return sql.SQL("{}::regconfig").format(sql.Literal(settings.language))


def _compose(corpus: Statements, filters: FilterSet, vectors: bool) -> bytes:
    # Where every chunk is public, counting a caller's documents narrows nothing: the index answers.
    narrows = corpus.settings.documents is not None and not corpus.settings.public
    branches = [corpus.filters.on_chunk_paths(filters)]
    if narrows:
        few, many = sql.SQL("(SELECT exact FROM choice)"), sql.SQL("NOT (SELECT exact FROM choice)")
        branches = [[few, *corpus.few_documents(filters)], [many, *branches[0]]]
    conditions = [all_of([*corpus.filters.on_chunks(filters), *branch]) for branch in branches]
    return render(
        _BEST,
        choice=sql.SQL("{},").format(corpus.choice(filters)) if narrows else sql.SQL(""),
        parsed=sql.SQL(_ASKED).format(language=language(corpus.settings), operands=sql.Literal(_OPERANDS)),
        strict=_ranked(corpus, "strict", conditions, sql.SQL("true")),
        loose=_ranked(corpus, "loose", conditions, sql.SQL("NOT EXISTS (SELECT FROM strict)")),
        vector=sql.SQL("embedding" if vectors else "NULL::integer"),
        **corpus.names,
    )


def _ranked(corpus: Statements, asked: str, branches: Sequence[sql.Composable], when: sql.Composable) -> sql.Composable:
    """Compose the best matches of one of the two queries; only one of the branches is run."""
    return sql.SQL("UNION ALL").join(
        sql.SQL(_RANKED).format(
            asked=sql.Identifier(asked), document=document(corpus.settings), when=when, where=where, **corpus.names
        )
        for where in branches
    )
