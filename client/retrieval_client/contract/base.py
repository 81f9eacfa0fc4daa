"""Base types of jobs and results, and the parsing of a job: the first problem, with its path, never its value."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from retrieval_client.contract.ranges import expected_range
from retrieval_client.errors import InvalidJob
from retrieval_client.hashing import ACCEPTED, canonical_hash
from retrieval_client.json_values import as_integer, join_path

LEAST_SECRET_BYTES = 32
"""Minimum of an HS256 secret by RFC 7518, section 3.2: a shorter one can be guessed from a token."""

SCHEMA_VERSION = 1
DEFAULT_K, MIN_K, MAX_K = 15, 10, 15
MAX_BATCH = 64

LegName = Literal["primary", "contextual", "sparse"]
LEGS: tuple[LegName, ...] = get_args(LegName)
"""The legs in their order of precedence: if two rank a chunk alike, the earlier one's order counts."""

Identifier = Annotated[StrictStr, Field(max_length=512)]
PathPart = Annotated[StrictStr, Field(max_length=512)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
WHOLE = BeforeValidator(as_integer)
"""Validator of integers: a number without a fraction is one, in any spelling (``10.0``, ``1e3``, ``-0.0``)."""

_FLOAT32 = {"minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38}
# Three numbers are 16 characters.
_FLOATS_IN_BASE64 = "^(?:[A-Za-z0-9+/]{16})*(?:[A-Za-z0-9+/]{16}|[A-Za-z0-9+/]{11}=|[A-Za-z0-9+/]{6}==)$"
EMBEDDING_SCHEMA: dict[str, Any] = {
    "description": "As many finite numbers as the corpus has dimensions, 768 by default: a list, or base64 of "
    "little-endian float32. Any norm but zero; scaled to unit length before use.",
    "anyOf": [
        {"type": "array", "items": {"type": "number", **_FLOAT32}, "minItems": 1, "maxItems": 10_000},
        {"type": "string", "pattern": _FLOATS_IN_BASE64, "maxLength": 85_336, "contentEncoding": "base64"},
    ],
}
# Any type for pydantic: numpy checks all numbers at once, and only the corpus knows how many.
Embedding = Annotated[Any, Field(json_schema_extra=EMBEDDING_SCHEMA)]

_OF_A_BATCH: dict[str, Any] = {
    "anyOf": [EMBEDDING_SCHEMA, {"description": "An invalid embedding fails only its own query, not the job."}]
}
EmbeddingOfBatch = Annotated[Any, Field(json_schema_extra=_OF_A_BATCH)]


JobT = TypeVar("JobT", bound="Part")
AnswerT = TypeVar("AnswerT")
HASH_PATTERN = rf"^{ACCEPTED.pattern}$"
LABEL_PATTERN = r"^S[1-9][0-9]{0,8}$"
ChunkHash = Annotated[StrictStr, Field(pattern=HASH_PATTERN), AfterValidator(canonical_hash)]
"""``sha256:`` and 64 hex digits, or the digits alone, in either case; converted to the canonical form."""
Label = Annotated[StrictStr, Field(pattern=LABEL_PATTERN)]
LSN_PATTERN = r"^[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}$"
Lsn = Annotated[StrictStr, Field(pattern=LSN_PATTERN)]
"""A position in Postgres' write-ahead log, as Postgres writes it."""


class Part(BaseModel):
    """An object inside a job: no unknown fields, no coerced types, and null only where it has a meaning.

    Made in Python, an optional field that is None is absent; wrong ones raise the `InvalidJob` that the worker answers.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, serialize_by_alias=True)
    nullable: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[dict[str, Any] | None] = None

    if not TYPE_CHECKING:  # type checkers read the fields instead

        def __init__(self, /, **fields: Any) -> None:
            absent = {name for name in self._optional_names() if fields.get(name, 0) is None}
            try:
                super().__init__(**{name: value for name, value in fields.items() if name not in absent})
            except ValidationError as error:
                raise first_problem(error, type(self)) from None

        # As pydantic marks its own: a part inside a part is validated without this call.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def _optional_names(cls) -> set[str]:
        """Return the names, in Python and on the wire, of the fields that may be absent and not null."""
        optional = {name: field for name, field in cls.model_fields.items() if not field.is_required()}
        return {field.alias or name for name, field in optional.items() if name not in cls.nullable}

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name in cls.model_fields:
                if name not in cls.nullable and data.get(name, 0) is None:
                    raise PydanticCustomError("null", "{name}", {"name": name})
        return data


class AnsweredBy(Generic[AnswerT]):
    """Base of jobs that declares the type of the answer, for type checkers, the client and the schemas."""


class Result(BaseModel):
    """An object inside a result. Unknown fields are ignored, so that a newer worker may add some.

    A worker sends every field, so the schemas require all; the defaults are for answers of older workers.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, json_schema_serialization_defaults_required=True)
    example: ClassVar[dict[str, Any] | None] = None


class Answer(Result):
    """Answer of a task.

    Attributes:
        schema_version: version of this contract.
        degraded: codes of the parts missing from the answer: `contextual`, `hyde`, `reranker`, `language_model`,
            `embedder_language` (the question, or the chunks, are not of the embedder's languages), `remote:<name>`;
            empty if nothing is missing.
    """

    schema_version: Literal[1]
    degraded: list[str] = []


def parse_job(model: type[JobT], data: Any) -> JobT:
    """Validate one decoded job object.

    Raises:
        InvalidJob: the path of the first wrong field and the expectation, never the value.
    """
    if not isinstance(data, dict):
        raise InvalidJob("expected one job object as the only positional argument")
    return parse_part(model, data)


def parse_part(model: type[JobT], data: dict[str, Any]) -> JobT:
    """Validate any object of the contract; raises as `parse_job`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise first_problem(error, model) from None


def first_problem(error: ValidationError, model: type[BaseModel] | None = None) -> InvalidJob:
    """Return the first of pydantic's problems as a sentence: the path and the expectation, never a value."""
    problem = error.errors(include_url=False)[0]
    kind, location = problem["type"], list(problem["loc"])
    if kind in _OF_FIELDS:
        return InvalidJob(_OF_FIELDS[kind].format(**problem.get("ctx", {})), _path([*location, problem["msg"]]))
    if kind == "model_type" and isinstance(problem["input"], BaseModel):  # from Python
        type_name = type(problem["input"]).__name__
        return InvalidJob(f"expected {problem.get('ctx', {}).get('class_name')}, got {type_name}", _path(location))
    if location[-1:] == ["[key]"]:  # pydantic's sign of a wrong name, not a wrong value
        location.pop()
    pattern = problem.get("ctx", {}).get("pattern", "")
    expected = _OF_PATTERNS.get(pattern) or expected_range(model, problem) or _expectation(kind, problem["msg"])
    return InvalidJob(expected, _path(location))


_OF_PATTERNS = {
    HASH_PATTERN: "expected 64 hex digits, with or without sha256: before them",
    LABEL_PATTERN: "expected a label of the form S1",
    LSN_PATTERN: "expected a position in Postgres' WAL of the form 16/B374D848",
}


_OF_FIELDS = {
    "null": "expected a value or no such field, got null",
    "absent": "expected this field, or {others} instead",
    "blank": "expected more than white space",
    "repeated": "expected each one once",
    "weightless": "expected more than 0 for one of the legs at least (contextual is one only with a context)",
    "alone": "expected primary or sparse beside contextual, which only widens them",
}
"""Error type of our own validators → sentence; their message is the field."""


def _path(location: list[str | int]) -> str:
    path = ""
    for key in location:
        path = join_path(path, key)
    return path


_EXPECTATIONS = {
    "missing": "expected this field",
    "extra_forbidden": "this field is not known",
    "bool_type": "expected true or false",
    "int_type": "expected an integer",
    "float_type": "expected a number",
    "finite_number": "expected a finite number",
    "string_type": "expected a string",
    "list_type": "expected a list",
    "dict_type": "expected an object",
    "model_type": "expected an object",
}


def _expectation(kind: str, message: str) -> str:
    """Return the expectation of a problem: pydantic's messages name bounds and choices, never the input."""
    if kind in _EXPECTATIONS:
        return _EXPECTATIONS[kind]
    return re.sub(r"^\w+ should (be|have)", "expected", message).replace(" after validation", "")
