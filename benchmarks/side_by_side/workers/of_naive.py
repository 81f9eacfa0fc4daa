"""Side 7: the first thing that works. A connection for each task, the embedding as a list, rows as they come."""

from __future__ import annotations

from typing import Any

import psycopg
import shared
from rows import FIELDS, NEAREST, statement

app = shared.celery_app("naive")


@app.task(name="search")
def search(embedding: list[float]) -> dict[str, Any]:
    with psycopg.connect(shared.DSN) as connection:
        connection.execute(statement(shared.CLAIMS), list(shared.CLAIMS.values()))
        rows = connection.execute(NEAREST, (embedding, embedding, shared.K)).fetchall()
    return {"chunks": [dict(zip(FIELDS, row, strict=True)) for row in rows]}
