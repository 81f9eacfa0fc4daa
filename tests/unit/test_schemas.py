"""The wire contract's schemas and files: true to the types, and to themselves."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import os
import subprocess
import sys
import typing
from pathlib import Path

import jsonschema
import orjson
import pytest
from pydantic import TypeAdapter

from retrieval_client.contract.base import Part
from retrieval_client.contract.registry import TASKS, task_of
from workbench import schemas
from workbench.schemas import examples, objects, typescript
from workbench.schemas.envelopes import error_types

CONTRACT = Path(__file__).parents[2] / "docs" / "contract"
SCHEMAS = objects.schemas()
EXAMPLES = examples.examples()


def validator(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(SCHEMAS[name])


# --- schemas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema_is_valid_in_its_dialect(name):
    """Every schema says that it is draft 2020-12, and is."""
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


def test_every_task_has_schemas():
    """A line in the registry is enough for a job's and a result's schema."""
    assert {f"{task.name}.{what}" for task in TASKS for what in ("job", "result")} < set(SCHEMAS)


def test_registry_is_what_the_client_sends():
    """Tasks, queues and job types are the Python client's."""
    assert all(task_of(task.job) is task for task in TASKS)


def test_nullable_names_the_exceptions():
    """Where a type says that null means something, its schema keeps it."""

    class Sample(Part):
        """A sample.

        Attributes:
            means_something: null is ``off``,
                and that is that.
        """

        nullable = frozenset({"means_something"})
        means_something: int | None = None
        means_nothing: int | None = None

    properties = TypeAdapter(Sample).json_schema(schema_generator=objects.Generator)["properties"]
    assert properties["means_nothing"] == {"type": "integer"}
    assert properties["means_something"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
        "description": "null is `off`, and that is that.",
    }


def test_null_leaves_other_alternatives():
    """Taking null away from a union of three leaves two, and defaults other than null."""
    union = {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}], "default": 1}
    assert objects.without_null(union) == {"anyOf": [{"type": "string"}, {"type": "integer"}], "default": 1}


def test_descriptions_come_from_docstrings():
    """A field is described as its type's docstring, or a base's, describes it; the type by the rest of its own."""
    schema = SCHEMAS["retrieve_top_k.job"]
    assert schema["properties"]["k"]["description"] == "number of chunks; any integer, clamped to 10–15."
    assert schema["properties"]["run"]["description"] == "record the job under this name."
    assert "Attributes" not in json.dumps(SCHEMAS)


def test_every_result_says_what_it_was_made_without():
    """Of every task, alone and in a batch; an example of each is in its file."""
    for task in TASKS:
        for kind in typing.get_args(task.answer) or (task.answer,):
            assert {"schema_version", "degraded", "trace"} <= kind.model_fields.keys()
    answers = [value for name, (of, value) in EXAMPLES.items() if of.endswith(".result")]
    assert {json.dumps(answer["degraded"]) for answer in answers} == {"[]"}


def test_results_have_all_their_fields():
    """A worker sends each of them; only a chunk of inline sources lacks those of a corpus."""
    for task in TASKS:
        schema = SCHEMAS[f"{task.name}.result"]
        for name, kind in {"": schema, **schema.get("$defs", {})}.items():
            optional = kind.get("properties", {}).keys() - {*kind.get("required", ())}
            assert not optional or name == "ReplayedChunk", (task.name, name, optional)
    answer = copy.deepcopy(EXAMPLES["retrieve_hybrid.result"][1])
    for name in ("degraded", "costs_total", "fusion", "trace"):
        assert not validator("retrieve_hybrid.result").is_valid({key: answer[key] for key in answer if key != name})


def test_results_may_say_more():
    """A newer worker's result, with fields of its own at any level, is still valid."""
    result = copy.deepcopy(EXAMPLES["retrieve_top_k.result"][1])
    for place in (result, result["chunks"][0], result["trace"], result["trace"]["stages"][0]):
        place["a newer field"] = None
    assert validator("retrieve_top_k.result").is_valid(result)


@pytest.mark.parametrize(
    ("name", "value"), [("status", "fine"), ("short_reason", "tired"), ("schema_version", 2), ("chunks", None)]
)
def test_results_keep_their_words(name, value):
    """A result with a status, reason or version that the contract does not have is no result."""
    result = {**EXAMPLES["retrieve_top_k.result"][1], name: value}
    assert not validator("retrieve_top_k.result").is_valid(result)


def test_error_types_are_the_contracts():
    """`exc_type` is one of seven names, each with what to do about it."""
    names = "DeadLettered InternalError InvalidJob NotAuthorised SettingsError TimedOut Unavailable"
    assert " ".join(error_types()) == names
    assert all(error_types().values())
    failure = copy.deepcopy(EXAMPLES["failure"][1])
    failure["result"]["exc_type"] = "ValueError"
    assert not validator("failure").is_valid(failure)


# --- types of TypeScript ------------------------------------------------------------------------


@functools.cache
def types_file() -> str:
    """The file of types."""
    return schemas.files()["types.ts"].decode()


def declared(name: str) -> str:
    """The declaration of a type of TypeScript."""
    _, _, rest = types_file().partition(f"export interface {name} {{\n")
    return rest.partition("\n}\n")[0]


def test_types_have_the_fields_of_the_schemas():
    """Of each job and answer, with a question mark where one may be left out."""
    for task in TASKS:
        kinds = [(task.job.__name__, SCHEMAS[f"{task.name}.job"])]
        of_answer = SCHEMAS[f"{task.name}.result"]
        parts = {**of_answer["$defs"], typing.get_args(task.answer) or task.answer.__name__: of_answer}
        kinds += [(name, part) for name, part in parts.items() if isinstance(name, str) and "properties" in part]
        for name, schema in kinds:
            for field in schema["properties"]:
                mark = "" if field in schema.get("required", ()) else "?"
                assert f"  {field}{mark}: " in declared(name), (name, field)


def test_types_are_those_of_the_values():
    """Of a number, a text, a choice, a list, a map, a part, and of what may be null."""
    job, chunk = declared("RetrieveHybrid"), declared("RankedChunk")
    for said in (
        "  query: string;",
        "  rrf_k?: number;",
        '  fusion?: "similarity" | "rrf" | "weighted";',
        "  searches?: HybridSearch[];",
        '  weights?: { [key in "primary" | "contextual" | "sparse"]?: number };',
        "  diversity?: Diversity | null;",
        "  query_embedding?: number[] | string;",
        "  principal?: { [key: string]: Json };",
    ):
        assert said in job, said
    assert "  page: number | null;" in chunk
    assert "  metadata: { [key: string]: unknown };" in chunk
    assert '  retrieve_top_k: { queue: "retrieval"; job: RetrieveTopK; answer: TopK | TopKBatch };' in declared("Tasks")


def test_a_schema_without_a_type_is_an_error():
    """A form of schema that is new has no wrong type; two types of one name are not mixed."""
    with pytest.raises(ValueError, match="unknown form"):
        typescript.type_of({"minimum": 1})
    part = {"type": "object", "properties": {"a": {"type": "string"}}}
    with pytest.raises(ValueError, match="two types of this name"):
        typescript.document({"x": {"$defs": {"A": part}}, "y": {"$defs": {"A": {**part, "required": ["a"]}}}})


# --- files --------------------------------------------------------------------------------------


def test_files_are_tidy():
    """All but the types are strict JSON with sorted keys, indented; one newline at the end; no machine is named."""
    for name, content in schemas.files().items():
        if name != "types.ts":
            assert schemas.as_json(orjson.loads(content), ascii_only=content.isascii()) == content
        assert content.endswith(b"}\n")
        assert str(Path.home()).encode() + b"/" not in content
        assert str(CONTRACT.parents[1]).encode() not in content


@pytest.mark.parametrize("seed", ["1", "2"])
def test_files_are_always_the_same_bytes(seed):
    """Another process with another hash seed makes the same bytes."""
    script = (
        "import hashlib; from workbench.schemas import files; "
        "print(hashlib.sha256(repr(sorted(files().items())).encode()).hexdigest())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    out = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert out.stdout.strip() == hashlib.sha256(repr(sorted(schemas.files().items())).encode()).hexdigest()


def test_write_and_differing(tmp_path):
    """Written files do not differ; missing and changed ones do, by name."""
    folder = tmp_path / "new" / "contract"
    assert schemas.differing(folder) == sorted(schemas.files())
    written = schemas.write(folder)
    assert sorted(path.relative_to(folder).as_posix() for path in written) == sorted(schemas.files())
    assert schemas.differing(folder) == []
    (folder / "message.json").unlink()
    (folder / "examples" / "failure.json").write_text("{}\n")
    assert schemas.differing(folder) == ["examples/failure.json", "message.json"]


def test_documents_of_the_repository_are_current():
    """``docs/contract`` holds exactly the generated files, from the current types."""
    assert schemas.differing(CONTRACT) == []
    there = {path.relative_to(CONTRACT).as_posix() for path in CONTRACT.rglob("*.*")}
    assert there == set(schemas.files())
