"""Feedback on recorded runs, and the weights that it speaks for, on a real Postgres with the sample corpora."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.asking import asker

from retrieval_client.canonical import canonical_sha256
from retrieval_client.contract.base import parse_job
from retrieval_client.contract.feedback import FeedbackRecorded, RecordFeedback
from retrieval_client.contract.jobs import RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import InvalidJob, NotAuthorised
from worker.adapters.postgres.database import Database
from worker.adapters.postgres.feedback import Judgements
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine
from worker.jobs.feedback import ENOUGH
from worker.jobs.run_archive import RunFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from worker.settings import Settings

    Admin = psycopg.Connection[Any]
    MakeSettings = Callable[..., Settings]

NAME = RunName(subject_id="song-1", run_id="r1")
DOCS: dict[str, Any] = {
    "query": "add hi-hats",
    "context": 'sound("bd").fast(2)',
    "searches": [{"corpus": "docs"}],
    "legs": ["primary", "contextual"],
}
ONLY_CONTEXT = {"primary": 0.0, "contextual": 1.0}


@pytest.fixture
def engine(settings: Settings, make_settings: MakeSettings, database: str, tmp_path: Any) -> Iterator[Engine]:
    del settings
    made = Engine(make_settings(database, artifacts={"url": str(tmp_path)}), time.perf_counter)
    yield made
    made.close()


def record(engine: Engine, user: str = "alice", run_id: str = "r1", step: str = "", **fields: Any) -> list[str]:
    """Record a hybrid retrieval; the ids that it answers, corpus after corpus."""
    run = {"subject_id": "song-1", "run_id": run_id, **({"step": step} if step else {})}
    job = parse_job(RetrieveHybrid, {**DOCS, "run": run, **fields})
    answer = engine.hybrid.retrieve(job, JobContext(lambda: asker(user)))
    return [chunk["chunk_id"] for part in answer["results"].values() for chunk in part["chunks"]]


def rows(admin: Admin) -> list[tuple[Any, ...]]:
    return admin.execute(
        "SELECT owner, run_id, task, step, corpus, chunk_id, used FROM retrieval.run_feedback f"
        " JOIN retrieval.runs ON runs.id = f.run ORDER BY owner, run_id, task, step, chunk_id"
    ).fetchall()


# --- what is kept -------------------------------------------------------------------------------


def test_feedback_is_kept_once_and_the_last_word_counts(engine: Engine, admin: Admin) -> None:
    """The same again changes nothing and leaves no event; another word on a chunk replaces the first."""
    first, second, *_ = record(engine)
    assert engine.feedback.record(asker("alice"), NAME, [first, second, first]) == 2
    before = admin.execute("SELECT * FROM retrieval.run_feedback ORDER BY chunk_id").fetchall()
    assert engine.feedback.record(asker("alice"), NAME, [second, first]) == 0
    assert admin.execute("SELECT * FROM retrieval.run_feedback ORDER BY chunk_id").fetchall() == before
    assert engine.feedback.record(asker("alice"), NAME, [second], used=False) == 1
    key = ("alice", "r1", "retrieve_hybrid", "", "docs")
    assert rows(admin) == sorted([(*key, first, True), (*key, second, False)])
    reported = {"task": "retrieve_hybrid", "step": ""}
    said = admin.execute("SELECT data FROM retrieval.run_events WHERE kind = 'used' ORDER BY sequence").fetchall()
    assert said == [({**reported, "used": True, "chunks": 2},), ({**reported, "used": False, "chunks": 1},)]


def give_feedback(engine: Engine, user: str | None = "alice", task_id: str = "", **fields: Any) -> dict[str, Any]:
    """The answer to `record_feedback`; its JSON is what the contract says."""
    job = parse_job(RecordFeedback, {"run": {"subject_id": "song-1", "run_id": "r1"}, **fields})
    answer = engine.feedback.answer(job, JobContext(lambda: asker(user) if user else None, task_id))
    FeedbackRecorded.model_validate(json.loads(json.dumps(answer)))
    return answer


def hashes(admin: Admin) -> list[str]:
    """Of the chunks of the run, in their order."""
    rows = admin.execute("SELECT 'sha256:' || encode(chunk_hash, 'hex') FROM retrieval.run_pins ORDER BY rank")
    return [one for (one,) in rows]


def test_a_job_says_which_chunks_were_used_and_how_good_the_answer_was(engine: Engine, admin: Admin) -> None:
    """By their hashes; what the run does not have is named; the same again changes nothing."""
    first, second, *_ = record(engine)
    used, not_used, *_ = hashes(admin)
    unknown = "sha256:" + "0" * 64
    said = {"used": [used, unknown], "not_used": [not_used], "rating": 1, "note": "good"}
    answers = [give_feedback(engine, **said) for _ in range(2)]
    assert [(answer["recorded"], answer["unknown"]) for answer in answers] == [(2, [unknown])] * 2
    assert [answer["trace"]["stages"][0]["counts"] for answer in answers] == [{"changed": 2}, {"changed": 0}]
    key = ("alice", "r1", "retrieve_hybrid", "", "docs")
    assert rows(admin) == sorted([(*key, first, True), (*key, second, False)])
    ratings = "SELECT data FROM retrieval.run_events WHERE kind = 'rated' ORDER BY sequence"
    assert admin.execute(ratings).fetchall() == [({"step": "", "rating": 1, "note": "good"},)]
    give_feedback(engine, rating=-1)
    assert [data["rating"] for (data,) in admin.execute(ratings)] == [1, -1]


@pytest.mark.parametrize("first", [{"used": 1, "rating": 1}, {"rating": 1}, {"used": 0}], ids=str)
def test_feedback_that_is_delivered_again_undoes_no_later_one(
    engine: Engine, admin: Admin, first: dict[str, int]
) -> None:
    """Whether or not it changed anything when it was recorded; the same words in a new job count."""
    record(engine)
    chunk, *_ = hashes(admin)
    said = {"used": [chunk]} if "used" in first else {}
    rated = {"rating": first["rating"]} if "rating" in first else {}
    if not first.get("used"):
        give_feedback(engine, task_id="job-0", **said, **rated)
    give_feedback(engine, task_id="job-1", **said, **rated)
    give_feedback(engine, task_id="job-2", not_used=[chunk], rating=-1)

    def state() -> list[Any]:
        events = admin.execute("SELECT sequence, data FROM retrieval.run_events ORDER BY sequence").fetchall()
        return [rows(admin), events]

    before = state()
    answer = give_feedback(engine, task_id="job-1", **said, **rated)
    assert (answer["recorded"], answer["trace"]["stages"][0]["counts"]) == (len(said), {"changed": 0})
    assert state() == before
    give_feedback(engine, task_id="job-3", used=[chunk], rating=1)
    assert [row[-1] for row in rows(admin)] == [True]
    assert state()[1][-2:] != before[1][-2:]


def test_a_jobs_id_is_stored_as_a_hash_and_its_feedback_of_another_run_counts(engine: Engine, admin: Admin) -> None:
    """An id is a sender's text; it is the run's own event that says what is recorded."""
    record(engine)
    record(engine, run_id="r2")
    chunk, *_ = hashes(admin)
    for run_id in ("r1", "r2"):
        give_feedback(engine, task_id="a secret id", run={"subject_id": "song-1", "run_id": run_id}, used=[chunk])
    assert [row[1] for row in rows(admin)] == ["r1", "r2"]
    events = admin.execute("SELECT data::text FROM retrieval.run_events WHERE kind = 'feedback'").fetchall()
    assert len(events) == 2
    assert "secret" not in str(events)


def test_a_hash_in_both_lists_was_used_whatever_its_form(engine: Engine, admin: Admin) -> None:
    """With `sha256:` or without, in capitals or not: one chunk, one word."""
    record(engine)
    one, *_ = hashes(admin)
    answer = give_feedback(engine, used=[one.removeprefix("sha256:").upper(), one], not_used=[one])
    assert (answer["recorded"], answer["unknown"]) == (1, [])
    assert [row[-1] for row in rows(admin)] == [True]


def test_feedback_on_a_foreign_run_is_that_on_an_unknown_one(engine: Engine, admin: Admin) -> None:
    """Bob's own, alice's and none: one sentence; without a caller nothing is looked up."""
    record(engine)
    for run in ({"subject_id": "song-1", "run_id": "r1"}, {"subject_id": "song-1", "run_id": "none"}):
        with pytest.raises(InvalidJob, match=r"^run: no such run$"):
            give_feedback(engine, "bob", run=run, used=hashes(admin), rating=1)
    with pytest.raises(NotAuthorised):
        give_feedback(engine, None, used=hashes(admin))
    assert rows(admin) == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"rating": 2}, "rating: expected at least -1 and at most 1"),
        ({"rating": True}, "rating: expected an integer"),
        ({"note": "x" * 2001}, "note: expected at most 2000 characters"),
        ({"used": ["beef"]}, "used[0]: expected 64 hex digits"),
        ({"run": None}, "run: expected a value or no such field, got null"),
    ],
)
def test_wrong_feedback_names_its_field(fields: dict[str, Any], problem: str) -> None:
    job = {"run": {"subject_id": "song-1", "run_id": "r1"}, **fields}
    with pytest.raises(InvalidJob) as failed:
        parse_job(RecordFeedback, job)
    assert failed.value.message.startswith(problem)


def test_feedback_names_a_run() -> None:
    with pytest.raises(InvalidJob, match=r"^run: expected this field$"):
        parse_job(RecordFeedback, {"used": []})


def test_a_foreign_run_is_an_unknown_run(engine: Engine, admin: Admin) -> None:
    """Bob can say nothing of alice's run; his own of the same name is another one."""
    chunk, *_ = record(engine)
    for user, name in (("bob", NAME), ("alice", RunName(subject_id="song-1", run_id="r2"))):
        with pytest.raises(InvalidJob, match="no such run") as caught:
            engine.feedback.record(asker(user), name, [chunk])
        assert caught.value.path == "run"
    with pytest.raises(InvalidJob, match="no such run"):
        engine.feedback.record(asker("alice"), NAME.model_copy(update={"step": "verse-1"}), [chunk])
    record(engine, "bob")
    engine.feedback.record(asker("bob"), NAME, [chunk], used=False)
    assert [row[0] for row in rows(admin)] == ["bob"]
    engine.feedback.record(asker("alice"), NAME, [chunk])
    assert [(row[0], row[-1]) for row in rows(admin)] == [("alice", True), ("bob", False)]


def test_the_database_itself_keeps_owners_apart(engine: Engine, stack: Any, database: str) -> None:
    """The policy, not the worker's WHERE: as bob, the table is empty, and nothing of it can be changed."""
    import psycopg

    engine.feedback.record(asker("alice"), NAME, record(engine))
    with psycopg.connect(stack.postgres.dsn(database, "retrieval_worker")) as connection:
        for owner, seen in (("bob", 0), ("", 0), ("alice", 5)):
            connection.execute("SELECT set_config('retrieval.owner', %s, false)", (owner,))
            assert connection.execute("SELECT count(*) FROM retrieval.run_feedback").fetchone() == (seen,)
            assert connection.execute("UPDATE retrieval.run_feedback SET used = false").rowcount == seen
        connection.rollback()


def test_only_chunks_of_the_run_are_judged(engine: Engine, admin: Admin) -> None:
    """One that is not among its pins is refused by its place in the list, and nothing of the list is kept."""
    chunk, *_ = record(engine)
    with pytest.raises(InvalidJob) as caught:
        engine.feedback.record(asker("alice"), NAME, [chunk, "no-such-chunk"])
    assert (caught.value.path, str(caught.value)) == ("chunks[1]", "chunks[1]: expected a chunk of the run")
    with pytest.raises(InvalidJob, match=r"chunks\[0\]"):
        engine.feedback.record(asker("alice"), NAME, [chunk], corpus="examples")
    assert rows(admin) == []


def test_an_id_in_two_corpora_needs_its_corpus(engine: Engine, admin: Admin) -> None:
    """Which of the two was used is not guessed."""
    shared = record(engine, run_id="r0")[0]
    admin.execute("UPDATE example_strudels SET id = %s WHERE id = (SELECT min(id) FROM example_strudels)", (shared,))
    found = record(engine, searches=[{"corpus": "docs", "top_k": 50}, {"corpus": "examples", "top_k": 50}])
    assert found.count(shared) == 2
    with pytest.raises(InvalidJob, match="several corpora") as caught:
        engine.feedback.record(asker("alice"), NAME, [shared])
    assert caught.value.path == "corpus"
    assert engine.feedback.record(asker("alice"), NAME, [shared], corpus="examples") == 1
    assert [row[4] for row in rows(admin)] == ["examples"]


def test_a_hash_stands_for_every_chunk_of_its_text(engine: Engine, admin: Admin) -> None:
    """Chunks are named as citations and replays name them; the id is stored."""
    searches = [{"corpus": "documents", "top_k": 50}]
    record(engine, query="microphone phantom power", searches=searches)
    pins = admin.execute(
        "SELECT 'sha256:' || encode(chunk_hash, 'hex'), array_agg(chunk_id ORDER BY chunk_id)"
        " FROM retrieval.run_pins GROUP BY 1 ORDER BY cardinality(array_agg(chunk_id)) DESC, 1"
    ).fetchall()
    (chunk_hash, same), (_, (other, *_)) = pins[0], pins[-1]
    assert len(same) > 1
    assert engine.feedback.record(asker("alice"), NAME, [chunk_hash, other, same[0]]) == len(same) + 1
    assert [row[5] for row in rows(admin)] == sorted([*same, other])


def test_a_step_narrows_what_is_judged(engine: Engine, admin: Admin) -> None:
    """Without one, the chunk was used wherever the run had it."""
    chunk, *_ = record(engine, step="verse-1")
    record(engine, step="verse-2")
    assert engine.feedback.record(asker("alice"), NAME.model_copy(update={"step": "verse-2"}), [chunk]) == 1
    assert engine.feedback.record(asker("alice"), NAME, [chunk]) == 1
    assert [row[3] for row in rows(admin)] == ["verse-1", "verse-2"]


def test_feedback_on_any_task_is_kept_and_goes_with_its_run(engine: Engine, admin: Admin) -> None:
    """A top-k's chunks can be judged too; a deleted run leaves nothing."""
    query = lexical.embed(["hum on channel 18"])[0].tolist()
    job = parse_job(RetrieveTopK, {"query_embedding": query, "run": NAME.model_dump(exclude={"step"})})
    chunks = engine.retrieval.top_k(job, JobContext(lambda: asker("alice")))["chunks"]
    assert engine.feedback.record(asker("alice"), NAME, [chunks[0]["chunk_id"]]) == 1
    assert engine.feedback.tune(asker("alice")).retrievals == 0
    admin.execute("DELETE FROM retrieval.runs")
    assert rows(admin) == []


# --- export and import --------------------------------------------------------------------------


def test_feedback_goes_out_and_comes_in_with_its_run(engine: Engine, admin: Admin) -> None:
    """Judgements, their times and the events of each change of mind; an import overrules nothing that is there."""
    first, second, *_ = record(engine)
    for used in (True, False, True):
        engine.feedback.record(asker("alice"), NAME, [first], used=used)
    exported = engine.exchange.export(asker("alice"), NAME).as_bytes()
    admin.execute("DELETE FROM retrieval.runs")
    engine.exchange.restore(asker("alice"), exported)
    before, after = json.loads(exported), json.loads(engine.exchange.export(asker("alice"), NAME).as_bytes())
    assert before["feedback"] == after["feedback"] != []
    assert before["events"] == after["events"][:-1]
    engine.feedback.record(asker("alice"), NAME, [first], used=False)
    engine.feedback.record(asker("alice"), NAME, [second])
    engine.exchange.restore(asker("alice"), exported)
    assert {row[-2]: row[-1] for row in rows(admin)} == {first: False, second: True}


def test_a_file_from_before_there_was_feedback_is_taken_in(engine: Engine, admin: Admin) -> None:
    """Such a file has no such field, and its digest knows nothing of it."""
    record(engine)
    run = json.loads(engine.exchange.export(asker("alice"), NAME).as_bytes())
    admin.execute("DELETE FROM retrieval.runs")
    assert run.pop("feedback") == []
    sealed = {name: value for name, value in run.items() if name != "sha256"}
    assert run["sha256"] == canonical_sha256(sealed)
    assert engine.exchange.restore(asker("alice"), json.dumps(run).encode()) == NAME


def test_a_file_with_feedback_on_nothing_is_refused(engine: Engine, admin: Admin) -> None:
    """Also where its digest is computed again: a chunk that the run has not, legs that can't be compared."""
    engine.feedback.record(asker("alice"), NAME, record(engine)[:1])
    run = json.loads(engine.exchange.export(asker("alice"), NAME).as_bytes())
    admin.execute("DELETE FROM retrieval.runs")
    legs = run["records"][0]["answer"]["legs"]["docs"]
    wrongs: list[tuple[dict[str, Any], str, Any, str]] = [
        (run["feedback"][0], "chunk_id", "other", r"feedback\[0\].chunk_id: expected a chunk of the run"),
        (run["feedback"][0], "step", "verse-9", r"feedback\[0\].chunk_id: expected a chunk of the run"),
        (legs[0], "scores", [0.5], r"records\[0\].answer.legs"),
        (legs[0], "leg", "fourth", r"records\[0\].answer.legs"),
        (legs[0], "listed", 1000, r"records\[0\].answer.legs"),
        (legs[0], "coverage", [0.5] * 1000, r"records\[0\].answer.legs"),
        (run["records"][0]["answer"], "legs", None, r"records\[0\].answer.legs"),
    ]
    for where, field, value, said in wrongs:
        right, where[field] = where.get(field), value
        sealed = RunFile.model_validate_json(json.dumps(run))
        with pytest.raises(InvalidJob, match=said):
            engine.exchange.restore(asker("alice"), json.dumps({**run, "sha256": sealed.digest()}).encode())
        where[field] = right
    assert admin.execute("SELECT count(*) FROM retrieval.runs").fetchone() == (0,)


# --- what is learnt -----------------------------------------------------------------------------


def plant(engine: Engine, user: str, runs: int = ENOUGH, **fields: Any) -> str:
    """Recorded retrievals of which the first chunk was used; that chunk."""
    for i in range(runs):
        best, *_ = record(engine, user, f"r{i}", **fields)
        engine.feedback.record(asker(user), RunName(subject_id="song-1", run_id=f"r{i}"), [best])
    return best


def best_of(engine: Engine, **fields: Any) -> str:
    answer = engine.hybrid.retrieve(parse_job(RetrieveHybrid, {**DOCS, **fields}), JobContext(lambda: asker("alice")))
    return str(answer["results"]["docs"]["chunks"][0]["chunk_id"])


@pytest.mark.parametrize("method", ["weighted", "rrf"])
def test_planted_weights_are_found_and_work_as_settings(
    engine: Engine, make_settings: MakeSettings, database: str, method: str
) -> None:
    """Users took what the contextual leg had first; with the proposal as a setting it is the first of the answer."""
    used = plant(engine, "alice", fusion=method, weights=ONLY_CONTEXT)
    assert best_of(engine, fusion=method) != used
    tuned = engine.feedback.tune(asker("alice"), method=method)
    assert (tuned.retrievals, tuned.searches) == (ENOUGH, ENOUGH)
    assert tuned.proposal is not None
    assert tuned.proposal.before.ndcg is not None
    assert tuned.proposal.before.ndcg < 1.0
    assert tuned.proposal.after.ndcg == 1.0
    assert tuned.setting is not None
    assert tuned.setting["contextual"] > tuned.setting["primary"]
    taken = Engine(
        make_settings(database, hybrid={"fusion": method, "weights": dict(tuned.setting)}), time.perf_counter
    )
    assert best_of(taken, fusion=method) == used
    assert taken.feedback.tune(asker("alice"), method=method).setting is None
    taken.close()


def test_feedback_over_the_wire_proposes_weights_of_the_default_fusion(engine: Engine, admin: Admin) -> None:
    """Jobs of `record_feedback` are what `tune` learns from, and the settings' fusion is what it weighs."""
    for i in range(ENOUGH):
        record(engine, "alice", f"r{i}", weights=ONLY_CONTEXT)
        (best,) = admin.execute(
            "SELECT 'sha256:' || encode(chunk_hash, 'hex') FROM retrieval.run_pins JOIN retrieval.runs r ON r.id = run "
            "WHERE r.run_id = %s ORDER BY rank LIMIT 1",
            (f"r{i}",),
        ).fetchone() or ("",)
        assert give_feedback(engine, run={"subject_id": "song-1", "run_id": f"r{i}"}, used=[best])["recorded"] == 1
    tuned = engine.feedback.tune(asker("alice"))
    assert (tuned.method, tuned.retrievals) == ("weighted", ENOUGH)
    assert tuned.setting is not None
    assert tuned.setting["contextual"] > tuned.setting["primary"]


def test_nothing_is_proposed_where_nothing_is_better(engine: Engine) -> None:
    """The used chunk came first with the current weights."""
    plant(engine, "alice", fusion="weighted")
    tuned = engine.feedback.tune(asker("alice"))
    assert tuned.proposal is not None
    assert tuned.proposal.before == tuned.proposal.after
    assert tuned.proposal.after.ndcg == 1.0
    assert tuned.proposal.weights == tuned.current == {"primary": 0.7, "contextual": 0.4}
    assert tuned.setting is None


def test_each_owners_feedback_is_that_owners_and_everybodys_is_all(engine: Engine) -> None:
    """Alice took the contextual leg's first, bob what came first anyway."""
    plant(engine, "alice", fusion="weighted", weights=ONLY_CONTEXT)
    plant(engine, "bob", fusion="weighted")
    assert engine.feedback.tune(asker("alice")).setting is not None
    assert engine.feedback.tune(asker("bob")).setting is None
    everybody = engine.feedback.tune(None)
    assert everybody.retrievals == 2 * ENOUGH
    assert engine.feedback.tune(asker("carol")).retrievals == 0


def test_too_little_feedback_proposes_nothing(engine: Engine) -> None:
    """Counted are retrievals with a used chunk in which more than one leg found something."""
    plant(engine, "alice", ENOUGH - 1, fusion="weighted", weights=ONLY_CONTEXT)
    alone, *_ = record(engine, run_id="alone", context="")
    engine.feedback.record(asker("alice"), RunName(subject_id="song-1", run_id="alone"), [alone])
    disliked, *_ = record(engine, run_id="disliked")
    engine.feedback.record(asker("alice"), RunName(subject_id="song-1", run_id="disliked"), [disliked], used=False)
    tuned = engine.feedback.tune(asker("alice"))
    assert (tuned.retrievals, tuned.proposal, tuned.setting) == (ENOUGH - 1, None, None)
    engine.feedback.record(asker("alice"), RunName(subject_id="song-1", run_id="disliked"), [disliked])
    assert engine.feedback.tune(asker("alice")).proposal is not None


def test_of_much_feedback_the_latest_counts(engine: Engine, settings: Settings) -> None:
    """By when the retrievals were recorded, whatever the order of the feedback; each with what its legs found."""
    found = {name: record(engine, run_id=name, query=name)[0] for name in ("drums", "bass", "chords")}
    for name in ("chords", "drums", "bass"):
        engine.feedback.record(asker("alice"), RunName(subject_id="song-1", run_id=name), [found[name]])
    database = Database(settings)
    for owner in (asker("alice"), None):
        latest = Judgements(database).judged(owner, None, 2)
        assert [list(one.used) for one in latest] == [[found["chords"]], [found["bass"]]]
        for one in latest:
            assert [leg["leg"] for leg in one.legs] == ["primary", "contextual"]
            assert one.used[0] in {*one.legs[0]["chunk_ids"], *one.legs[1]["chunk_ids"]}
    database.close()


def test_one_corpus_can_be_looked_at_alone(engine: Engine) -> None:
    """Two searches of a retrieval are two examples of one; an unknown corpus or method is named."""
    searches = [{"corpus": "docs"}, {"corpus": "examples"}]
    for i in range(2):
        engine.feedback.record(
            asker("alice"),
            RunName(subject_id="song-1", run_id=f"r{i}"),
            record(engine, run_id=f"r{i}", searches=searches),
        )
    both, docs = engine.feedback.tune(asker("alice")), engine.feedback.tune(asker("alice"), corpus="docs")
    assert (both.retrievals, both.searches, docs.retrievals, docs.searches) == (2, 4, 2, 2)
    for fields, path in (({"corpus": "nowhere"}, "corpus"), ({"method": "similarity"}, "method")):
        with pytest.raises(InvalidJob) as caught:
            engine.feedback.tune(asker("alice"), **fields)
        assert caught.value.path == path


# --- weights of the settings --------------------------------------------------------------------


def test_weights_of_the_settings_are_those_of_jobs_without(
    engine: Engine, make_settings: MakeSettings, database: str
) -> None:
    """They are of the settings' fusion alone; a job's own outrank them, leg by leg."""
    tilted = Engine(make_settings(database, hybrid={"weights": ONLY_CONTEXT}), time.perf_counter)

    def results(engine: Engine, **fields: Any) -> Any:
        return engine.hybrid.retrieve(
            parse_job(RetrieveHybrid, {**DOCS, **fields}), JobContext(lambda: asker("alice"))
        )["results"]

    by_settings = results(tilted, fusion="weighted")
    assert by_settings == results(engine, fusion="weighted", weights=ONLY_CONTEXT)
    assert by_settings != results(engine, fusion="weighted")
    for job, both in (({"primary": 3}, {"primary": 3, "contextual": 1}), ({"contextual": 2}, {**ONLY_CONTEXT})):
        meant = results(engine, fusion="weighted", weights={**both, **job})
        assert results(tilted, fusion="weighted", weights=job) == meant
    assert results(tilted, fusion="rrf") == results(engine, fusion="rrf", weights={"primary": 1, "contextual": 1})
    tilted.close()
