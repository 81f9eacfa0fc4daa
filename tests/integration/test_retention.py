"""`prune` deletes what is due and nothing else, in the database and in the folder of files, while workers go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.command_line import command_line
from tests.integration.asking import asker

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import RetrieveTopK
from retrieval_client.contract.run_jobs import RunName
from retrieval_client.errors import Unavailable
from worker.adapters.postgres import retention
from worker.adapters.postgres.retention import Retention
from worker.core.text import lexical
from worker.jobs.context import JobContext
from worker.jobs.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.command_line import Command

    from workbench.devstack.stack import Stack
    from worker.settings import Settings

QUERY = lexical.embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
TABLES = "runs", "run_records", "run_pins", "run_events", "run_feedback", "responses", "packages"


@pytest.fixture
def engine(make_settings: Callable[..., Settings], database: str, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(make_settings(database, artifacts={"url": str(tmp_path / "files")}), time.perf_counter)
    yield made
    made.close()


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], stack: Stack, database: str, tmp_path: Path) -> Command:
    """Runs commands in this process, with the admin's connection and the folder of files."""
    environment = {
        "MIGRATION_CONNECTION_STRING": stack.postgres.dsn(database),
        "RETRIEVAL_WORKER_ARTIFACTS__URL": str(tmp_path / "files"),
    }
    return command_line(capsys, environment)


def record(engine: Engine, run_id: str, user: str = "alice", subject: str = "song-1") -> None:
    """A run with a record, feedback and two versions of a file."""
    run = {"subject_id": subject, "run_id": run_id}
    job = parse_job(RetrieveTopK, {"query_embedding": QUERY, "run": run, "k": 10})
    answer = engine.retrieval.top_k(job, JobContext(lambda: asker(user)))
    name = RunName(subject_id=subject, run_id=run_id)
    engine.feedback.record(asker(user), name, [answer["chunks"][0]["chunk_id"]])
    for content in (b"one", b"two"):
        engine.files.keep(asker(user), name, "out.txt", content)


def age(admin: psycopg.Connection[Any], table: str, days: int, where: str = "true") -> None:
    column = "at" if table in {"run_events", "run_feedback"} else "created_at"
    admin.execute(f"UPDATE retrieval.{table} SET {column} = {column} - make_interval(days => {days}) WHERE {where}")


def age_run(admin: psycopg.Connection[Any], run_id: str, days: int) -> None:
    """Have all of a run happened so many days ago."""
    age(admin, "runs", days, f"run_id = '{run_id}'")
    of_run = f"run IN (SELECT id FROM retrieval.runs WHERE run_id = '{run_id}')"
    for table in ("run_records", "run_events", "run_feedback"):
        age(admin, table, days, of_run)


def counts(admin: psycopg.Connection[Any]) -> dict[str, int]:
    return {table: admin.execute(f"SELECT count(*) FROM retrieval.{table}").fetchone()[0] for table in TABLES}  # type: ignore[index] # a count has a row


def runs_left(admin: psycopg.Connection[Any]) -> list[str]:
    return [run for (run,) in admin.execute("SELECT run_id FROM retrieval.runs ORDER BY run_id")]


def test_old_runs_go_with_all_that_is_of_them(
    engine: Engine, admin: psycopg.Connection[Any], typed: Command, tmp_path: Path
) -> None:
    """Records, pins, events, feedback, files and their versions; those of a run that was written to stay."""
    record(engine, "new")
    before = counts(admin)
    for name in ("old", "old-of-bob", "rated-again"):
        of_bob = {"user": "bob", "subject": "of-bob"} if name == "old-of-bob" else {}
        record(engine, name, **of_bob)
        age_run(admin, name, 91)
    age(admin, "run_feedback", -91, "run = (SELECT id FROM retrieval.runs WHERE run_id = 'rated-again')")
    counted = typed("prune", "--runs", "90", "--dry-run")
    assert (counted.returncode, counted.stdout) == (0, "due: 2 runs, 0 answers of conversations; nothing is deleted\n")
    assert len(runs_left(admin)) == 4
    done = typed("prune", "--runs", "90")
    assert (done.returncode, done.stdout) == (0, "deleted: 2 runs, 2 folders of files\n")
    assert runs_left(admin) == ["new", "rated-again"]
    assert counts(admin) == {table: 2 * count for table, count in before.items()}
    files = {
        path.parent.name for path in (tmp_path / "files").rglob("*") if path.is_file() and "locks" not in path.parts
    }
    assert files == {"new", "rated-again"}
    assert not [*(tmp_path / "files").glob("*/runs/of-bob")]
    again = typed("prune", "--runs", "90", "--json").stdout
    assert again == '{"deleted": {"runs": 0, "folders of files": 0}}\n'


def test_a_folder_of_files_that_is_not_there_stops_it(
    engine: Engine, admin: psycopg.Connection[Any], typed: Command, tmp_path: Path
) -> None:
    """Else the files would stay for ever, and be those of the next run of this name."""
    record(engine, "old")
    age_run(admin, "old", 91)
    elsewhere = {"RETRIEVAL_WORKER_ARTIFACTS__URL": str(tmp_path / "elsewhere")}
    refused = typed("prune", "--runs", "90", **elsewhere)
    assert (refused.returncode, runs_left(admin)) == (78, ["old"])
    assert "as the workers have it" in refused.stderr
    assert typed("prune", "--runs", "90", "--no-files", **elsewhere).stdout == "deleted: 1 runs\n"


def test_a_job_that_records_into_a_deleted_run_makes_it_anew(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """At whatever moment it is deleted: here between its rows."""
    admin.execute("CREATE SEQUENCE public.tries")
    admin.execute(
        """
        CREATE FUNCTION public.lose_run() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
        BEGIN
          IF nextval('public.tries') = 1 THEN RAISE foreign_key_violation; END IF;
          RETURN NEW;
        END $$
        """
    )
    admin.execute(
        "CREATE TRIGGER lose_run BEFORE INSERT ON retrieval.run_records FOR EACH ROW EXECUTE FUNCTION public.lose_run()"
    )
    record(engine, "r1")
    assert runs_left(admin) == ["r1"]


def test_more_than_one_step_deletes_each_once(
    engine: Engine, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest first; one that another session holds is left, and the next call has it."""
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    for number in range(5):
        record(engine, f"r{number}")
        age_run(admin, f"r{number}", 10)
    found = Retention(admin)
    cutoff = found.cutoff(5)
    assert cutoff is not None
    forgotten: list[str] = []
    with psycopg.connect(admin.info.dsn) as other:
        other.execute("SELECT FROM retrieval.runs WHERE run_id = 'r1' FOR UPDATE")
        assert [*found.delete_runs(cutoff, lambda run: forgotten.append(run.run_id))] == [2, 2]
        other.rollback()
    assert forgotten == ["r0", "r2", "r3", "r4"]
    assert [*found.delete_runs(cutoff, lambda run: forgotten.append(run.run_id))] == [1]
    assert runs_left(admin) == []


def test_a_run_whose_files_can_not_be_deleted_stays(engine: Engine, admin: psycopg.Connection[Any]) -> None:
    """A store that is away costs no record: the next call has both."""
    record(engine, "old")
    age_run(admin, "old", 10)

    def fail(_: object) -> None:
        raise Unavailable("the artifact store failed")

    found = Retention(admin)
    cutoff = found.cutoff(5)
    assert cutoff is not None
    with pytest.raises(Unavailable):
        [*found.delete_runs(cutoff, fail)]
    assert runs_left(admin) == ["old"]


def test_conversations_go_as_a_whole(admin: psycopg.Connection[Any], typed: Command) -> None:
    """Not one that was gone on with; a package stays as long as an answer of it, or until it is as old itself."""
    package = (
        "INSERT INTO retrieval.packages VALUES ('alice', %s, 'execute', '{}', '', now() - make_interval(days => %s))"
    )
    answer = """
    INSERT INTO retrieval.responses (owner, response_id, conversation_id, mode, provider, model, claims_sha256,
                                     starting_prompt, question, answer, package_id, created_at)
    VALUES ('alice', %s, %s, 'm', 'p', 'x', '', '', 'q', 'a', %s, now() - make_interval(days => %s))
    """
    for name, conversation, days in (("a1", "old", 40), ("a2", "old", 35), ("b1", "kept", 40), ("b2", "kept", 3)):
        admin.execute(package, (f"of-{name}", days))
        admin.execute(answer, (name, conversation, f"of-{name}", days))
    admin.execute(package, ("alone-old", 40))
    admin.execute(package, ("alone-new", 3))
    done = typed("prune", "--conversations", "30")
    assert (done.returncode, done.stdout) == (0, "deleted: 2 answers, 3 packages\n")
    responses = admin.execute("SELECT response_id FROM retrieval.responses ORDER BY 1").fetchall()
    packages = admin.execute("SELECT package_id FROM retrieval.packages ORDER BY 1").fetchall()
    assert (responses, packages) == ([("b1",), ("b2",)], [("alone-new",), ("of-b1",), ("of-b2",)])


def test_the_worker_s_own_role_deletes_nothing(
    engine: Engine, admin: psycopg.Connection[Any], typed: Command, stack: Stack, database: str
) -> None:
    """No job can: its role may not, and the command says which one may."""
    record(engine, "old")
    age_run(admin, "old", 91)
    refused = typed("prune", "--runs", "90", "--dsn", stack.postgres.dsn(database, "retrieval_worker"))
    assert (refused.returncode, refused.stdout) == (78, "")
    assert "name the one that owns the tables" in refused.stderr
    assert runs_left(admin) == ["old"]


def test_a_database_without_records_is_told(typed: Command, stack: Stack) -> None:
    """It is another one, or was never installed."""
    refused = typed("prune", "--conversations", "90", "--dsn", stack.postgres.dsn("template1"))
    assert (refused.returncode, refused.stdout) == (78, "")
    assert "no tables of records" in refused.stderr


@pytest.mark.parametrize("arguments", [(), ("--runs", "0"), ("--runs", "x"), ("--conversations", "-1")])
def test_wrong_usage_deletes_nothing(typed: Command, arguments: tuple[str, ...]) -> None:
    """One sentence, exit code 2."""
    done = typed("prune", *arguments)
    assert done.returncode == 2
    assert done.stderr
