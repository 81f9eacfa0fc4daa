"""The sparse leg on a real Postgres: what it looks for, in which order, for whom."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from pgvector.psycopg import register_vector
from tests.integration.asking import asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveHybrid
from retrieval_client.contract.results import Hybrid
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.fulltext import MAX_CHARACTERS, FullTextSearch
from worker.adapters.postgres.fulltext_sql import best_matching
from worker.adapters.postgres.search import Corpus, search
from worker.adapters.postgres.text_statistics import refresh
from worker.cli.doctor import LEAKPROOF, examine
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import NO_FILTERS, FilterSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from worker.adapters.postgres.search import SearchResult
    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]

QUERY = lexical.embed(["zither"])[0]


class Asked:
    """One corpus, asked as a leg asks it."""

    def __init__(self, settings: Settings, corpus: str = "documents") -> None:
        self.database = Database(settings)
        types = self.database.types[corpus]
        self.corpus = Corpus(corpus, settings.corpora[corpus], settings.search, types)

    def find(
        self,
        text: str,
        user: str = "alice",
        *,
        k: int = 50,
        filters: FilterSet = NO_FILTERS,
        vectors: bool = False,
        web_search: bool = False,
    ) -> SearchResult:
        asked = FullTextSearch(self.corpus, text, QUERY, k, filters, vectors, web_search=web_search)
        (found,) = search(self.database, asker(user), [asked])
        return found

    def ids(self, text: str, user: str = "alice", **fields: Any) -> list[str]:
        return [candidate.chunk.id for candidate in self.find(text, user, **fields).candidates]


@pytest.fixture
def asked(settings: Settings) -> Iterator[Asked]:
    """The sample's documents, and those that a test adds."""
    made = Asked(settings)
    yield made
    made.database.close()


def add(admin: Admin, owner: str, texts: dict[str, str], embedding: Any = QUERY, **columns: Any) -> None:
    """A document of ``owner`` whose chunks say this."""
    register_vector(admin)
    admin.execute(
        "INSERT INTO documents (id, owner_id, path) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
        (f"of-{owner}", owner, f"notes/{owner}.md"),
    )
    for chunk_id, text in texts.items():
        admin.execute(
            "INSERT INTO document_chunks (id, document_id, text_content, page, section, metadata, embedding)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (
                chunk_id,
                f"of-{owner}",
                text,
                columns.get("page"),
                columns.get("section"),
                json.dumps(columns.get("metadata", {})),
                embedding,
            ),
        )


# --- what is looked for -------------------------------------------------------------------------

NOTES = {
    "n1": "A zither and a drone.",
    "n2": "A zither, tuned; a zither, played.",
    "n3": "The drone alone, tuned to the hurdy-gurdy.",
    "n4": "Tuned forks.",
}


def test_the_first_2000_characters_of_a_query_are_searched(asked: Asked, admin: Admin) -> None:
    """The rest, which begins within a word or not, changes nothing."""
    add(admin, "alice", NOTES)
    assert asked.ids("hurdy " * 333 + "x zither") == asked.ids("hurdy") == ["n3"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zither drone", ["n1"]),
        ("zither", ["n2", "n1"]),
        ("ZITHERS", ["n2", "n1"]),
        ('"hurdy zither"', []),
        ('"drone alone"', ["n3"]),
        ('"drone alone" zither', ["n3"]),
        ('"hurdy zither" drone', []),
        ('"hurdy zither" drone or forks nowhere', ["n4"]),
        ("hurdy-gurdy zither", ["n3", "n2", "n1"]),
        ("zither -drone", ["n2"]),
        ("forks or hurdy", ["n4", "n3"]),
        ("zither nowhere", ["n2", "n1"]),
        ("zither drone nowhere -played", ["n1", "n3"]),
        ('zither nowhere -"zither tuned"', ["n1"]),
        ("--zither ----------", ["n2", "n1"]),
        ("nowhere", []),
        ("nowhere neither", []),
        ("-zither", []),
        ("", []),
        ("zither.drone", ["n1", "n2", "n3"]),
    ],
)
def test_web_search_syntax(asked: Asked, admin: Admin, text: str, expected: list[str]) -> None:
    """Phrases, `or`, `-`; where nothing has all words any word, best first, but with each phrase, nothing excluded."""
    add(admin, "zoe", NOTES)
    assert asked.ids(text, "zoe", web_search=True) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zither drone", ["n1", "n2", "n3"]),
        ("zither or drone", ["n1", "n2", "n3"]),
        ('"zither" drone', ["n1", "n2", "n3"]),
        ("Is it 'hurdy' or rather forks?", ["n4", "n3"]),
        ("zither -drone", ["n1", "n2", "n3"]),
        ("hurdy -forks", ["n4", "n3"]),
        ("-zither", ["n2", "n1"]),
        ("zither & !drone | (forks:*", ["n1", "n2", "n4", "n3"]),
        ("zither nowhere", ["n2", "n1"]),
        ("nowhere neither", []),
        ("", []),
        ("zither.drone", ["n1", "n2", "n3"]),
    ],
)
def test_a_question_has_words_and_no_operators(asked: Asked, admin: Admin, text: str, expected: list[str]) -> None:
    """`or`, a hyphen, quotation marks and all that a query language has: chunks with any of the words, best first."""
    add(admin, "zoe", NOTES)
    assert asked.ids(text, "zoe") == expected


def test_which_of_the_two_it_was_is_said(asked: Asked, admin: Admin) -> None:
    """The trace tells an answer to all words from one to any."""
    add(admin, "zoe", NOTES)
    refresh(admin, "documents", asked.corpus.settings)
    assert asked.find("zither drone", "zoe", k=1).method == "all_words"
    assert asked.find("zither drone", "zoe", k=2).method == "any_word"
    assert asked.find("zither nowhere", "zoe").method == "any_word"


def test_the_highest_score_comes_first_and_ties_go_by_id(asked: Asked, admin: Admin) -> None:
    """More of the word, then fewer of others; of equal chunks the lower id, at the cut as well."""
    add(admin, "zoe", {"t10": "zither", "t9": "zither zither", "t1": "zither", "T2": "zither"})
    found = asked.find("zither", "zoe")
    assert [candidate.chunk.id for candidate in found.candidates] == ["t9", "T2", "t1", "t10"]
    best, *others = found.scores
    assert best > others[0]
    assert len({*others}) == 1
    assert asked.ids("zither", "zoe", k=2) == ["t9", "T2"]


def test_similarity_comes_with_it_where_there_is_a_vector(asked: Asked, admin: Admin) -> None:
    """A chunk without a vector, or with a zero one, is found all the same; its similarity is unknown."""
    other = np.roll(QUERY, 1)
    add(admin, "zoe", {"v1": "zither"}, QUERY)
    add(admin, "zoe", {"v2": "zither"}, other)
    add(admin, "zoe", {"v3": "zither"}, None)
    add(admin, "zoe", {"v4": "zither"}, np.zeros(768, dtype=np.float32))
    v1, v2, v3, v4 = asked.find("zither", "zoe", vectors=True).candidates
    assert v1.similarity == pytest.approx(1.0)
    assert v2.similarity == pytest.approx(float(QUERY @ other), abs=1e-6)
    assert (v3.similarity, v4.similarity) == (None, None)
    assert v3.embedding is None
    assert v2.embedding == pytest.approx(other, abs=1e-7)
    assert all(candidate.embedding is None for candidate in asked.find("zither", "zoe").candidates)


# --- any text -----------------------------------------------------------------------------------

HOSTILE = [
    "zither ' \\ \" & | ! ( ) <-> :* \\' ''",
    "'; DROP zither; -- ",
    "zither %s %(s)s {} @@",
    "zither \U0001f3b5 \u202e ß ﬁ \u00a0",
    "zither " + "\ufdfa" * 1990,
    "zither " + "".join(map(chr, range(0x3300, 0x3358))) * 22,
    "zither " + "e\u0301\u0323" * 660,
    "!!! &&& ||| ((( zither",
    "zither:*A",
    "-" * 1000 + " zither",
    "- " * 500 + "zither",
    '-""' * 300 + " zither",
    "-(" * 300 + " zither",
    "z" * 1900 + " zither",
    "zither " * 14_285,
    "zither " + " ".join(f"word{i}" for i in range(12_000)),
    "zither-" * 14_285,
    "zither " + '"' * 99_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[str(i) for i in range(len(HOSTILE))])
@pytest.mark.parametrize("web_search", [False, True])
def test_hostile_text_is_only_text(asked: Asked, admin: Admin, text: str, web_search: bool) -> None:
    """Quotes, operators, SQL, 100,000 characters: never an error, and the word among them is found."""
    add(admin, "zoe", {"n1": "zither"})
    assert asked.ids(text, "zoe", web_search=web_search) == ["n1"]


def test_only_the_beginning_of_a_long_text_is_looked_for(asked: Asked, admin: Admin) -> None:
    """The limit is a number of characters; the word at its edge is not cut in two."""
    add(admin, "zoe", {"n1": "zither", "n2": "zith"})
    start = "zither " * (MAX_CHARACTERS // 7 - 1)
    assert asked.ids(f"{start.ljust(MAX_CHARACTERS - 4, '.')} zither", "zoe") == ["n1"]
    assert asked.ids("." * MAX_CHARACTERS + " zither", "zoe") == []


# Postgres can hold all but U+0000 and lone surrogates, which no job gets in.
ANY = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60)
SIGNS = st.text(st.sampled_from("- \"()&|!<>:*'\\aor./@"), max_size=300)


@examples(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=10 * examples.default.max_examples,
    deadline=None,
)
@given(ANY | SIGNS)
@example("-" * 33)
@example('- -"" ' * 20)
def test_any_text_can_be_looked_for(asked: Asked, text: str) -> None:
    """Any text that Postgres can hold is a query: as words, in web search syntax, and there as an excluded term."""
    asked.find(text)
    asked.find(text, web_search=True)
    asked.find(f"{text} nowhere -{text}", web_search=True)


def test_words_that_hold_quotes_stay_words(asked: Asked, admin: Admin) -> None:
    """The parser keeps a quote within an address: in the second query it is still one word, and data."""
    add(admin, "zoe", {"n1": "See example.com/it's there.", "n2": "See it there."})
    assert asked.find("example.com/it's nowhere", "zoe").method == "any_word"
    assert asked.ids("example.com/it's nowhere", "zoe") == ["n1"]
    assert asked.ids("see nowhere -example.com/it's", "zoe", web_search=True) == ["n2"]


# --- filters and rights -------------------------------------------------------------------------

FILTERS = [
    FilterSet(document_ids=("of-zoe", "' OR true")),
    FilterSet(document_ids=()),
    FilterSet(sections=("Strings",)),
    FilterSet(pages=(2, 3)),
    FilterSet(path_contains=("notes/",)),
    FilterSet(ext_allow=(".MD",)),
    FilterSet(ext_deny=("md",)),
    FilterSet(metadata={"kind": "b"}),
    FilterSet(pages=(2,), metadata={"kind": "b"}, ext_allow=("md",)),
]


def kept(filters: FilterSet, chunk: Any) -> bool:
    """The same filter in Python; every chunk of these tests is of the document notes/zoe.md."""
    return (
        (filters.document_ids is None or chunk.document_id in filters.document_ids)
        and (filters.sections is None or chunk.section in filters.sections)
        and (filters.pages is None or chunk.page in filters.pages)
        and filters.ext_deny is None
        and all(chunk.metadata.get(key) == value for key, value in (filters.metadata or {}).items())
    )


@pytest.mark.parametrize("text", ["zither", "zither nowhere"])
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_every_filter_narrows_it(asked: Asked, admin: Admin, filters: FilterSet, text: str) -> None:
    """All that a dense search can be narrowed to; a filter may leave only chunks that have not all words."""
    add(admin, "zoe", {"n1": "zither a", "n2": "zither b"}, page=2, section="Strings", metadata={"kind": "a"})
    add(admin, "zoe", {"n3": "zither c", "n4": "zither d"}, page=3, section="Others", metadata={"kind": "b"})
    everything = asked.find(text, "zoe").candidates
    assert len(everything) == 4
    expected = [candidate.chunk.id for candidate in everything if kept(filters, candidate.chunk)]
    assert asked.ids(text, "zoe", filters=filters) == expected


def test_statements_hold_no_values(asked: Asked) -> None:
    """Values from callers are parameters: the statement is the same object for any value."""
    one = FilterSet(document_ids=("a",), sections=("b",), metadata={"k": 1})
    other = FilterSet(document_ids=("'; --",), sections=("%s",), metadata={"; DROP": "x"})
    statements = asked.corpus.statements
    assert best_matching(statements, one, vectors=False) is best_matching(statements, other, vectors=False)
    assert best_matching(statements, one, vectors=True) != best_matching(statements, one, vectors=False)


def test_two_callers_never_see_each_others_chunks_nor_their_weight(asked: Asked, admin: Admin) -> None:
    """Rows, order and scores are the same whether another caller has a thousand chunks with the word, or none."""
    add(admin, "zoe", {"z1": "zither zither", "z2": "zither"})
    before = asked.find("zither nowhere", "zoe")
    add(admin, "bob", {f"b{i}": "zither nowhere zither" for i in range(1000)})
    admin.execute("ANALYZE documents, document_chunks")
    after = asked.find("zither nowhere", "zoe")
    assert [candidate.chunk.id for candidate in after.candidates] == ["z1", "z2"]
    assert (after.candidates, after.scores, after.method) == (before.candidates, before.scores, before.method)
    assert {chunk_id[0] for chunk_id in asked.ids("zither nowhere", "bob")} == {"b"}
    assert asked.ids("zither", "nobody") == []
    assert asked.ids("zither", "") == []


# --- a backend's own tables ---------------------------------------------------------------------

PIECES = {
    "table": "public.pieces",
    "language": "german",
    "columns": {"id": "nr", "document_id": "opus", "text": "words", "embedding": "vec"},
}
OWN = """
CREATE TABLE pieces (nr bigint PRIMARY KEY, opus uuid NOT NULL, tenant text NOT NULL, words text NOT NULL,
                     vec vector(768));
ALTER TABLE pieces ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_user ON pieces USING (tenant = (SELECT nullif(current_setting('app.user_id', true), '')));
GRANT SELECT ON pieces TO retrieval_worker;
"""


@pytest.fixture
def own(make_settings: MakeSettings, database: str, admin: Admin) -> Settings:
    """A table without a column for full-text search, whose ids are numbers."""
    admin.execute(OWN)
    rows = [(10, "red", "Die Saiten der Zither"), (9, "red", "Saite um Saite"), (8, "blue", "Saiten")]
    for nr, tenant, words in rows:
        opus = "00000000-0000-0000-0000-000000000001"
        admin.execute("INSERT INTO pieces VALUES (%s, %s, %s, %s, NULL)", (nr, opus, tenant, words))
    return make_settings(database, corpora={"pieces": PIECES})


def test_without_a_column_the_texts_themselves_are_searched(own: Settings) -> None:
    """Slower, and right: in the corpus's language, only what the caller may see, ids by value."""
    asked = Asked(own, "pieces")
    assert asked.ids("saiten", "red") == ["9", "10"]
    assert asked.ids('die "zithern" saite', "red", web_search=True) == ["10"]
    assert asked.ids("saiten", "blue") == ["8"]
    assert asked.ids("saiten", "red", filters=FilterSet(document_ids=("no uuid",))) == []
    asked.database.close()


def test_the_doctor_says_how_to_make_it_fast(own: Settings, settings: Settings, admin: Admin) -> None:
    """A missing column, a missing index and the leakproof option each come with their command."""

    def advice(about: Settings, subject: str) -> str:
        return "\n".join(found.text for found in examine(about) if found.subject == f"corpus {subject}")

    assert "GENERATED ALWAYS AS (retrieval.text_vector('retrieval.german'::regconfig, words)) STORED" in advice(
        own, "pieces"
    )
    assert LEAKPROOF in advice(settings, "documents")
    assert LEAKPROOF not in advice(settings, "docs"), "everybody sees all of it: the index is used"
    assert "USING gin" not in advice(settings, "documents")
    admin.execute("DROP INDEX document_chunks_text_idx")
    admin.execute(LEAKPROOF)
    assert "CREATE INDEX CONCURRENTLY ON document_chunks USING gin (text_search)" in advice(settings, "documents")
    assert LEAKPROOF not in advice(settings, "documents")


def test_the_doctors_command_makes_a_column_that_can_be_mapped(
    own: Settings, make_settings: MakeSettings, database: str, admin: Admin
) -> None:
    """The advised command runs as it stands, and the new column finds the same."""
    (text,) = [found.text for found in examine(own) if "text_vector" in found.text]
    admin.execute(text[text.index("ALTER TABLE") : text.index("; then map")])
    columns = {**PIECES["columns"], "text_search": "text_search"}
    mapped = make_settings(database, corpora={"pieces": {**PIECES, "columns": columns}})
    asked = Asked(mapped, "pieces")
    assert asked.ids("saiten", "red") == ["9", "10"]
    asked.database.close()
    assert not [found for found in examine(mapped) if "gin" in found.text]


# --- as a leg -----------------------------------------------------------------------------------


@pytest.fixture
def engine(settings: Settings, admin: Admin) -> Iterator[Engine]:
    """The sample, and a chunk whose word no vector knows."""
    add(admin, "zoe", {"unheard": "The zither stands in the cellar."}, None)
    add(admin, "zoe", {"heard": "A zither, a zither."}, QUERY)
    made = Engine(settings, time.perf_counter)
    yield made
    made.close()


def ask(engine: Engine, **fields: Any) -> dict[str, Any]:
    job = {"query": "zither", "searches": [{"corpus": "documents", "top_k": 3}], **fields}
    answer = engine.hybrid.retrieve(parse_job(RetrieveHybrid, job), JobContext(lambda: asker("zoe")))
    Hybrid.model_validate(json.loads(json.dumps(answer)))
    return answer


def chunks(answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {chunk["chunk_id"]: chunk for chunk in answer["results"]["documents"]["chunks"]}


def test_sparse_alone(engine: Engine) -> None:
    """The one leg's order is the answer's; an unknown similarity is null."""
    answer = ask(engine, legs=["sparse"], fusion="rrf")
    assert [*chunks(answer)] == ["heard", "unheard"]
    assert chunks(answer)["heard"]["similarity_score"] == pytest.approx(1.0)
    assert chunks(answer)["unheard"]["similarity_score"] is None
    assert answer["metrics"]["documents"]["sparse_count"] == 2
    assert answer["trace"]["search"]["legs"][0]["methods"] == ["all_words"]


def test_web_search_syntax_is_the_jobs_choice(engine: Engine) -> None:
    """All of a question is words; a hyphen excludes only where the job says so."""
    assert [*chunks(ask(engine, query="tar -cellar", legs=["sparse"], fusion="rrf"))] == ["unheard"]
    asked = {"query": "zither -cellar", "legs": ["sparse"], "fusion": "rrf"}
    assert {*chunks(ask(engine, **asked))} == {"heard", "unheard"}
    assert [*chunks(ask(engine, **asked, web_search=True))] == ["heard"]


@pytest.mark.parametrize("legs", [["primary", "sparse"], ["primary", "contextual", "sparse"]])
def test_a_chunk_that_only_words_find_is_in_the_answer(engine: Engine, legs: list[str]) -> None:
    """It has no vector, so no dense leg can find it; reciprocal ranks put it beside what they found."""
    answer = ask(engine, legs=legs, fusion="rrf", context='note("c e g")')
    found = chunks(answer)
    assert [leg["leg"] for leg in found["unheard"]["scores"]["legs"]] == ["sparse"]
    assert found["unheard"]["scores"]["fused"] == pytest.approx(1 / 62)
    assert "unheard" not in chunks(ask(engine, legs=legs[:-1], fusion="rrf", context='note("c e g")'))
    ranks = {leg["leg"]: leg["rank"] for leg in found["heard"]["scores"]["legs"]}
    assert [*ranks] == legs
    assert found["heard"]["scores"]["fused"] == pytest.approx(sum(1 / (60 + rank) for rank in ranks.values()))


def test_weights_decide_between_words_and_vectors(engine: Engine) -> None:
    """With all the weight on one of them, its scores alone decide."""
    both: dict[str, Any] = {"legs": ["primary", "sparse"], "fusion": "weighted"}
    for leg, other in (("primary", "sparse"), ("sparse", "primary")):
        found = chunks(ask(engine, **both, weights={leg: 1, other: 0})).values()
        scores = [one["score"] for chunk in found for one in chunk["scores"]["legs"] if one["leg"] == leg]
        assert scores == sorted(scores, reverse=True)
        assert len(scores) > 1


def test_a_query_without_words_leaves_the_other_legs_alone(engine: Engine) -> None:
    """Nothing to look for is no failure: the dense leg answers."""
    answer = ask(engine, query="?!", legs=["primary", "sparse"], fusion="rrf")
    assert answer["metrics"]["documents"]["sparse_count"] == 0
    assert len(chunks(answer)) == 3
    alone = ask(engine, query="?!", legs=["sparse"])
    assert alone["results"]["documents"]["status"] == "empty"
    assert alone["trace"]["search"]["legs"][0]["methods"] == ["no_words"]


def test_diversity_takes_chunks_without_a_vector(engine: Engine) -> None:
    """Marginal relevance compares vectors; what has none is like nothing."""
    answer = ask(engine, legs=["primary", "sparse"], fusion="rrf", diversity={"lambda": 0.5})
    assert {"heard", "unheard"} <= chunks(answer).keys()
