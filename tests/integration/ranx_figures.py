"""Print what ranx and trec_eval make of a run: a program for an environment of their own.

python ranx_figures.py qrels.txt run.txt
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytrec_eval
from ranx import Qrels, Run, evaluate

NAMES = {
    "recall@5": "recall_5",
    "recall@10": "recall_10",
    "precision@5": "P_5",
    "precision@10": "P_10",
    "ndcg@5": "ndcg_cut_5",
    "ndcg@10": "ndcg_cut_10",
    "mrr": "recip_rank",
}
"""ranx's name of a measure (and ours) → trec_eval's."""


def main() -> None:
    qrels_file, run_file = sys.argv[1:]
    qrels = Qrels.from_file(qrels_file, kind="trec")
    run = Run.from_file(run_file, kind="trec").make_comparable(qrels)
    evaluate(qrels, run, [*NAMES], save_results_in_run=True)
    with Path(qrels_file).open() as judged, Path(run_file).open() as ranked:
        grades, scores = pytrec_eval.parse_qrel(judged), pytrec_eval.parse_run(ranked)
    figures = pytrec_eval.RelevanceEvaluator(grades, {*NAMES.values()}).evaluate(scores)
    of_trec_eval = {
        ours: {query: values[theirs] for query, values in figures.items()} for ours, theirs in NAMES.items()
    }
    of_ranx = {name: {query: float(value) for query, value in run.scores[name].items()} for name in NAMES}
    sys.stdout.write(json.dumps({"ranx": of_ranx, "trec_eval": of_trec_eval}))


main()
