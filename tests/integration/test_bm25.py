"""The ranking of full-text search, against BM25 by brute force in Python on the same documents."""

from __future__ import annotations

import contextlib
import json
import math
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pgvector.psycopg import register_vector
from tests.command_line import command_line
from tests.integration.asking import ask, asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.errors import SettingsError
from worker.adapters.postgres import fulltext_sql
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.fulltext import FullTextSearch
from worker.adapters.postgres.search import Corpus, search
from worker.adapters.postgres.text_statistics import refresh
from worker.cli.doctor import examine
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import NO_FILTERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from worker.adapters.postgres.search import SearchResult
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]

K1, B, HEADING_WEIGHT = 1.2, 0.75, 3.0
CODE = 'note("c e g")'
QUERY = np.eye(1, 768, dtype=np.float32)[0]

PIECES = """
CREATE TABLE pieces (nr bigint PRIMARY KEY, tenant text, owner text NOT NULL, body text NOT NULL DEFAULT '',
                     words tsvector, vec vector(768),
                     bits bit(2048) GENERATED ALWAYS AS (retrieval.text_signature(words)) STORED);
ALTER TABLE pieces ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_owner ON pieces USING (owner = (SELECT nullif(current_setting('app.user_id', true), '')));
GRANT SELECT ON pieces TO retrieval_worker;
"""
CORPUS = {
    "table": "public.pieces",
    "language": "simple",
    "columns": {"id": "nr", "document_id": "owner", "text": "body", "embedding": "vec", "text_search": "words"},
}


# --- by brute force -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Document:
    """A document as Postgres holds it: of each word, how often it stands in text and headings, and in headings."""

    counts: Mapping[str, int]
    in_headings: Mapping[str, int]

    @property
    def length(self) -> int:
        return sum(self.counts.values())


def documents(admin: Admin, table: str = "pieces", key: str = "nr", column: str = "words") -> dict[str, Document]:
    """Every document of a table, whoever may see it, by the id of its chunk."""
    rows = admin.execute(
        f"SELECT {key}::text, lexeme, positions, weights FROM {table}, unnest({column}) ORDER BY 1".encode()
    ).fetchall()
    counts: dict[str, Counter[str]] = {}
    headings: dict[str, Counter[str]] = {}
    for chunk, word, positions, weights in rows:
        counts.setdefault(chunk, Counter())[word] = len(positions or [0])
        headings.setdefault(chunk, Counter())[word] = (weights or []).count("A")
    return {chunk: Document(counts[chunk], headings[chunk]) for chunk in counts}


def bm25(query: Sequence[str], documents: Mapping[str, Document], counted: Mapping[str, Document]) -> dict[str, float]:
    """Score the documents that have a word of the query, by the statistics of those that were ``counted``."""
    mean = sum(one.length for one in counted.values()) / len(counted)
    holding = {word: sum(word in one.counts for one in counted.values()) for word in query}
    idf = {word: math.log(1 + (len(counted) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}

    def score(one: Document) -> float:
        saturation = K1 * (1 - B + B * one.length / mean)
        weighted = {word: one.counts[word] + (HEADING_WEIGHT - 1) * one.in_headings[word] for word in {*query}}
        return sum(idf[word] * n / (n + saturation) for word, n in weighted.items())

    return {chunk: score(one) for chunk, one in documents.items() if any(word in one.counts for word in query)}


def is_ranked_by(scores: Mapping[str, float], found: SearchResult, key: Callable[[str], Any] = int) -> None:
    """The candidates are those of ``scores`` with their scores, highest first; of equal ones the lower id."""
    ids = [candidate.chunk.id for candidate in found.candidates]
    assert found.scores is not None
    assert dict(zip(ids, found.scores, strict=True)) == pytest.approx(scores, abs=2e-9)
    assert ids == [one for _, one in sorted(zip(found.scores, ids, strict=True), key=lambda s: (-s[0], key(s[1])))]


# --- tables and callers -------------------------------------------------------------------------


def find(
    settings: Settings,
    text: str,
    user: str = "alice",
    *,
    corpus: str = "pieces",
    k: int = 500,
    tenant: str = "",
    web_search: bool = False,
) -> SearchResult:
    """Ask one corpus on connections of their own."""
    database = Database(settings)
    with contextlib.closing(database):
        types = database.types[corpus]
        searched = Corpus(corpus, settings.corpora[corpus], settings.search, types)
        wanted = FullTextSearch(searched, text, QUERY, k, NO_FILTERS, web_search=web_search)
        (found,) = search(database, asker(user, tenant_id=tenant), [wanted])
    return found


def write(admin: Admin, rows: Mapping[int, str], owner: str = "alice", tenant: str | None = None) -> None:
    """Put tsvectors, written as Postgres writes them, into the table of pieces."""
    with admin.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO pieces (nr, owner, tenant, words) VALUES (%s, %s, %s, %s::tsvector)",
            [(nr, owner, tenant, words) for nr, words in rows.items()],
        )


@pytest.fixture(params=["scan", "signatures"])
def pieces(make_settings: MakeSettings, database: str, admin: Admin, request: pytest.FixtureRequest) -> Settings:
    """A table whose tsvectors a test writes itself, without signatures and with them."""
    admin.execute(PIECES)
    signed = {"text_signature": "bits"} if request.param == "signatures" else {}
    return make_settings(database, corpora={"pieces": {**CORPUS, "columns": {**CORPUS["columns"], **signed}}})


def count(admin: Admin, settings: Settings, corpus: str = "pieces") -> None:
    refresh(admin, corpus, settings.corpora[corpus])


# --- scores -------------------------------------------------------------------------------------


def test_the_sample_is_ranked_as_by_brute_force(settings: Settings, admin: Admin) -> None:
    """Real texts with headings, seen by one who sees them all: each chunk has the score of the formula."""
    every = documents(admin, "doc_embeddings", "id", "text_search")
    found = find(settings, "delay effect pattern note", corpus="docs")
    is_ranked_by(bm25(["delay", "effect", "pattern", "note"], every, every), found, str)
    assert len(found.candidates) > 20
    assert found.statistics is not None
    assert found.statistics.chunks == len(every)


POSITIONS = st.sets(st.integers(1, 300), max_size=12)
WORD = st.tuples(POSITIONS, POSITIONS)
VECTORS = st.lists(st.dictionaries(st.sampled_from("abcde"), WORD, max_size=5), min_size=1, max_size=8)


def written(words: Mapping[str, tuple[set[int], set[int]]]) -> str:
    """A tsvector of words with their places in headings and in text; neither: a word without places."""

    def places(headings: set[int], text: set[int]) -> str:
        every = [*(f"{place}A" for place in headings), *(str(place) for place in text - headings)]
        return f":{','.join(every)}" if every else ""

    return " ".join(f"{word}{places(*where)}" for word, where in words.items())


@examples(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=max(10, examples.default.max_examples // 4),
    deadline=None,
)
@given(VECTORS, st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4, unique=True))
def test_any_tsvectors_are_ranked_as_by_brute_force(
    pieces: Settings, admin: Admin, vectors: list[dict[str, tuple[set[int], set[int]]]], query: list[str]
) -> None:
    """Headings before, after or among the text, words without places, documents without words."""
    admin.execute("TRUNCATE pieces")
    write(admin, {nr: written(words) for nr, words in enumerate(vectors)})
    count(admin, pieces)
    kept = documents(admin)
    # A chunk without words counts towards the mean length, and holds none.
    every = {**{str(nr): Document({}, {}) for nr in range(len(vectors))}, **kept}
    expected = bm25(query, kept, every) if any(one.length for one in every.values()) else {}
    is_ranked_by(expected, find(pieces, " ".join(query)))


def test_each_number_of_occurrences_is_counted(pieces: Settings, admin: Admin) -> None:
    """Up to 255, the most places that a tsvector keeps of a word, in text and in headings, whatever else is there."""
    numbers = [*range(1, 40), 63, 64, 100, 127, 128, 200, 253, 254, 255]
    text = {n: f"other:1 word:{','.join(str(2 + place) for place in range(n))}" for n in numbers}
    headings = {1000 + n: f"word:{','.join(f'{2 + place}A' for place in range(n))} other:900" for n in numbers}
    write(admin, {**text, **headings})
    count(admin, pieces)
    every = documents(admin)
    assert {one.counts["word"] for one in every.values()} == {*numbers}
    is_ranked_by(bm25(["word"], every, every), find(pieces, "word"))


def test_ties_are_cut_by_id_and_never_by_the_plan(pieces: Settings, admin: Admin) -> None:
    """A thousand equal chunks: the lowest ids, as numbers, in whatever order they were stored."""
    write(admin, dict.fromkeys(np.random.default_rng(20).permutation(1000).tolist(), "word:1 other:2"))
    count(admin, pieces)
    assert [one.chunk.id for one in find(pieces, "word other", k=12).candidates] == [str(nr) for nr in range(12)]


def test_a_rare_word_outweighs_common_ones(pieces: Settings, admin: Admin) -> None:
    """Of two chunks with one word each, the one with the rarer word comes first, which `ts_rank_cd` can't do."""
    write(admin, dict.fromkeys(range(1, 50), "common:1 rest:2"))
    write(admin, {50: "rare:1 rest:2"})
    count(admin, pieces)
    assert find(pieces, "common rare").candidates[0].chunk.id == "50"


WORDS = [f"w{nr}" for nr in range(60)]
QUERY_WORDS = st.lists(st.sampled_from([*WORDS, "nowhere"]), min_size=1, max_size=24)
OPERATORS = st.sampled_from([" ", " ", " or ", " -", ' "w1 w2" '])


@pytest.mark.parametrize("pieces", ["signatures"], indirect=True)
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.integers(0, 2**32), QUERY_WORDS, OPERATORS, st.integers(1, 12), st.booleans(), st.booleans())
def test_what_cannot_reach_the_cut_is_not_ranked_and_changes_nothing(
    pieces: Settings,
    admin: Admin,
    seed: int,
    words: list[str],
    operator: str,
    k: int,
    is_counted: bool,
    web_search: bool,
) -> None:
    """By signatures, the list is that of ranking all: ids, scores, order and method, for any corpus and query."""
    rng = np.random.default_rng(seed)
    admin.execute("TRUNCATE pieces")
    admin.execute("DELETE FROM retrieval.text_statistics")
    often = np.arange(1, len(WORDS) + 1) ** -rng.uniform(0, 1.5)
    texts = [rng.choice(WORDS, rng.integers(1, 40), p=often / often.sum()) for _ in range(200)]
    weights = rng.choice(["A", ""], 200, p=[0.2, 0.8])
    write(
        admin,
        {
            nr: " ".join(f"{word}:{place}{weight}" for place, word in enumerate(text, 1))
            for nr, (text, weight) in enumerate(zip(texts, weights, strict=True))
        },
        owner="alice" if seed % 2 else "bob",
    )
    write(admin, {1000 + nr: f"w{nr % 60}:1,2,3 w{nr % 7}:4" for nr in range(200)})
    if is_counted:
        count(admin, pieces)
    corpus = pieces.corpora["pieces"]
    with contextlib.closing(Database(pieces)) as database:
        by_column = {}
        for column in (None, "bits"):
            columns = corpus.columns.model_copy(update={"text_signature": column})
            changed = corpus.model_copy(update={"columns": columns})
            searched = Corpus("pieces", changed, pieces.search, database.types["pieces"])
            query = operator.join(words)
            wanted = FullTextSearch(searched, query, QUERY, k, NO_FILTERS, web_search=web_search)
            (found,) = search(database, asker("alice"), [wanted])
            by_column[column] = ([one.chunk.id for one in found.candidates], found.scores, found.method)
    assert by_column["bits"] == by_column[None]


# --- statistics ---------------------------------------------------------------------------------


def test_hidden_rows_count_and_are_never_found(pieces: Settings, admin: Admin) -> None:
    """Statistics are of all rows, so two callers weigh words alike; each finds only what he may see."""
    write(admin, {nr: f"word:1 w{nr}:2" for nr in range(10)})
    write(admin, {100 + nr: "word:1 secret:2" for nr in range(50)}, owner="bob")
    count(admin, pieces)
    every = documents(admin)
    alices = {nr: one for nr, one in every.items() if int(nr) < 100}
    is_ranked_by(bm25(["word", "secret"], alices, every), find(pieces, "word secret"))
    bobs = {nr: one for nr, one in every.items() if int(nr) >= 100}
    is_ranked_by(bm25(["word", "w3"], bobs, every), find(pieces, "word w3", "bob"))


def test_stale_statistics_rank_new_words_as_unknown(pieces: Settings, admin: Admin) -> None:
    """Until the next count a new row changes no weight; its new words weigh as words that no chunk has."""
    write(admin, dict.fromkeys(range(10), "word:1 old:2"))
    count(admin, pieces)
    before = documents(admin)
    write(admin, {10: "word:1 new:2 new2:3"})
    found = find(pieces, "word new")
    is_ranked_by(bm25(["word", "new"], documents(admin), before), found)
    assert found.candidates[0].chunk.id == "10"
    assert found.statistics is not None
    assert found.statistics.chunks == 10
    count(admin, pieces)
    every = documents(admin)
    is_ranked_by(bm25(["word", "new"], every, every), find(pieces, "word new"))


def test_words_that_are_gone_are_forgotten(pieces: Settings, admin: Admin) -> None:
    """A count leaves just the words of now; another one of the same rows changes nothing."""
    write(admin, {1: "old:1", 2: "kept:1 old:2"})
    count(admin, pieces)
    admin.execute("UPDATE pieces SET words = 'kept:1' ")
    for _ in range(2):
        count(admin, pieces)
        assert admin.execute(
            "SELECT term, t.chunks FROM retrieval.term_statistics t"
            " JOIN retrieval.text_statistics s ON s.id = t.statistics WHERE corpus = 'pieces'"
        ).fetchall() == [("kept", 2)]


def test_without_statistics_all_words_weigh_the_same(pieces: Settings, admin: Admin) -> None:
    """Never counted, or no tables for it: occurrences alone decide, and neither is an error."""
    write(admin, {1: "word:1", 2: "word:1,2 rest:3,4,5,6,7", 3: "other:1A word:2"})
    for prepare in ("", "DROP TABLE retrieval.term_statistics, retrieval.text_statistics"):
        admin.execute(prepare.encode() or b"SELECT")
        found = find(pieces, "word other")
        assert found.statistics is None
        assert [one.chunk.id for one in found.candidates] == ["3", "2", "1"]
        assert found.scores == pytest.approx([3 / 4.2 + 1 / 2.2, 2 / 3.2, 1 / 2.2])
    assert "never counted" in "".join(one.text for one in examine(pieces))


def test_a_tenant_is_ranked_by_its_own_words(make_settings: MakeSettings, database: str, admin: Admin) -> None:
    """With a tenant column other tenants' rows weigh nothing; a tenant that was not counted has the whole corpus'."""
    admin.execute(PIECES)
    columns = {"tenant_column": "tenant", "tenant_setting": "app.tenant_id"}
    settings = make_settings(database, corpora={"pieces": {**CORPUS, **columns}})
    write(admin, {nr: f"word:1 w{nr}:2" for nr in range(5)}, tenant="100%s' one")
    write(admin, {10 + nr: "word:1 rare:2 and:3 more:4" for nr in range(20)}, owner="bob", tenant="two")
    write(admin, {50: "word:1 rare:2"})
    count(admin, settings)
    every = documents(admin)
    alices = {nr: one for nr, one in every.items() if int(nr) < 10 or nr == "50"}
    ones = {nr: one for nr, one in every.items() if int(nr) < 10}
    found = find(settings, "word rare", tenant="100%s' one")
    is_ranked_by(bm25(["word", "rare"], alices, ones), found)
    assert found.statistics is not None
    assert (found.statistics.chunks, found.statistics.of_tenant) == (5, True)
    for unknown in ("three", ""):
        found = find(settings, "word rare", tenant=unknown)
        is_ranked_by(bm25(["word", "rare"], alices, every), found)
        assert found.statistics is not None
        assert (found.statistics.chunks, found.statistics.of_tenant) == (26, False)
    admin.execute("UPDATE pieces SET tenant = 'two'")
    count(admin, settings)
    assert find(settings, "word rare", tenant="100%s' one").statistics.of_tenant is False


def test_a_role_that_sees_only_some_rows_may_not_count(pieces: Settings, admin: Admin) -> None:
    """A count over what policies let a role see would be wrong in silence: it is refused, and nothing changes."""
    write(admin, {1: "word:1"})
    count(admin, pieces)
    admin.execute("CREATE ROLE counter LOGIN")
    try:
        admin.execute("GRANT USAGE ON SCHEMA retrieval TO counter")
        admin.execute("GRANT ALL ON pieces, retrieval.text_statistics, retrieval.term_statistics TO counter")
        refused = pytest.raises(SettingsError, match=r"must read every row of public\.pieces")
        with psycopg.connect(admin.info.dsn, user="counter", autocommit=True) as connection, refused:
            count(connection, pieces)
        assert find(pieces, "word").statistics is not None
    finally:
        admin.execute("DROP OWNED BY counter")
        admin.execute("DROP ROLE counter")


# --- common words -------------------------------------------------------------------------------


@pytest.fixture
def bounded(make_settings: MakeSettings, database: str, admin: Admin, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A hundred chunks, of which ten may be ranked."""
    monkeypatch.setattr(fulltext_sql, "RANKED_CHUNKS", 10)
    admin.execute(PIECES)
    corpus = {**CORPUS, "columns": {**CORPUS["columns"], "text_signature": "bits"}}
    settings = make_settings(database, corpora={"pieces": corpus})
    write(admin, {nr: f"common:1 tenth{nr % 10}:2 half{nr % 2}:3 r{nr}:4" for nr in range(100)})
    count(admin, settings)
    return settings


@pytest.mark.parametrize(
    ("text", "method", "found"),
    [
        ("r7", "all_words", ["7"]),
        ("common nowhere", "rare_words", []),
        ("common r7 nowhere", "rare_words", ["7"]),
        ("common r7 r8", "rare_words", ["7", "8"]),
        ("r7 r8", "any_word", ["7", "8"]),
        ("common", "common_words", []),
        ("-common", "no_words", []),
        ("!? ... -", "no_words", []),
        ("common or r7", "rare_words", ["7"]),
        ('"common nothing"', "rare_words", []),
        ("common half1", "common_words", []),
        ("half1 -half1", "common_words", []),
        ("common half1 -nowhere", "common_words", []),
        ("r7 r8 -r8", "any_word", ["7"]),
    ],
)
def test_words_that_match_too_much_are_left_out(bounded: Settings, text: str, method: str, found: list[str]) -> None:
    """The rarest words that fit are searched, and the method says whether any were left out."""
    result = find(bounded, text, web_search=True)
    assert (result.method, [one.chunk.id for one in result.candidates]) == (method, found)


def test_left_out_words_still_weigh(bounded: Settings, admin: Admin) -> None:
    """A chunk found by its rare words has the score of the whole query."""
    write(admin, {200: "r7:1 rest:2 rest2:3 rest4:4"})
    found = find(bounded, "common r7")
    counted = {nr: one for nr, one in documents(admin).items() if nr != "200"}
    few = {nr: one for nr, one in documents(admin).items() if nr in {"7", "200"}}
    assert found.method == "rare_words"
    is_ranked_by(bm25(["common", "r7"], few, counted), found)


def test_who_sees_few_documents_is_not_bounded(
    make_settings: MakeSettings, database: str, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a caller's own chunks are few, common words cost little: they are searched."""
    monkeypatch.setattr(fulltext_sql, "RANKED_CHUNKS", 1)
    settings = make_settings(database, search={"exact_rows": 0})
    register_vector(admin)
    admin.execute("INSERT INTO documents (id, owner_id) VALUES ('of-zoe', 'zoe'), ('of-max', 'max')")
    for owner, how_many in (("zoe", 3), ("max", 300)):
        admin.execute(
            "INSERT INTO document_chunks (id, document_id, text_content)"
            " SELECT %s || i, %s, 'zither' FROM generate_series(1, %s) AS i",
            (owner, f"of-{owner}", how_many),
        )
    admin.execute("VACUUM ANALYZE documents, document_chunks")
    count(admin, settings, "documents")
    assert find(settings, "zither", "zoe", corpus="documents").method == "all_words"
    assert len(find(settings, "zither", "zoe", corpus="documents").candidates) == 3


def test_many_words_are_found_by_their_signatures(pieces: Settings, admin: Admin) -> None:
    """Twenty words are compared with signatures at once, few one by one: both find each chunk that has any."""
    write(admin, {nr: f"w{nr}:1 rest:2" for nr in range(40)})
    count(admin, pieces)
    for how_many in (1, 2, 6, 7, 20):
        words = [f"w{nr}" for nr in range(how_many)]
        every = documents(admin)
        is_ranked_by(bm25(words, every, every), find(pieces, " or ".join(words)))
        is_ranked_by(bm25(words, every, every), find(pieces, " ".join(words)))


def test_signatures_of_other_words_are_refused(make_settings: MakeSettings, database: str, admin: Admin) -> None:
    """A count notices that a signature lacks a word: searches would miss the chunk."""
    admin.execute(PIECES)
    admin.execute("ALTER TABLE pieces DROP COLUMN bits")
    signed = {**CORPUS, "columns": {**CORPUS["columns"], "text_signature": "bits"}}
    settings = make_settings(database, corpora={"pieces": signed})
    write(admin, {1: "word:1"})
    count(admin, settings)
    admin.execute("ALTER TABLE pieces ADD COLUMN bits bit(2048) DEFAULT retrieval.text_signature('other')")
    with pytest.raises(SettingsError, match=r"public\.pieces\.bits lacks words of its chunk"):
        count(admin, settings)


SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.doc_embeddings (embedding_id bigint PRIMARY KEY, article_id text NOT NULL, tenant_id text NOT NULL,
                                  body text NOT NULL, vec vector(768));
GRANT USAGE ON SCHEMA shop TO retrieval_worker;
GRANT SELECT ON shop.doc_embeddings TO retrieval_worker;
ALTER TABLE shop.doc_embeddings ENABLE ROW LEVEL SECURITY;
CREATE POLICY worker_reads ON shop.doc_embeddings FOR SELECT TO retrieval_worker
  USING (tenant_id = (SELECT nullif(current_setting('app.tenant_id', true), '')));
INSERT INTO shop.doc_embeddings VALUES (1, 'a', 't1', 'Die Saiten'), (2, 'a', 't1', 'Saite um Saite'),
                                       (3, 'b', 't2', 'Saiten');
"""


def test_the_commands_of_the_docs_prepare_a_table(make_settings: MakeSettings, database: str, admin: Admin) -> None:
    """docs/full-text.md: its SQL and its settings, as they stand there, make a table of one's own searchable."""
    page = (Path(__file__).parents[2] / "docs" / "full-text.md").read_text()
    admin.execute(SHOP)
    for block in re.findall(r"```sql\n(ALTER TABLE.*?)```", page, re.DOTALL):
        admin.execute(block.encode())
    corpus: dict[str, Any] = {}
    for block in re.findall(r"```toml\n(.*?)```", page, re.DOTALL):
        corpus |= tomllib.loads(block)["corpora"]["articles"]
    columns = {"id": "embedding_id", "document_id": "article_id", "text": "body", "embedding": "vec"}
    corpus |= {
        "table": "shop.doc_embeddings",
        "columns": {**columns, **corpus["columns"], "text_signature": "text_signature"},
    }
    settings = make_settings(database, corpora={"articles": corpus})
    count(admin, settings, "articles")
    found = find(settings, "die saiten", corpus="articles", tenant="t1")
    assert [one.chunk.id for one in found.candidates] == ["2", "1"]
    assert found.statistics is not None
    assert found.statistics.of_tenant


# --- what is said of it -------------------------------------------------------------------------


def test_the_trace_has_the_statistics(settings: Settings) -> None:
    """Number of chunks and age, for each corpus of a sparse leg, of a hybrid retrieval and of the pipeline."""
    engine = Engine(settings, lambda: 0.0)
    with contextlib.closing(engine):
        job = {"query": "delay effect", "searches": [{"corpus": "docs", "top_k": 3}], "legs": ["primary", "sparse"]}
        answer = engine.hybrid.retrieve(parse_job(RetrieveHybrid, job), JobContext(lambda: asker("alice")))
        primary, sparse = json.loads(json.dumps(answer["trace"]["search"]["legs"]))
        assert "statistics" not in primary
        ((statistics),) = sparse["statistics"]
        assert statistics["chunks"] > 100
        assert statistics["age_seconds"] >= 0
        found = ask(engine, question="delay effect", mode="code", context=CODE)["trace"]["search"]["statistics"]
        assert found
        assert all(one["of_tenant"] is False for leg in found.values() for one in leg)


@pytest.mark.usefixtures("pieces")
def test_the_command_counts_and_says_what(
    admin: Admin, capsys: pytest.CaptureFixture[str], tmp_path: Any, stack: Any, database: str
) -> None:
    """`statistics`: a line or JSON for each corpus; an unknown corpus is wrong usage, an unreadable one settings."""
    write(admin, {1: "word:1 rest:2", 2: "word:1"})
    config = tmp_path / "worker.toml"
    columns = "\n".join(f'{name} = "{column}"' for name, column in CORPUS["columns"].items())
    config.write_text(f'[corpora.pieces]\ntable = "public.pieces"\n[corpora.pieces.columns]\n{columns}\n')
    run = command_line(
        capsys,
        {
            "RETRIEVAL_WORKER_CONFIG": str(config),
            "MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database),
        },
    )
    assert run("statistics").stdout == "pieces: 2 chunks, 2 words, 1.5 in a chunk\n"
    assert json.loads(run("statistics", "pieces", "--json").stdout) == {
        "statistics": [{"corpus": "pieces", "tenant": "", "chunks": 2, "terms": 2, "mean_length": 1.5}]
    }
    wrong = run("statistics", "nowhere")
    assert (wrong.returncode, "there is no corpus nowhere" in wrong.stderr) == (2, True)
    admin.execute("ALTER TABLE pieces RENAME TO moved")
    gone = run("statistics")
    assert (gone.returncode, "public.pieces" in gone.stderr) == (78, True)
    assert run("statistics", "--dsn", "postgresql://nobody@127.0.0.1:1/x").returncode == 69
