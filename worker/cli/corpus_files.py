"""The files that `retrieval-worker load` reads: JSON with one list, whose name says for which corpus it is.

    {"documents": [{"id", "owner", "chunks": [{"id", "text", …}], …}]}
    {"docs": [{"id", "page_name", "page_url", "section_title", "content", …}]}
    {"examples": [{"id", "title", "description", "code", …}]}

docs/schema.md lists all fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from worker.cli.usage import WrongUsage
from worker.contract import first_problem
from worker.core.shape import check_shape, join_path
from worker.errors import InvalidJob
from worker.settings import Limits

Id = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class Item(BaseModel):
    """One item of a file's list: no unknown fields, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DocumentChunk(Item):
    """A chunk of a document."""

    id: Id
    text: str
    page: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    section: str | None = None
    coordinates: Any = None
    metadata: dict[str, Any] = {}


class Document(Item):
    """A document with its owner, who else may see it, and its chunks."""

    id: Id
    owner: Id
    title: str = ""
    path: str = ""
    kind: str = ""
    tenant: str | None = None
    visibility: Literal["public", "tenant", "private"] | None = None
    public: bool = False
    grants: list[Id] = []
    metadata: dict[str, Any] = {}
    chunks: list[DocumentChunk]

    def to_embed(self) -> list[tuple[str, str]]:
        """Its chunks as (id, text)."""
        return [(chunk.id, chunk.text) for chunk in self.chunks]


class DocSection(Item):
    """A section of a page of the manual: one chunk."""

    id: Id
    page_name: str
    page_url: Id
    section_title: str
    content: str
    metadata: dict[str, Any] = {}

    def to_embed(self) -> list[tuple[str, str]]:
        """Its one chunk as (id, content under its headings, which say what it is about)."""
        return [(self.id, f"{self.page_name}: {self.section_title}\n{self.content}")]


class Example(Item):
    """An example pattern: one chunk."""

    id: Id
    title: str
    description: str
    code: str
    tags: list[str] = []
    url: str = ""

    def to_embed(self) -> list[tuple[str, str]]:
        """Its one chunk as (id, the text that the database generates as `content`)."""
        return [(self.id, f"{self.title}\n{self.description}\n\n{self.code}")]


AnyItem = Document | DocSection | Example

_LISTS: dict[str, TypeAdapter[list[Any]]] = {
    "documents": TypeAdapter(list[Document]),
    "docs": TypeAdapter(list[DocSection]),
    "examples": TypeAdapter(list[Example]),
}
SAMPLES = {corpus: Path(__file__).parent / "sample" / f"{corpus}.json" for corpus in _LISTS}
"""The sample files, by corpus."""

# A file is an operator's, not a stranger's: only its depth is bounded, and what Postgres can't store is refused.
_BOUNDS = Limits(max_string=2**30, max_list=2**30, max_keys=2**30)


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """What a file holds.

    Attributes:
        corpus: ``documents``, ``docs`` or ``examples``: which of the reference corpora it is for.
        items: all of the corpus's type.
    """

    corpus: str
    items: tuple[AnyItem, ...]

    @property
    def chunks(self) -> int:
        """How many chunks all items have."""
        return sum(len(item.to_embed()) for item in self.items)


def read(path: Path) -> CorpusFile:
    """Read and check a file.

    Raises:
        WrongUsage: it can't be read, or isn't of that form; the first problem is named with its place.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise WrongUsage(f"{path}: expected a file of JSON") from None
    try:
        return _parse(content)
    except InvalidJob as problem:
        raise WrongUsage(f"{path}: {problem.message}") from None


def _parse(content: Any) -> CorpusFile:
    check_shape(content, _BOUNDS)
    if not isinstance(content, dict) or len(content) != 1 or not content.keys() <= _LISTS.keys():
        raise InvalidJob(f"expected one object with one list, which is called one of {', '.join(_LISTS)}")
    ((corpus, values),) = content.items()
    try:
        items = _LISTS[corpus].validate_python(values)
    except ValidationError as error:
        problem = first_problem(error)
        raise InvalidJob(problem.expected, corpus + problem.path) from None
    _check_ids(corpus, items)
    return CorpusFile(corpus, tuple(items))


def _check_ids(corpus: str, items: list[AnyItem]) -> None:
    """No two items and no two chunks of a file have the same id: the second would replace the first, or fail."""
    items_seen: set[str] = set()
    chunks_seen: set[str] = set()
    for i, item in enumerate(items):
        chunk_ids = [chunk_id for chunk_id, _ in item.to_embed()]
        if item.id in items_seen:
            raise InvalidJob("expected an id that no item before has", f"{join_path(corpus, i)}.id")
        if len({*chunk_ids} - chunks_seen) < len(chunk_ids):
            raise InvalidJob("expected chunk ids that no chunk before has", join_path(corpus, i))
        items_seen.add(item.id)
        chunks_seen.update(chunk_ids)
