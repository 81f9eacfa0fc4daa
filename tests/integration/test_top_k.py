"""`retrieve_top_k` on a real Postgres with the sample corpus, without Celery."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.results import TopK, TopKBatch
from retrieval_client.errors import InvalidJob, NotAuthorised, SettingsError
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.model import Principal
from worker.settings import read_values

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from worker.settings import Settings

QUESTION = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0]


def asker(user: str, tenant: str = "", roles: str = "") -> Principal:
    settings = (("app.user_id", user), ("app.tenant_id", tenant), ("app.roles", roles))
    return Principal({"user_id": user}, settings, user)


@pytest.fixture
def ask(engine: Engine) -> Callable[..., dict[str, Any]]:
    """Asks one question as one caller."""

    def ask_as(user: str | None, query: Any = QUESTION, **fields: Any) -> dict[str, Any]:
        values = query.tolist() if isinstance(query, np.ndarray) else query
        job = parse_job(RetrieveTopK, {"query_embedding": values, **fields})
        return engine.retrieval.top_k(job, JobContext(lambda: asker(user) if user else None))

    return ask_as


def ids(answer: dict[str, Any]) -> list[str]:
    return [chunk["chunk_id"] for chunk in answer["chunks"]]


def oracle(admin: psycopg.Connection[Any], query: Any, visible_to: str) -> list[tuple[str, float]]:
    """All chunks that a user may see by (distance, id), computed with NumPy in float64, rights in Python."""
    rows = admin.execute(
        """
        SELECT c.id, c.embedding::text FROM document_chunks c JOIN documents d ON d.id = c.document_id
         WHERE d.visibility = 'public' OR d.owner_id = %(user)s
            OR d.id IN (SELECT document_id FROM document_grants WHERE grantee = %(user)s)
        """,
        {"user": visible_to},
    ).fetchall()
    unit = np.asarray(query, dtype=np.float64)
    unit /= np.linalg.norm(unit)
    distances = []
    for chunk_id, text in rows:
        vector = np.array(text.strip("[]").split(","), dtype=np.float64)
        distances.append((chunk_id, 1.0 - float(vector @ unit / np.linalg.norm(vector))))
    return sorted(distances, key=lambda pair: (pair[1], pair[0]))


@pytest.mark.parametrize("user", ["alice", "bob", "carol"])
def test_order_equals_a_float64_brute_force_where_distances_differ(
    ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any], user: str
) -> None:
    """The order is NumPy's float64 order wherever distances differ by more than 1e-6, and by id where equal."""
    answer = ask(user, exact=True)
    expected = oracle(admin, QUESTION, user)
    truth = dict(expected)
    assert len(answer["chunks"]) == 15
    for chunk in answer["chunks"]:
        assert chunk["distance"] == pytest.approx(truth[chunk["chunk_id"]], abs=1e-6)
    for before, after in zip(answer["chunks"], answer["chunks"][1:], strict=False):
        assert truth[before["chunk_id"]] <= truth[after["chunk_id"]] + 1e-6
        if before["distance"] == after["distance"]:
            assert before["chunk_id"] < after["chunk_id"]
    assert truth[answer["chunks"][-1]["chunk_id"]] <= expected[14][1] + 1e-6


def test_callers_get_only_what_their_rights_allow(
    ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any]
) -> None:
    """The same question brings each caller chunks that it may see, and none besides."""
    answers = {user: set(ids(ask(user))) for user in ("alice", "bob", "carol")}
    for user, found in answers.items():
        assert found <= {chunk_id for chunk_id, _ in oracle(admin, QUESTION, user)}
    assert len({frozenset(found) for found in answers.values()}) == 3


def test_a_revoked_grant_holds_at_once(ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any]) -> None:
    """Rights are asked of the database for each job."""
    before = ids(ask("bob"))
    assert "report-2023-mixing-desk-005" in before
    admin.execute("DELETE FROM document_grants WHERE document_id = 'report-2023-mixing-desk'")
    assert "report-2023-mixing-desk-005" not in ids(ask("bob"))


def test_tenants_and_roles_open_documents(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """A tenant's document is visible to its tenant; a grant to a role to every caller who has it."""
    opened = "UPDATE documents SET visibility = 'tenant', tenant_id = 'harbour' WHERE id = 'report-2023-ground-hum'"
    admin.execute(opened)
    admin.execute("INSERT INTO document_grants VALUES ('handbook-tape-alignment', 'role:engineer')")
    job = parse_job(RetrieveTopK, {"query_embedding": QUESTION.tolist()})

    def documents(principal: Principal) -> set[str]:
        return {chunk["document_id"] for chunk in engine.retrieval.top_k(job, JobContext(lambda: principal))["chunks"]}

    assert "report-2023-ground-hum" in documents(asker("zoe", tenant="harbour"))
    assert "report-2023-ground-hum" not in documents(asker("zoe", tenant="lighthouse"))
    assert "handbook-tape-alignment" in documents(asker("zoe", roles='["engineer","intern"]'))
    assert "handbook-tape-alignment" not in documents(asker("zoe", roles='["intern"]'))


def test_no_user_id_gets_what_is_granted_to_a_role(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """A caller whose id is spelt like a role has not that role; grants to plain ids are as before."""
    grant = "INSERT INTO document_grants VALUES ('handbook-tape-alignment', %s)"
    admin.execute(grant, ("role:engineer",))
    admin.execute(grant, ("zoe",))
    job = parse_job(RetrieveTopK, {"query_embedding": QUESTION.tolist()})

    def documents(principal: Principal) -> set[str]:
        return {chunk["document_id"] for chunk in engine.retrieval.top_k(job, JobContext(lambda: principal))["chunks"]}

    assert "handbook-tape-alignment" in documents(asker("zoe"))
    assert "handbook-tape-alignment" in documents(asker("yan", roles='["engineer"]'))
    assert "handbook-tape-alignment" not in documents(asker("role:engineer"))
    assert "handbook-tape-alignment" not in documents(asker("role:engineer", roles='["intern"]'))


def test_nothing_is_answered_while_the_policy_of_grants_is_off(
    ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any]
) -> None:
    """The documents' policy reads them: though it names the caller's grants itself, that is not relied on."""
    before = ids(ask("carol"))
    admin.execute("ALTER TABLE document_grants DISABLE ROW LEVEL SECURITY")
    with pytest.raises(SettingsError, match=r"a policy reads public\.document_grants"):
        ask("carol")
    admin.execute("ALTER TABLE document_grants ENABLE ROW LEVEL SECURITY")
    assert ids(ask("carol")) == before


def test_the_result_has_the_contracts_fields(ask: Callable[..., dict[str, Any]]) -> None:
    """The result is the contract's, field by field."""
    answer = ask("alice", k=3)
    assert set(answer) == {
        *("schema_version", "degraded", "status", "short_reason", "k_requested", "k", "corpus", "chunks", "trace")
    }
    assert (answer["schema_version"], answer["status"], answer["short_reason"]) == (1, "ok", None)
    assert (answer["k_requested"], answer["k"], answer["corpus"]) == (3, 10, "documents")
    assert [chunk["rank"] for chunk in answer["chunks"]] == list(range(1, 11))
    for chunk in answer["chunks"]:
        assert chunk["similarity_score"] == 1.0 - chunk["distance"]
    assert TopK.model_validate(answer).model_dump(exclude={"trace"}) == {
        key: value for key, value in answer.items() if key != "trace"
    }


@pytest.mark.parametrize(
    ("asked", "used"), [(1, 10), (10, 10), (12, 12), (15, 15), (16, 15), (-(10**30), 10), (10**30, 15)]
)
def test_k_is_clamped_and_both_values_are_reported(ask: Callable[..., dict[str, Any]], asked: int, used: int) -> None:
    """Any integer k is clamped to 10 to 15."""
    answer = ask("alice", k=asked)
    assert (answer["k_requested"], answer["k"], len(answer["chunks"])) == (asked, used, used)


def test_identical_chunks_are_ordered_by_id(ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any]) -> None:
    """Chunks with one vector come in the order of their ids, whatever order they were written in."""
    vector = str(QUESTION.tolist())
    names = ["z", "a", "é", "B", "😀", "10", "9", "aa", "~", "Z", "_", "A", "ﬀ", "b"]
    for name in names:
        admin.execute(
            "INSERT INTO document_chunks (id, document_id, text_content, embedding) VALUES (%s, %s, %s, %s)",
            (name, "handbook-safety", f"copy {name}", vector),
        )
    for exact in (False, True):
        assert ids(ask("carol", exact=exact))[: len(names)] == sorted(names)


FILTERS = [
    ({"document_ids": ["handbook-safety"]}, lambda c: c["document_id"] == "handbook-safety"),
    ({"document_ids": ["handbook-safety", "no such"]}, lambda c: c["document_id"] == "handbook-safety"),
    ({"pages": [2]}, lambda c: c["page"] == 2),
    ({"sections": ["Findings", "Summary"]}, lambda c: c["section"] in {"Findings", "Summary"}),
    ({"path_contains": ["handbook/"]}, lambda c: c["document_id"].startswith("handbook")),
    ({"path_contains": ["desk", "hum"]}, lambda c: "desk" in c["document_id"] or "hum" in c["document_id"]),
    ({"ext_allow": ["PDF"]}, lambda c: c["document_id"].startswith("report")),
    ({"ext_allow": [".md", "txt"]}, lambda c: not c["document_id"].startswith("report")),
    ({"ext_deny": ["pdf"]}, lambda c: not c["document_id"].startswith("report")),
    ({"ext_deny": []}, lambda c: c["rank"] > 0),
    ({"metadata": {"year": 2024}}, lambda c: c["metadata"].get("year") == 2024),
    ({"metadata": {"year": 2024.0, "language": "en"}}, lambda c: c["metadata"].get("year") == 2024),
    ({"pages": [1], "ext_allow": ["pdf"]}, lambda c: c["page"] == 1),
]


@pytest.mark.parametrize(("filters", "matches"), FILTERS)
def test_filters_keep_what_matches_and_nothing_else(
    ask: Callable[..., dict[str, Any]], filters: dict[str, Any], matches: Callable[[dict[str, Any]], bool]
) -> None:
    """Every chunk matches, and no visible match nearer than the last is missing."""
    answer = ask("alice", filters=filters)
    assert answer["chunks"]
    assert all(matches(chunk) for chunk in answer["chunks"])
    assert answer["chunks"] == ask("alice", filters=filters, exact=True)["chunks"]
    if answer["status"] == "short":
        assert answer["short_reason"] == "filters"


@pytest.mark.parametrize("name", ["document_ids", "sections", "pages", "path_contains", "ext_allow"])
def test_an_empty_filter_matches_nothing(ask: Callable[..., dict[str, Any]], name: str) -> None:
    """`[]` is not "no filter"."""
    answer = ask("alice", filters={name: []})
    assert (answer["status"], answer["short_reason"], answer["chunks"]) == ("empty", "filters", [])


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE public.document_chunks; --", "%", "_", "\\", "$1", "%(k)s", "{}", '"', "' OR 1=1 --"]
)
def test_sql_in_a_filter_is_data(ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any], text: str) -> None:
    """SQL, wildcards and placeholders in filters match nothing and do nothing."""
    for filters in (
        {"path_contains": [text]},
        {"sections": [text]},
        {"document_ids": [text]},
        {"metadata": {text: text}},
    ):
        assert ask("alice", filters=filters)["status"] == "empty"
    row = admin.execute("SELECT count(*) FROM public.document_chunks").fetchone()
    assert row == (107,)


def test_max_distance_leaves_out_farther_chunks_and_says_so(ask: Callable[..., dict[str, Any]]) -> None:
    """Chunks left out by distance are the first reason for a short answer."""
    everything = ask("alice")
    limit = everything["chunks"][4]["distance"]
    answer = ask("alice", max_distance=limit, filters={"ext_deny": []})
    assert [chunk["distance"] for chunk in answer["chunks"]] == [c["distance"] for c in everything["chunks"][:5]]
    assert (answer["status"], answer["short_reason"]) == ("short", "max_distance")
    nothing = ask("alice", max_distance=0)
    assert (nothing["status"], nothing["short_reason"], nothing["chunks"]) == ("empty", "max_distance", [])


def test_a_caller_without_rights_gets_what_is_public_and_a_short_answer_says_why(
    ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any]
) -> None:
    """No rights is no error: no rows, and `visible_rows` as the reason."""
    admin.execute("UPDATE documents SET visibility = 'private'")
    answer = ask("nobody in particular")
    assert (answer["status"], answer["short_reason"], answer["chunks"]) == ("empty", "visible_rows", [])
    admin.execute("UPDATE documents SET visibility = 'public' WHERE id = 'handbook-safety'")
    answer = ask("nobody in particular")
    assert (answer["status"], answer["short_reason"]) == ("short", "visible_rows")
    assert {chunk["document_id"] for chunk in answer["chunks"]} == {"handbook-safety"}


def test_null_and_zero_vectors_are_never_in_an_answer(
    ask: Callable[..., dict[str, Any]], admin: psycopg.Connection[Any]
) -> None:
    """A chunk without a direction has no distance, and takes no place from one that has."""
    admin.execute("UPDATE document_chunks SET embedding = NULL WHERE document_id <> 'handbook-safety'")
    zeros = str([0.0] * 768)
    admin.execute("UPDATE document_chunks SET embedding = %s WHERE id = 'handbook-safety-001'", (zeros,))
    for exact in (False, True):
        answer = ask("alice", exact=exact)
        assert answer["status"] == "short"
        assert set(ids(answer)) == {f"handbook-safety-00{n}" for n in range(2, 10)} & set(ids(answer))
        assert "handbook-safety-001" not in ids(answer)
        assert len(answer["chunks"]) >= 4


def test_scale_does_not_matter(ask: Callable[..., dict[str, Any]]) -> None:
    """A query of any length but zero is the same query, from 1e-30 to 1e20."""
    expected = ids(ask("alice"))
    numbers = QUESTION.astype(np.float64)
    for scale in (1e-30, 1e-3, 1e20, 1e37):
        assert ids(ask("alice", (numbers * scale).tolist())) == expected


def test_nobody_gets_no_answer(ask: Callable[..., dict[str, Any]]) -> None:
    """No principal: no answer, from a corpus that isn't public."""
    with pytest.raises(NotAuthorised, match="not public"):
        ask(None)


def test_a_batch_answers_each_query_as_if_asked_alone(engine: Engine) -> None:
    """One wrong embedding stays with itself; the others are answered as alone."""
    queries = lexical.embed(["hum on channel 18", "ribbon microphone phantom power"]).tolist()
    job = parse_job(RetrieveTopK, {"query_embeddings": [queries[0], [1.0], queries[1]], "k": 11})
    batch = engine.retrieval.top_k(job, JobContext(lambda: asker("bob")))
    alone = [
        engine.retrieval.top_k(
            parse_job(RetrieveTopK, {"query_embedding": query, "k": 11}), JobContext(lambda: asker("bob"))
        )
        for query in queries
    ]
    assert batch["results"][1] == {
        "error": {
            "type": "InvalidJob",
            "path": "query_embeddings[1]",
            "message": "query_embeddings[1]: expected exactly 768 finite numbers, got 1",
        }
    }
    for got, wanted in zip([batch["results"][0], batch["results"][2]], alone, strict=True):
        assert {**got, "trace": None} == {**wanted, "trace": None}
    assert TopKBatch.model_validate(batch).results[0].k == 11  # type: ignore[union-attr] # an answer, as asserted above


def test_a_batch_of_several_round_trips_answers_in_the_order_asked(engine: Engine) -> None:
    """Twenty queries are searched sixteen at a time; each answer is that of its own query, with its own trace."""
    asked = [f"{word} {i}" for i in range(10) for word in ("hum on channel", "ribbon microphone")]
    queries = lexical.embed(asked).tolist()
    batch = engine.retrieval.top_k(
        parse_job(RetrieveTopK, {"query_embeddings": queries}), JobContext(lambda: asker("alice"))
    )
    alone = [
        engine.retrieval.top_k(parse_job(RetrieveTopK, {"query_embedding": query}), JobContext(lambda: asker("alice")))
        for query in queries
    ]
    assert [{**one, "trace": None} for one in batch["results"]] == [{**one, "trace": None} for one in alone]
    for one in batch["results"]:
        assert [stage["stage"] for stage in one["trace"]["stages"]] == ["search", "cut"]
    assert batch["trace"]["stages"][0]["counts"] == {"queries": 20, "failed": 0}


def test_an_unmapped_filter_is_refused(
    make_settings: Callable[..., Settings], database: str, settings: Settings
) -> None:
    """A filter on a column that the corpus does not map is `InvalidJob`, naming the filter."""
    corpus = settings.corpora["documents"].model_dump()
    corpus["columns"] |= {"page": None, "section": None, "metadata": None}
    corpus["documents"] = None
    bare = Engine(make_settings(database, corpora={"bare": corpus}), time.perf_counter)
    for filters in (
        {"pages": [1]},
        {"sections": ["x"]},
        {"metadata": {"a": 1}},
        {"ext_allow": ["md"]},
        {"path_contains": ["x"]},
    ):
        job = parse_job(RetrieveTopK, {"query_embedding": QUESTION.tolist(), "filters": filters})
        with pytest.raises(InvalidJob, match="has no column") as caught:
            bare.retrieval.top_k(job, JobContext(lambda: asker("alice")))
        assert caught.value.path == f"filters.{next(iter(filters))}"
    bare.close()


def test_a_search_without_an_index_is_said_to_be_exact(
    make_settings: Callable[..., Settings], database: str, admin: psycopg.Connection[Any]
) -> None:
    """Where settings and sizes would have it use one; with an index it says so."""
    corpora = read_values()["corpora"]
    del corpora["documents"]["documents"]  # else so few rows are compared one by one
    engine = Engine(make_settings(database, corpora=corpora, search={"exact_rows": 0}), time.perf_counter)
    job = parse_job(RetrieveTopK, {"query_embedding": QUESTION.tolist()})

    def method() -> Any:
        answer = engine.retrieval.top_k(job, JobContext(lambda: asker("alice")))
        return str(answer["trace"]["search"]["method"])

    admin.execute("DROP INDEX document_chunks_embedding_idx")
    before = method()
    admin.execute("CREATE INDEX ON document_chunks USING hnsw ((embedding::halfvec(768)) halfvec_cosine_ops)")
    after = method()
    engine.close()
    assert (before, after) == ("exact", "index")
