"""Hostile texts, and answers whose every string ends with one."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

from retrieval_client.contract.answers import PipelineAnswer
from worker.inspector.view.candidates import Leg, LegRank, Ranking
from worker.inspector.view.run import About, RecordedPlace, RunView, run_view

EXAMPLES = Path(__file__).parents[3] / "docs" / "contract" / "examples"

UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\U000e0000-\U000e0fff]"
)

TAGS = ("script", "img src=x onerror=alert(1)", "svg/onload=alert(1)", "iframe srcdoc=x", "style", "base href=//x", "a")
FORMS = (
    "<{}>",
    "</p><{}>",
    '"><{}>',
    "'><{}>",
    "<!--<{}>",
    "&lt;{}&gt;",
    "<\x00{}>",
    "<{}",
    "]]><{}>",
    "{{{{ '<{}>' }}}}",
)
OTHERS = (
    *(
        "javascript:alert(1)",
        "{{ 7*7 }}",
        "{% raw %}",
        "${x}",
        "#{x}",
        "\x1b[2J\x1b[31m",
        "\x1b]0;t\x07",
        "\x9b31m",
        "\x00",
    ),
    *(
        "\u202eevil\u202c",
        "\u2066x\u2069",
        "\u200b\u200e\u200f",
        "\ufeff",
        "\U000e0041\U000e007f",
        "\u2028\u2029",
        "\x85",
    ),
    *("\ufffd", "\uffff", "&#x3c;b&#x3e;", "&amp;lt;", "%3Cscript%3E", "' onfocus='x", '" autofocus "', "`", "\\u003c"),
    *("\r\nSet-Cookie: x=1", "a" * 5000, "\u0301" * 300, "﷽" * 50, "[S1]", "=cmd|' /C calc'!A0"),
)
HOSTILE = [*(form.format(tag) for form, tag in itertools.product(FORMS, TAGS)), *OTHERS]
HOSTILE += [f"{one}{other}" for one, other in itertools.islice(itertools.permutations(HOSTILE[:60:3], 2), 110)]


def example(name: str) -> Any:
    return json.loads((EXAMPLES / f"{name}.json").read_text())


def poisoned(value: Any, text: str, *, kept: frozenset[str]) -> Any:
    """A value of an answer with a text at the end of each of its strings, but for names on the wire."""
    if isinstance(value, dict):
        return {name: one if name in kept else poisoned(one, text, kept=kept) for name, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, text, kept=kept) for one in value]
    return value + text if isinstance(value, str) else value


NAMES = frozenset(
    {"chunk_hash", "label", "status", "quote", "verdict", "kind", "source_labels", "digest", "found_hash", "cache"}
)


def answered(text: str) -> RunView:
    """A view of an answer whose strings all end with a text."""
    answer = example("run_pipeline.result")
    left = [{"corpus": "c", "chunk_id": "x", "stage": "cut", "reason": "beyond k"}]
    answer["trace"] |= {"left": left, "warnings": ["w"], "hyde": ["h"]}
    answer = poisoned(answer, text, kept=NAMES | {"costs_total", "trace"}) | {"answer": answer["answer"] + text}
    answer["trace"] = poisoned(answer["trace"], text, kept=NAMES | {"search", "queries", "stages"})
    for candidate in answer["package"]["candidates"]:
        candidate |= {"chunk_id": "report-2023-001", "corpus": "documents"}
    about = About(
        *("subject" + text, "run" + text, "step" + text, "question" + text, (("mode", "m" + text),)),
        rankings=(Ranking("search", (("c" + text, "x" + text),), (0.5,)),),
        legs=(Leg("c" + text, "dense" + text, (("x" + text, LegRank("dense" + text, 1, 0.5)),)),),
        recorded=(RecordedPlace("c" + text, "gone" + text, "d" + text, 3, None),),
    )
    return run_view(PipelineAnswer.model_validate(answer), about)
