"""Jobs of a run: job number n is a pure function of the run's seed and n."""

from __future__ import annotations

import base64
import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chaos.corpus import TENANTS
from chaos.oracle import ExpectedAnswer

if TYPE_CHECKING:
    from chaos.oracle import Oracle

QUEUE = "retrieval"
QUEUES = "retrieval,pipeline"
"""Queues of the workers, as in production: a worker of several queues takes jobs in turns."""
ID = re.compile(rb"chaos-\d+-\d{7}")
"""Pattern of a run's ids, to find them in any value of Redis."""
SUBJECT = "chaos"
DIARY = "CHAOS_DIARY"
"""The environment variable that names the diary: the file to which instrumented jobs append their events."""
_SLEEPER = re.compile(r"chaos-\d+-9([01])(\d\d)\d{3}")
MOST_SLEEPERS = 1000
FIRST_SLEEPER = 9 * 10**6
"""First number of the ids that encode how long their jobs sleep."""


@dataclass(frozen=True)
class Question:
    """A job, and its expected result.

    Attributes:
        task_id: Celery's id.
        task: name of the task.
        job: the job object.
        expected: the right answer; None if the job is wrong and must fail as `InvalidJob`.
    """

    task_id: str
    task: str
    job: dict[str, Any]
    expected: ExpectedAnswer | None

    @property
    def message(self) -> bytes:
        """Task protocol 2 as a backend without Celery writes it."""
        return envelope(self.task_id, self.task, json.dumps([[self.job], {}, {}]))


class Questions:
    """The jobs of a run.

    Args:
        seed: of everything that is random.
        oracle: knows the answers.
    """

    def __init__(self, seed: int, oracle: Oracle) -> None:
        self._seed = seed
        self._oracle = oracle
        self._encoded = [base64.b64encode(query.tobytes()).decode() for query in oracle.queries]

    def __getitem__(self, number: int) -> Question:
        """Of twenty jobs, seventeen are searches, one is recorded, one replays pins, and one is wrong."""
        chance = random.Random(f"{self._seed} {number}")  # noqa: S311 -- repeatable, not secret
        kind = number % 20
        task_id = f"chaos-{self._seed}-{number:07d}"
        user = chance.choice(list(TENANTS))
        principal = _principal(user)
        if kind == 0:
            return Question(task_id, "retrieve_top_k", {"query_embedding": "too short", "principal": principal}, None)
        if kind == 1:
            return self._replay(task_id, user, principal, chance)
        return self._search(kind, task_id, user, chance)

    def sleeper(self, number: int, seconds: int, *, stubborn: bool = False) -> Question:
        """A search that sleeps before it searches (`chaos.sleeping`); no two of a run have the same number."""
        if not number < MOST_SLEEPERS:
            raise ValueError(f"expected fewer than {MOST_SLEEPERS} sleepers in a run")
        task_id = sleeper_id(self._seed, number, seconds, stubborn=stubborn)
        chance = random.Random(task_id)  # noqa: S311 -- repeatable, not secret
        return self._search(0, task_id, chance.choice(list(TENANTS)), chance)

    def _search(self, kind: int, task_id: str, user: str, chance: random.Random) -> Question:
        principal = _principal(user)
        query, k = self._clear_query(user, chance)
        job = {"query_embedding": self._encoded[query], "k": k, "principal": principal}
        if kind == 2:  # noqa: PLR2004 -- of twenty
            job["run"] = {"subject_id": SUBJECT, "run_id": task_id}
        return Question(task_id, "retrieve_top_k", job, self._oracle.nearest(query, user, k))

    def _clear_query(self, user: str, chance: random.Random) -> tuple[int, int]:
        while True:
            query, k = chance.randrange(len(self._encoded)), chance.randint(10, 15)
            if self._oracle.is_clear(query, user, k):
                return query, k

    def _replay(self, task_id: str, user: str, principal: dict[str, Any], chance: random.Random) -> Question:
        rows = chance.sample(self._oracle.corpus.chunks, 8)
        job = {"required_chunk_hashes": [row.chunk_hash for row in rows], "fill": "none", "principal": principal}
        seen = tuple(row for row in rows if row.visible_to(user))
        missing = tuple(row.chunk_hash for row in rows if not row.visible_to(user))
        return Question(task_id, "pinned_replay", job, ExpectedAnswer(user, seen, None, missing))


def _principal(user: str) -> dict[str, Any]:
    return {"user_id": user} | ({"tenant_id": TENANTS[user]} if TENANTS[user] else {})


def sleeper_id(seed: int, number: int, seconds: int, *, stubborn: bool) -> str:
    """The id of a job that sleeps.

    >>> sleeper_id(7, 12, 30, stubborn=True)
    'chaos-7-9130012'
    """
    return f"chaos-{seed}-{FIRST_SLEEPER + (100 * stubborn + seconds) * MOST_SLEEPERS + number}"


def sleep_of(task_id: str) -> tuple[int, bool]:
    """(seconds that a job sleeps, whether it ignores SIGTERM meanwhile).

    >>> sleep_of("chaos-7-9130012"), sleep_of("chaos-7-0000012")
    ((30, True), (0, False))
    """
    match = _SLEEPER.fullmatch(task_id)
    return (int(match[2]), match[1] == "1") if match else (0, False)


def envelope(task_id: str, task: str, body: str) -> bytes:
    """A message of kombu's Redis transport, with a body as it stands."""
    return json.dumps(
        {
            "body": body,
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": {"lang": "any", "task": task, "id": task_id, "root_id": task_id, "parent_id": None},
            "properties": {
                "correlation_id": task_id,
                "delivery_mode": 2,
                "delivery_tag": task_id,
                "delivery_info": {"exchange": "", "routing_key": QUEUE},
            },
        }
    ).encode()
