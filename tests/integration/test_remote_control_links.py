"""Remote control over a connection that died: a worker does not wait for it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.devstack.stack import Stack

# Reads from a subscription on which nothing arrives, as a poll does that was notified of its predecessor.
SCRIPT = """
import sys
from kombu import Connection, Exchange, Queue

with Connection(sys.argv[1], transport="worker.queue.remote_channel:Transport") as connection:
    channel = connection.channel()
    queue = Queue("replies", Exchange("control", type="fanout"), channel=channel)
    queue.declare()
    channel.basic_consume("replies", True, lambda message: None, "tag")
    channel.connection.cycle._register_LISTEN(channel)
    channel.subclient.connection.can_read(timeout=5)  # that it is subscribed, and nothing after that
    for _ in range(3):
        channel._receive()
    print("went on")
"""


def test_reading_when_nothing_is_there_does_not_wait(stack: Stack) -> None:
    """Kombu's own read would hang here for ever, and with it the worker's main process."""
    command = [sys.executable, "-c", SCRIPT, stack.redis.url(0)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert "went on" in done.stdout, done.stderr
