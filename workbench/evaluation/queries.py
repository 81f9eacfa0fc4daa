"""Labelled queries: a file of JSON lines, or TREC qrels."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from retrieval_client.contract.base import WHOLE, Embedding, Identifier, Part, parse_job
from retrieval_client.errors import InvalidJob
from worker.cli.usage import WrongUsage
from worker.core.shape import Bounds, check_shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LARGEST_GRADE = 1_000_000
_LIMITS = Bounds(max_keys=10_000)


def _as_grades(relevant: Any) -> Any:
    """Return a list of ids as an object in which each has grade 1; anything else unchanged."""
    if not isinstance(relevant, list):
        if not isinstance(relevant, dict):
            raise PydanticCustomError("relevant", "expected a list of ids, or an object of id and grade")
        return relevant
    if not all(isinstance(item, str) for item in relevant):
        raise PydanticCustomError("relevant", "expected ids that are strings")
    if len({*relevant}) < len(relevant):
        raise PydanticCustomError("relevant", "expected each id once")
    return dict.fromkeys(relevant, 1)


def _as_claims(caller: Any) -> Any:
    """Return a user's id as claims; anything else unchanged."""
    return {"user_id": caller} if isinstance(caller, str) else caller


ItemId = Annotated[StrictStr, Field(min_length=1, max_length=512)]
Grade = Annotated[StrictInt, Field(ge=0, le=LARGEST_GRADE), WHOLE]


class QueryLine(Part):
    """One line of a file of labelled queries.

    Attributes:
        question: the query.
        relevant: ids of relevant chunks or documents, or id → grade.
        id: name of the query; default the number of its line.
        query_embedding: embedding of the question, if the worker should not make it.
        context: the text that the user is working on.
        corpus: the corpus to search; default that of the command.
        caller: the caller's claims, or the `user_id` alone; default those of the command.
        kind: a word of your own, kept in the report.
    """

    question: Annotated[StrictStr, Field(min_length=1, max_length=100_000)]
    relevant: Annotated[dict[ItemId, Grade], BeforeValidator(_as_grades)]
    id: ItemId | None = None
    query_embedding: Embedding = None
    context: StrictStr = ""
    corpus: Identifier | None = None
    caller: Annotated[dict[str, Any], BeforeValidator(_as_claims)] | None = None
    kind: Identifier = ""

    @model_validator(mode="after")
    def _not_blank(self) -> QueryLine:
        if not self.question.strip():
            raise PydanticCustomError("blank", "question")
        return self


@dataclass(frozen=True, slots=True)
class LabelledQuery:
    """A query with its relevance judgements.

    Attributes:
        id: its name, unique in its file.
        line: number of its line, from 1.
        question: the query; empty if only judgements are known.
        grades: id of a chunk or a document → its grade; from 1 on it is relevant, unless said otherwise.
        corpus: the corpus to search; empty: the default.
        context: the text that the user is working on.
        claims: the caller's; None: the default.
        embedding: of the question, as the contract has it; None: the worker makes it.
        kind: a word of the file's own.
    """

    id: str
    line: int
    question: str
    grades: Mapping[str, int]
    corpus: str = ""
    context: str = ""
    claims: Mapping[str, Any] | None = None
    embedding: Any = None
    kind: str = ""


class WrongLines(WrongUsage):
    """Lines of a file are wrong.

    Attributes:
        lines: a sentence for each, with its number and field.
    """

    def __init__(self, file: Path | str, lines: Sequence[str], total: int) -> None:
        first_message = f"{file}: {lines[0]}"
        super().__init__(
            first_message if len(lines) == 1 else f"{file}: {len(lines)} of {total} lines are wrong, see above"
        )
        self.lines = lines


def read_queries(file: Path) -> list[LabelledQuery]:
    """Read a file of JSON lines, each a `QueryLine`; empty lines are skipped.

    Raises:
        WrongLines: some lines are wrong; it has a sentence for each.
        WrongUsage: the file can't be read, or has no query.
    """
    lines = [(number, line) for number, line in enumerate(_read(file).split(b"\n"), 1) if line.strip()]
    queries: dict[str, LabelledQuery] = {}
    wrong: list[str] = []
    for number, line in lines:
        try:
            query = _query(number, line)
        except InvalidJob as error:
            wrong.append(f"line {number}: {error.message}")
            continue
        if (earlier_query := queries.setdefault(query.id, query)) is not query:
            wrong.append(f"line {number}: id: expected each once; line {earlier_query.line} has it too")
    if wrong:
        raise WrongLines(file, wrong, len(lines))
    if not queries:
        raise WrongUsage(f"{file}: expected a JSON object with question and relevant on each line, got no line")
    return [*queries.values()]


def read_text(file: Path, option: str) -> list[str]:
    """Read the lines of a text file.

    Raises:
        WrongUsage: it can't be read, or is not text in UTF-8.
    """
    try:
        return _read(file).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise WrongUsage(f"{option} {file}: expected text in UTF-8") from None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise WrongUsage(f"{file}: {error.strerror}") from None


def _query(number: int, line: bytes) -> LabelledQuery:
    """Read one line.

    Raises:
        InvalidJob: the field, and what was expected of it.
    """
    raw = _decoded(line)
    if not isinstance(raw, dict):
        raise InvalidJob("expected a JSON object")
    check_shape(raw, _LIMITS)
    query_line = parse_job(QueryLine, raw)
    return LabelledQuery(
        id=query_line.id or str(number),
        line=number,
        question=query_line.question,
        grades=query_line.relevant,
        corpus=query_line.corpus or "",
        context=query_line.context,
        claims=query_line.caller,
        embedding=query_line.query_embedding,
        kind=query_line.kind,
    )


def _decoded(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8-sig"), object_pairs_hook=_each_once)
    except InvalidJob:
        raise
    except UnicodeDecodeError:
        raise InvalidJob("expected text in UTF-8") from None
    except json.JSONDecodeError as error:
        raise InvalidJob(f"expected a JSON object on one line ({error.msg}, column {error.colno})") from None
    except RecursionError:
        raise InvalidJob(f"expected at most {_LIMITS.max_depth} levels of nesting") from None
    except ValueError:  # a number of too many digits
        raise InvalidJob("expected a JSON object on one line") from None


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; JSON would let the last of equal keys win."""
    json_object = dict(pairs)
    if len(json_object) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidJob("expected each key once", twice if twice in QueryLine.model_fields else "relevant")
    return json_object
