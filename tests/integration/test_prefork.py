"""The pool over real processes, driven by an event loop of the test."""

from __future__ import annotations

from kombu.asynchronous import Hub

from worker.prefork import _Pool


def test_a_pool_is_registered_again_though_the_end_of_a_process_was_just_noticed() -> None:
    """As where a process dies and the connection is lost in the same moment: it is watched again."""
    hub, pool = Hub(), _Pool(processes=1, threads=False, enable_timeouts=True)
    try:
        pool.register_with_event_loop(hub)
        (process,) = pool._pool
        pool._untrack_child_process(process, hub)
        pool.register_with_event_loop(hub)
        assert process._sentinel_poll in hub.readers
    finally:
        pool.terminate()
        pool.join()
        hub.close()
