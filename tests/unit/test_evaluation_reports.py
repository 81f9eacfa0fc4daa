"""Reports of `retrieval-worker evaluate` on rankings: figures, sentences, the plot, the document."""

from __future__ import annotations

import io
import json
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from workbench.evaluation.asking import QueryHits
from workbench.evaluation.figures import Evaluation, RankedQuery, ranked
from workbench.evaluation.files import read_rankings
from workbench.evaluation.plan import Choice, plan_of
from workbench.evaluation.plot import svg
from workbench.evaluation.queries import LabelledQuery
from workbench.evaluation.report import document, notes, questions_table, sentence, table
from workbench.evaluation.systems import Hit, fusions
from worker.cli.usage import WrongUsage

HOSTILE = 'a<b>&"\x1b[2J\u202e'


def evaluation(rows: dict[str, dict[str, str]], pairs: Any = (("a", "b"),), **options: Any) -> Evaluation:
    """Queries whose relevant chunk is `x`: query → system → its ranking, a letter each."""
    one_by_one = [
        RankedQuery(
            LabelledQuery(name, i, HOSTILE, {"x": 1}),
            {system: [(letter, None) for letter in letters] for system, letters in rankings.items()},
        )
        for i, (name, rankings) in enumerate(rows.items(), 1)
    ]
    return Evaluation(one_by_one, ["a", "b"], pairs, **{"cut_offs": [1, 2], **options})


def test_means_are_over_the_queries_that_a_system_answers() -> None:
    """A leg that does not apply to a query is not judged by it; a comparison is of the queries of both."""
    found = evaluation({"q1": {"a": "x", "b": "yx"}, "q2": {"a": "y"}})
    assert {name: one["mrr"].mean for name, one in found.figures.items()} == {"a": 0.5, "b": 0.5}
    assert {name: one["mrr"].queries for name, one in found.figures.items()} == {"a": 2, "b": 1}
    (compared,) = found.comparisons
    assert (compared.queries, compared.differences["mrr"].estimate.mean) == (1, -0.5)


def test_a_query_without_anything_relevant_is_left_out_and_said() -> None:
    """Of the figures; it stays in the report."""
    found = evaluation({"q1": {"a": "x", "b": "x"}, "q2": {"a": "x", "b": "x"}}, relevant_from=2)
    assert (found.figures, found.without_relevant, found.comparisons) == ({}, ["q1", "q2"], [])
    assert notes(found) == ["2 questions without anything relevant: left out of the figures"]
    assert len(document(found, {}, {}, {})["queries"]) == 2


def test_degraded_answers_are_counted_by_their_code() -> None:
    """A code names what was missing, or what the embedder does not know."""
    ranked = RankedQuery(LabelledQuery("q1", 1, "x", {"x": 1}), {}, degraded=frozenset({"embedder_language"}))
    assert notes(Evaluation([ranked], [], [], [1]))[-1] == "1 question answered degraded: embedder_language"


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (
            "yx",
            "xy",
            "b finds more than a: +0.369 nDCG@2 (+0.369 to +0.369, p = 0.002); on 10 of 10 questions better, ",
        ),
        ("xy", "yx", "b finds less than a: -0.369 nDCG@2 (-0.369 to -0.369, p = 0.002); on 0 of 10 questions better, "),
        ("xy", "xz", "b and a do equally well: the same nDCG@2 on 10 questions."),
    ],
)
def test_a_comparison_is_a_sentence(a: str, b: str, said: str) -> None:
    """Which finds more, by how much, and on how many questions."""
    found = evaluation({f"q{i}": {"a": a, "b": b} for i in range(10)})
    assert sentence(found.comparisons[0], found.main_measure).startswith(said)


def test_a_difference_that_is_not_shown_is_not_said() -> None:
    """One question better is no difference."""
    found = evaluation({"q1": {"a": "yx", "b": "x"}, "q2": {"a": "x", "b": "x"}})
    assert sentence(found.comparisons[0], "mrr").startswith("No difference between b and a can be shown: +0.250 MRR")


def test_ids_that_nothing_found_are_said() -> None:
    """They may be wrong, or hidden from the caller."""
    found = evaluation({f"q{i}": {"a": "y", "b": "z"} for i in range(10)} | {"found": {"a": "y", "b": "x"}})
    (note,) = notes(found)
    assert note.startswith("10 questions with none of the relevant ids in any answer, as x of query q0: if they exist ")
    assert document(found, {}, {}, {})["not_found"] == [f"q{i}" for i in range(10)]


def test_questions_that_failed_or_changed_are_listed() -> None:
    """Those without anything relevant, then those that changed most, ten each; the others are counted."""
    rows = {f"lost-{i}": {"a": "y", "b": "z"} for i in range(12)}
    rows |= {"worse": {"a": "x", "b": "y"}, "better": {"a": "yx", "b": "x"}, "same": {"a": "x", "b": "x"}}
    found = evaluation(rows)
    listed = questions_table(found, found.comparisons)
    assert listed is not None
    cells = [[*column.cells] for column in listed.columns]
    assert cells[0] == [*(f"lost-{i}" for i in range(10)), "worse", "better"]
    assert cells[1][9:] == ["nothing relevant", "b worse", "b better"]
    assert cells[2][9:] == ["", "1.000 → 0.000", "0.631 → 1.000"]
    assert listed.caption == "and 2 more: a --report has all"
    assert not {"\x1b", "\u202e"} & {*"".join(map(str, cells[3]))}
    alone = questions_table(found, ())
    assert alone is not None
    assert alone.row_count == 10
    assert questions_table(evaluation({"q": {"a": "x", "b": "x"}}), ()) is None


def test_few_questions_are_said_to_show_little() -> None:
    """One has no interval."""
    found = evaluation({"q1": {"a": "yx", "b": "x"}})
    assert notes(found) == ["1 question can't tell systems apart: label 10 or more"]
    assert sentence(found.comparisons[0], "mrr").startswith(
        "No difference between b and a can be shown: +0.500 MRR (no interval of one question, p = 1.000)"
    )
    assert _cells(found) == {"0.500 (–)", "1.000 (–)", "0.631 (–)", "0.000 (–)"}


@pytest.mark.parametrize(("queries", "verdict"), [(1, "undecided"), (9, "undecided"), (10, "better")])
def test_fewer_than_ten_questions_show_nothing(queries: int, verdict: str) -> None:
    """Though the test may say so; the sentence tells why, and the document has the same verdict."""
    found = evaluation({f"q{i}": {"a": "yx", "b": "xy"} for i in range(queries)})
    (compared,) = document(found, {}, {}, {})["comparisons"]
    assert compared["differences"]["mrr"]["verdict"] == verdict
    assert compared["sentence"].endswith("; so few questions show nothing.") is (verdict == "undecided")


def test_chunks_and_documents_at_once_are_said() -> None:
    """The documents would count as missed, silently."""
    hits = {"a": [Hit("c1", "d1", 0.9), Hit("c2", "d2", 0.8)]}
    for grades, is_mixed in (({"c1": 1, "d2": 1}, True), ({"c1": 1}, False), ({"d2": 1, "d9": 1}, False)):
        one = ranked(QueryHits(LabelledQuery("q", 1, "hum", grades), hits, frozenset()), None)
        assert one.is_mixed is is_mixed
        assert (
            any("chunks and documents at once" in note for note in notes(Evaluation([one], ["a"], [], [5]))) is is_mixed
        )


def _cells(found: Evaluation) -> set[str]:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(table("one", found))
    return set(re.findall(r"\d\.\d{3} \(.*?\)", console.export_text()))


@pytest.mark.parametrize(
    ("grades", "by", "ids"),
    [
        ({"c2": 1}, None, ["c1", "c2", "c3"]),
        ({"d1": 1}, None, ["d1", "d2"]),
        ({"d9": 1}, None, ["c1", "c2", "c3"]),
        ({"c2": 1, "d1": 1}, None, ["c1", "c2", "c3"]),
        ({"c2": 1}, "document", ["d1", "d2"]),
        ({"d1": 1}, "chunk", ["c1", "c2", "c3"]),
    ],
)
def test_judgements_are_of_what_their_ids_match(grades: dict[str, int], by: Any, ids: list[str]) -> None:
    """Of documents where they name no chunk that was found; a document ranks as its best chunk."""
    hits = [Hit("c1", "d1", 0.9), Hit("c2", "d1", 0.8), Hit("c3", "d2", 0.7)]
    one = ranked(QueryHits(LabelledQuery("q", 1, "?", grades), {"a": hits}, frozenset()), by)
    assert [item for item, _ in one.rankings["a"]] == ids
    assert one.rankings["a"][0][1] == 0.9


def test_the_plot_is_xml_that_shows_each_figure() -> None:
    """Untrusted names are text in it; the same figures give the same bytes; it is dark where its reader's screen is."""
    found = evaluation({"q1": {"a": "x", "b": "yx"}})
    drawn = svg(HOSTILE, found)
    assert drawn == svg(HOSTILE, found)
    assert "prefers-color-scheme: dark" in drawn
    root = ET.fromstring(drawn)  # noqa: S314 -- made here
    circles = [element for element in root.iter() if element.tag.endswith("circle")]
    assert len(circles) == 2 * len(found.measures)
    assert not {"\x1b", "\u202e"} & {*drawn}


def test_the_document_holds_all_that_its_figures_rest_on() -> None:
    """Plain JSON: from rankings and grades of each query the figures can be made again."""
    found = evaluation({"q1": {"a": "x", "b": "yx"}, "q2": {"a": "zx", "b": "x"}})
    whole = json.loads(json.dumps(document(found, {}, {"k": [1, 2]}, {"source": "f"})))
    assert whole["settings"] == {"k": [1, 2], "confidence": 0.95, "resamples": 10_000, "seed": 20}
    (figures,) = [one["figures"] for one in whole["systems"] if one["name"] == "a"]
    of_queries = [one["systems"]["a"] for one in whole["queries"]]
    assert [[item["id"] for item in one["ranked"]] for one in of_queries] == [["x"], ["z", "x"]]
    assert figures["mrr"]["mean"] == sum(one["measures"]["mrr"] for one in of_queries) / 2 == 0.75
    assert whole["comparisons"][0]["sentence"].startswith("No difference between b and a")
    assert whole["queries"][0]["relevant"] == {"x": 1}


def test_a_plan_names_legs_and_the_whole_or_two_to_compare() -> None:
    """A name of a fusion is a hybrid retrieval, any other a profile."""
    assert [*plan_of(Choice(), None).systems] == ["dense", "sparse", "contextual", "whole"]
    compared = plan_of(Choice(legs="primary,sparse"), ("rrf", "dense"))
    assert {name: system.kind for name, system in compared.systems.items()} == {"rrf": "hybrid", "dense": "profile"}
    assert compared.systems["rrf"].fields["legs"] == ["primary", "sparse"]
    assert {"rrf", "weighted", "similarity"} <= {*fusions()}


@pytest.mark.parametrize(
    ("choice", "compare"),
    [
        (Choice(profile="dense", fusion="rrf"), None),
        (Choice(profile="dense"), ("rrf", "weighted")),
        (Choice(), ("rrf", "rrf")),
        (Choice(), ("rrf", "")),
    ],
)
def test_options_that_exclude_each_other_are_refused(choice: Choice, compare: Any) -> None:
    """None of them wins in silence."""
    with pytest.raises(WrongUsage):
        plan_of(choice, compare)


def test_a_query_that_a_run_has_not_was_answered_with_nothing(tmp_path: Any) -> None:
    """It counts as nothing found, as with trec_eval's -c; queries without judgements do not count."""
    (tmp_path / "run.txt").write_text("q1 Q0 x 1 0.5 t\nq9 Q0 x 1 0.5 t\n")
    queries = [LabelledQuery(name, 0, "", {"x": 1}) for name in ("q1", "q2")]
    names, read = read_rankings([tmp_path / "run.txt"], queries)
    assert Evaluation(read, names, (), [1]).figures["run"]["mrr"].mean == 0.5
    with pytest.raises(WrongUsage, match="each file once"):
        read_rankings([tmp_path / "run.txt"] * 2, queries)
