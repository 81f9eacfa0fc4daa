"""Bad input in filters, principals and runs: the second part of the table."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .bad_input_cases import ALICE, MEGABYTES, NUMBER, SQL, TEXT, Answered, Case, Refused, job, one, wrong_types
from .bad_input_worker import body

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT_LISTS = ("document_ids", "sections", "path_contains", "ext_allow", "ext_deny")
NOTHING = Answered(keep=lambda _: False, reason="filters")


def cases() -> Iterator[Case]:
    """Filters first, then callers, then runs."""
    yield from wrong_types("filters", "filters", None, True, 5, NUMBER, TEXT, [], [{}])
    for name in (TEXT, "colour", "Pages", "document_id", ""):
        path = name if name.isalpha() or "_" in name else "<key>"
        yield one(f"filter {name!r}", Refused(f"filters.{path}", "not known"), filters={name: [TEXT]})
    yield from _text_lists()
    yield from _pages()
    yield from _metadata()
    yield from _right_filters()
    yield from _principals()
    yield from _runs()


def _text_lists() -> Iterator[Case]:
    for name in TEXT_LISTS:
        yield from wrong_types(name, f"filters.{name}", None, True, 5, TEXT, {}, {"0": TEXT})
        items = {"null": None, "true": True, "number": NUMBER, "list": [TEXT], "object": {TEXT: TEXT}}
        items |= {"U+0000": "canary\0", "surrogate": "canary\udfff", "too long": "c" * 513}
        for kind, value in items.items():
            yield one(f"{name} with {kind}", Refused(f"filters.{name}[1]"), filters={name: ["fine", value]})
        denied = name == "ext_deny"
        yield one(f"{name} []", Answered() if denied else NOTHING, filters={name: []})
        yield one(f"{name} with SQL", Answered() if denied else NOTHING, filters={name: [SQL, "%", "_", "\\"]})
        bound = 1000 if name in {"document_ids", "sections"} else 100
        many = [TEXT] * (bound + 1)
        yield one(f"{name} too many", Refused(f"filters.{name}", f"at most {bound}"), filters={name: many})
    tagged = {"__type__": "bytes", "__value__": "Y2FuYXJ5"}
    yield one("tagged section", Refused("filters.sections[0]"), filters={"sections": [tagged]})
    yield one("section of 10 MB", Refused("filters.sections[0]"), filters={"sections": ["s" * MEGABYTES]})


def _pages() -> Iterator[Case]:
    yield from wrong_types("pages", "filters.pages", None, True, 5, TEXT, {})
    items = {"null": None, "true": True, "1.5": 1.5, "text": "1", "SQL": SQL, "list": [1], "object": {TEXT: 1}}
    items |= {"2^31": 2**31, "-2^31-1": -(2**31) - 1, "10^40": 10**40, "nan": math.nan, "infinity": math.inf}
    for kind, value in items.items():
        yield one(f"page {kind}", Refused("filters.pages[1]"), filters={"pages": [1, value]})
    yield one("pages []", NOTHING, filters={"pages": []})
    yield one("pages of nowhere", NOTHING, filters={"pages": [0, -1, -1.0, -0.0, 2**31 - 1, -(2**31)]})
    yield one("pages too many", Refused("filters.pages", "at most 1000"), filters={"pages": [1] * 1001})


def _metadata() -> Iterator[Case]:
    def metadata(name: str, expected: Refused | Answered, value: Any) -> Case:
        return one(f"metadata {name}", expected, filters={"metadata": value})

    yield from wrong_types("metadata", "filters.metadata", None, True, 5, TEXT, [], [TEXT])
    too_many = {f"{TEXT} {i}": i for i in range(33)}
    yield metadata("of 33 keys", Refused("filters.metadata", "at most 32"), too_many)
    yield metadata("key U+0000", Refused("filters.metadata.<key>"), {"canary\0": 1})
    yield metadata("key surrogate", Refused("filters.metadata.<key>"), {"canary\ud800": 1})
    yield metadata("value U+0000", Refused("filters.metadata.author"), {"author": "canary\0"})
    yield metadata("value surrogate", Refused("filters.metadata.author[0]"), {"author": ["canary\ud800"]})
    yield metadata("value nan", Refused("filters.metadata.year"), {"year": math.nan})
    yield metadata("value infinity", Refused("filters.metadata.year[0].a"), {"year": [{"a": -math.inf}]})
    yield metadata("value of 10 MB", Refused("filters.metadata.author"), {"author": "a" * MEGABYTES})
    for name, value in {
        "SQL": SQL,
        "10^4000": 10**4000,
        "1e308": 1e308,
        "null": None,
        "object": {TEXT: [TEXT]},
    }.items():
        yield metadata(f"value {name}", NOTHING, {"author": value})
    for name in (SQL, "", "%s", "%(k)s", "{}", "'", '"', "\\", "$1", "a->b", "é"):
        yield metadata(f"key {name!r}", NOTHING, {name: TEXT})
    tagged = {"__type__": "decimal", "__value__": "2023"}
    yield metadata("tagged value", NOTHING, {"year": tagged})
    yield metadata("{}", Answered(), {})


def _right_filters() -> Iterator[Case]:
    """Odd but right filters: SQL beside real values, numbers in another spelling, letter case."""

    def right(name: str, keep: Any, **filters: Any) -> Case:
        return one(name, Answered(keep=keep, reason="filters"), filters=filters)

    yield right(
        "document beside SQL", lambda row: row.document_id == "handbook-safety", document_ids=[SQL, "handbook-safety"]
    )
    yield right("document of another", lambda _: False, document_ids=["notebook-bob-night-ferry"])
    yield right("year as 2023.0", lambda row: row.metadata["year"] == 2023, metadata={"year": 2023.0})
    yield right("year as text", lambda _: False, metadata={"year": "2023"})
    yield right("extension .PDF", lambda row: row.path.endswith(".pdf"), ext_allow=[SQL, ".PDF"])
    yield right("extensions denied", lambda row: row.path.endswith(".txt"), ext_deny=["pdf", ".Md", SQL])
    yield right("path as written", lambda row: "reports/2023" in row.path, path_contains=["reports/2023", SQL, "%"])
    yield right("page 1", lambda row: row.page == 1, pages=[1, 1, 2**31 - 1])


def _principals() -> Iterator[Case]:
    public = Answered(who="nobody known", reason="visible_rows")
    anonymous = Refused("principal", "at least one of the claims", kind="NotAuthorised")
    yield from wrong_types("principal", "principal", None, True, 5, NUMBER, TEXT, [], [ALICE])
    claims = (NUMBER, math.nan, {TEXT: TEXT}, "canary\0", "canary\ud800", "c" * 513)
    yield from wrong_types("user_id", "principal.user_id", *claims)
    for value in ([5], [None], [[TEXT]], ["canary\0"], [True]):
        yield one(f"roles {value!r}", Refused("principal.roles[0]"), principal={**ALICE, "roles": value})
    # The worker does not know what a claim means: a policy that expects a list takes anything else as none.
    for value in (TEXT, SQL, "{}", "[", "null", 5, True):
        yield one(f"roles {value!r}", Answered(), principal={**ALICE, "roles": value})
    for value in ({}, {"user_id": ""}, {"user_id": None}, {TEXT: TEXT}, {"roles": []}):
        yield one(f"principal {value!r}", anonymous, principal=value)
    yield one("no principal", Refused("", "not public", kind="NotAuthorised"), principal=...)
    for value in (SQL, 10**40, 0, True, ["alice"], "alice ", "ALICE", "' OR true --"):
        yield one(f"user {value!r}", public, principal={"user_id": value})
    yield one("roles with SQL", Answered(), principal={**ALICE, "roles": [SQL, '"', "\\"]})
    yield one("user of 10 MB", Refused("principal.user_id"), principal={"user_id": "u" * MEGABYTES})
    yield one("both principals", Refused("", "got both"), principal_token=TEXT)
    tokens = (None, True, 5, [], {}, "canary\0", "canary\ud800", "c" * 16_385)
    for value in tokens:
        name = f"token {value!r}"[:30]
        yield one(name, Refused("principal_token"), principal=..., principal_token=value)
    for value in ("", "a.b.c", TEXT, SQL):
        unverified = Refused("principal_token", "keys", kind="NotAuthorised")
        yield one(f"token {value!r}", unverified, principal=..., principal_token=value)


def _runs() -> Iterator[Case]:
    run = {"subject_id": "s", "run_id": "r"}
    yield from wrong_types("run", "run", None, True, 5, TEXT, [], [run])
    for name in ("subject_id", "run_id"):
        missing = {key: value for key, value in run.items() if key != name}
        yield one(f"run without {name}", Refused(f"run.{name}", "this field"), run=missing)
    for name in ("subject_id", "run_id", "step"):
        for value in (None, True, 5, [TEXT], {}, "", "canary\0", "canary\ud800", "c" * 513):
            case = Refused(f"run.{name}")
            yield Case(f"run {name} {value!r}"[:40], body(job(run={**run, name: value})), case)
    yield one("run reuse text", Refused("run.reuse"), run={**run, "reuse": TEXT})
    yield one("run unknown field", Refused("run.<key>", "not known"), run={**run, TEXT: TEXT})
