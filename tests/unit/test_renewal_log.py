"""A worker's log while Redis is away: the outage, not each try."""

from __future__ import annotations

from structlog.testing import capture_logs

from worker.queue.broker.owners import RenewalLog


def test_an_outage_is_logged_at_its_beginning_every_ten_seconds_and_at_its_end() -> None:
    """Two tries a second for 25 seconds are three lines, each with the tries so far; nothing while all is well."""
    log = RenewalLog()
    with capture_logs() as lines:
        log.renewed()
        for half_seconds in range(50):
            log.failed(ConnectionError("never shown"), half_seconds / 2)
        log.renewed()
        log.renewed()
    away, back = ("owner not renewed", "warning"), ("owner renewed again", "info")
    assert [(line["event"], line["log_level"]) for line in lines] == [away, away, away, back]
    assert [line["failures"] for line in lines] == [1, 21, 41, 50]
    assert [line.get("error") for line in lines] == ["ConnectionError"] * 3 + [None]


def test_a_second_outage_is_logged_at_once() -> None:
    """However soon after the first."""
    log = RenewalLog()
    with capture_logs() as lines:
        for now in (0.0, 1.0):
            log.failed(TimeoutError(), now)
            log.renewed()
    assert [line["failures"] for line in lines if line["event"] == "owner not renewed"] == [1, 1]
