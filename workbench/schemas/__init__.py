"""The wire contract as documents: JSON Schemas, TypeScript, AsyncAPI, examples and hash vectors, from the types.

`retrieval-worker contract` writes them to ``docs/contract/``; ``--check`` compares. Everything here is a pure
function of the types, so that the same code always gives the same bytes.

The modules, each importing only from those before it:

- `contract.registry`: the tasks. `rules`: rules beyond the types of fields, in words.
- `docstrings`: descriptions, from the types' docstrings.
- `envelopes`: Celery's message and result records, as types.
- `objects`: JSON Schemas of jobs, results and envelopes.
- `typescript`: the objects as types of TypeScript.
- `asyncapi`: the AsyncAPI document.
- `hybrid_examples`, `pipeline_examples`, `examples`: examples of every object.
- `hash_vectors`: test vectors of the chunk hash.
- `core.citations.quoting.differences`: the kinds of differences.

A new task is one line in `contract.registry.TASKS`, sentences in `rules.RULES` if its fields depend on each other, and
an `example` of its job and of its answer, in their types.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workbench.schemas import asyncapi, examples, hash_vectors, objects, typescript
from worker.core.citations.quoting.differences import ACCEPTED, KINDS, NEVER_ACCEPTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def write(folder: Path) -> list[Path]:
    """Write every file; return their paths."""
    paths = []
    for name, content in sorted(files().items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths.append(path)
    return paths


def differing(folder: Path) -> list[str]:
    """Return the names of the files that are missing or differ from the types."""
    return [
        name
        for name, content in sorted(files().items())
        if not (folder / name).is_file() or (folder / name).read_bytes() != content
    ]


def files() -> dict[str, bytes]:
    """Return every file of the contract: its path below the folder, with slashes, and its bytes."""
    schemas = objects.schemas()
    return {
        **{f"{name}.json": as_json(schema) for name, schema in schemas.items()},
        **{f"examples/{name}.json": as_json(value) for name, (_, value) in examples.examples().items()},
        "asyncapi.json": as_json(asyncapi.document()),
        "difference-kinds.json": as_json(_difference_kinds(), ascii_only=True),
        "hash-vectors.json": as_json(hash_vectors.document(), ascii_only=True),
        "types.ts": typescript.document(schemas).encode(),
    }


def _difference_kinds() -> dict[str, Any]:
    """Return the closed list of kinds, each with an example of a source and a quote."""
    kinds = [
        {
            "kind": kind,
            "description": description,
            "source": source,
            "quote": quote,
            "accepted_by_default": kind in ACCEPTED,
            "can_be_accepted": kind not in NEVER_ACCEPTED,
        }
        for kind, (description, source, quote) in KINDS.items()
    ]
    return {"kinds": kinds}


def client_examples() -> bytes:
    """Return the file from which `retrieval_client.testing` answers: other forms as ``<task>.<form>``."""
    result_examples = {name: value for name, (_, value) in examples.examples().items() if ".result" in name}
    return as_json({name.replace(".result", ""): value for name, value in result_examples.items()})


def as_json(value: Mapping[str, Any] | Sequence[Any], *, ascii_only: bool = False) -> bytes:
    """Return JSON with sorted keys, indented, with a newline at its end.

    Args:
        value: plain JSON data.
        ascii_only: escape all other characters, which an editor could change or hide.
    """
    text = json.dumps(value, sort_keys=True, indent=2, ensure_ascii=ascii_only, allow_nan=False)
    return f"{text}\n".encode()
