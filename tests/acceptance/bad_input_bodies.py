"""Bad input around the job: unknown fields, shapes, arity, bytes, headers: the third part of the table."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from .bad_input_cases import (
    BASE64,
    DEEP,
    INTEGER,
    MEGABYTES,
    NUMBER,
    QUERY,
    SQL,
    TEXT,
    Answered,
    Case,
    Refused,
    job,
    one,
)
from .bad_input_worker import EMBED, body

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE_ARGUMENT = Refused("", "the only positional argument")
UNREADABLE = Refused("", "could not be decoded as JSON")


def cases() -> Iterator[Case]:
    """Fields first, then arguments, then bytes, then headers."""
    yield from _unknown_fields()
    yield from _depth()
    yield from _arguments()
    yield from _bytes()
    yield from _headers()


def _unknown_fields() -> Iterator[Case]:
    for name in ("query", "K", "topk", "embedding", "query_embedding2", "__class__", "self"):
        yield one(f"field {name}", Refused(name, "not known"), **{name: TEXT})
    for name in (TEXT, SQL, "", "é", "k ", "a\nb", "k" * 65):
        yield one(f"field {name!r}"[:30], Refused("<key>", "not known"), **{name: TEXT})
    for name in ("canary\0", "canary\ud800"):
        yield one(f"field {name!r}", Refused("<key>", "text without"), **{name: 1})
    yield one("field of 10 MB", Refused("<key>", "characters"), **{"f" * MEGABYTES: 1})
    yield one("1001 fields", Refused("", "at most 1000 fields"), **{f"{TEXT} {i}": i for i in range(1001)})
    yield one("tagged job", Refused("__type__", "not known"), __type__="bytes", __value__="Y2FuYXJ5")


def _depth() -> Iterator[Case]:
    for levels, words in ((30, "not known"), (32, "levels of nesting"), (200, "levels of nesting")):
        for kind, (opening, closing) in {"lists": ("[", "]"), "objects": ('{"a":', "}")}.items():
            deep = opening * levels + str(INTEGER) + closing * levels
            raw = body(job(x="@")).replace(b'"@"', deep.encode())
            yield Case(f"{levels} {kind}", raw, Refused("x", words))
    for kind, (opening, closing) in {"lists": ("[", "]"), "objects": ('{"a":', "}")}.items():
        deep = opening * DEEP + str(INTEGER) + closing * DEEP
        yield Case(f"{DEEP} {kind}", body(job(x="@")).replace(b'"@"', deep.encode()), UNREADABLE)
    unclosed = body(job(x="@")).replace(b'"@"', b"[" * DEEP)
    yield Case(f"{DEEP} lists, open", unclosed, UNREADABLE)


def _arguments() -> Iterator[Case]:
    yield Case("no argument", body(), ONE_ARGUMENT)
    yield Case("two arguments", body(job(), job()), ONE_ARGUMENT)
    yield Case("many arguments", body(*[TEXT] * 1000), ONE_ARGUMENT)
    yield Case("a keyword too", body(job(), kwargs={TEXT: TEXT}), ONE_ARGUMENT)
    yield Case("job as a keyword", body(kwargs={"job": job()}), ONE_ARGUMENT)
    yield Case("fields as keywords", body(kwargs=job()), ONE_ARGUMENT)
    values: tuple[Any, ...] = (None, True, 5, NUMBER, TEXT, BASE64, [], [job()], QUERY)
    for value in values:
        yield Case(f"job {json.dumps(value)[:20]}", body(value), ONE_ARGUMENT)
    for value in (math.nan, math.inf):
        yield Case(f"job {value}", body(value), Refused("", "finite number"))
    yield Case("job U+0000", body("canary\0"), Refused("", "text without U+0000"))
    yield Case("job {}", body({}), Refused("query_embedding", "this field"))
    yield Case("job as JSON text", body(json.dumps(job())), ONE_ARGUMENT)


def _bytes() -> Iterator[Case]:
    good = body(job())

    def changed(name: str, old: bytes, new: bytes, expected: Refused | Answered = UNREADABLE) -> Case:
        assert old in good, name
        return Case(name, good.replace(old, new), expected)

    yield changed("k twice", b'"k": 12', b'"k": "canary text", "k": 11', Answered(k=11, k_requested=11))
    yield changed("principal twice", b'"k"', b'"principal": {"user_id": "alice"}, "k"', Answered())
    yield changed("5000 digits", b'"k": 12', b'"k": ' + b"4711" * 1250)
    yield changed("no UTF-8", b"alice", b"canary \xff")
    yield changed("UTF-8 cut", b"alice", b"canary \xe2\x82")
    yield changed("UTF-8 overlong", b"alice", b"canary \xc0\xaf")
    yield changed("UTF-8 surrogate", b"alice", b"canary \xed\xa0\x80", Refused("principal.user_id", "surrogates"))
    yield changed("Latin-1", b"alice", "cänary".encode("latin-1"))
    yield changed("single quotes", b'"k"', b"'k'")
    numbers = {"comma at the end": b"12,", "comment": b"12 /* canary */", "bare word": b"canary"}
    numbers |= {"undefined": b"undefined", "hexadecimal": b"0x12", "leading zero": b"012", "plus sign": b"+12"}
    for name, number in numbers.items():
        yield changed(name, b'"k": 12', b'"k": ' + number)
    yield changed("raw new line", b"alice", b"canary\ntext")
    yield changed("raw U+0000", b"alice", b"canary\0text")
    yield changed("wrong escape", b"alice", b"canary\\x41")
    yield changed("half an escape", b"alice", b"canary\\ud8")
    yield Case("cut in the middle", good[: len(good) // 2], UNREADABLE)
    yield Case("cut at the end", good[:-1], UNREADABLE)
    yield Case("something after", good + b" canary text", UNREADABLE)
    yield Case("twice", good + good, UNREADABLE)
    yield Case("only brackets", b"[" * 20, UNREADABLE)
    yield Case("white space around", b" \r\n\t" + good + b"\n ", Answered())
    escaped = good.replace(b"alice", b"\\u0061\\u006cice")
    yield Case("name escaped", escaped, Answered())


def _headers() -> Iterator[Case]:
    limits = Refused("timelimit", "no such header")
    for value in ([30, 20], [30, None], [None, 20], [1000000, 1000000]):
        yield Case(f"timelimit {value}", body(job()), limits, {"timelimit": value})
    yield Case("timelimit of nulls", body(job()), Answered(), {"timelimit": [None, None]})
    shown = {"argsrepr": TEXT, "kwargsrepr": TEXT, "shadow": TEXT, "origin": TEXT, "meth": TEXT}
    yield Case("headers for display", body(job()), Answered(), shown)
    yield Case("argsrepr of a bad job", body(job(k=TEXT)), Refused("k"), shown)
    yield Case("empty embed", json.dumps([[job()], {}, {}]).encode(), Answered())
    yield Case("unknown in embed", json.dumps([[job()], {}, {**EMBED, TEXT: TEXT}]).encode(), Answered())
