"""The search width of HNSW: by the size of a corpus, as calibrated, and over an index of halfvec."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from retrieval_client.errors import SettingsError
from synthetic.loading import Index
from synthetic.stage import CORPUS, Stage, stage
from synthetic.vectors import Dataset
from workbench.calibration import Caller, CorpusCalibration, calibration
from workbench.core.calibration import Goal
from worker.adapters.postgres.database import connected
from worker.adapters.postgres.index_advice import index_findings
from worker.adapters.postgres.search import Corpus, SearchResult, VectorSearch, search_each
from worker.adapters.postgres.statements import LEAST_WIDTH, NARROW_FACTOR, OVER_FETCH, ROWS_PER_WIDTH
from worker.cli.usage import WrongUsage
from worker.model import NO_FILTERS, FilterSet
from worker.settings.serving import CalibratedWidth, Calibration

from .large import executed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROWS = 3000
"""Above `search.exact_rows`, so that the index is used; half of them are too many for exact search."""


@pytest.fixture(scope="module", params=[16, 18])
def on(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """3,000 rows under an index so sparse that a narrow search misses much, on PostgreSQL 16 and 18."""
    sparse, small = Index(m=6, ef_construction=16), {"shared_buffers": "4MB"}
    with stage(Dataset(ROWS), sparse, postgres_version=request.param, keep=None, server=small) as filled:
        yield filled


def corpus(on: Stage, calibration: Calibration | None = None, **settings: Any) -> Corpus:
    changed = on.settings.corpora[CORPUS].model_copy(update=settings)
    return Corpus(CORPUS, changed, on.settings.search, on.database.types[CORPUS], calibration)


def asked(
    on: Stage, corpus: Corpus, percent: int = 100, filters: FilterSet = NO_FILTERS, exact: bool = False
) -> SearchResult:
    (query,) = on.dataset.queries(1)
    return corpus.nearest(on.database, on.caller(percent), query, 15, filters, exact=exact)


def calibrated(rows: int, *widths: int) -> Calibration:
    points = [CalibratedWidth(visible=1, ef_search=width, recall=1, worst=1) for width in widths]
    return Calibration(rows=rows, points=points)


@contextlib.contextmanager
def counted_as(on: Stage, times: int) -> Iterator[None]:
    """Let Postgres estimate the corpus so many times as large as it is."""
    size = "UPDATE pg_class SET reltuples = %s, relpages = %s WHERE oid = 'public.document_chunks'::regclass"
    (before,) = on.admin.execute(
        "SELECT ARRAY[reltuples, relpages] FROM pg_class WHERE oid = 'public.document_chunks'::regclass"
    ).fetchone()
    on.admin.execute(size, (before[0] * times, before[1]))
    try:
        yield
    finally:
        on.admin.execute(size, before)


# --- the width ----------------------------------------------------------------------------------


def test_without_a_calibration_the_width_is_by_size(on: Stage) -> None:
    """A thousandth of the rows, and at least the least; the trace says what came of it."""
    assert asked(on, corpus(on)).ef_search == LEAST_WIDTH
    with counted_as(on, 100):
        assert asked(on, corpus(on)).ef_search == pytest.approx(ROWS * 100 / ROWS_PER_WIDTH, rel=0.02)


def test_a_calibration_holds_for_the_size_that_it_was_made_at(on: Stage) -> None:
    """The widest of its points, whatever the rule by size says, because the caller's share is not known."""
    assert asked(on, corpus(on, calibrated(10 * ROWS, 40, 70, 60))).ef_search == 70


def test_the_width_grows_with_the_corpus(on: Stage) -> None:
    """Three times the rows: three times the width, up to the most that pgvector takes."""
    assert asked(on, corpus(on, calibrated(ROWS // 3, 50))).ef_search == pytest.approx(150, rel=0.05)
    assert asked(on, corpus(on, calibrated(ROWS // 100, 50))).ef_search == 1000


def test_a_filter_has_the_wider_of_both(on: Stage) -> None:
    """A calibration was made without filters."""
    filters = FilterSet(pages=tuple(range(1, 10)))
    assert asked(on, corpus(on, calibrated(ROWS, 40)), filters=filters).ef_search == LEAST_WIDTH
    assert asked(on, corpus(on, calibrated(ROWS, 900)), filters=filters).ef_search == pytest.approx(900, rel=0.02)


def test_where_nothing_is_near_the_index_is_searched_again_wider(on: Stage) -> None:
    """A graph that loses a query finds rows that are all about equally far, as those of a query of noise are."""
    noise = np.random.default_rng(4).standard_normal(768).astype(np.float32)
    noise /= np.linalg.norm(noise)
    for width, wider in ((40, 160), (400, 1000), (1000, 1000)):
        searched = on.corpus(ef_search=width)
        found = searched.nearest(on.database, on.caller(100), noise, 15, NO_FILTERS, exact=False)
        assert (found.method, found.ef_search, len(found.candidates)) == ("index", wider, 15)
        (alone,) = search_each(on.database, [(on.caller(100), VectorSearch(searched, noise, 15, NO_FILTERS))], 10)
        assert (alone is None) == (width < wider), "a job of a bundle is searched again by itself"


def test_queries_that_the_graph_loses_find_more_by_the_wider_search(on: Stage) -> None:
    """This sparse graph loses some at the least width: none finds fewer of the right rows then, and some find more."""
    searched = on.corpus(ef_search=15)
    lost, gained = 0, 0
    for query in on.dataset.queries(300):
        once = VectorSearch(searched, query, 15, NO_FILTERS)
        (rows,) = on.database.read(on.caller(100), once.statements(), corpora=[CORPUS])
        if isinstance(once.read([rows]), SearchResult):
            continue
        true, found = (
            {
                one.chunk.id
                for one in searched.nearest(on.database, on.caller(100), query, 15, NO_FILTERS, exact=exact).candidates
            }
            for exact in (True, False)
        )
        before, after = len({row[8] for row in rows} & true), len(found & true)
        assert after >= before
        lost, gained = lost + 1, gained + (after > before)
    assert 0 < gained <= lost


# --- calibrating --------------------------------------------------------------------------------


@pytest.fixture
def calibrating(on: Stage) -> Iterator[CorpusCalibration]:
    made = CorpusCalibration(on.settings, CORPUS, 60)
    yield made
    made.close()


def callers(on: Stage, calibrating: CorpusCalibration, *percents: int) -> dict[Caller, float]:
    found = [Caller(str(percent), on.caller(percent)) for percent in percents]
    return {caller: calibrating.visible(caller) / ROWS for caller in found}


def measured(calibrating: CorpusCalibration, who: Mapping[Caller, float], goal: Goal, *steps: int) -> list[Any]:
    queries = calibrating.sample(next(iter(who)), 30, seed=1)
    return [*calibrating.measure(who, queries, steps, goal, lambda *_: None)]


def test_each_caller_gets_the_least_width_that_is_enough(on: Stage, calibrating: CorpusCalibration) -> None:
    """The width rises until the recall is enough, and is not tried for who has enough."""
    who = callers(on, calibrating, 100, 50)
    lines = measured(calibrating, who, Goal(0.98, 0.6), 15, 60, 200, 1000)
    for caller, visible in ((("100"), 1.0), ("50", 0.5)):
        mine = [line for line in lines if line.caller == caller]
        assert [line.ef_search for line in mine] == [15, 60, 200, 1000][: len(mine)]
        assert [line.enough for line in mine] == [False] * (len(mine) - 1) + [True]
        assert all(line.reached == line.quality.reaches(Goal(0.98, 0.6)) for line in mine)
        (first, *_) = (line.ef_search for line in mine if line.reached)
        assert mine[-1].reached
        assert mine[-1].ef_search >= 2 * first or mine[-1].ef_search == 1000
        assert {line.visible for line in mine} == {visible}
    made = calibration(calibrating.rows, [line for line in lines if line.enough])
    assert made is not None
    assert made.ef_search == max(line.ef_search for line in lines)
    assert made.ef_search > 15


def test_the_width_that_was_calibrated_reaches_the_goal(on: Stage, calibrating: CorpusCalibration) -> None:
    """The written width is the measured one: a search with it finds as much."""
    who, goal = callers(on, calibrating, 100), Goal(0.98, 0.6)
    made = calibration(
        calibrating.rows, [line for line in measured(calibrating, who, goal, 15, 60, 200, 1000) if line.enough]
    )
    searched, everything = corpus(on, made), corpus(on)
    hits = 0
    queries = calibrating.sample(next(iter(who)), 30, seed=1)
    for query in queries:
        found, true = (
            one.nearest(on.database, on.caller(100), query, 15, NO_FILTERS, exact=one is everything)
            for one in (searched, everything)
        )
        hits += len({c.chunk.id for c in found.candidates} & {c.chunk.id for c in true.candidates})
    assert hits >= 0.98 * 15 * len(queries)


def test_the_same_seed_asks_the_same(on: Stage, calibrating: CorpusCalibration) -> None:
    """Sample and questions follow from the rows and the seed; another seed asks something else."""
    (who,) = callers(on, calibrating, 50)
    first, again, other = (np.array(calibrating.sample(who, 20, seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert np.linalg.norm(first, axis=1) == pytest.approx(1, abs=1e-6)


def test_a_sample_is_of_what_its_caller_sees(on: Stage, calibrating: CorpusCalibration) -> None:
    """30 rows are visible to the owner of one percent, so a larger sample has 30."""
    (who,) = callers(on, calibrating, 1)
    assert calibrating.visible(who) == len(calibrating.sample(who, 1000, seed=1)) == ROWS // 100


def test_who_is_searched_for_exactly_has_nothing_to_calibrate(on: Stage, calibrating: CorpusCalibration) -> None:
    """1 % visible: no index, recall 1, no point."""
    (line,) = measured(calibrating, callers(on, calibrating, 1), Goal(), 15, 60)
    assert (line.quality.mean, line.quality.by_index, line.enough) == (1.0, 0.0, True)
    assert calibration(calibrating.rows, [line]) is None


def test_a_corpus_without_a_usable_index_is_refused(on: Stage) -> None:
    """Every width would be exact search, and all of them enough."""
    valid = "UPDATE pg_index SET indisvalid = %s WHERE indexrelid = 'document_chunks_embedding_idx'::regclass"
    on.admin.execute(valid, (False,))
    try:
        with pytest.raises(SettingsError, match="no HNSW index"):
            CorpusCalibration(on.settings, CORPUS, 60)
    finally:
        on.admin.execute(valid, (True,))
    with pytest.raises(WrongUsage, match="--corpus: expected one of"):
        CorpusCalibration(on.settings, "nothing", 60)


def test_a_statement_may_take_longer_than_one_of_a_job(on: Stage) -> None:
    """Exact search of a large corpus does; the settings' own limit would end it."""
    impatient = on.settings.model_copy(update=searching(on, statement_timeout_seconds=0.001))
    calibrating = CorpusCalibration(impatient, CORPUS, 60)
    assert calibrating.visible(Caller("all", on.caller(100))) == ROWS
    calibrating.close()


# --- advice -------------------------------------------------------------------------------------


def advice(on: Stage, **changes: Any) -> list[str]:
    """All that `doctor` says of the corpus's index."""
    settings = on.settings.model_copy(update=changes)
    with connected(settings.database_connection_string.get_secret_value()) as connection:
        found = [*index_findings(connection, settings, CORPUS, on.database.types[CORPUS])]
    assert {(finding.level, finding.subject) for finding in found} <= {("advice", f"corpus {CORPUS}")}
    return [finding.text for finding in found]


def searching(on: Stage, **changes: Any) -> Mapping[str, Any]:
    return {"search": on.settings.search.model_copy(update=changes)}


def execute(on: Stage, said: str) -> None:
    """Run the SQL of a piece of advice as it stands."""
    for command in re.findall(r"(?:CREATE|DROP) INDEX [^;]+", said):
        on.admin.execute(command.encode())


def test_a_sparse_index_and_one_that_is_too_large_are_named(on: Stage) -> None:
    """Parameters, memory; each with what mends it. A corpus that is searched exactly anyway is left alone."""
    parameters, size = advice(on)
    assert "m = 6, ef_construction = 16" in parameters
    assert "does not fit into shared_buffers (4 MB)" in size
    assert advice(on, **searching(on, exact_rows=ROWS * 2)) == []


def test_a_large_corpus_wants_a_denser_index(on: Stage) -> None:
    """A graph for some thousand rows loses queries over 100,000; the size is Postgres' own estimate."""
    assert "m = 16 gave 1.000" in advice(on)[0]
    with counted_as(on, 100):
        assert "m = 32 0.997" in advice(on)[0]


def test_an_iterative_scan_reaches_as_far_as_callers_need_and_has_memory_for_it(on: Stage) -> None:
    """At least 40,000 rows; further for a caller who sees just too much for exact search."""
    limits = (
        b"SELECT current_setting('hnsw.max_scan_tuples')::float, current_setting('hnsw.scan_mem_multiplier')::float"
    )
    (query,) = on.dataset.queries(1)

    def scan_limits() -> tuple[float, float]:
        statements = VectorSearch(on.corpus(), query, 15, NO_FILTERS).statements()
        *_, ((tuples, memory),) = on.database.read(on.caller(100), [*statements, (limits, {})], corpora=[CORPUS])
        return tuples, memory

    work_mem = 4 * 2**20
    assert scan_limits() == (40_000, np.ceil(40_000 * 340 / work_mem))
    with counted_as(on, 10**6):
        tuples, memory = scan_limits()
    assert tuples == pytest.approx(OVER_FETCH / NARROW_FACTOR * (10**6 * ROWS) ** 0.5, rel=0.02)
    assert memory == np.ceil(tuples * 340 / work_mem)


def test_a_calibration_that_the_corpus_has_outgrown_is_named(on: Stage) -> None:
    """At more than twice the rows; before that the width grows in proportion."""
    assert advice(on, calibration={CORPUS: calibrated(ROWS // 2 + 100, 100)}) == advice(on)
    (outgrown,) = {*advice(on, calibration={CORPUS: calibrated(ROWS // 3, 100)})} - {*advice(on)}
    assert "calibrate --corpus documents --write" in outgrown


def test_embeddings_out_of_line_are_named_and_brought_in(on: Stage) -> None:
    """The command rewrites the table, and no vector is left outside."""
    outside = "SELECT pg_relation_size(reltoastrelid) FROM pg_class WHERE oid = 'document_chunks'::regclass"
    on.admin.execute("ALTER TABLE document_chunks ALTER COLUMN embedding SET STORAGE EXTERNAL")
    on.admin.execute("VACUUM FULL document_chunks")
    assert on.admin.execute(outside).fetchone()[0] > ROWS * 3080
    (said,) = (one for one in advice(on) if "out of line" in one)
    for command in re.findall(r"(?:ALTER TABLE|VACUUM FULL) [^;]+", said):
        on.admin.execute(command.encode())
    # Texts may go out instead: the row is large.
    assert on.admin.execute(outside).fetchone()[0] < ROWS * 1000
    assert "out of line" not in "".join(advice(on))


# --- halfvec ------------------------------------------------------------------------------------


def used_indexes(on: Stage, corpus: Corpus, percent: int) -> set[str]:
    (query,) = on.dataset.queries(1)
    ((statement, values),) = VectorSearch(corpus, query, 15, NO_FILTERS).statements()
    plan = (b"EXPLAIN (ANALYZE, COSTS OFF, FORMAT JSON) " + statement, values)
    (rows,) = on.database.read(on.caller(percent), [plan])
    return {name for name in executed(rows[0][0][0]["Plan"]) if name.startswith("document_chunks_")}


@pytest.mark.parametrize("percent", [100, 50])
def test_an_index_over_halfvec_is_used_and_its_answers_are_exact(on: Stage, percent: int) -> None:
    """The plan has it, under row-level security; distances are those of the vectors themselves."""
    assert used_indexes(on, corpus(on), percent) == {"document_chunks_embedding_idx"}
    found = asked(on, corpus(on), percent)
    true = {c.chunk.id: c.similarity for c in asked(on, corpus(on), percent, exact=True).candidates}
    assert found.method == "index"
    assert len(found.candidates) == 15
    same = {c.chunk.id: c.similarity for c in found.candidates if c.chunk.id in true}
    assert len(same) >= 7  # the graph is sparse, and another one each time
    assert same == {chunk_id: true[chunk_id] for chunk_id in same}


def test_what_halfvec_can_not_tell_apart_is_searched_exactly(on: Stage) -> None:
    """500 vectors that differ in the last bits: equal over halfvec, yet the answer is the exact one."""
    (query,) = on.dataset.queries(1)
    random = np.random.default_rng(3)
    near = query + random.standard_normal((500, 768)).astype(np.float32) * np.float32(1e-5)
    copies = [(f"copy{i:04d}", vector) for i, vector in enumerate(near)]
    with on.admin.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO document_chunks (id, document_id, text_content, embedding)"
            " VALUES (%s, 'd0000000', 'copy', %s)",
            copies,
        )
    try:
        found = asked(on, corpus(on))
        assert found.method == "exact"
        true = asked(on, corpus(on), exact=True)
        assert [c.chunk.id for c in found.candidates] == [c.chunk.id for c in true.candidates]
    finally:
        on.admin.execute("DELETE FROM document_chunks WHERE id LIKE 'copy%'")
