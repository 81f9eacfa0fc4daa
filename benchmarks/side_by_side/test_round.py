"""A small round of the comparison, end to end: real servers, real processes."""

import tempfile
from operator import itemgetter
from pathlib import Path

import psutil
import psycopg
import pytest
from benchmarks.side_by_side import figures, peers, report
from benchmarks.side_by_side.__main__ import Order, play
from psycopg.types.json import Jsonb

from workbench.devstack.postgres import postgres_server
from worker.adapters.providers.embedder import LexicalEmbedder
from worker.cli.corpus_files import SAMPLES, read
from worker.cli.loader import load, migrate

pytestmark = pytest.mark.full  # minutes

SIDES = (figures.BARE, figures.LISTS, figures.ONE, figures.SIXTEEN)


def test_a_round_of_the_sides_that_need_no_other_environment():
    """Each answers every query, all find the same, costs are counted, a table is made, and nothing is left running."""
    earlier_pids = {child.pid for child in psutil.Process().children(recursive=True)}
    outcome = play(
        Order(
            rows=3000,
            seed=20,
            real=False,
            queries=16,
            rounds=2,
            count=320,  # CPU is counted in ticks of 10 ms: fewer may end within one
            calls=2,
            side_names=SIDES,
            curves=False,
            ef_search=None,
            postgres=18,
            keep=None,
        )
    )
    assert outcome.problems == []
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= earlier_pids
    assert tuple(outcome.sides) == SIDES
    for side in outcome.sides.values():
        assert len(side.rates) == 2
        assert len(side.latencies) == 4
        assert min(side.recalls) > 0.8
        assert min(side.costs["worker_ms"]) > 0
        assert min(side.costs["postgres_ms"]) > 0
    # A job's embedding goes through Redis: 4 kB as base64. The bare loop has no Redis; idle workers say a little there.
    assert outcome.sides[figures.BARE].cost("redis_in_kb") < 4 < outcome.sides[figures.ONE].cost("redis_in_kb")
    # 768 floats of four bytes are sent to Postgres by each, and fifteen chunks come back.
    for side in outcome.sides.values():
        assert 3.072 < side.cost("postgres_in_kb") < 30
        assert 1 < side.cost("postgres_out_kb") < 100
    goals = figures.goals(outcome.sides)
    section = report.document("3000", outcome.about, outcome.sides, goals, outcome.left_out)
    assert all(report.TITLES[name] in section for name in SIDES)


@pytest.fixture
def admin():
    """A superuser's connection to the sample's documents."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder).resolve()) as server,
        psycopg.connect(server.dsn(), autocommit=True) as connection,
    ):
        migrate(connection)
        load(connection, read(SAMPLES["documents"]), LexicalEmbedder())
        yield connection


def test_a_peers_rows_are_in_the_form_of_the_one_that_it_wrote(admin):
    """Each with its own values; the one that was written to learn the form is gone, and kept data is used again."""
    creations = []

    def make():
        creations.append(True)
        admin.execute(
            "CREATE TABLE langchain_chunks (langchain_id uuid PRIMARY KEY, content text NOT NULL,"
            " embedding vector(768) NOT NULL, langchain_metadata json)"
        )
        metadata = {name: value for name, value in peers.SAMPLE.items() if name != "text"}
        admin.execute(
            "INSERT INTO langchain_chunks VALUES (gen_random_uuid(), %s, %s, %s)",
            (peers.SAMPLE["text"], str([1.0] * 768), Jsonb({**metadata, "kept": "as it is"})),
        )

    langchain = peers.PEERS[0]
    for _ in range(2):
        peers.load(admin, langchain, make, "the sample", lambda *_: None)
    assert creations == [True]
    theirs = admin.execute(
        f"SELECT {langchain.chunk_id}, langchain_metadata ->> 'document', langchain_metadata ->> 'section',"
        " (langchain_metadata ->> 'page')::int, content, embedding, langchain_metadata ->> 'kept'"
        " FROM langchain_chunks"
    ).fetchall()
    ours = admin.execute(
        "SELECT id, document_id, coalesce(section, ''), page, text_content, embedding, 'as it is'"
        " FROM public.document_chunks"
    ).fetchall()
    by_id = itemgetter(0)
    assert sorted(theirs, key=by_id) == sorted(ours, key=by_id)
    (definition,) = admin.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'langchain_chunks' AND indexdef LIKE '%hnsw%'"
    ).fetchone()
    assert "m='32', ef_construction='200'" in definition
