"""Side 1, the floor: a loop around the plain query, in a process that reads the number of queries from stdin.

Each line of stdin is JSON, ``{"first": i, "step": s, "count": n}``: queries i, i + s, ... (modulo the file's), n of
them; each line is answered with one line, ``{"seconds": ..., "ms": [...], "ids": [[...], ...]}``.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import shared
from rows import Search


def main(path: str) -> None:
    queries = np.load(path)
    search = Search(shared.DSN, shared.CLAIMS, shared.K)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        places = [(order["first"] + i * order["step"]) % len(queries) for i in range(order["count"])]
        answers, ms = [], []
        started = previous_end = time.perf_counter()
        for place in places:
            answers.append(search.nearest(queries[place]))
            end = time.perf_counter()
            ms.append((end - previous_end) * 1000)
            previous_end = end
        seconds = time.perf_counter() - started
        ids = [[row[0] for row in rows] for rows in answers]
        print(json.dumps({"seconds": seconds, "ms": ms, "ids": ids}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
