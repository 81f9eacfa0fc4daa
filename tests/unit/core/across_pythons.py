"""Outcomes of the core that may not depend on the Python version, a digest for each group, as JSON.

Needs only the standard library, so that any interpreter can run it: python3.13 tests/unit/core/across_pythons.py
With the name of a group it writes that group's outcomes, a line each: `diff` shows what two interpreters disagree in.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]


def _make_importable() -> None:
    """Let the pure parts be imported without redis and numpy, which their packages' `__init__` would import."""
    sys.path[:0] = [str(ROOT), str(ROOT / "client")]
    for name in ("retrieval_client", "worker.core.citations.disagreement"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)


if __name__ == "__main__":
    _make_importable()

from worker.core.citations.answering import check_answer  # noqa: E402 -- once it can be imported
from worker.core.citations.disagreement.reading import read_sentence  # noqa: E402 -- as above
from worker.core.citations.labels import classify, defused  # noqa: E402 -- as above
from worker.core.citations.quoting import QuotedChunk, check_quote  # noqa: E402 -- as above
from worker.core.citations.quoting.characters import CLASSES, KEYS  # noqa: E402 -- as above
from worker.core.ranking.near_duplicates import NearDuplicates  # noqa: E402 -- as above
from worker.core.text import unicode_data  # noqa: E402 -- as above
from worker.core.text.cleaning import one_line  # noqa: E402 -- as above
from worker.core.text.glossary import Glossary  # noqa: E402 -- as above
from worker.core.text.keywords import words  # noqa: E402 -- as above
from worker.core.text.sentences import split_sentences  # noqa: E402 -- as above
from worker.core.text.terms import terms  # noqa: E402 -- as above
from worker.core.text.websearch import searchable  # noqa: E402 -- as above

# Code points that Unicode 15.0, 15.1 and 16.0 added to 14.0: 10,301 in all.
_ADDED = """
897 cf3 ece 1b4e-1b4f 1b7f 1c89-1c8a 2427-2429 2ffc-2fff 31e4-31e5 31ef a7cb-a7cd a7da-a7dc 105c0-105f3 10d40-10d65
10d69-10d85 10d8e-10d8f 10ec2-10ec4 10efc-10eff 1123f-11241 11380-11389 1138b 1138e 11390-113b5 113b7-113c0 113c2 113c5
113c7-113ca 113cc-113d5 113d7-113d8 113e1-113e2 116d0-116e3 11b00-11b09 11bc0-11be1 11bf0-11bf9 11f00-11f10 11f12-11f3a
11f3e-11f5a 1342f 13439-13455 13460-143fa 16100-16139 16d40-16d79 18cff 1b132 1b155 1cc00-1ccf9 1cd00-1ceb3 1d2c0-1d2d3
1df25-1df2a 1e030-1e06d 1e08f 1e4d0-1e4f9 1e5d0-1e5fa 1e5ff 1f6dc 1f774-1f776 1f77b-1f77f 1f7d9 1f8b2-1f8bb 1f8c0-1f8c1
1fa75-1fa77 1fa87-1fa89 1fa8f 1faad-1faaf 1fabb-1fabf 1fac6 1face-1facf 1fada-1fadc 1fadf 1fae8-1fae9 1faf7-1faf8
1fbcb-1fbef 2b739 2ebf0-2ee5d 31350-323af
"""
_RUNS = [[int(code, 16) for code in run.split("-")] for run in _ADDED.split()]
ADDED = [chr(code) for run in _RUNS for code in range(run[0], run[-1] + 1)]
CHANGED = "ჼꟲꟳꟴꭩ两京俩倆兆拐洞皕秭鈎钩\u019b\u0264\U0001171e"
"""Characters of which these versions changed the case, the number or the category."""

# (quote, chunk), with a character for "~" and another one for "@".
TEMPLATES = [
    ("The desk~ hums", "The desk~ hums at 50 Hz."),
    ("the  DESK~ hums", "The desk~ hums at 50 Hz."),
    ("The desk hums", "The desk~ hums. The~ desk hums~ loudly."),
    ("desk ~ hums at night", "The desk @ hums at night."),
    ("五輪は延期", "2021年の東~五輪は延期された。"),
    ("The “~” desk … hums [~A] at ~5 Hz", "The “~” desk that is ~ old hums at ~5 Hz ~A."),
]


def published_pairs() -> Iterator[tuple[str, str]]:
    """Yield the quotes of the table of cases and their sources, each as the quote of the other."""
    lines = (ROOT / "tests/unit/core/quoting/cases.jsonl").read_text(encoding="utf-8").splitlines()
    for case in map(json.loads, lines):
        yield from permutations((case["quote"], case["source"]))
    example = json.loads((ROOT / "docs/contract/examples/build_citations.job.json").read_bytes())
    yield from ((quote["quote"], record["text"]) for quote in example["quotes"] for record in example["records"])


def check(quote: str, text: str) -> str:
    """Return all that is said of a quote."""
    return ascii(check_quote(quote, "own", [QuotedChunk.of("own", text)]))


def read(text: str) -> str:
    """Return what everything else in the core that reads text makes of one."""
    given = {"S1": "sha256:1", "S2": "sha256:2"}
    seen = NearDuplicates()
    capitals = "".join(c.upper() if c.isascii() else c for c in text)  # later versions have more of them
    new = [seen.is_new(other) for other in (text, capitals, f"{text} {text[:1]}")]
    parts = [text[start:end] for start, end in split_sentences(text)]
    answer = f"{text} [S1]. “{text}” [S1{text[-1:]}, S2]"
    glossary = Glossary({text[:3]: ["added"]})
    outcomes = (
        *(terms(text), words(text), searchable(text, 50), searchable(f"{text[-1:]}-{text}", 500), one_line(text, 99)),
        *(new, parts, [read_sentence(part) for part in parts], classify(answer, given), defused(answer)),
        *(check_answer(answer, {"S1": text, "S2": "2021"}), glossary.expand(f"the {text}")),
    )
    return ascii(outcomes)


def properties(character: str) -> str:
    """Return what is asked of a character by itself, where it is known."""
    known = unicode_data.known(character)
    cased = unicode_data.cased(known)
    case = cased.isupper(), cased.islower(), cased.istitle(), cased.upper(), known.lower(), known.casefold()
    kinds = known.isalpha(), known.isdecimal(), unicode_data.is_numeric(known), known.isspace(), known.isidentifier()
    return ascii((known, CLASSES[ord(known)], KEYS[ord(known)], unicode_data.category(known)[0], case, kinds))


def sweep(characters: str | list[str]) -> Iterator[str]:
    """Yield what the templates give with each character."""
    for character in characters:
        for quote, text in TEMPLATES:
            other = "\U0001fae9" if character == "\U0001fae8" else "\U0001fae8"
            yield check(*(part.replace("~", character).replace("@", other) for part in (quote, text)))
        yield read("~A desk~ 五~五 a-~ hums at 3~5 Hz. ~ it".replace("~", character))


def outcomes(group: str) -> Iterator[str]:
    """Yield the outcomes of a group: published, characters, changed, all characters, added."""
    if group == "published":
        pairs = dict.fromkeys(published_pairs())
        yield from (check(*pair) for pair in pairs)
        yield from (read(text) for text in dict.fromkeys(text for pair in pairs for text in pair))
    elif group == "characters":
        yield from (properties(character) for character in [*CHANGED, *ADDED])
    elif group == "all characters":
        yield from (properties(chr(code)) for code in range(0x110000))
    elif group == "changed":
        yield from sweep([*CHANGED, *ADDED[::50]])
    else:
        yield from sweep(ADDED)


def digest(group: str) -> str:
    """Return a digest of the outcomes of a group."""
    state = hashlib.sha256()
    for outcome in outcomes(group):
        state.update(f"{outcome}\n".encode())
    return state.hexdigest()


def main() -> None:
    """Write the digests of some groups, or the outcomes of one."""
    match sys.argv[1:]:
        case ["--digest", *groups]:
            sys.stdout.write(json.dumps({group: digest(group) for group in groups}))
        case [group]:
            sys.stdout.writelines(f"{outcome}\n" for outcome in outcomes(group))
        case _:
            sys.exit("expected a group, or --digest and groups")


if __name__ == "__main__":
    main()
