"""The files that `retrieval-worker load` reads: JSON with one list, named after its corpus.

    {"documents": [{"id", "owner", "chunks": [{"id", "text", …}], …}]}
    {"docs": [{"id", "page_name", "page_url", "section_title", "content", …}]}
    {"examples": [{"id", "title", "description", "code", …}]}

Or JSON Lines (`.jsonl`), with one item of such a list on each line. docs/schema.md lists all fields.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from retrieval_client.contract.base import first_problem
from retrieval_client.errors import InvalidJob
from retrieval_client.json_values import join_path
from worker.cli.text_files import EncodingError, decoded
from worker.cli.usage import WrongUsage
from worker.core.shape import Bounds, check_shape
from worker.core.text.embedded_text import under_headings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Id = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class Item(BaseModel):
    """One item of a file's list; frozen, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def embedded(self, text: str, columns: Sequence[str]) -> str:
        """Return the text that is embedded for one of its own: under the values of columns that it has."""
        return under_headings(text, [getattr(self, column, None) for column in columns])


class DocumentChunk(Item):
    """A chunk of a document."""

    id: Id
    text: str
    page: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    section: str | None = None
    coordinates: Any = None
    metadata: dict[str, Any] = {}


class Document(Item):
    """A document with its owner, its other readers, and its chunks."""

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

    def to_embed(self, columns: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Return its chunks as (id, text under the values of these columns)."""
        return [(chunk.id, chunk.embedded(chunk.text, columns)) for chunk in self.chunks]


class DocSection(Item):
    """A section of a page of the manual: one chunk."""

    id: Id
    page_name: str
    page_url: Id
    section_title: str
    content: str
    metadata: dict[str, Any] = {}

    def to_embed(self, columns: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Return its one chunk as (id, content under the values of these columns)."""
        return [(self.id, self.embedded(self.content, columns))]


class Example(Item):
    """An example pattern: one chunk."""

    id: Id
    title: str
    description: str
    code: str
    tags: list[str] = []
    url: str = ""

    def to_embed(self, columns: Sequence[str] = ()) -> list[tuple[str, str]]:
        """Return its one chunk as (id, the text that the database generates as `content`, under these columns)."""
        return [(self.id, self.embedded(f"{self.title}\n{self.description}\n\n{self.code}", columns))]


AnyItem = Document | DocSection | Example

_LISTS: dict[str, TypeAdapter[list[Any]]] = {
    "documents": TypeAdapter(list[Document]),
    "docs": TypeAdapter(list[DocSection]),
    "examples": TypeAdapter(list[Example]),
}
_TELLING = {"documents": "chunks", "docs": "page_url", "examples": "code"}
"""Fields that items of one corpus alone have."""

EMBED_WITH: Mapping[str, Sequence[str]] = {
    "documents": (),
    "docs": ("page_name", "section_title"),
    "examples": ("tags",),
}
"""By corpus: the columns that the shipped settings join to a text when it is embedded."""

SAMPLES = {corpus: Path(__file__).parent / "sample" / f"{corpus}.json" for corpus in _LISTS}
"""The sample files, by corpus."""

# A file comes from an operator and is trusted: only its depth is limited, and what Postgres can't store is refused.
_BOUNDS = Bounds(max_string=2**30, max_list=2**30, max_keys=2**30)


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """The content of a file.

    Attributes:
        corpus: its reference corpus: ``documents``, ``docs`` or ``examples``.
        items: its items, all of the corpus's type.
    """

    corpus: str
    items: tuple[AnyItem, ...]

    @property
    def chunks(self) -> int:
        """Number of chunks of all items."""
        return sum(len(item.to_embed()) for item in self.items)


def read(path: Path) -> CorpusFile:
    """Read and check a file: JSON with one list, or JSON Lines with an item on each line.

    Raises:
        WrongUsage: it can't be read, or has another form; the message has the first problem and its place.
    """
    try:
        text = decoded(path.read_bytes())
        lines = path.suffix.lower() in {".jsonl", ".ndjson"}
        return _parse(_content_of_lines(text) if lines else _loaded(text))
    except OSError as error:
        raise WrongUsage(f"{path}: {error.strerror or 'expected a file of JSON'}") from None
    except EncodingError as error:
        raise WrongUsage(f"{path}, {error}") from None
    except InvalidJob as problem:
        raise WrongUsage(f"{path}: {problem.message}") from None


def _loaded(text: str, line: int = 1) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidJob(f"expected JSON, and line {line + error.lineno - 1} is none ({error.msg})") from None
    except RecursionError:
        raise InvalidJob("expected JSON that is nested less deep") from None


def _content_of_lines(text: str) -> Any:
    """Return the items of JSON Lines as the list of the corpus whose fields the first one has."""
    items = [_loaded(line, number) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    fields = items[0].keys() if items and isinstance(items[0], dict) else set()
    corpora = [corpus for corpus, field in _TELLING.items() if field in fields]
    if len(corpora) != 1:
        raise InvalidJob(f"expected an item on each line, with one of the fields {', '.join(_TELLING.values())}")
    return {corpora[0]: items}


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
    """Check that ids of items and of chunks are unique: a second one would replace the first, or fail."""
    items_seen: set[str] = set()
    chunks_seen: dict[str, str] = {}
    for i, item in enumerate(items):
        if item.id in items_seen:
            raise InvalidJob("expected an id that no item before has", f"{join_path(corpus, i)}.id")
        for chunk_id, _ in item.to_embed():
            if chunk_id in chunks_seen:
                problem = (
                    f"expected chunk ids that no chunk before has: {chunk_id} is in {chunks_seen[chunk_id]} already"
                )
                raise InvalidJob(problem, join_path(corpus, i))
            chunks_seen[chunk_id] = item.id
        items_seen.add(item.id)
