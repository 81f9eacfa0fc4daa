"""Mutated jobs, and two judges of them: the JSON Schemas of docs/contract, and the worker's own checks.

`test_schemas_mutated.py` asks both about a few thousand. More, with other seeds:
`python -m tests.unit.mutated_jobs --count 10000 --seed 7`.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import copy
import json
import random
import re
import struct
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jsonschema

from retrieval_client.contract.base import parse_job
from retrieval_client.contract.jobs import Job, RetrieveHybrid, RetrieveTopK
from retrieval_client.contract.registry import TASKS
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.errors import InvalidJob, NotAuthorised
from retrieval_client.hashing import hash_chunk
from workbench.schemas import examples, objects
from workbench.schemas.rules import UNSAID
from worker.core.citations.document import read_citations_json
from worker.core.citations.labels import classify
from worker.core.ranking import vectors
from worker.core.shape import check_shape
from worker.jobs.principal import as_principal
from worker.jobs.recording import job_digest
from worker.jobs.run_files import run_path
from worker.queue import codec
from worker.settings import from_values
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCHEMAS = objects.schemas()
JOB_TYPES = {f"{task.name}.job": task.job for task in TASKS}
JUDGES = {name: jsonschema.Draft202012Validator(SCHEMAS[name]) for name in JOB_TYPES}
_SECRETS = {"database_connection_string": "postgresql:///", "broker_url": "redis://localhost"}
SETTINGS = from_values({**tomllib.loads((config_folder() / "worker.toml").read_text()), **_SECRETS})
LIMITS = SETTINGS.limits.bounds


# --- the judges ---------------------------------------------------------------------------------


class _NoNumber(ValueError):
    """NaN, or an infinity by name: no JSON."""


def _refuse_name(name: str) -> Any:
    raise _NoNumber(name)


def schema_takes(schema: str, text: str) -> bool:
    """Whether a text is JSON, and valid by a schema."""
    try:
        value = json.loads(text, parse_constant=_refuse_name)
    except (ValueError, RecursionError):
        return False
    return JUDGES[schema].is_valid(value)


def worker_refusal(schema: str, text: str) -> InvalidJob | None:
    """Return the worker's error for a job, decoded, bounded and parsed as `worker.queue.tasks` does it.

    All that needs nothing but the job and the settings as shipped is asked, also what is looked at later.
    """
    try:
        raw = codec.loads(f"[[{text}],{{}},{{}}]".encode())[0][0]
    except ValueError:
        return InvalidJob(codec.UNDECODABLE)
    try:
        check_shape(raw, LIMITS)
        job = parse_job(JOB_TYPES[schema], raw)
        _check_further(job)
    except InvalidJob as error:
        return error
    return None


def _check_further(job: Job) -> None:
    """Checks of the tasks themselves, before they ask a server."""
    if job.principal is not None:
        with contextlib.suppress(NotAuthorised):  # a well-formed job without a caller
            as_principal(job.principal, SETTINGS, "principal")
    if job.run is not None:
        job_digest(job)
    if isinstance(job, RetrieveTopK | RetrieveHybrid) and job.query_embedding is not None:
        vectors.decode(job.query_embedding, dimensions=dimensions_of(job.query_embedding))
    if isinstance(job, PinnedReplay) and job.citations is not None:
        read_citations_json(job.citations)
    if isinstance(job, BuildCitations):
        classify("", job.labels or {})
        if job.run is not None and job.store:
            run_path(job.run)


EXCEPTIONS = {
    "surrogates": r"expected text without lone surrogates",
    "levels": r"expected at most 32 levels of nesting",
    "direction": r"^query_embedding: expected a vector with a direction",
    "finite": r"^query_embedding\[\d+\]: expected a finite number within float32's range",
    "once": r"^searches: expected each one once",
    "weightless": r"^weights: expected more than 0 for one of the legs at least",
    "document": r"^citations\.(by_section|total_count|source_ids): expected what follows from all_citations",
    "forms": r"^sections: expected each hash once, in whichever form",
    "folder": r"^run\.(subject_id|run_id): expected (an id that can be )?the name of a folder",
}
"""Errors of the worker that `workbench.schemas.rules.UNSAID` names."""


def exception(schema: str, refusal: InvalidJob) -> str | None:
    """Which of the rules that a job's schema only says in words a worker refused it by."""
    unsaid = {name for kind in JOB_TYPES[schema].__mro__ for name in UNSAID.get(kind, {})}
    return next((name for name in sorted(unsaid) if re.search(EXCEPTIONS[name], refusal.message)), None)


# --- one mutation -------------------------------------------------------------------------------

NUL, LONE, ASTRAL = "\x00", "\ud800", "\U0001f3b5"
TOO_LARGE = float("inf")
"""Written as `1e400`, which is JSON: each parser makes of it what it can."""

HASH = hash_chunk("a text")


def dimensions_of(embedding: Any) -> int:
    """Those of a corpus that an embedding may fit: only the worker's settings know which one it is for."""
    if isinstance(embedding, str):
        return max(1, len(embedding.rstrip("=")) * 3 // 16)
    return max(1, len(embedding)) if isinstance(embedding, list) else 1


VECTOR = [(i % 17) / 8 - 1 for i in range(768)]


def _encoded(values: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


NUMBERS: list[Any] = [
    *(0, 1, 2, 10, 12, -1, 16, 50, 51, 64, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53 + 1, 2**64, 10**40, 10**400),
    *(-0.0, 0.0, 1.0, 10.0, 12.5, 0.5, 1.0000001, 2.0, -1e-9, 1e-30, 1e20, 1e30, 3.4e38, 3.5e38, 1e308, 1e22, 5e-324),
    *(TOO_LARGE, -TOO_LARGE, float("nan")),
]
STRINGS = [
    *("", " ", "a", "ok", "S1", "S0", "S01", "S1000000000", "s1", "\n", "\t \u2003\u3000", "\x1f", "\ufeff", "\u200b"),
    *(NUL, f"a{NUL}b", LONE, f"a{LONE}b", "\udfff", ASTRAL, "-", "..", "a/b", "a\\b", "null", "true", "12", "1e400"),
    *("x" * n for n in (16, 17, 512, 513, 2000, 2001)),
    *(ASTRAL * 512, ASTRAL * 513, HASH, HASH[7:], HASH.upper(), HASH[7:].upper(), HASH[:-1], HASH + "0", HASH + "\n"),
    *(HASH[7:] + "\n", "SHA256:" + HASH[7:], "sha256:" + HASH[7:].upper(), "md5:" + HASH[7:39]),
    *("documents", "primary", "contextual", "sparse", "weighted", "rrf", "glossary", "text", "hash", "none", "chat"),
]
VECTORS: list[Any] = [
    VECTOR,
    [0.5, 1] * 384,
    [0] * 768,
    [-0.0] * 768,
    VECTOR[:767],
    [*VECTOR, 0.5],
    [True, *VECTOR[1:]],
    ["0.5", *VECTOR[1:]],
    [None, *VECTOR[1:]],
    [3.5e38, *VECTOR[1:]],
    [3.4028234663852886e38, *VECTOR[1:]],
    [10**400, *VECTOR[1:]],
    [TOO_LARGE, *VECTOR[1:]],
    [1e-300] * 768,
    [1e-320] * 768,
    _encoded(VECTOR),
    _encoded([0.0] * 768),
    _encoded([float("nan"), *VECTOR[1:]]),
    _encoded([float("inf"), *VECTOR[1:]]),
    _encoded(VECTOR[:767]),
    _encoded([1e-40] * 768),
    "-_" * 2048,
    "A" * 4095 + "=",
    "AA==" * 1024,
    "A" * 4095 + "\n",
    "A" * 4096 + "\n",
    _encoded(VECTOR)[:-1] + " ",
    _encoded(VECTOR)[:-1] + "é",
]
LISTS: list[Any] = [
    [],
    [[]],
    [None],
    [{}],
    ["a"],
    ["a", "a"],
    [1, 2],
    [HASH],
    [HASH, HASH],
    ["primary"],
    ["contextual"],
    ["contextual", "contextual"],
    ["sparse", "primary", "contextual"],
    ["a"] * 100,
    ["a"] * 101,
]
OBJECTS: list[Any] = [
    {},
    {"a": None},
    {"a": [1, {"b": True}]},
    {"a": TOO_LARGE},
    {"a": 10**400},
    {"a": NUL},
    {"a": LONE},
    {NUL: 1},
    {LONE: 1},
    {"": 1},
    {"x" * 1001: 1},
    {str(i): i for i in range(33)},
    {HASH: "Verse 1"},
    {HASH: ["Verse 1", "Chorus"]},
    {HASH: []},
    {HASH: 1},
    {HASH[7:]: "Verse 1"},
    {HASH + "\n": "Verse 1"},
    {"S1": HASH},
    {"S1": HASH, "S2": HASH},
    {"S01": HASH},
    {"S1\n": HASH},
    {"S" + "1" * 15: HASH},
    {"S" + "1" * 9: HASH},
    {"primary": 0.5, "sparse": 1},
    {"primary": 10**400},
    {"elsewhere": 0.5},
    {"subject_id": "song-1", "run_id": "r1"},
    {"subject_id": "song-1", "run_id": "r1", "step": ""},
    {"corpus": "documents"},
    {"lambda": 0.5, "per_document": 1.0},
    {"relevance": 0.5},
    {"user_id": "u1", "roles": ["a"]},
    {"user_id": 1.5},
    {"user_id": 7.0, "roles": "editor", "tenant_id": True},
    {"roles": [1]},
    {"user_id": "x" * 513},
    {"user_id": {}},
    {"user_id": None},
]
BIG: list[Any] = [
    *("x" * n for n in (16_384, 16_385, 100_000, 100_001, 1_000_000, 1_000_001)),
    *([1] * n for n in (1000, 1001, 10_000, 10_001)),
    *(["a"] * n for n in (1000, 1001, 10_000, 10_001)),
    *({str(i): i for i in range(n)} for n in (1000, 1001)),
    {"roles": ["a"] * 1000},
    {"roles": ["a"] * 1001},
]
"""Rarely taken: each takes both judges long."""
JUNK: list[Any] = [None, True, False, *NUMBERS, *STRINGS, *LISTS, *OBJECTS]

Place = tuple[Any, Any]
"""A list or an object, and the index or name of a value in it."""


@dataclass
class Mutator:
    """Makes mutated jobs from a seed: the same ones every time.

    Attributes:
        chance: the seeded randomness.
        names: names of fields that any job has anywhere.
        values: name → values that examples have under it.
    """

    chance: random.Random
    names: list[str]
    values: dict[str, list[Any]]

    def mutate(self, schema: str, job: dict[str, Any]) -> dict[str, Any]:
        """A copy with one change, or a few."""
        job = copy.deepcopy(job)
        for _ in range(self.chance.choices([1, 2, 3], [6, 2, 1])[0]):
            job = self._change(schema, job)
        return job

    def _change(self, schema: str, job: dict[str, Any]) -> dict[str, Any]:
        change = self.chance.choice(
            [self._add, self._add, self._add, self._replace, self._replace, self._remove, self._rename, self._distort]
        )
        change(schema, job)
        return job

    def _add(self, schema: str, job: dict[str, Any]) -> None:
        """A field of the schema, mostly with a valid value; else a field of another schema, or an unknown one."""
        place, part = self._object(schema, job)
        known = sorted(part.get("properties", {}))
        if known and self.chance.random() < 0.85:
            name = self.chance.choice(known)
            place[name] = self._value(schema, name, part["properties"][name])
        else:
            name = self.chance.choice([*self.names, "surprise", "__proto__", "K", "k ", NUL, LONE, "", "x" * 600])
            place[name] = self._junk()

    def _value(self, schema: str, name: str, part: dict[str, Any]) -> Any:
        among = self.chance.random()
        if among < 0.6:
            return sample(part, SCHEMAS[schema], self.chance)
        if among < 0.7 and name in self.values:
            return copy.deepcopy(self.chance.choice(self.values[name]))
        if "embedding" in name:
            one = self.chance.choice(VECTORS)
            return [one, self._junk()] if name.endswith("s") and among < 0.9 else one
        if name == "citations":
            return mutated_document(self.chance)
        return self._junk()

    def _replace(self, schema: str, job: dict[str, Any]) -> None:
        """Any value by any other."""
        where, key = self._place(job)
        name = key if isinstance(key, str) else ""
        where[key] = self._value(schema, name, {}) if "embedding" in name or name == "citations" else self._junk()

    def _remove(self, _: str, job: dict[str, Any]) -> None:
        where, key = self._place(job)
        del where[key]

    def _rename(self, _: str, job: dict[str, Any]) -> None:
        """A field under a name that is like its own, or another's."""
        where, key = self._place(job)
        if isinstance(where, dict):
            likes = [
                key.upper(),
                f"{key} ",
                f"{key}s",
                key[:-1],
                f"{key}\n",
                f"{key}{NUL}",
                self.chance.choice(self.names),
            ]
            where[self.chance.choice(likes)] = where.pop(key)

    def _distort(self, _: str, job: dict[str, Any]) -> None:
        """A value by one that is made of it."""
        where, key = self._place(job)
        where[key] = self._distorted(where[key])

    def _distorted(self, value: Any) -> Any:
        pick = self.chance.choice
        if isinstance(value, bool) or value is None:
            return pick([not value, int(bool(value)), str(value), None, [value]])
        if isinstance(value, int | float):
            near = [value + 0.5, float(value)] if abs(value) < 2**53 else []
            return pick([str(value), -value, [value], not value, *near])
        if isinstance(value, str):
            around = pick([NUL, LONE, ASTRAL, "\n", " ", "x" * 512, "é"])
            made = [value + around, around + value, value.upper(), value.lower(), value.removeprefix("sha256:")]
            return pick([*made, f"sha256:{value}", value[:-1], value[:0], [value], {value: value}, 7])
        if isinstance(value, list):
            many = value * pick([2, 9, 65, 700]) if len(value) < 20 else value[:-1]
            return pick(
                [value[:0], many, [*value, *value[:1]], [value], {str(i): v for i, v in enumerate(value)}, None]
            )
        return pick(
            [{}, [value], [*value.values()], [*value], json.dumps(value), None, _nested(pick([5, 27, 28, 40]), value)]
        )

    def _junk(self) -> Any:
        if self.chance.random() < 0.05:
            return _nested(self.chance.choice([3, 26, 27, 28, 29, 30, 31, 32, 33, 50]), self.chance.choice(JUNK))
        return copy.deepcopy(self.chance.choice(BIG if self.chance.random() < 0.02 else JUNK))

    def _place(self, job: dict[str, Any]) -> Place:
        """Any place of a job; those near its top more often than the items of a long list."""
        where, key = self.chance.choice(sorted(job.items(), key=lambda item: item[0]) or [("k", None)])[0], None
        place: Place = (job, where)
        job.setdefault(where, None)
        while self.chance.random() < 0.6:
            inner = place[0][place[1]]
            if isinstance(inner, dict) and inner:
                key = self.chance.choice(sorted(inner))
            elif isinstance(inner, list) and inner:
                key = self.chance.randrange(len(inner))
            else:
                break
            place = (inner, key)
        return place

    def _object(self, schema: str, job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The job or an object in it, with its schema."""
        root = SCHEMAS[schema]
        found = [(job, root), (job, root)]
        stack: list[tuple[Any, dict[str, Any]]] = [(job, root)]
        while stack:
            value, part = stack.pop()
            part = resolved(part, root)
            if isinstance(value, dict):
                found.append((value, part))
                inner = part.get("properties", {})
                stack += [(value[name], inner[name]) for name in sorted(value) if name in inner]
            elif isinstance(value, list) and isinstance(part.get("items"), dict):
                stack += [(item, part["items"]) for item in value[:5]]
        return self.chance.choice(found)


def _nested(depth: int, inside: Any) -> Any:
    for i in range(depth):
        inside = [inside] if i % 2 else {"a": inside}
    return inside


def mutated_document(chance: random.Random) -> Any:
    """A citations document, often with something wrong."""
    citation: dict[str, Any] = {"chunk_hash": HASH, "source_id": "s1", "text": "a text", "weight": 1, "section": None}
    if chance.random() < 0.5:
        name = chance.choice(["hash_version", "chunk_id", "page", "coordinates", "section", "weight", "text", "more"])
        citation[name] = chance.choice([1, 1.0, 2, "c1", None, True, 0.5, -0.0, {"x": 1}, NUL, HASH, 10**400])
    among = {**citation}
    if chance.random() < 0.3:
        among["weight"] = chance.choice([1.0, True, "1", 0.5])
    document: dict[str, Any] = {
        "by_section": {citation["section"] or "unknown" if not isinstance(citation["section"], dict) else "a": [among]},
        "all_citations": [citation],
        "total_count": chance.choice([1, 1, 1, 1.0, True, 2]),
        "source_ids": ["s1"],
    }
    if chance.random() < 0.2:
        document[chance.choice([*document, "more"])] = chance.choice([None, [], {}, 0, [{**document}]])
    if chance.random() < 0.1:
        del document[chance.choice([*document])]
    return document


# --- values that a schema takes -----------------------------------------------------------------


def resolved(part: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema without its reference, and with one of its alternatives."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        return resolved(root["$defs"][name], root)
    return part


def sample(part: dict[str, Any], root: dict[str, Any], chance: random.Random, depth: int = 0) -> Any:
    """A value for a part of a schema: mostly one that it takes, often at one of its limits."""
    part = resolved(part, root)
    if "anyOf" in part:
        return sample(chance.choice(part["anyOf"]), root, chance, depth)
    if "enum" in part or "const" in part:
        return chance.choice(part.get("enum", [part.get("const")]))
    kind = part.get("type")
    if isinstance(kind, list):
        kind = chance.choice(kind)
    if kind == "object":
        return _sample_object(part, root, chance, depth)
    if kind == "array":
        least, most = part.get("minItems", 0), part.get("maxItems", 10_000)
        count = chance.choice([least, least + 1, least + 2, *([most, most + 1] if most <= 100 else [])])
        return [sample(part.get("items", {}), root, chance, depth + 1) for _ in range(count)]
    return _sample_plain(kind, part, chance)


def _sample_object(part: dict[str, Any], root: dict[str, Any], chance: random.Random, depth: int) -> Any:
    properties = part.get("properties")
    if properties is None:
        names = part.get("propertyNames", {})
        made = [_sample_plain("string", names, chance) for _ in range(chance.choice([0, 1, 2]))]
        inner = part.get("additionalProperties", {})
        return {name: sample(inner, root, chance, depth + 1) for name in made}
    required = part.get("required", [])
    wanted = [name for name in sorted(properties) if name in required or chance.random() < 0.3]
    return {name: sample(properties[name], root, chance, depth + 1) for name in wanted}


def _texts(part: dict[str, Any]) -> list[str]:
    pattern = part.get("pattern", "")
    if "sha256" in pattern:
        return [HASH, HASH, HASH.upper(), HASH[7:], HASH[7:].upper()]
    if pattern.startswith("^S"):
        return ["S1", "S2", "S999999999"]
    least, most = part.get("minLength", 0), min(part.get("maxLength", 600), 1_000_000)
    return [*["a", "ok", ASTRAL, "é", "x" * least] * (1 if most < 2000 else 10), "x" * most, "x" * (most + 1)]


def _sample_plain(kind: Any, part: dict[str, Any], chance: random.Random) -> Any:
    if kind == "string":
        return chance.choice(part.get("enum") or _texts(part))
    made: dict[Any, list[Any]] = {
        "integer": [1, 12, 10.0, -0.0, 10**30, part.get("minimum", 0), part.get("maximum", 7), 2**31],
        "number": [0, 0.5, 1, -0.0, part.get("minimum", 0), part.get("maximum", 1), 1.5, 10**30],
        "boolean": [True, False],
        "null": [None],
    }
    return copy.deepcopy(chance.choice(made.get(kind, JUNK)))


# --- many ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """One mutated job, and what both judges say.

    Attributes:
        schema: name of its schema.
        text: the job as JSON text.
        by_schema: whether the schema takes it.
        refusal: what the worker says against it.
    """

    schema: str
    text: str
    by_schema: bool
    refusal: InvalidJob | None

    @property
    def exception(self) -> str | None:
        """The rule that the schema only says in words, where the worker alone refused the job by it."""
        return exception(self.schema, self.refusal) if self.by_schema and self.refusal is not None else None

    @property
    def agreed(self) -> bool:
        """Whether both say the same, or the schema says in words why not."""
        return self.by_schema == (self.refusal is None) or self.exception is not None

    def __str__(self) -> str:
        worker = "accepted" if self.refusal is None else f"refused: {self.refusal.message}"
        text = re.sub(r"[A-Za-z0-9+/]{200,}", lambda found: f"…{len(found[0])} characters…", self.text)
        schema = "accepted" if self.by_schema else "refused"
        return f"{self.schema}: schema {schema}, worker {worker[:200]}\n    {text[:600]}"


def as_text(value: Any) -> str:
    """JSON text; what is too large for a double is written with digits, which a parser may read or not."""
    return json.dumps(value).replace("Infinity", "1e400")


def mutated_jobs(seed: int, count: int) -> Iterator[tuple[str, str]]:
    """Schema and text of mutated jobs; every example first as it is."""
    jobs = [(schema, value) for schema, value in examples.examples().values() if schema in JOB_TYPES]
    yield from ((schema, as_text(value)) for schema, value in jobs)
    names, values = set(), {}
    for _, job in jobs:
        names |= job.keys()
        for name, value in job.items():
            values.setdefault(name, []).append(value)
    for schema in JOB_TYPES:
        for part in [SCHEMAS[schema], *SCHEMAS[schema].get("$defs", {}).values()]:
            names |= part.get("properties", {}).keys()
    mutator = Mutator(random.Random(seed), sorted(names), values)
    for _ in range(count):
        schema, job = mutator.chance.choice(jobs)
        yield schema, as_text(mutator.mutate(schema, job))


def judge(seed: int, count: int) -> Iterator[Judged]:
    """Mutated jobs, judged."""
    for schema, text in mutated_jobs(seed, count):
        yield Judged(schema, text, schema_takes(schema, text), worker_refusal(schema, text))


def main() -> int:
    """Judge many, and say what was judged differently."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    for judged in judge(asked.seed, asked.count):
        outcome = judged.exception or ("accepted" if judged.refusal is None else "refused")
        if not judged.agreed:
            outcome = "differently"
            if counts[outcome] < asked.show:
                print(judged)  # noqa: T201 -- a command
        counts[outcome] += 1
    print(dict(counts))  # noqa: T201 -- a command
    return 1 if counts["differently"] else 0


if __name__ == "__main__":
    sys.exit(main())
