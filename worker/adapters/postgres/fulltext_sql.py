"""Full-text search as SQL: one statement for a corpus, which itself chooses the query and the way to narrow it.

It matches all words of the query and, where no chunk has them all, any of them. So it does where fewer than ``k`` have
them all, unless the query has fewer than two words or is in web search syntax: of a question, few chunks or
none have every word, and those that have are ranked first by BM25 itself. Under row-level security
``@@`` is not leakproof, so Postgres evaluates it only after the policy, and the GIN index can't be used. Callers who
see few documents are answered from the chunks of these documents, others by a scan of all chunks, or by GIN, where
``ts_match_vq`` was declared leakproof (docs/performance.md).

Where the corpus has signatures, one scan of an index that holds them beside the ids tells which words a chunk may hold,
and so the most that it can score: the sum of their idf. A few chunks that promise most are ranked first; the ``k``-th
score among them is a cut that only chunks which may score as much can reach, and only these are read and ranked. The
list is the same, as in MaxScore (Turtle, Flood: "Query Evaluation: Strategies and Optimizations", 1995).

Matches are ranked by BM25 as Lucene computes it (`BM25Similarity`; Robertson, Zaragoza: "The Probabilistic Relevance
Framework: BM25 and Beyond", 2009; the variants: Kamphuis and others, "Which BM25 Do You Mean?", ECIR 2020): the sum
over the query's words of idf * n / (n + k1 * (1 - b + b * length / mean length)) with idf = ln(1 + (N - df + 0.5) /
(df + 0.5)). n counts the word in the chunk, each occurrence in a heading (weight A) `_HEADING_WEIGHT` times; length
counts all words once. N, df and the mean length are the stored statistics (`worker.adapters.postgres.text_statistics`);
without any, each word has the same idf, and lengths do not matter.

All that can reach the cut is ranked before it, so the chunk's id decides a tie there, never the plan. The plan can't
change a score either: words are summed in the order of their bytes, and the sum is rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from worker.adapters.postgres.filters import all_of
from worker.adapters.postgres.statements import FEW_ROWS_SETTING, render
from worker.adapters.postgres.text_reading import configuration
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from worker.adapters.postgres.statements import Statements
    from worker.adapters.postgres.text_reading import TextReading
    from worker.model import FilterSet
    from worker.settings.serving import CorpusSettings

_TEXT, _PHRASES = sql.SQL("%(text)s::text"), sql.SQL("%(phrases)s::text")

_K1, _B = 1.2, 0.75
"""Lucene's: how soon repetitions of a word stop counting, and how much of a chunk's length is normalised."""

_HEADING_WEIGHT = 3.0
"""Occurrences in the text that one in a heading counts as."""

_FILL_WORDS = sql.Literal(2)
"""Least words of a query that is answered by chunks with any of them where fewer chunks than wanted have all."""

RANKED_CHUNKS = 20_000
"""Most chunks that a search is expected to rank, by the statistics: each takes 6.5 µs under policies (floors.md).

Words that are too common are not searched where rarer ones are there.
"""

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

# Of each word its bit and what it can add to a score at most: its idf, in millionths, rounded up. `whole` is the least
# sum that a chunk with the whole query has. A sum has `_SEARCHED` in it where any word of the any-word query is there.
# `likely` counts a word by how many of the chunks that have its bit may really hold it.
_SIGNED = """
, signed AS MATERIALIZED (
  SELECT {slots}, bits[{beyond}:] AS bits, weights[{beyond}:] AS weight_rest, likely[{beyond}:] AS likely_rest, whole
    FROM (SELECT array_agg(bit ORDER BY idf DESC, word COLLATE "C") AS bits,
                 array_agg(weight + CASE WHEN words.searched AND asked.loose IS NOT NULL THEN {searched} ELSE 0 END
                           ORDER BY idf DESC, word COLLATE "C") AS weights,
                 array_agg((weight * (holding + 1) / (holding + 1 + coalesce(mistaken, 0)))::bigint
                           ORDER BY idf DESC, word COLLATE "C") AS likely,
                 CASE WHEN bool_or(asked.strict IS NULL) THEN NULL
                      WHEN bool_or(alternatives) THEN min(weight) FILTER (WHERE words.stated)
                      ELSE sum(weight) FILTER (WHERE words.stated) END::bigint AS whole
            FROM asked, parsed,
                 (SELECT max(chunks * mean_length) / 2048 AS mistaken FROM statistics) AS statistics,
                 (SELECT *, retrieval.text_signature_bit((SELECT lexeme FROM unnest(word::tsvector))) AS bit,
                         ceil(idf * {unit})::bigint AS weight
                    FROM words) AS words) AS sums
),
may AS MATERIALIZED ({may})
"""
_UNIT, _SEARCHED = 10**6, 2**48

# The sum is written twice: as a column of a subquery, it would cost more for the chunks that have no word.
_MAY_MATCH = """
SELECT c.{id} AS id, {value} %% {searched} AS most, {value} >= {searched} AS searched, {likely} AS likely
  FROM signed, {table} AS c
 WHERE (SELECT coalesce(strict, loose) FROM asked) IS NOT NULL AND {where}
   AND {value} >= least({searched}, signed.whole)
"""

_SUM = "CASE WHEN {bit} IS NULL THEN 0 ELSE get_bit(c.{signature}, {bit}) * {added} + {sum} END"
_SUM_OF_REST = """
coalesce((SELECT sum(rest.added) FROM unnest(signed.bits, {rest}) AS rest (bit, added)
           WHERE get_bit(c.{signature}, rest.bit) = 1), 0)::bigint
"""
_SLOTS = 16
"""Number of words whose bits are looked up without a loop, which takes several times as long."""

# A chunk with the whole query is in the answer to any word, too: where that will be given, it is not looked for here.
_CHOSEN = """
strict_ids AS MATERIALIZED (
  SELECT array_agg(id) AS ids FROM may WHERE most >= (SELECT whole FROM signed)
  HAVING count(*) >= %(k)s OR (SELECT loose IS NULL OR stated < {fill_words} OR precise FROM asked, parsed)
),
"""
_PROBED = """
probed AS MATERIALIZED (
  SELECT array_agg(id) AS ids
    FROM ((SELECT id FROM may WHERE searched AND (SELECT fills FROM fills) ORDER BY most DESC LIMIT {probes} * %(k)s)
          UNION ALL
          (SELECT id FROM may WHERE searched AND (SELECT fills FROM fills) ORDER BY likely DESC LIMIT {probes} * %(k)s)
         ) AS may
),
probe AS MATERIALIZED ({probe}),
loose_ids AS MATERIALIZED (
  SELECT array_agg(id) AS ids
    FROM may
   WHERE searched AND (SELECT fills FROM fills)
     AND most >= (SELECT CASE WHEN count(*) = %(k)s THEN floor(min(score) * {unit}) - 1 ELSE 0 END FROM probe)
),
"""
_PROBES = 4

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
            WHERE (SELECT {asked} FROM asked) IS NOT NULL AND {where} {and_matches}
           OFFSET 0
         ) AS matching {where_matches} OFFSET 0
     ) AS matching
 ) AS scored ORDER BY score DESC, id {collate} LIMIT %(k)s)
"""

# Only ids are ranked: a chunk's own columns are read for the best alone, each by its id, which a policy may check row
# by row (`FEW_ROWS_SETTING`).
_BEST = """
WITH {choice} {parsed} {signed},
{strict_ids}
strict AS MATERIALIZED ({strict}),
fills AS MATERIALIZED (
  SELECT asked.loose IS NOT NULL
           AND (found = 0 OR stated >= {fill_words} AND found < %(k)s AND NOT precise) AS fills
    FROM asked, parsed, (SELECT count(*) AS found FROM strict) AS strict
),
{loose_ids}
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
            ELSE {scattered} * (SELECT round((sum(idf) FILTER (WHERE document @@ query)
                                              / sum(idf) FILTER (WHERE is_there OR document @@ query)) * 1e9) / 1e9
                                  FROM (SELECT query, idf, holding > 0 OR NOT %(names_code)s
                                               OR NOT EXISTS (SELECT FROM statistics) AS is_there FROM words) AS words)
            END
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

    Its rows are (id as text, score, coverage) of the visible ones with any word. Coverage is 1 where the whole query
    matches, else `_SCATTERED` times the share of its words, weighted by idf. Words that no chunk of the corpus has do
    not count in a query that names a code: the chunk with the code would lack them.
    Its parameters are those of `Statements.given_values`, `text_values`, ``names_code``, and ``k``, the number of ids.
    """
    where = [corpus.is_given, sql.SQL(_NOT_EXCLUDED).format(document=document(corpus.settings, corpus.reading))]
    return corpus.cached(
        ("word scores",),
        NO_FILTERS,
        lambda: render(
            _SCORES,
            parsed=_asked(corpus, sql.SQL("true")),
            given=corpus.given(sql.SQL("FROM parsed")),
            ranked=_ranked(corpus, "whole", all_of(where)),
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
    few: sql.Composable = sql.SQL("(SELECT exact FROM choice)" if narrows else "false")
    many: sql.Composable = sql.SQL("NOT {}").format(few)
    on_chunks = [*corpus.filters.on_chunks(filters), *([corpus.has_text] if with_text else [])]
    on_paths = corpus.filters.on_chunk_paths(filters)
    if corpus.signature:
        branches = [[many], *([[few, *corpus.few_documents(filters)]] if narrows else [])]
        parts = _by_signature(corpus, corpus.signature, branches, all_of([*on_chunks, *on_paths]))
    else:
        branches = [[many, *on_paths], *([[few, *corpus.few_documents(filters)]] if narrows else [])]
        conditions = [all_of([*on_chunks, *branch]) for branch in branches]
        fills = sql.SQL("(SELECT fills FROM fills)")
        parts = {
            "strict": _union(_ranked(corpus, "strict", where) for where in conditions),
            "loose": _union(_ranked(corpus, "loose", all_of([fills, where])) for where in conditions),
        }
    return render(
        _BEST,
        choice=sql.SQL("{},").format(corpus.choice(filters)) if narrows else sql.SQL(""),
        parsed=_asked(corpus, few),
        **{name: parts.get(name, sql.SQL("")) for name in ("signed", "strict_ids", "strict", "loose_ids", "loose")},
        fill_words=_FILL_WORDS,
        few_rows=sql.Literal(FEW_ROWS_SETTING),
        columns=corpus.columns(vectors),
        key=sql.Identifier(corpus.settings.columns.id),
        key_type=sql.SQL(corpus.key_type),
        **corpus.names,
    )


def _by_signature(
    corpus: Statements, signature: str, branches: Sequence[Sequence[sql.Composable]], where: sql.Composable
) -> dict[str, sql.Composable]:
    """Compose the parts of a search that ranks only what its signature lets reach the cut.

    Args:
        corpus: the corpus.
        signature: its column of signatures.
        branches: conditions of the ways to read signatures, one of which is taken.
        where: what a chunk must meet besides.
    """
    names: dict[str, sql.Composable] = {"searched": sql.Literal(_SEARCHED), "unit": sql.Literal(_UNIT), **corpus.names}
    sums = {"value": _sum(signature, "weight"), "likely": _sum(signature, "likely")}
    key = sql.Identifier(corpus.settings.columns.id)
    may = _union(sql.SQL(_MAY_MATCH).format(id=key, where=all_of(one), **sums, **names) for one in branches)
    slots = sql.SQL(", ").join(
        sql.SQL("bits[{0}] AS bit_{0}, weights[{0}] AS weight_{0}, likely[{0}] AS likely_{0}").format(sql.SQL(str(i)))
        for i in range(1, _SLOTS + 1)
    )

    def ranked(asked: str, ids: str) -> sql.Composable:
        given = sql.SQL("c.{} = ANY ((SELECT ids FROM {})::{}[])").format(
            key, sql.Identifier(ids), sql.SQL(corpus.key_type)
        )
        return _ranked(corpus, asked, all_of([given, where]), are_few=True)

    probe = ranked("loose", "probed")
    return {
        "signed": sql.SQL(_SIGNED).format(slots=slots, beyond=sql.Literal(_SLOTS + 1), may=may, **names),
        "strict_ids": sql.SQL(_CHOSEN).format(fill_words=_FILL_WORDS),
        "strict": ranked("strict", "strict_ids"),
        "loose_ids": sql.SQL(_PROBED).format(probes=sql.Literal(_PROBES), probe=probe, **names),
        "loose": ranked("loose", "loose_ids"),
    }


def _sum(signature: str, added: str) -> sql.Composable:
    """Compose a sum over the words that a chunk may hold by its signature: of their ``weight``, or ``likely``."""
    parts = {"signature": sql.Identifier(signature), "rest": sql.Identifier("signed", f"{added}_rest")}
    value: sql.Composable = sql.SQL(_SUM_OF_REST).format(**parts)
    for i in range(_SLOTS, 0, -1):
        slot = {
            "bit": sql.Identifier("signed", f"bit_{i}"),
            "added": sql.Identifier("signed", f"{added}_{i}"),
            "sum": value,
        }
        value = sql.SQL(_SUM).format(**slot, **parts)
    return value


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
        ranked_chunks=sql.Literal(RANKED_CHUNKS),
        fill_words=_FILL_WORDS,
        few_rows=sql.Literal(FEW_ROWS_SETTING),
        few=few,
    )


def _ranked(corpus: Statements, asked: str, where: sql.Composable, *, are_few: bool = False) -> sql.Composable:
    """Compose the best matches of a query, a column of `asked`, among the chunks that meet a condition.

    Where these are few, each is unpacked before it is compared, and not again; else an index may compare them.
    """
    matches = "{} {} @@ (SELECT {} FROM asked)"
    stored, query = document(corpus.settings, corpus.reading), sql.Identifier(asked)
    return sql.SQL(_RANKED).format(
        asked=query,
        document=stored,
        where=where,
        and_matches=sql.SQL("" if are_few else matches).format(sql.SQL("AND"), stored, query),
        where_matches=sql.SQL(matches if are_few else "").format(sql.SQL("WHERE"), sql.SQL("document"), query),
        count=sql.SQL(_COUNT).format(document=sql.SQL("document")),
        count_in_headings=sql.SQL(_COUNT).format(document=sql.SQL("headings")),
        k1=_number(_K1),
        b=_number(_B),
        heading_weight=_number(_HEADING_WEIGHT - 1),
        key=sql.Identifier(corpus.settings.columns.id),
        **corpus.names,
    )


def _union(queries: Iterable[sql.Composable]) -> sql.Composable:
    return sql.SQL(" UNION ALL ").join(queries)


def _number(value: float) -> sql.Composable:
    return sql.SQL("{}::float8").format(sql.Literal(value))
