"""Messages whose job can't even be reached: each is one clear refusal too, and the worker goes on."""

from __future__ import annotations

import contextlib
import json
import uuid
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .bad_input_cases import PLANTED, TEXT, job
from .bad_input_worker import EMBED, Worker, body, connected, database, message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from workbench.devstack.stack import Stack

GOOD = body(job())
SILENCE_SECONDS = 3.0


def parts(args: Any = None, kwargs: Any = None, embed: Any = None) -> bytes:
    """A body with one of its three parts replaced."""
    whole = [[job()] if args is None else args, {} if kwargs is None else kwargs, EMBED if embed is None else embed]
    return json.dumps([None if part == "null" else part for part in whole]).encode()


BODIES = {
    "text": b"canary text",
    "nothing": b"",
    "white space": b" \n",
    "null": b"null",
    "number": b"47114711",
    "true": b"true",
    "string": b'"canary text"',
    "object": json.dumps({"canary": job()}).encode(),
    "object, cut": b'{"canary": ',
    "the job itself": json.dumps(job()).encode(),
    "no UTF-8": b"\xff\xfe canary",
    "mark first": b"\xef\xbb\xbf" + GOOD + b" canary",
    "no parts": b"[]",
    "one part": json.dumps([[job()]]).encode(),
    "two parts": json.dumps([[job()], {}]).encode(),
    "four parts": json.dumps([[job()], {}, EMBED, {TEXT: TEXT}]).encode(),
    "parts as text": json.dumps([TEXT, TEXT, TEXT]).encode(),
    "arguments null": parts(args="null"),
    "arguments a number": parts(args=47114711),
    "arguments text": parts(args=TEXT),
    "arguments an object": parts(args={TEXT: job()}),
    "keywords null": parts(kwargs="null"),
    "keywords a list": parts(kwargs=[TEXT]),
    "keywords text": parts(kwargs=TEXT),
    "keywords a number": parts(kwargs=47114711),
    "keyword self": parts(kwargs={"self": TEXT}),
    "embed text": parts(embed=TEXT),
    "embed a list": parts(embed=[TEXT]),
    "callbacks text": parts(embed={**EMBED, "callbacks": [TEXT]}),
    "errbacks text": parts(embed={**EMBED, "errbacks": TEXT}),
    "chain text": parts(embed={**EMBED, "chain": [TEXT]}),
    "chord text": parts(embed={**EMBED, "chord": TEXT}),
}

HEADERS: dict[str, tuple[dict[str, Any], bytes]] = {
    **{
        f"timelimit {value!r}": ({"timelimit": value}, GOOD)
        for value in (TEXT, 5, True, [1], [3, 2, 1], [TEXT, TEXT], [None, TEXT], [-1, -2], {TEXT: 1}, [[1], [1]])
    },
    "timelimit at once": ({"timelimit": [0.02, 0.01]}, GOOD),
    "compressed": ({"compression": "application/x-gzip"}, zlib.compress(GOOD)),
    "said to be compressed": ({"compression": "application/x-gzip"}, GOOD),
    "compressed unknown": ({"compression": TEXT}, GOOD),
    "compressed by a number": ({"compression": 5}, GOOD),
}

CASES = {**{name: ({}, raw) for name, raw in BODIES.items()}, **HEADERS}


@pytest.fixture(scope="module")
def living(
    stack: Stack, sample_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Worker]]:
    """Gives the running worker; one that the case before has killed is replaced, so that each is judged alone."""
    log = tmp_path_factory.mktemp("envelopes") / "worker.log"
    with database(stack, sample_template) as name, contextlib.ExitStack() as exits:
        current = [exits.enter_context(connected(stack, name, log))]

        def living_worker() -> Worker:
            if not current[-1].alive:
                current.append(exits.enter_context(connected(stack, name, log)))
            return current[-1]

        yield living_worker


@pytest.mark.parametrize("name", CASES)
def test_a_message_that_holds_no_job_is_refused_to_its_sender(living: Callable[[], Worker], name: str) -> None:
    """One `InvalidJob` in one sentence, nothing logged of the body, and the next job is answered."""
    worker = living()
    headers, raw = CASES[name]
    logged = worker.log.stat().st_size
    bad, good = str(uuid.uuid4()), str(uuid.uuid4())
    states = worker.answers({bad: message(bad, raw, headers)}, SILENCE_SECONDS)[bad]
    after = worker.answers({good: message(good, GOOD)}, SILENCE_SECONDS)[good]
    reported = worker.log.read_text(errors="replace")[logged:]
    assert [planted for planted in PLANTED if planted in reported] == []
    assert worker.alive
    assert [state["status"] for state in after] == ["SUCCESS"]
    assert [state["status"] for state in states] == ["FAILURE"]
    failure = states[0]["result"]
    assert (failure["exc_type"], failure["exc_module"]) == ("InvalidJob", "worker.errors")
    (sentence,) = failure["exc_message"]
    assert sentence
    assert "\n" not in sentence
    assert [planted for planted in PLANTED if planted in json.dumps(states)] == []


MEGABYTE = 1 << 20


def test_a_small_message_is_never_made_a_large_one(living: Callable[[], Worker]) -> None:
    """400 MB of nothing in 400 kB of gzip: refused as it is, and the worker's memory never grows by it."""
    worker = living()
    packer = zlib.compressobj(9)
    bomb = b"".join([packer.compress(bytes(MEGABYTE)) for _ in range(400)] + [packer.flush()])
    before, task_id = peak_memory(worker), str(uuid.uuid4())
    text = message(task_id, bomb, {"compression": "application/x-gzip"})
    (state,) = worker.answers({task_id: text}, SILENCE_SECONDS)[task_id]
    assert state["result"]["exc_type"] == "InvalidJob"
    assert peak_memory(worker) - before < 100 * MEGABYTE
    assert worker.alive


def peak_memory(worker: Worker) -> int:
    """Most bytes that the worker's main process ever held."""
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
