"""Rules of a job beyond the types of its fields, in words: the validators of the contract and the worker have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retrieval_client.contract.jobs import Job, RetrieveHybrid, RetrieveTopK, RunPipeline
from retrieval_client.contract.run_jobs import BuildCitations, PinnedReplay
from worker.core.shape import MAX_ID, Bounds
from worker.settings.serving import PrincipalSettings

if TYPE_CHECKING:
    from retrieval_client.contract.base import Part

Schema = dict[str, Any]

_BOUNDS = Bounds()
_CLAIMS = ", ".join(f"`{name}`" for name in PrincipalSettings().settings)

_VECTORS = {
    "direction": "An embedding of only zeros.",
    "finite": "Base64 of a NaN or an infinity.",
}
_ONCE = "Two `searches` of one corpus."

RULES: dict[type[Part], dict[str, str]] = {
    Job: {
        "principals": "`principal` beside `principal_token`.",
        "claims": f"A known claim ({_CLAIMS}) that is not null, a boolean, an integer, a text of at most {MAX_ID} "
        f"characters or a list of at most {_BOUNDS.max_keys:,} such texts.",
        "text": f"A text or a field name of more than {_BOUNDS.max_string:,} characters, or with U+0000 or a lone "
        "surrogate (the escape `\\ud800` alone).",
        "size": f"A list of more than {_BOUNDS.max_list:,} items, an object of more than {_BOUNDS.max_keys:,} fields, "
        f"or more than {_BOUNDS.max_depth} levels of them.",
        "numbers": "A number that is not finite: NaN, an infinity, or `1e400`, which is read as one.",
    },
    RetrieveTopK: {
        "query": "Neither or both of `query_embedding` and `query_embeddings`.",
        "batch": "`run` beside `query_embeddings`.",
        **_VECTORS,
    },
    RetrieveHybrid: {
        **_VECTORS,
        "blank": "A `query` of white space only.",
        "legs": "One of the `legs` twice, or `contextual` alone.",
        "once": _ONCE,
        "weightless": "`weights` of 0 for each leg that searches, but for `fusion` `similarity`; `contextual` searches "
        "only with a `context`.",
    },
    RunPipeline: {
        "question": "Neither `question` nor `resume`.",
        "blank": "A `question` of white space only.",
        "resume": "Beside `resume`: `run`, or a field of this task but `stop_after` and `require_model`. The package "
        "has them.",
        "once": _ONCE,
        "folder": "With `run` in a mode with sections (`lyrics`): a `subject_id` or `run_id` that can't be the name of "
        "a folder, as in `build_citations`.",
    },
    PinnedReplay: {
        "pins": "More than one of `required_chunk_hashes`, `runs` and `citations`, or none of them without `run`.",
        "runs": "`sources` or `run` beside `runs`.",
        "document": "`citations` other than a document that `build_citations` answers or stores: a field that it does "
        "not have, or a `by_section`, `total_count` or `source_ids` that does not follow from its `all_citations`.",
    },
    BuildCitations: {
        "records": "Neither or both of `records` and `cite`.",
        "sections": "`sections` without `cite`.",
        "folder": "With `run`, unless `store` is false: a `subject_id` or `run_id` that can't be the name of a folder: "
        "`.`, `..`, more than 255 bytes of UTF-8, a character that can't be printed, or one of `/\\:\"<>|`.",
        "forms": "One hash of `sections` twice, in two forms (with `sha256:` and without, in capitals and not).",
    },
}
"""Type → what its schema takes and the worker refuses, also for subclasses: name → sentence."""
