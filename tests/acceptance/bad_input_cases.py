"""The table of jobs that are wrong, or only look wrong, and what each has to end in."""

from __future__ import annotations

import base64
import json
import math
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from worker.core.text.lexical import embed

from .bad_input_worker import body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

# Planted wherever a job may hold text or a number: neither may come back, or be logged.
TEXT = "canary text"
SQL = "canary'; DROP TABLE public.document_chunks; --"
NUMBER = 4711.471147
INTEGER = 47114711
MEGABYTES = 8_000_000


def _encoded(numbers: Iterable[float]) -> str:
    """Base64 of little-endian float32, as a backend in another language writes it: what is not finite, too."""
    return base64.b64encode(b"".join(struct.pack("<f", number) for number in numbers)).decode()


QUERY: list[float] = embed(["What causes the 50 Hz hum on channel 18?"])[0].tolist()
BASE64 = _encoded(QUERY)
# What no log, event, reply or query may show of any job.
PLANTED = ("canary", "DROP TABLE", "4711.4711", str(INTEGER), BASE64[:40], BASE64[-40:], str(max(QUERY)), "Y2FuYXJ5")
ALICE = {"user_id": "alice"}
DEEP = 100_000


@dataclass(frozen=True)
class Refused:
    """Ends as this class of failure, in one sentence that starts with the path and holds the words."""

    path: str
    words: str = "expected"
    kind: str = "InvalidJob"


@dataclass(frozen=True)
class Answered:
    """Ends with the nearest rows of those that `who` sees and `keep` lets through."""

    keep: Callable[[Any], bool] = lambda _: True
    k: int = 12
    k_requested: int | None = None
    max_distance: float = 2.0
    reason: str | None = None
    who: str = "alice"


@dataclass(frozen=True)
class Batch:
    """Ends with one entry a query: None for an answer, else the path's end and words of its error."""

    entries: tuple[tuple[str, str] | None, ...]


@dataclass(frozen=True)
class Case:
    """A message and what it has to end in."""

    name: str
    raw: bytes
    expected: Refused | Answered | Batch
    headers: dict[str, Any] = field(default_factory=dict)


def job(**changes: Any) -> dict[str, Any]:
    """A good job with changes; `...` takes a field out."""
    whole = {"query_embedding": BASE64, "principal": ALICE, "k": 12, **changes}
    return {name: value for name, value in whole.items() if value is not ...}


def one(name: str, expected: Refused | Answered | Batch, **changes: Any) -> Case:
    return Case(name, body(job(**changes)), expected)


def wrong_types(name: str, path: str, *kinds: Any) -> Iterator[Case]:
    """One field, at any depth, with each of these values."""
    for kind in kinds:
        value: Any = kind
        for part in reversed(path.split(".")):
            value = {part: value}
        yield one(f"{name}: {json.dumps(kind)[:30]}", Refused(path), **value)


def item(value: Any, position: int = 500) -> list[Any]:
    return [*QUERY[:position], value, *QUERY[position + 1 :]]


def cases() -> list[Case]:
    """All of them, in a fixed order."""
    from . import bad_input_bodies, bad_input_filters  # each imports this module's nouns

    return [
        *_embedding_lists(),
        *_embedding_other(),
        *_base64(),
        *_k(),
        *_scalars(),
        *_batches(),
        *bad_input_filters.cases(),
        *bad_input_bodies.cases(),
    ]


def _embedding_lists() -> Iterator[Case]:
    for length in (0, 1, 767, 769, 9_999):
        yield one(f"list of {length}", Refused("query_embedding", f"got {length}"), query_embedding=[NUMBER] * length)
    yield one("list of 10001", Refused("query_embedding", "at most 10000 items"), query_embedding=[NUMBER] * 10_001)
    yield one("list in a list", Refused("query_embedding", "got 1"), query_embedding=[QUERY])
    yield one("numbers as text", Refused("query_embedding[0]"), query_embedding=[str(x) for x in QUERY])
    items = {
        "string": TEXT,
        "number as text": str(NUMBER),
        "true": True,
        "null": None,
        "list": [NUMBER],
        "object": {TEXT: NUMBER},
        "nan": math.nan,
        "infinity": math.inf,
        "-infinity": -math.inf,
        "1e39": 1e39,
        "-1e39": -1e39,
        "1e308": 1e308,
        "10^39": 10**39,
        "10^400": 10**400,
        "-10^4000": -(10**4000),
    }
    for name, value in items.items():
        yield one(f"item {name}", Refused("query_embedding[500]"), query_embedding=item(value))
        yield one(f"first {name}", Refused("query_embedding[0]"), query_embedding=item(value, 0))
    for name, zero in {"0": 0, "0.0": 0.0, "-0.0": -0.0}.items():
        yield one(f"only {name}", Refused("query_embedding", "direction"), query_embedding=[zero] * 768)
    for factor in (1e-30, 1e-300, 1e-3, 1e20, 1e38):
        yield one(f"times {factor}", Answered(), query_embedding=[x * factor for x in QUERY])
    yield one("-0 for 0", Answered(), query_embedding=[x or -0.0 for x in QUERY])
    integers = json.dumps([x or 0 for x in QUERY]).replace(" 0,", " -0,")
    yield Case("-0 as an integer", body(job(query_embedding="@")).replace(b'"@"', integers.encode()), Answered())


def _embedding_other() -> Iterator[Case]:
    yield from wrong_types("query", "query_embedding", None, True, 5, NUMBER, {}, {"0": NUMBER}, {TEXT: [NUMBER]})
    yield one(
        "query absent",
        Refused("query_embedding", "expected this field, or query_embeddings instead"),
        query_embedding=...,
    )
    for tag in ("bytes", "decimal", "datetime", "uuid", TEXT):
        tagged = {"__type__": tag, "__value__": "Y2FuYXJ5"}
        yield one(f"tagged {tag} as query", Refused("query_embedding"), query_embedding=tagged)


def _base64() -> Iterator[Case]:
    texts = {
        "empty": "",
        "text": TEXT,
        "short": BASE64[:-4],
        "long": BASE64 + "AAAA",
        "4095": BASE64[:-1],
        "4097": BASE64 + "A",
        "float64": BASE64 * 2,
        "urlsafe": "_" + BASE64[1:],
        "space": " " + BASE64[1:],
        "new line": BASE64[:-1] + "\n",
        "tab inside": BASE64[:2000] + "\t" + BASE64[2001:],
        "unicode": "é" + BASE64[1:],
        "emoji": "\U0001f600" + BASE64[1:],
        "one pad": BASE64[:-1] + "=",
        "two pads": BASE64[:-2] + "==",
        "pad inside": BASE64[:2000] + "=" + BASE64[2001:],
        "only pads": "=" * 4096,
        "data url": ("data:;base64," + BASE64)[:4096],
        "U+0000": "\0" + BASE64[1:],
        "surrogate": "\ud800" + BASE64[1:],
        "10 MB": "A" * MEGABYTES,
    }
    for name, text in texts.items():
        yield one(f"base64 {name}", Refused("query_embedding"), query_embedding=text)
    numbers = {"nan": math.nan, "infinity": math.inf, "-infinity": -math.inf}
    for name, number in numbers.items():
        text = _encoded(item(number))
        yield one(f"base64 of {name}", Refused("query_embedding[500]"), query_embedding=text)
    yield one("base64 of zeros", Refused("query_embedding", "direction"), query_embedding="A" * 4096)
    yield one("base64 as a list", Refused("query_embedding", "got 1"), query_embedding=[BASE64])
    yield one("base64 tiny", Answered(), query_embedding=_encoded([x * 1e-30 for x in QUERY]))
    yield one("base64 large", Answered(), query_embedding=_encoded([x * 1e37 for x in QUERY]))


def _k() -> Iterator[Case]:
    for k in (10**40, -(10**40), 2**63, 2**64, -(2**63) - 1, INTEGER, 16, 15, 10, 9, 1, 0, -1, -INTEGER):
        yield one(f"k {k}", Answered(k=max(10, min(k, 15)), k_requested=k), k=k)
    yield Case("k -0", body(job(k="@")).replace(b'"@"', b"-0"), Answered(k=10, k_requested=0))
    yield one("k absent", Answered(k=15, k_requested=15), k=...)
    yield from wrong_types("k", "k", 12.5, NUMBER, "12", TEXT, SQL, "", True, False, None, [], [12], {})
    for token, whole in {b"12.0": 12, b"-0.0": 0, b"1e1": 10, b"1e40": int(1e40), b"9" * 400: int("9" * 400)}.items():
        expected = Answered(k=max(10, min(whole, 15)), k_requested=whole)
        yield Case(f"k {token[:9].decode()}", body(job(k="@")).replace(b'"@"', token), expected)
    for name, token in {"1e400": b"1e400", "nan": b"NaN", "infinity": b"Infinity"}.items():
        yield Case(f"k {name}", body(job(k="@")).replace(b'"@"', token), Refused("k"))


def _scalars() -> Iterator[Case]:
    unknown = Refused("corpus", "expected one of documents")
    for name in (TEXT, SQL, "", "DOCUMENTS", "documents ", "public.document_chunks", "../documents", "é", "%s", "{}"):
        yield one(f"corpus {name!r}", unknown, corpus=name)
    yield from wrong_types(
        "corpus", "corpus", None, True, 5, NUMBER, [], ["documents"], {}, "c" * 513, "a\0b", "\ud800"
    )
    yield one("corpus of 10 MB", Refused("corpus", "characters"), corpus="c" * MEGABYTES)
    yield one("corpus by name", Answered(), corpus="documents")
    yield from wrong_types("exact", "exact", None, 0, 1, NUMBER, "true", TEXT, [], {})
    yield one("exact true", Answered(), exact=True)
    yield one("exact false", Answered(), exact=False)
    distances = (None, True, "0.5", TEXT, [], [0.5], {}, -1e-9, -NUMBER, 2.000001, NUMBER, 1e308, 10**40)
    yield from wrong_types("max_distance", "max_distance", *distances, math.nan, math.inf, -math.inf)
    for distance in (0, -0.0, 0.0, 1e-300):
        expected = Answered(max_distance=distance, reason="max_distance")
        yield one(f"max_distance {distance!r}", expected, max_distance=distance)
    yield one("max_distance 2", Answered(), max_distance=2)
    yield one("max_distance 0.9", Answered(max_distance=0.9, reason="max_distance"), max_distance=0.9)


def _batches() -> Iterator[Case]:
    def batch(name: str, expected: Refused | Batch, queries: Any, **changes: Any) -> Case:
        return one(name, expected, **{"query_embedding": ..., "query_embeddings": queries, **changes})

    yield batch("batch of 0", Refused("query_embeddings", "at least 1"), [])
    yield batch("batch of 65", Refused("query_embeddings", "at most 64"), [BASE64] * 65)
    yield batch("batch of 64", Batch((None,) * 64), [BASE64] * 64)
    yield batch("batch and query", Refused("", "got both"), [BASE64], query_embedding=BASE64)
    yield batch("batch and run", Refused("", "got both"), [BASE64], run={"subject_id": "s", "run_id": "r"})
    for kind in (None, True, 5, NUMBER, TEXT, BASE64, {}, {"0": BASE64}):
        yield batch(f"batch {json.dumps(kind)[:20]}", Refused("query_embeddings"), kind)
    bad: Iterable[tuple[str, Any, tuple[str, str]]] = [
        ("null", None, ("", "expected exactly 768")),
        ("text", TEXT, ("", "base64")),
        ("number", NUMBER, ("", "expected exactly 768")),
        ("short list", [NUMBER], ("", "got 1")),
        ("zeros", [0.0] * 768, ("", "direction")),
        ("true inside", item(True), ("[500]", "expected a number")),
        ("1e39 inside", item(1e39), ("[500]", "float32")),
        ("nan in base64", _encoded(item(math.nan)), ("[500]", "finite")),
    ]
    for name, query, error in bad:
        yield batch(f"batch with {name}", Batch((None, error, None)), [BASE64, query, QUERY])
    # NaN is no JSON: the message is wrong, not one query of it.
    yield batch("batch with nan", Refused("query_embeddings[1][500]", "finite"), [BASE64, item(math.nan)])
    yield batch("batch of one bad", Batch((("", "got 1"),)), [[NUMBER]])
