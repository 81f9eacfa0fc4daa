"""Full-text search as SQL: one statement for a corpus, which itself chooses the query and the way to narrow it.

It matches all words of the query and, where no chunk has them all, any of them. So it does where fewer than ``k`` have
them all, unless the query has fewer than `fill_words` words or is in web search syntax: of a question, few chunks or
none have every word, and those that have are ranked first by BM25 itself. Under row-level security
``@@`` is not leakproof, so Postgres evaluates it only after the policy, and the GIN index can't be used. Callers who
see few documents are answered from the chunks of these documents, others by a scan of all chunks; where the corpus has
signatures, by a scan of an index that holds them beside the ids, and then of the chunks that may match (by GIN, where
``ts_match_vq`` was declared leakproof; docs/performance.md).

Matches are ranked by BM25 as Lucene computes it (`BM25Similarity`; Robertson, Zaragoza: "The Probabilistic Relevance
Framework: BM25 and Beyond", 2009; the variants: Kamphuis and others, "Which BM25 Do You Mean?", ECIR 2020): the sum
over the query's words of idf * n / (n + k1 * (1 - b + b * length / mean length)) with idf = ln(1 + (N - df + 0.5) /
(df + 0.5)). n counts the word in the chunk, each occurrence in a heading (weight A) `heading_weight` times; length
counts all words once. N, df and the mean length are the stored statistics (`worker.adapters.postgres.text_statistics`);
without any, each word has the same idf, and lengths do not matter.

All that matches is ranked before the cut, so the chunk's id decides a tie there, never the plan. The plan can't change
a score either: words are summed in the order of their bytes, and the sum is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from worker.adapters.postgres.filters import all_of
from worker.adapters.postgres.statements import FEW_ROWS_SETTING, render
from worker.adapters.postgres.text_reading import configuration
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from worker.adapters.postgres.statements import Statements
    from worker.adapters.postgres.text_reading import TextReading
    from worker.model import FilterSet
    from worker.settings.serving import CorpusSettings

_TEXT, _PHRASES = sql.SQL("%(text)s::text"), sql.SQL("%(phrases)s::text")

STATE = 7
"""Columns of `best_matching` that describe the search and its ranking; a chunk's columns follow them."""

# An operand of a tsquery as Postgres writes it: quoted, with quotes and backslashes doubled. What is excluded is one
# operand or a phrase of them. Matched from left to right, so that no text inside an operand counts as an operator.
_OPERAND = r"'(?:[^'\\]|''|\\\\)*'"
_OPERANDS = rf"(!(?:{_OPERAND}|\((?:{_OPERAND}|[^()'])*\)))|({_OPERAND})"

# The caller's tenant if there are statistics of it, else the whole corpus.
_STATISTICS = """
SELECT id AS known, chunks, mean_length, tenant <> '' AS of_tenant,
       extract(epoch FROM now() - refreshed_at)::bigint AS age
  FROM retrieval.text_statistics
 WHERE corpus = {corpus} AND tenant IN ('', {tenant}) AND chunks > 0
 ORDER BY tenant DESC LIMIT 1
"""
_NO_STATISTICS = """
SELECT NULL::bigint AS known, NULL::bigint AS chunks, NULL::float8 AS mean_length, false AS of_tenant, 0 AS age
 WHERE false
"""
_CHUNKS_WITH_TERM = """
(SELECT t.chunks FROM retrieval.term_statistics t
  WHERE t.statistics = (SELECT known FROM statistics)
    AND t.term = (SELECT lexeme FROM unnest(word::tsvector)) COLLATE "C")
"""

# A query of stop words alone is searched for with them, in a question as a phrase. `precise` are such queries, and
# those in web search syntax: any of their words will do only where no chunk has what they say, and then with their
# phrases (`held`). `parts` are in the any-word query, too. A query of only excluded words matches nothing. Values that
# are NULL match no row.
#
# `ranking.most` is how many chunks may be expected to match; NULL where nothing bounds them: no statistics, a small
# corpus, few visible documents. Of all words together, it is expected what independent words would have in common.
# Where no chunk had a word when they were counted, and any word will do, all words are not even tried.
_ASKED = """
parsed AS MATERIALIZED (
  SELECT strict, parts, strict::text LIKE '%%|%%' AS alternatives,
         %(web_search)s OR numnode(without_stop_words) = 0 AS precise,
         nullif(websearch_to_tsquery(CASE WHEN numnode(without_stop_words) > 0 THEN {queries} ELSE {texts} END,
                                     said_phrases)::text, '') AS held,
         set_config({few_rows}, '', true)  -- which another search in this transaction may have set
    FROM (SELECT {folded} AS said, {said_parts} AS said_parts, {said_phrases} AS said_phrases OFFSET 0) AS spoken,
         LATERAL (SELECT CASE WHEN %(web_search)s THEN websearch_to_tsquery({queries}, said)
                              ELSE plainto_tsquery({queries}, said) END AS without_stop_words,
                         CASE WHEN %(web_search)s THEN websearch_to_tsquery({queries}, said_parts)
                              ELSE plainto_tsquery({queries}, said_parts) END AS parts) AS reading,
         LATERAL (SELECT CASE WHEN numnode(without_stop_words) > 0 THEN without_stop_words
                              WHEN %(web_search)s THEN websearch_to_tsquery({texts}, said)
                              ELSE phraseto_tsquery({texts}, said) END AS strict) AS whole
),
operands AS (
  SELECT operand[1] AS excluded, operand[2] AS word, stated
    FROM parsed, LATERAL (VALUES (strict::text, true), (parts::text, false)) AS query (said, stated),
         regexp_matches(said, {operands}, 'g') AS operand
),
statistics AS MATERIALIZED ({statistics}),
ranking AS MATERIALIZED (
  SELECT CASE WHEN chunks > {ranked_chunks} AND NOT {few} THEN {ranked_chunks} END AS most, chunks FROM statistics
),
words AS MATERIALIZED (
  SELECT word, word::tsquery AS query, stated, chunks AS holding,
         coalesce(sum(chunks) OVER (ORDER BY chunks, word COLLATE "C") <= (SELECT most FROM ranking), true) AS searched,
         coalesce((SELECT round(ln(1 + (s.chunks - w.chunks + 0.5) / (w.chunks + 0.5)::float8) * 1e9) / 1e9
                     FROM statistics AS s), 1) AS idf
    FROM (SELECT word, bool_or(stated) AS stated, coalesce({chunks_with_term}, 0) AS chunks
            FROM operands WHERE word IS NOT NULL GROUP BY word) AS w
   ORDER BY word COLLATE "C"
),
expected AS (
  SELECT CASE WHEN (SELECT alternatives FROM parsed) THEN sum(holding)
              WHEN min(holding) = 0 THEN 0
              ELSE exp(sum(ln(nullif(holding, 0)::float8 / ranking.chunks))) * ranking.chunks END <= most AS few
    FROM words, ranking WHERE stated GROUP BY ranking.chunks, most
),
asked AS MATERIALIZED (
  SELECT count(*) AS words, count(*) FILTER (WHERE stated) AS stated, count(*) FILTER (WHERE searched) AS searched,
         string_agg(word, ' | ')::tsquery AS whole,
         CASE WHEN count(*) > 0 AND coalesce((SELECT few FROM expected), true)
                   AND NOT (bool_or(stated AND holding = 0) AND EXISTS (SELECT FROM statistics)
                            AND count(*) FILTER (WHERE stated) >= {fill_words}
                            AND (SELECT NOT precise FROM parsed))
              THEN (SELECT strict FROM parsed) END AS strict,
         CASE WHEN count(*) > 1 AND bool_or(searched) THEN
           concat_ws(' & ', '(' || string_agg(word, ' | ') FILTER (WHERE searched) || ')',
                     (SELECT '(' || held || ')' FROM parsed),
                     (SELECT string_agg(DISTINCT excluded, ' & ') FROM operands))::tsquery
         END AS loose
    FROM words
)
"""

# The bits of the words that a chunk must have any of. A chunk with all words has the rarest one.
_SIGNED = """
, signed AS MATERIALIZED (
  SELECT CASE WHEN alternatives THEN stated_bits ELSE stated_bits[1:1] END AS strict, loose,
         (SELECT bit_or(set_bit({no_bits}, bit, 1)) FROM unnest(stated_bits) AS bit) AS strict_mask,
         (SELECT bit_or(set_bit({no_bits}, bit, 1)) FROM unnest(loose) AS bit) AS loose_mask
    FROM (SELECT array_agg(bit ORDER BY holding, word COLLATE "C") FILTER (WHERE stated) AS stated_bits,
                 array_agg(bit) FILTER (WHERE searched) AS loose,
                 (SELECT alternatives FROM parsed) AS alternatives
            FROM (SELECT *, retrieval.text_signature_bit((SELECT lexeme FROM unnest(word::tsvector))) AS bit
                    FROM words) AS words) AS bits
)
"""
_NO_BITS = "repeat('0', 2048)::bit(2048)"

# One bit after the other, which is several times faster than all at once for a few words.
_MAY_MATCH = """
c.{id} = ANY (ARRAY(
  SELECT c.{id} FROM {table} AS c
   WHERE CASE WHEN (SELECT cardinality({asked}) FROM signed) <= {few_bits} THEN {any_bit}
              ELSE c.{signature} & (SELECT {mask} FROM signed) <> {no_bits} END))
"""
_FEW_BITS = 6

# How often a word stands in a document: `ts_rank` of one word with equal weights is 6 / pi ** 2 times the sum of
# 1 / i ** 2 up to that number (`calc_rank_or` in tsrank.c), of which 1 / (n + 0.5) is missing, nearly: exact for
# all n up to 255, the most positions that a tsvector holds of a word. `unnest` would take a hundred times longer.
_COUNT = """
round(1 / (1.64493406685 * (1 - ts_rank('{{1,1,1,1}}', {document}, query)::float8)) - 0.5)
"""

# Flag 2 of `ts_rank` divides by the length of the document. `ts_delete` of no word unpacks the document once for all
# functions that read it; OFFSET 0 keeps Postgres from computing it in each of them again.
_RANKED = """
(SELECT * FROM (
   SELECT id,
          (SELECT round(sum(idf * n / (n + saturation)) * 1e9) / 1e9
             FROM (SELECT idf, {count} + {heading_weight} * {count_in_headings} AS n FROM words) AS counted) AS score
     FROM (
       SELECT id, document, ts_filter(document, '{{a}}') AS headings,
              {k1} * (1 - {b} + {b} * coalesce(
                round(ts_rank('{{1,1,1,1}}', document, (SELECT whole FROM asked))::float8
                      / nullif(ts_rank('{{1,1,1,1}}', document, (SELECT whole FROM asked), 2), 0))
                / (SELECT nullif(mean_length, 0) FROM statistics), 1)) AS saturation
         FROM (
           SELECT c.{key} AS id, ts_delete({document}, '') AS document
             FROM {table} AS c
            WHERE (SELECT {asked} FROM asked) IS NOT NULL AND {where}
              AND {document} @@ (SELECT {asked} FROM asked)
           OFFSET 0
         ) AS matching OFFSET 0
     ) AS matching
 ) AS scored ORDER BY score DESC, id {collate} LIMIT %(k)s)
"""

# Only ids are ranked: a chunk's own columns are read for the best alone, each by its id, which a policy may check row
# by row (`FEW_ROWS_SETTING`).
_BEST = """
WITH {choice} {parsed} {signed},
strict AS MATERIALIZED ({strict}),
fills AS MATERIALIZED (
  SELECT asked.loose IS NOT NULL
           AND (found = 0 OR stated >= {fill_words} AND found < %(k)s AND NOT precise) AS fills
    FROM asked, parsed, (SELECT count(*) AS found FROM strict) AS strict
),
loose AS MATERIALIZED ({loose}),
best AS MATERIALIZED (
  SELECT *, false AS loosely FROM strict WHERE NOT (SELECT fills FROM fills)
  UNION ALL SELECT *, true FROM loose  -- which has all that `strict` has
),
few AS MATERIALIZED (SELECT array_agg(id) AS ids, set_config({few_rows}, 'on', true) FROM best),
compared AS (
  SELECT loosely, score, {outputs}
    FROM best
    JOIN (SELECT {columns} FROM {table} AS c WHERE c.{key} = ANY ((SELECT ids FROM few)::{key_type}[])) AS chunk
   USING (id)
)
SELECT asked.words, asked.searched, statistics.chunks, of_tenant, age, compared.*
  FROM asked LEFT JOIN statistics ON true LEFT JOIN compared ON true
 ORDER BY score DESC, id {collate}
"""


# Chunks that vectors found need no word of the query; those with an excluded word have no score, as they do not match.
_SCORES = """
WITH {parsed}, {given}
SELECT id::text, score,
       CASE WHEN document @@ (SELECT strict FROM parsed) THEN 1
            ELSE {scattered} * (SELECT round((sum(idf) FILTER (WHERE document @@ query) / sum(idf)) * 1e9) / 1e9
                                  FROM words) END,
       (SELECT sum(idf) FROM words)
  FROM {ranked} AS ranked
  JOIN (SELECT c.{key} AS id, {document} AS document FROM {table} AS c WHERE {is_given}) AS chunk USING (id)
"""
_SCATTERED = 0.8
"""Coverage by a chunk that has all words of the query, but not its phrases: `max_num_fields` is one of its parts."""
_NOT_EXCLUDED = """
coalesce({document} @@ (SELECT string_agg(DISTINCT excluded, ' & ')::tsquery FROM operands), true)
"""


def best_matching(corpus: Statements, filters: FilterSet, vectors: bool, with_text: bool = False) -> bytes:
    """Compose the statement for the ``k`` chunks that match a text best.

    Its rows are (words, words searched, chunks that the statistics know or NULL, whether they are the tenant's, their
    age in seconds, any word only, score, distance, vector or NULL, fields); one row with NULLs from `any word only` on
    where nothing matches. Its parameters are those of `Statements.values` and `text_values`.

    Args:
        corpus: the statements of the corpus.
        filters: the filters of the search.
        vectors: also return the chunks' embeddings (else NULL).
        with_text: leave out chunks without text; see `Statements.has_text`.
    """
    return corpus.cached(
        ("matching", vectors, with_text), filters, lambda: _compose(corpus, filters, vectors, with_text)
    )


def scores_of_given(corpus: Statements) -> bytes:
    """Compose the statement for the BM25 scores of given chunks, whichever of the query's words they have.

    Its rows are (id as text, score, coverage, sum of the idf of the query's words) of the visible ones with any word.
    Coverage is 1 where the whole query matches, else `_SCATTERED` times the share of its words, weighted by idf. Its
    parameters are those of `Statements.given_values`, `text_values`, and ``k``, the number of ids.
    """
    where = [corpus.is_given, sql.SQL(_NOT_EXCLUDED).format(document=document(corpus.settings, corpus.reading))]
    return corpus.cached(
        ("word scores",),
        NO_FILTERS,
        lambda: render(
            _SCORES,
            parsed=_asked(corpus, sql.SQL("true")),
            given=corpus.given(sql.SQL("FROM parsed")),
            ranked=_ranked_where(corpus, "whole", all_of(where)),
            scattered=_number(_SCATTERED),
            document=document(corpus.settings, corpus.reading),
            key=sql.Identifier(corpus.settings.columns.id),
            is_given=corpus.is_given,
            **corpus.names,
        ),
    )


def document(settings: CorpusSettings, reading: TextReading) -> sql.Composable:
    """Compose the searched document of a chunk ``c``: its column or, without one, its text, parsed in each search."""
    columns = settings.columns
    if columns.text_search is not None:
        return sql.SQL("c.{}").format(sql.Identifier(columns.text_search))
    return reading.vector(sql.SQL("c.{}").format(sql.Identifier(columns.text)))


def _compose(corpus: Statements, filters: FilterSet, vectors: bool, with_text: bool) -> bytes:
    # Where every chunk is public, counting a caller's documents narrows nothing: the index answers.
    narrows = corpus.settings.documents is not None and not corpus.settings.public
    branches = [corpus.filters.on_chunk_paths(filters)]
    few = sql.SQL("(SELECT exact FROM choice)" if narrows else "false")
    if narrows:
        branches = [[few, *corpus.few_documents(filters)], [sql.SQL("NOT {}").format(few), *branches[0]]]
    on_chunks = [*corpus.filters.on_chunks(filters), *([corpus.has_text] if with_text else [])]
    conditions = [all_of([*on_chunks, *branch]) for branch in branches]
    signed = sql.SQL(_SIGNED).format(no_bits=sql.SQL(_NO_BITS)) if corpus.signature else sql.SQL("")
    return render(
        _BEST,
        choice=sql.SQL("{},").format(corpus.choice(filters)) if narrows else sql.SQL(""),
        parsed=_asked(corpus, few),
        signed=signed,
        strict=_ranked(corpus, "strict", conditions, sql.SQL("true")),
        loose=_ranked(corpus, "loose", conditions, sql.SQL("(SELECT fills FROM fills)")),
        fill_words=sql.Literal(corpus.search.fill_words),
        few_rows=sql.Literal(FEW_ROWS_SETTING),
        columns=corpus.columns(vectors),
        key=sql.Identifier(corpus.settings.columns.id),
        key_type=sql.SQL(corpus.key_type),
        **corpus.names,
    )


def _asked(corpus: Statements, few: sql.Composable) -> sql.Composable:
    """Compose the query, its words and the corpus's statistics of them."""
    known = corpus.has_statistics
    tenant = sql.Literal(corpus.settings.tenant_setting)
    statistics = sql.SQL(_STATISTICS if known else _NO_STATISTICS).format(
        corpus=sql.Literal(corpus.name),
        tenant=sql.SQL("coalesce(current_setting({}, true), '')").format(tenant)
        if corpus.settings.tenant_setting
        else sql.SQL("''"),
    )
    return sql.SQL(_ASKED).format(
        folded=corpus.reading.folded(_TEXT),
        said_parts=corpus.reading.parts(corpus.reading.folded(_TEXT)),
        said_phrases=corpus.reading.folded(_PHRASES),
        queries=configuration(corpus.reading.queries),
        texts=configuration(corpus.reading.texts),
        operands=sql.Literal(_OPERANDS),
        statistics=statistics,
        chunks_with_term=sql.SQL(_CHUNKS_WITH_TERM if known else "0::bigint"),
        ranked_chunks=sql.Literal(corpus.search.ranked_chunks),
        fill_words=sql.Literal(corpus.search.fill_words),
        few_rows=sql.Literal(FEW_ROWS_SETTING),
        few=few,
    )


def _ranked(corpus: Statements, asked: str, branches: Sequence[sql.Composable], when: sql.Composable) -> sql.Composable:
    """Compose the best matches of one of the two queries; only one of the branches is run, the last if many match."""
    *few, many = branches
    if corpus.signature:
        many = all_of([many, _may_match(corpus, corpus.signature, asked)])
    return sql.SQL("UNION ALL").join(_ranked_where(corpus, asked, all_of([when, where])) for where in (*few, many))


def _ranked_where(corpus: Statements, asked: str, where: sql.Composable) -> sql.Composable:
    """Compose the best matches of a query, a column of `asked`, among the chunks that meet a condition."""
    weights = corpus.search
    return sql.SQL(_RANKED).format(
        asked=sql.Identifier(asked),
        document=document(corpus.settings, corpus.reading),
        where=where,
        count=sql.SQL(_COUNT).format(document=sql.SQL("document")),
        count_in_headings=sql.SQL(_COUNT).format(document=sql.SQL("headings")),
        k1=_number(weights.bm25_k1),
        b=_number(weights.bm25_b),
        heading_weight=_number(weights.heading_weight - 1),
        key=sql.Identifier(corpus.settings.columns.id),
        **corpus.names,
    )


def _may_match(corpus: Statements, signature: str, asked: str) -> sql.Composable:
    """Compose the condition that a chunk is among those whose signatures have a bit of the query."""
    column, wanted = sql.Identifier(signature), sql.Identifier(asked)
    bits = [
        sql.SQL("get_bit(c.{}, (SELECT {}[{}] FROM signed)) = 1").format(column, wanted, sql.Literal(i))
        for i in range(1, _FEW_BITS + 1)
    ]
    return sql.SQL(_MAY_MATCH).format(
        id=sql.Identifier(corpus.settings.columns.id),
        asked=wanted,
        mask=sql.Identifier(f"{asked}_mask"),
        signature=column,
        few_bits=sql.Literal(_FEW_BITS),
        any_bit=sql.SQL(" OR ").join(bits),
        no_bits=sql.SQL(_NO_BITS),
        table=corpus.names["table"],
    )


def _number(value: float) -> sql.Composable:
    return sql.SQL("{}::float8").format(sql.Literal(value))
