"""Rules across the fields of a job, beyond what its types say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.contract.jobs import Job, RetrieveHybrid, RetrieveTopK, RunPipeline
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from retrieval_client.hashing import NORMALISERS, WRITTEN
from worker.core.shape import Bounds
from worker.settings.serving import PrincipalSettings

if TYPE_CHECKING:
    from retrieval_client.contract.base import Part

Schema = dict[str, Any]

WHITE_SPACE = (
    *range(0x0009, 0x000E),
    *range(0x001C, 0x0021),
    0x0085,
    0x00A0,
    0x1680,
    *range(0x2000, 0x200B),
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
)
"""The 29 code points that are white space to the worker, in every version of Unicode."""

SHIPPED = Bounds()
CLAIMS = tuple(PrincipalSettings().settings)
"""Default settings: bounds of a job, and the known claims."""


_SPACES = "".join(map(chr, WHITE_SPACE))
_NOT_BLANK = {"pattern": f"^[{_SPACES}]*[^{_SPACES}]"}
_BESIDE_RESUME = ["min_lsn", "principal", "principal_token", "require_model", "resume", "stop_after"]


_CITATION: Schema = {
    "type": "object",
    "properties": {
        "chunk_hash": {"type": "string", "pattern": f"^{WRITTEN.pattern}$", "not": {"pattern": r"\n"}},
        "source_id": {"type": "string"},
        "text": {"type": "string"},
        "weight": {"type": "number", "minimum": 0, "maximum": 1},
        "section": {"type": ["string", "null"]},
        "hash_version": {"enum": [*NORMALISERS]},
        "chunk_id": {"type": "string"},
        "page": {"type": "integer"},
        "coordinates": {"not": {"type": "null"}},
    },
    "required": ["chunk_hash", "source_id", "text", "weight", "section"],
    "additionalProperties": False,
}
_CITATIONS: Schema = {"type": "array", "items": _CITATION}
_DOCUMENT: Schema = {
    "properties": {
        "by_section": {"type": "object", "additionalProperties": _CITATIONS},
        "all_citations": _CITATIONS,
        "total_count": {"type": "integer"},
        "source_ids": {"type": "array", "items": {"type": "string"}},
        "conflicts": {"type": "array"},
    },
    "required": ["by_section", "all_citations", "total_count", "source_ids"],
    "additionalProperties": False,
}

RULES: dict[type[Part], tuple[Schema, ...]] = {
    Job: ({"not": {"required": ["principal", "principal_token"]}},),
    RetrieveTopK: (
        {"oneOf": [{"required": ["query_embedding"]}, {"required": ["query_embeddings"]}]},
        {"not": {"required": ["query_embeddings", "run"]}},
    ),
    PinnedReplay: (
        {"anyOf": [{"required": [name]} for name in ("required_chunk_hashes", "runs", "citations", "run")]},
        {"not": {"required": ["required_chunk_hashes", "runs"]}},
        {"not": {"required": ["required_chunk_hashes", "citations"]}},
        {"not": {"required": ["runs", "citations"]}},
        {"not": {"required": ["runs", "sources"]}},
        {"not": {"required": ["runs", "run"]}},
        {"properties": {"citations": _DOCUMENT}},
    ),
    BuildCitations: (
        {"oneOf": [{"required": ["records"]}, {"required": ["cite"]}]},
        {"not": {"required": ["records", "sections"]}},
    ),
    RunPipeline: (
        {"anyOf": [{"required": ["question"]}, {"required": ["resume"]}]},
        {"if": {"required": ["resume"]}, "then": {"propertyNames": {"enum": _BESIDE_RESUME}}},
        {"properties": {"question": _NOT_BLANK}},
    ),
    RetrieveHybrid: (
        {"properties": {"query": _NOT_BLANK}},
        {"properties": {"legs": {"uniqueItems": True, "not": {"const": ["contextual"]}}}},
    ),
}
"""Type → rules beyond the types of its fields, such as those across fields; they apply to its subclasses, too."""

UNSAID: dict[type[Part], dict[str, str]] = {
    Job: {
        "surrogates": "A string or a field name with a lone surrogate (the escape `\\ud800` alone). A pattern for it "
        "compiles in some engines only; most parsers refuse it themselves.",
        "levels": f"Objects and lists nested more than {SHIPPED.max_depth} deep.",
    },
    RetrieveTopK: (
        _VECTORS := {
            "direction": "An embedding of only zeros.",
            "finite": "Base64 of a NaN or an infinity.",
        }
    ),
    RetrieveHybrid: {
        **_VECTORS,
        "once": (_ONCE := "Two `searches` of one corpus."),
        "weightless": "`weights` of 0 for each leg that searches, but for `fusion` `similarity`; `contextual` searches "
        "only with a `context`.",
    },
    RunPipeline: {
        "once": _ONCE,
        "folder": "With `run` in a mode with sections (`lyrics`): a `subject_id` or `run_id` that can't be the name of "
        "a folder, as in `build_citations`.",
    },
    PinnedReplay: {
        "document": "A `citations` document whose `by_section`, `total_count` or `source_ids` do not follow from its "
        "`all_citations`.",
    },
    BuildCitations: {
        "folder": "With `run`, unless `store` is false: a `subject_id` or `run_id` that can't be the name of a folder: "
        "`.`, `..`, more than 255 bytes of UTF-8, a character that can't be printed, or one of `/\\:\"<>|`.",
        "forms": "One hash of `sections` twice, in two forms (with `sha256:` and without, in capitals and not).",
    },
}
"""Type → rules that JSON Schema can't express, or not for every validator: name → sentence."""
