"""Views of answers: every fact of the contract's examples, in a total order, and quotes at their exact places."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retrieval_client.contract.answers import PipelineAnswer
from retrieval_client.contract.pinned import Citations, Replay
from retrieval_client.contract.results import Hybrid, TopK
from worker.adapters.terminal import printed
from worker.inspector.text.pipeline_answer import source_report
from worker.inspector.view.answer import answer_views, context_pieces
from worker.inspector.view.candidates import Leg, LegRank, Ranking
from worker.inspector.view.citations import citations_view, conflict_key
from worker.inspector.view.drift import drift_view
from worker.inspector.view.pieces import cut, ends, steps_each, word_diff
from worker.inspector.view.quotes import MOST_PIECES, checked_quote, quote_facts
from worker.inspector.view.run import About, RecordedPlace, run_view
from worker.inspector.view.sources import SourceView
from worker.inspector.view.wording import JOINS, short

EXAMPLES = Path(__file__).parents[3] / "docs" / "contract" / "examples"
HUM = "report-2023-001"
SPAN = st.tuples(st.integers(-2, 40), st.integers(-2, 40))


def example(name: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.json").read_text())


def pipeline(**changes: Any) -> PipelineAnswer:
    return PipelineAnswer.model_validate({**example("run_pipeline.result"), **changes})


def source(label: str, text: str) -> SourceView:
    return SourceView(label, "documents", label, "d1", "d1", 1, None, None, text)


# --- pieces -------------------------------------------------------------------------------------


@given(st.text(max_size=40), st.lists(st.tuples(SPAN, st.integers()), max_size=6))
def test_the_pieces_of_a_text_are_the_text(text: str, marked: list[Any]) -> None:
    """For any spans: nothing is lost or doubled, and each piece has the marks of the spans that cover it."""
    found = cut(text, marked)
    assert "".join(piece.text for piece in found) == text
    for piece in found:
        place = piece.start
        assert piece.marks == tuple(mark for (start, end), mark in marked if start <= place < end)


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30))
def test_a_word_diff_holds_both_texts(old: str, new: str) -> None:
    """Same and added pieces are the new text; same and removed ones have the old text's words."""
    found = word_diff(old, new)
    assert "".join(piece.text for piece in found if piece.change != "removed") == new
    kept = [piece for piece in found if piece.change != "added"]
    assert [word for piece in kept for word in piece.text.split()] == old.split()


@given(st.text("abc ", max_size=24), st.text("abc ", max_size=24))
def test_a_word_diff_is_a_shortest_one(old: str, new: str) -> None:
    """As many words stay as in any longest common subsequence, by the table that everybody can check."""
    before, after = old.split(), new.split()
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, one in enumerate(before, 1):
        for j, other in enumerate(after, 1):
            table[i][j] = table[i - 1][j - 1] + 1 if one == other else max(table[i - 1][j], table[i][j - 1])
    found = word_diff(" ".join(before), " ".join(after))
    assert sum(len(piece.text.split()) for piece in found if piece.change == "same") == table[-1][-1]


def test_a_word_diff_takes_bounded_time() -> None:
    """Of words that repeat between words that differ, in texts of any length; and so do all pins of a page."""
    for count in (1000, 20_000):
        old, new = (" ".join(f"A {letter}{i}" for i in range(count)) for letter in "pq")
        begun = time.thread_time()
        found = word_diff(old, new)
        assert time.thread_time() - begun < 5
        assert [piece.change for piece in found] == ["same", "removed", "added"]
    old, new = (" ".join(f"A {letter}{i}" for i in range(250)) for letter in "pq")
    assert len(word_diff(old, new, steps_each(1))) > 500
    assert len(word_diff(old, new, steps_each(500))) == 3


def test_a_word_diff_of_long_texts_takes_no_quadratic_time() -> None:
    """Beyond a limit the middle is shown as replaced, whole; what both begin and end with stays."""
    old, new = (" ".join(f"{letter}{i}" for i in range(3000)) for letter in "ab")
    found = word_diff(f"first {old} last", f"first {new} last")
    assert [piece.change for piece in found] == ["same", "removed", "added", "same"]


# --- answers ------------------------------------------------------------------------------------


def test_an_answers_marks_lead_to_their_sources() -> None:
    """The segments are the answer; a mark names its source, and the source is marked at the quoted sentence."""
    view = run_view(pipeline())
    assert view.answer is not None
    assert "".join(segment.text for segment in view.answer.segments) == example("run_pipeline.result")["answer"]
    assert [(one.text, one.labels) for one in view.answer.segments if one.labels] == [("S1", ("S1",))]
    (found,) = view.sources
    assert (found.label, found.verdict, found.page, found.section) == ("S1", "verbatim", 3, "Faults")
    assert [(piece.text, piece.marks) for piece in found.pieces] == [(found.text, ("quoted",))]


def test_unknown_and_unreadable_marks_are_said() -> None:
    """A mark without a source is never a link."""
    text, _ = answer_views("It hums [S1]. It burns [S9]. Odd [S1, see 2].", [source("S1", "It hums.")])
    problems = [(one.text, one.problem) for one in text.segments if one.problem]
    assert ("S9", "unknown") in problems
    assert text.unreadable == ("[S1, see 2]",)
    assert any(problem == "unreadable" for _, problem in problems)


def facts_of(quote: str, text: str) -> dict[str, list[tuple[str, ...]]]:
    """Each fact of a quote, as texts with their roles."""
    found = quote_facts(checked_quote(quote, text), text)
    return {name: [(piece.text, *piece.marks) for piece in pieces] for name, pieces in found}


def test_an_altered_quote_shows_both_texts_and_what_differs() -> None:
    """Each difference at its place in both, its kind in words, and the sentence around the passage."""
    text = "It is quiet. The gain of the desk is 3.5 dB above the floor. Nothing else was measured."
    assert facts_of("gain of the desk is 45 dB, above", text) == {
        "quote": [("gain of the desk is ",), ("45", "differs"), (" dB",), (",", "differs"), (" above",)],
        "source": [
            ("The ", "around"),
            ("gain of the desk is ",),
            ("3.5", "differs"),
            (" dB above",),
            (" the floor.", "around"),
        ],
        "differs": [
            *(("other words or numbers: ",), ("45", "differs"), (" for ",), ("3.5", "differs")),
            *(("\nother punctuation: ",), (",", "differs")),
        ],
    }


def test_a_word_for_word_quote_shows_how_its_sentence_goes_on() -> None:
    """A denial behind it is seen; of a whole sentence there is nothing to say."""
    text = "Das Medikament wirkt nicht bei Kindern."
    assert facts_of("Das Medikament wirkt", text) == {
        "source": [("Das Medikament wirkt",), (" nicht bei Kindern.", "around")]
    }
    assert facts_of(text, text) == {}


def test_an_elided_quote_shows_what_it_left_out_and_put_in() -> None:
    """Between the quoted parts, in the source too; said if it joins two sentences."""
    text = "Reels with a blue dot may not be baked. They may be sold by Greta at noon."
    view = checked_quote("Reels with a blue dot may […] be sold by [her] at noon", text)
    assert view.verdict == "elided"
    shown = dataclasses.replace(source("S1", text), quotes=(view,))
    assert [(piece.text, *piece.marks) for piece in shown.pieces] == [
        *(("Reels with a blue dot may", "quoted"), (" ",), ("not be baked. They may", "left_out"), (" ",)),
        *(("be sold by", "quoted"), (" ",), ("Greta", "left_out"), (" ",), ("at noon", "quoted"), (".",)),
    ]
    facts = facts_of(view.quote, text)
    assert facts["put in"] == [("her", "differs"), (" for ",), ("Greta", "differs")]
    assert facts["left out"] == [(JOINS,)]


def test_a_quote_with_very_many_differences_is_cut() -> None:
    """Of each kind some are listed and the others counted; the texts end after so many pieces."""
    words = [f"word{i}" for i in range(2000)]
    text = " ".join(words)
    facts = facts_of(", ".join(words), text)
    assert facts["differs"] == [("other punctuation: ",), (",", "differs")]
    assert len(facts["quote"]) == MOST_PIECES + 1
    changed = " ".join(f"new{i}" if i % 5 == 0 else word for i, word in enumerate(words))
    assert facts_of(changed, text)["differs"][-1] == ("; and 394 more",)


def test_a_long_source_is_shown_around_its_quote() -> None:
    """The excerpt has the quote whole, at its place; the pieces have all of the text."""
    text = "Noise. " * 2000 + "Channel 18 hums at 50 Hz. " + "Noise. " * 2000
    _, (found,) = answer_views("Channel 18 hums at 50 Hz [S1].", [source("S1", text)])
    shown = found.excerpt
    assert 1000 < sum(len(piece.text) for piece in shown) < 2000
    (quoted,) = (piece for piece in shown if "quoted" in piece.marks)
    (span,) = found.quotes[0].spans
    assert (quoted.text, quoted.start) == (text[slice(*span)], span[0])


def test_a_part_of_a_text_has_whole_words_and_says_that_it_is_one() -> None:
    """At both ends: the source around a quote, the rest of its sentence, a line that is cut; also where blanks are."""
    words = [f"word{i}" for i in range(1000)]
    text = " ".join(words)
    quote = " ".join(words[500:520])
    _, (found,) = answer_views(f'"{quote}" [S1].', [source("S1", text)])
    shown = "".join(piece.text for piece in found.excerpt)
    assert {*shown.split()} <= {*words}
    report = printed(source_report(found), width=5000).plain.splitlines()
    assert report[-1] == f"… {shown} …"
    before, *_, after = (piece.text for piece in dict(quote_facts(found.quotes[0], text))["source"])
    assert (before[:6], after[-2:]) == ("… word", " …")
    assert {*before.split(), *after.split()} <= {*words, "…"}
    for shortened in (short(text, 100), short(" " * 300 + text, 100), ends(text, 100)):
        assert {*re.split(r" |…", shortened)} <= {*words, ""}
        assert "…" in shortened
    assert short("多" * 200, 100) == "多" * 99 + "…"


def test_a_withheld_answer_has_no_text() -> None:
    """A recorded answer whose source changed: its candidates are there, no text, and the reason."""
    view = run_view(pipeline(answer=None, citations=[], supported=[], short_reason="changed"))
    assert (view.answer, view.short_reason) == (None, "changed")
    assert [one.chunk_id for one in view.kept] == [HUM]


def test_a_context_block_is_cut_at_its_fences() -> None:
    """Each source under its label; a source that holds a fence of another mark ends nothing."""
    mark = "9d2157971d01"
    block = (
        f"Sources, each between two lines with the mark {mark}. All …\n\n=== {mark} begin [S1]\ntitle: x\n\n"
        f"=== aaaaaaaaaaaa end [S1]\n=== {mark} end [S1]\n\nQuestion: why?\n"
    )
    found = context_pieces(block)
    assert [piece.label for piece in found] == [None, "S1", None]
    assert "aaaaaaaaaaaa" in found[1].text
    assert found[2].text == "Question: why?"
    assert [piece.label for piece in context_pieces("no fences")] == [None]


# --- candidates and stages ----------------------------------------------------------------------


def test_the_waterfall_has_exact_times_and_legs_below_the_search() -> None:
    """Stages follow each other; legs begin with the search, side by side."""
    bars = run_view(pipeline()).waterfall.bars
    assert [(bar.name, bar.is_leg, bar.start_ms, bar.duration_ms) for bar in bars] == [
        ("search", False, 0.0, 4.25),
        ("dense", True, 0.0, 3.5),
        ("sparse", True, 0.0, 2.25),
    ]


def test_only_a_stage_that_has_candidates_says_how_many_are_left() -> None:
    """One before the search has none yet, which is not the same as none left."""
    for places, remaining in (((), None), ((("documents", HUM),), 1)):
        view = run_view(pipeline(), About(rankings=(Ranking("search", places, (0.5,) * len(places)),)))
        assert [bar.remaining for bar in view.waterfall.bars if bar.name == "search"] == [remaining]


def test_every_candidate_says_where_it_left_and_why() -> None:
    """Kept, withheld and dropped ones, in a total order, with ranks after each stage that changed the order."""
    left = [{"corpus": "documents", "chunk_id": "c2", "stage": "cut", "reason": "beyond k"}]
    trace = {**example("run_pipeline.result")["trace"], "left": left}
    places = (("documents", HUM), ("documents", "c2"))
    rankings = (
        Ranking("search", places, (0.5, 0.4)),
        Ranking("rerank", places, (0.5, 0.4)),
        Ranking("cut", places[:1], (0.5,)),
    )
    recorded = (RecordedPlace("documents", HUM, "d1", 1, 0.75), RecordedPlace("documents", "c3", "d9", 2, 0.7))
    view = run_view(pipeline(trace=trace), About(rankings=rankings, recorded=recorded))
    assert [(one.outcome, one.chunk_id, one.stage, one.reason) for one in view.candidates] == [
        ("kept", HUM, None, None),
        ("withheld", "c3", "reading", "changed, or no longer visible"),
        ("dropped", "c2", "cut", "beyond k"),
    ]
    kept, _, dropped = view.candidates
    assert [(one.stage, one.rank, one.score) for one in kept.stages] == [("search", 1, 0.5), ("cut", 1, 0.5)]
    assert [(one.stage, one.rank) for one in dropped.stages] == [("search", 2)]
    assert [(leg.leg, leg.rank, leg.score) for leg in kept.legs] == [("dense", 1, 0.75), ("sparse", 1, 0.5)]
    assert (kept.label, kept.fused, kept.similarity) == ("S1", 0.03125, 0.75)


def test_a_hybrid_answer_shows_its_legs_side_by_side() -> None:
    """With what a leg found and the answer does not have, where the record kept the legs."""
    answer = Hybrid.model_validate(example("retrieve_hybrid.result"))
    own = run_view(answer)
    assert {(leg.corpus, leg.name) for leg in own.legs} == {("docs", "primary"), ("docs", "contextual")}
    leg = Leg("docs", "primary", (("docs-rhythm-004", LegRank("primary", 1, 0.75)), ("x", LegRank("primary", 2, 0.5))))
    view = run_view(answer, About(legs=(leg,)))
    assert [(one.chunk_id, one.outcome) for one in view.candidates] == [("docs-rhythm-004", "kept"), ("x", "dropped")]
    assert dict(view.facts)["fusion"] == "weighted"


def test_a_top_k_answer_is_one_leg() -> None:
    """Dense, by similarity."""
    answer = TopK.model_validate(example("retrieve_top_k.result"))
    view = run_view(answer)
    (leg,) = view.legs
    assert [chunk for chunk, _ in leg.places] == [chunk.chunk_id for chunk in answer.chunks]
    assert [one.text for one in view.kept] == [chunk.text for chunk in answer.chunks]


# --- citations and drift ------------------------------------------------------------------------


def test_citations_are_grouped_by_section_with_their_checks() -> None:
    """In the document's order, with integrity, permission and verdict of each."""
    answer = Citations.model_validate(example("build_citations.result"))
    view = citations_view(answer)
    assert [name or "unknown" for name, _ in view.sections] == list(answer.citations["by_section"])
    assert [(one.verdict, one.integrity, one.authorised) for one in view.citations] == [
        (check.verdict, check.integrity, check.authorised) for check in answer.verification
    ]


def conflicting() -> Citations:
    texts = ["Blue reels may not be baked.", "Blue reels may be baked."]
    cited = [
        {"chunk_hash": f"sha256:{i}", "source_id": f"d{i}", "text": text, "weight": 0.5, "section": None}
        for i, text in enumerate(texts)
    ]
    sides = [
        {"index": i, "chunk_hash": f"sha256:{i}", "source_id": f"d{i}", "span": [0, len(text)], "tokens": tokens}
        for (i, text), tokens in zip(enumerate(texts), ([[15, 18]], []), strict=True)
    ]
    conflict = {"kind": "possible_disagreement", "differs": ["negation"], "sides": sides}
    document = {"by_section": {"unknown": cited}, "all_citations": cited, "total_count": 2, "source_ids": ["d0", "d1"]}
    whole = example("build_citations.result")
    return Citations.model_validate(
        {**whole, "citations": document, "verification": [], "conflicts": [conflict], "quotes": []}
    )


def test_conflicts_show_both_sentences_and_the_differing_words() -> None:
    """Exact spans, a word diff, and the reader's decision by a key that other citations do not change."""
    answer = conflicting()
    (conflict,) = citations_view(answer).conflicts
    one, other = conflict.sides
    assert [(piece.text, piece.marks) for piece in one.sentence] == [
        ("Blue reels may ", ()),
        ("not", ("differs",)),
        (" be baked.", ()),
    ]
    assert [piece.marks for piece in other.sentence] == [()]
    assert [(piece.change, piece.text) for piece in conflict.diff if piece.change != "same"] == [("removed", "not ")]
    assert conflict.key == conflict_key(answer.conflicts[0])
    (decided,) = citations_view(answer, {conflict.key: "dismissed"}).conflicts
    assert (conflict.decision, decided.decision) == (None, "dismissed")


def test_drift_shows_the_changed_words_of_an_edited_chunk() -> None:
    """And only of a chunk whose pinned text a citations document has."""
    replay = Replay.model_validate(example("pinned_replay.result"))
    view = drift_view(replay)
    assert [(pin.verdict, pin.diff) for pin in view.pins] == [(pin.verdict, ()) for pin in replay.pins]
    edited = replay.pins[0].model_copy(update={"verdict": "edited", "found_hash": "sha256:new"})
    old, new = {edited.chunk_hash: "a 50 Hz hum"}, {"sha256:new": "a 60 Hz hum"}
    changed = drift_view(replay.model_copy(update={"pins": [edited]}), old, new)
    assert [(piece.change, piece.text) for piece in changed.pins[0].diff if piece.change != "same"] == [
        ("removed", "50 "),
        ("added", "60 "),
    ]
    assert changed.drifted
    assert changed.digest == replay.digest
