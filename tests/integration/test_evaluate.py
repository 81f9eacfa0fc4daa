"""`retrieval-worker evaluate --here` on the reference corpora."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.command_line import command_line

from worker.core.text import lexical

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.command_line import Command

LABELLED = Path(__file__).parents[2] / "benchmarks" / "labelled" / "queries.jsonl"
QUESTION = "What causes the 50 Hz hum on channel 18?"
OF_ALICE = "handbook-desk-notes-006"
"""A chunk that alice may see, and bob not."""


@pytest.fixture
def evaluate(worker_environment: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs the command without a worker, on the fresh database."""
    typed = command_line(capsys, {**worker_environment(), "RETRIEVAL_WORKER_TRUST_QUEUE": "false"})
    return lambda *arguments, **environment: typed("evaluate", *arguments, **environment)


@pytest.fixture
def asked(tmp_path: Path) -> Callable[..., str]:
    """Writes a file of queries."""

    def write(*queries: dict[str, Any]) -> str:
        file = tmp_path / "queries.jsonl"
        file.write_text("".join(f"{json.dumps(query)}\n" for query in queries))
        return str(file)

    return write


def test_two_callers_are_measured_by_what_each_may_see(evaluate: Command, asked: Callable[..., str]) -> None:
    """The same question with the same judgement: found for one, and for the other in no system."""
    common = {"question": QUESTION, "relevant": [OF_ALICE]}
    file = asked({**common, "id": "a", "caller": {"user_id": "alice"}}, {**common, "id": "b", "caller": "bob"})
    done = evaluate(file, "--here", "--json", "--legs", "primary,sparse")
    assert done.returncode == 0, done.stderr
    found = {
        query["id"]: {name: system["measures"]["recall@10"] for name, system in query["systems"].items()}
        for query in json.loads(done.stdout)["queries"]
    }
    assert (found["a"]["dense"], found["a"]["whole"]) == (1.0, 1.0)
    assert {*found["b"].values()} == {0.0}
    assert found["b"].keys() >= {"dense", "sparse", "whole"}
    again = evaluate(file, "--here", "--json", "--legs", "primary,sparse")
    first, second = ({**json.loads(one.stdout), "made_at": ""} for one in (done, again))
    assert first == second


def test_the_caller_of_lines_that_name_none(evaluate: Command, asked: Callable[..., str]) -> None:
    """By an option; without one, a corpus that is not public can't be asked, and the line is said."""
    file = asked({"question": QUESTION, "relevant": [OF_ALICE]})
    for option in (("--as", "alice"), ("--claims", '{"user_id": "alice"}')):
        done = evaluate(file, "--here", "--json", *option)
        figures = json.loads(done.stdout)["systems"][0]["figures"]
        assert figures["recall@10"]["mean"] == 1.0
    refused = evaluate(file, "--here")
    assert (refused.returncode, "line 1: the corpus documents is not public" in refused.stderr) == (1, True)


def test_documents_may_be_judged(evaluate: Command, asked: Callable[..., str]) -> None:
    """Ids of documents are told from those of chunks by what they match."""
    query = {"question": QUESTION, "relevant": ["handbook-desk-notes"], "caller": "alice"}
    done = evaluate(asked(query), "--here", "--json")
    (found,) = json.loads(done.stdout)["queries"]
    assert found["unit"] == "document"
    items = [item["id"] for item in found["systems"]["dense"]["ranked"]]
    assert found["systems"]["dense"]["measures"]["mrr"] == 1 / (1 + items.index("handbook-desk-notes"))
    assert len({*items}) == len(items)


def test_an_embedding_of_the_backend_is_used(evaluate: Command, asked: Callable[..., str]) -> None:
    """For the dense leg, in place of the question's; one of the wrong size is an error of its line."""
    vector = lexical.embed([QUESTION])[0].tolist()
    query = {"question": "unrelated words", "relevant": [OF_ALICE], "caller": "alice"}
    done = evaluate(asked({**query, "query_embedding": vector}), "--here", "--json")
    systems = json.loads(done.stdout)["queries"][0]["systems"]
    assert (systems["dense"]["measures"]["recall@10"], systems["sparse"]["measures"]["recall@10"]) == (1.0, 0.0)
    wrong = evaluate(asked({**query, "query_embedding": [0.5]}), "--here")
    assert (wrong.returncode, "line 1: query_embedding: expected exactly 768" in wrong.stderr) == (2, True)


def test_profiles_and_fusions_are_compared(evaluate: Command) -> None:
    """On the labelled set: a table of each, the differences, and a sentence."""
    done = evaluate(str(LABELLED), "--here", "--k", "5", "--compare", "dense", "hybrid_rrf")
    assert done.returncode == 0, done.stderr
    assert "hybrid_rrf less dense" in done.stdout
    assert "of 103 questions better" in done.stdout


def test_two_fusions_of_one_leg_are_no_comparison(evaluate: Command, asked: Callable[..., str]) -> None:
    """That nothing is compared is said, in the report too; and no Redis is needed to search in this process."""
    query = asked({"question": QUESTION, "relevant": [OF_ALICE], "caller": "alice"})
    options = ("--here", "--legs", "primary", "--compare", "rrf", "weighted")
    done = evaluate(query, *options, CELERY_BROKER_URL="", CELERY_RESULT_BACKEND="")
    said = "Nothing is compared: weighted and rrf rank every question alike, as two fusions of one leg do."
    assert (done.returncode, said in done.stdout) == (0, True), done.stderr
    both = evaluate(query, "--here", "--json", "--legs", "primary,sparse", "--compare", "rrf", "similarity")
    assert "Nothing is compared" not in json.loads(both.stdout)["comparisons"][0]["sentence"]


def test_every_line_that_names_an_unknown_corpus_is_named(evaluate: Command, asked: Callable[..., str]) -> None:
    """Before anything is asked, the first fifty of them."""
    line = {"question": "hum", "relevant": ["c"], "caller": "alice"}
    corpora = ["docs"] * 9 + ["nowhere", "examples", "elsewhere", "nowhere"]
    done = evaluate(asked(*({**line, "corpus": corpus} for corpus in corpora)), "--here")
    assert (done.returncode, done.stdout, "stopped after" in done.stderr) == (2, "", False)
    named = [f"line {number}: corpus: expected one of documents, docs, examples" for number in (10, 12, 13)]
    *said, last = done.stderr.splitlines()
    assert [one.partition("jsonl: ")[2] for one in said if "jsonl: " in one] == named
    assert last.endswith("3 of 13 lines are wrong, see above")
    many = evaluate(asked(*({**line, "corpus": f"n{i}"} for i in range(60))), "--here")
    assert (many.stderr.count(": corpus: "), many.stderr.splitlines()[-2]) == (50, "and 10 more")


@pytest.mark.parametrize(
    ("query", "options", "code", "said"),
    [
        ({"corpus": "nowhere"}, (), 2, "line 1: corpus: expected one of documents, docs, examples"),
        ({}, ("--profile", "nothing"), 2, "whole: profile: expected one of dense, "),
        ({}, ("--compare", "rrf", "nothing"), 2, "; or a fusion: similarity, rrf, weighted"),
        ({}, ("--fusion", "nothing"), 2, "whole: fusion: expected 'similarity'"),
        ({}, ("--legs", "contextual"), 2, "whole: legs: expected primary or sparse beside contextual"),
        ({"relevant": []}, (), 2, "expected a query with a relevant id, of grade 1 or more, got none"),
        ({"caller": {"user_id": {}}}, (), 2, "line 1: caller.user_id: expected a string"),
        ({}, ("--run", "run.txt"), 2, "--run: nothing is searched"),
        ({}, ("--k", "5,51"), 2, "--k: expected at most the 50 chunks"),
        ({}, ("--report", "nowhere/report.json"), 2, "--report: expected a file in a folder that exists"),
    ],
)
def test_what_can_not_be_asked_is_one_sentence(
    evaluate: Command,
    asked: Callable[..., str],
    query: dict[str, Any],
    options: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    """By the line and its field, or by the option."""
    done = evaluate(asked({"question": "hum", "relevant": ["c"], "caller": "alice", **query}), "--here", *options)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr.splitlines()[-1]
