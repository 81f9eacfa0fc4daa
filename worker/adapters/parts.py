"""The parts of a worker that settings name and an installation may lack: extras, keys, models, files, file systems.

The checks call no server. A worker that would fail every job of a task does not start. Only a local folder for the
files of runs is written to.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, NamedTuple

from retrieval_client.errors import SettingsError
from worker.adapters.artifacts import Artifacts
from worker.adapters.providers.local_embedder import encoder_of
from worker.adapters.providers.tokenizer import token_counter
from worker.settings import PREFIX, read_glossary
from worker.settings.providers import OPENAI
from worker.settings.serving import PIPELINE_QUEUE, QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from worker.settings import Settings
    from worker.settings.providers import EmbedderSettings, LanguageModelSettings
    from worker.settings.searching import ProfileSettings


class MissingPart(NamedTuple):
    """A part that is missing.

    Attributes:
        part: its name in findings.
        queues: the queues whose jobs need it.
        problem: what is missing, and how to fix it.
    """

    part: str
    queues: Collection[str]
    problem: str


def check_parts(settings: Settings, queues: Collection[str] = QUEUES) -> None:
    """Check that the parts that these queues need are installed and configured.

    Raises:
        SettingsError: a part is missing; the message names it.
    """
    for lack in lacking(settings):
        if not {*lack.queues}.isdisjoint(queues):
            raise SettingsError(lack.problem)
    Artifacts(settings.artifacts).check_folder()


def lacking(settings: Settings) -> Iterator[MissingPart]:
    """Yield the missing parts, in a fixed order."""
    for problem in [*_openai("embedder", settings.embedder), *_local_model(settings.embedder)]:
        yield MissingPart("embedder", QUEUES, problem)
    for problem in _refusals(read_glossary):
        yield MissingPart("glossary", QUEUES, problem)
    for problem in _openai("language_model", settings.language_model):
        yield MissingPart("language model", [PIPELINE_QUEUE], problem)
    for problem in _refusals(lambda: token_counter(settings.language_model.tokenizer)):
        yield MissingPart("language model", [PIPELINE_QUEUE], problem)
    for problem in _rerankers(settings):
        yield MissingPart("reranker", [PIPELINE_QUEUE], problem)
    for name, mode in settings.modes.items():
        if settings.language_model.kind == "none" and needs_model(settings.profiles[mode.profile]):
            problem = (
                f'modes.{name}: its profile {mode.profile} needs a language model, and language_model.kind is "none". '
                "Set one, or name another profile"
            )
            yield MissingPart("language model", [PIPELINE_QUEUE], problem)
    for problem in _refusals(lambda: Artifacts(settings.artifacts)):
        yield MissingPart("artifacts", QUEUES, problem)


def needs_model(profile: ProfileSettings) -> bool:
    """Return whether a profile calls a language model before the answer."""
    return profile.rerank == "llm" or profile.transform == "llm" or profile.hyde > 0 or profile.variants > 0


def _openai(section: str, settings: EmbedderSettings | LanguageModelSettings) -> Iterator[str]:
    if settings.kind == "openai" and settings.api_key is None and settings.base_url == OPENAI:
        yield (
            f"{PREFIX}{section.upper()}__API_KEY is missing: OpenAI's own server needs a key. Set it, or "
            f"{section}.base_url to a server that needs none"
        )


def _local_model(settings: EmbedderSettings) -> Iterator[str]:
    """Yield why the local model can't be used; only the processes that embed load it."""
    if settings.kind == "local":
        yield from _refusals(lambda: encoder_of(settings))


def _rerankers(settings: Settings) -> Iterator[str]:
    """Yield what is missing for rerankers, with the profiles that use them."""
    users: dict[str, str] = {}
    for name, profile in settings.profiles.items():
        users.setdefault(profile.rerank, f"profiles.{name}")
    if "http" in users and not settings.reranker.url:
        yield f'the setting reranker.url is missing: {users["http"]} has rerank = "http"'
    if "cross_encoder" in users and not settings.reranker.model:
        yield f'the setting reranker.model is missing: {users["cross_encoder"]} has rerank = "cross_encoder"'
    elif "cross_encoder" in users and not _is_installed("sentence_transformers"):
        yield f"{users['cross_encoder']}: the reranker cross_encoder needs: pip install 'retrieval-worker[rerank]'"


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _refusals(make: Callable[[], object]) -> Iterator[str]:
    try:
        make()
    except SettingsError as error:
        yield error.message
