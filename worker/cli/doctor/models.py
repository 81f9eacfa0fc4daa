"""Checks of models and the store of files, by using each once, and of the embedders that filled the corpora."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retrieval_client.errors import RetrievalError, SettingsError
from worker.adapters.artifacts import Artifacts
from worker.adapters.durability import Finding
from worker.adapters.parts import lacking, needs_model
from worker.adapters.postgres.database import Database, connected, translated_errors
from worker.adapters.postgres.embedders import difference, foreign, identity, sample, sample_for, stored
from worker.adapters.providers.embedder import make as make_embedder
from worker.adapters.providers.language_model import Prompt
from worker.adapters.providers.language_model import make as make_model
from worker.adapters.providers.local_embedder import LONGEST, LocalEmbedder, misreads
from worker.adapters.providers.reranker import rerankers
from worker.core.text.fingerprint import AGREE, agree, cosines, own_found, unrelated
from worker.core.text.legibility import is_foreign_corpus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from worker.adapters.postgres.embedders import StoredSample
    from worker.adapters.providers.embedder import Embedder
    from worker.core.text.fingerprint import EmbedderIdentity
    from worker.model import Principal
    from worker.settings import Settings


_INSTRUCTIONS, _WORD = "Answer with one word.", "hello"
"""Smallest possible prompt and text for checks of models."""


_ROWS, _SECONDS = 32, 5.0
"""Rows by which an embedder is compared, and the seconds that reading them may take."""

_OWN = 0.75
"""Least share of chunks found by a sentence of their own: an English model has 0.94, in Japanese 0.69, Russian 0.5."""

_MULTILINGUAL = "set embedder.folder to another model (docs/configuration.md), and load the corpus again"

_ENDS = re.compile(r"[.!?。！？\n]+")


def part_findings(settings: Settings) -> Iterator[Finding]:
    """Check models and the store of files by using each once as a job would."""
    lacks = [*lacking(settings)]
    yield from (Finding("problem", lack.part, lack.problem) for lack in lacks)
    missing = {lack.part for lack in lacks}
    uses: dict[str, Callable[[], str]] = {
        "embedder": lambda: _embedder(settings),
        "language model": lambda: _language_model(settings),
        "reranker": lambda: _reranker(settings),
        "artifacts": lambda: _artifacts(settings),
    }
    for part_name, use in uses.items():
        if part_name not in missing:
            yield _used(part_name, use)
    idle = [name for name, profile in settings.profiles.items() if needs_model(profile)]
    if settings.language_model.kind == "none" and idle:
        advice = f"jobs that name the profile {' or '.join(idle)} are refused: each needs one (language_model.kind)"
        yield Finding("advice", "language model", advice)


_PLACES = {
    "embedder": ": check embedder.base_url and its key",
    "language model": ": check language_model.base_url and its key",
    "reranker": ": check reranker.url and its key",
}
"""Part → the settings that lead to its server."""


def _used(part_name: str, use: Callable[[], str]) -> Finding:
    try:
        return Finding("ok", part_name, use())
    except SettingsError as error:
        return Finding("problem", part_name, error.message)
    except RetrievalError as error:
        return Finding(
            "advice", part_name, f"{error.message}. Jobs that need it wait for it{_PLACES.get(part_name, '')}"
        )


def _embedder(settings: Settings) -> str:
    embedder = make_embedder(settings.embedder)
    memory_before, start = _memory(), time.perf_counter()
    embedder.embed([_WORD], dimensions=max(corpus.dimensions for corpus in settings.corpora.values()))
    summary = f"{embedder.name} {embedder.version} embeds"
    if not isinstance(embedder, LocalEmbedder):
        return summary
    took, memory = time.perf_counter() - start, (_memory() - memory_before) / 2**20
    return f"{summary}: loaded in {took:.1f} s, {memory:.0f} MB in each worker process"


def _memory() -> int:
    """Return the resident memory of this process, in bytes; 0 where the kernel does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def embedder_findings(settings: Settings, caller: Principal | None = None) -> Iterator[Finding]:
    """Compare the embedder of the settings with those that filled the corpora, by the rows that a caller sees."""
    with contextlib.suppress(RetrievalError):  # reported with the parts, or with Postgres
        embedder, dsn = make_embedder(settings.embedder), settings.database_connection_string.get_secret_value()
        with translated_errors(), connected(dsn) as connection, contextlib.ExitStack() as opened:
            database = None if caller is None else opened.enter_context(contextlib.closing(Database(settings)))
            recorded = stored(connection, settings.corpora)
            hint = " (--as names a caller)" if caller is None else ""
            for name, corpus in settings.corpora.items():
                subject = f"corpus {name}"
                if not corpus.compare_embedder:
                    yield Finding("advice", subject, "compare_embedder is off: another embedder may have filled it")
                    continue
                if caller is None or database is None:
                    rows = sample(connection, corpus, _ROWS)
                else:
                    rows = sample_for(database, settings, name, caller, _SECONDS, _ROWS)
                compared = _compared(subject, embedder, recorded[name]) if name in recorded else None
                compared = compared or _sampled(subject, embedder, rows, hint)
                yield compared
                if compared.level == "ok":
                    yield from _told_apart(subject, embedder, rows, hint)
                if compared.level == "ok" and isinstance(embedder, LocalEmbedder):
                    yield from _cut(subject, embedder, rows)


def _compared(subject: str, embedder: Embedder, recorded: EmbedderIdentity) -> Finding:
    if agree(identity(embedder, recorded.dimensions).fingerprint, recorded.fingerprint):
        return Finding("ok", subject, f"its vectors were made by {recorded}, with which the settings' embedder agrees")
    return Finding("problem", subject, f"jobs can't search it by text: {difference(embedder, recorded)}")


def _told_apart(subject: str, embedder: Embedder, rows: StoredSample, hint: str) -> Iterator[Finding]:
    """Report a model that does not find chunks by sentences of their own, for which no labels are needed."""
    if len(rows.texts) < _ROWS / 2:
        text = f"too few rows with text and vector are visible to tell whether {embedder.name} knows their language"
        yield Finding("ok", subject, f"{text}{hint}")
        return
    illegible = [misreads(embedder, text) for text in rows.texts]
    if is_foreign_corpus(illegible):
        yield Finding(
            "advice",
            subject,
            f"{sum(illegible)} of {len(illegible)} chunks are not of the languages of {embedder.name}, so searches "
            f"by meaning miss them: {_MULTILINGUAL}",
        )
        return
    sentences = [longest_sentence(text) for text in rows.texts]
    found_share, alike = own_found(
        embedder.embed(sentences, dimensions=rows.vectors.shape[1], is_query=True), rows.vectors
    )
    if found_share < _OWN:
        yield Finding(
            "advice",
            subject,
            f"{embedder.name} finds only {found_share:.0%} of {len(sentences)} chunks by a sentence of their own (mean "
            f"cosine of two chunks {alike:.2f}): it may not know their language, or chunks are alike. Try another",
        )


def _cut(subject: str, embedder: LocalEmbedder, rows: StoredSample) -> Iterator[Finding]:
    """Report chunks whose ends no search by meaning finds."""
    count = sum(length > LONGEST for length in rows.lengths)
    if count:
        yield Finding(
            "advice",
            subject,
            f"{count} of {len(rows.texts)} chunks are longer than the {LONGEST:,} characters that {embedder.name} "
            "reads: their ends are not in their embeddings. Split them",
        )


def longest_sentence(text: str) -> str:
    """Return the longest sentence of a text, by its punctuation.

    >>> longest_sentence("A pump. It hums at 50 Hz!")
    'It hums at 50 Hz'
    """
    return max(_ENDS.split(text), key=len).strip()


def _sampled(subject: str, embedder: Embedder, rows: StoredSample, hint: str) -> Finding:
    """Compare stored vectors of a table that others filled with those that the settings' embedder makes."""
    embedder_name = f"{embedder.name} {embedder.version}"
    doubt = f"it is not recorded which embedder made its vectors, and {embedder_name} embeds queries"
    if not rows.texts:
        return Finding("advice", subject, f"{doubt}: no row with text and vector is visible{hint}")
    width = rows.vectors.shape[1]
    own_vectors = embedder.embed(rows.texts, dimensions=width)
    median_cosine = float(np.median(cosines(own_vectors, rows.vectors)))
    measured = f"median cosine {median_cosine:.2f} over {len(rows.texts)} stored texts"
    if median_cosine >= AGREE:
        return Finding("ok", subject, f"its vectors agree with {embedder_name}: {measured}")
    if unrelated(own_vectors, rows.vectors):
        reason = foreign(embedder, rows.vectors)
        return Finding("problem", subject, f"jobs can't search it by text: {reason} ({measured})")
    cure = "if other text was embedded, such as titles, name its columns in embed_with"
    return Finding("advice", subject, f"{doubt}, which does not agree with them ({measured}): {cure}")


def _language_model(settings: Settings) -> str:
    model = make_model(settings.language_model)
    if model is None:
        return "none: answers are extractive"
    model.complete(Prompt(_INSTRUCTIONS, _WORD))
    return f"{model.provider} {model.name} answers"


def _reranker(settings: Settings) -> str:
    profile_rerankers = rerankers(settings, None)
    for reranker in profile_rerankers.values():
        reranker.scores(_WORD, [_WORD])
    return ", ".join(reranker.name for reranker in profile_rerankers.values()) or "none is named by a profile"


def _artifacts(settings: Settings) -> str:
    Artifacts(settings.artifacts).check()
    url = settings.artifacts.url
    if "://" in url or Path(url).is_absolute():
        return f"files of runs are kept in {url}"
    return f"files of runs are kept in {Path(url).absolute()}: artifacts.url is relative to where each process starts"
