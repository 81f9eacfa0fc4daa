from __future__ import annotations

import json
import logging
import re
import unicodedata
from typing import TYPE_CHECKING, Literal

import pytest
import structlog

from retrieval_client.errors import SettingsError
from worker.adapters import logs
from worker.settings.serving import LogSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CANARY = "canary-4711"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Configuring logs is global: restore what other tests rely on."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in logging.Logger.manager.loggerDict}
    yield
    for handler in {*root.handlers} - {*handlers}:
        handler.close()
    root.handlers[:], root.level = handlers, level
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def fail() -> None:
    raise ValueError(CANARY)


def test_every_line_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    """Ours and a library's alike: event, level, logger, UTC time, and the fields that were given."""
    logs.configure(LogSettings(level="INFO", format="json"))
    logs.logger("worker.test").info("job done", task="retrieve_top_k", rows=15)
    logging.getLogger("library").warning("a %s", "line", extra={"task_id": "id-1"})
    ours, library = lines(capsys)
    assert (ours["event"], ours["level"], ours["logger"], ours["rows"]) == ("job done", "info", "worker.test", 15)
    assert (library["event"], library["logger"], library["task_id"]) == ("a line", "library", "id-1")
    assert str(ours["timestamp"]).endswith("Z")


@pytest.mark.parametrize(
    "sent", ["What does Bob earn?", "x" * 65, "eyJhbGciOiJIUzI1NiJ9.e30.x", "a\nb", "Geh\u00e4lter", 7]
)
def test_an_id_that_may_be_a_text_is_not_shown(capsys: pytest.CaptureFixture[str], sent: object) -> None:
    """Of a job or a run, in a line of ours or a library's; one that is no text is shown as it is."""
    logs.configure(LogSettings(level="INFO", format="json"))
    logs.logger("worker.test").info("job failed", task_id=sent, run_id=sent)
    logging.getLogger("library").warning("a line", extra={"task_id": sent})
    logging.getLogger("celery.worker.request").warning("Discarding revoked task: %s", sent)
    ours, library = lines(capsys)
    assert (ours["task_id"], ours["run_id"], library["task_id"]) == ("(not shown)",) * 3
    logs.logger("worker.test").info("job done", task_id="2f1c-4711", run_id="song-1:r.1")
    (plain,) = lines(capsys)
    assert (plain["task_id"], plain["run_id"]) == ("2f1c-4711", "song-1:r.1")


def test_an_exception_is_its_type_and_frames(capsys: pytest.CaptureFixture[str]) -> None:
    """Its message may quote a job: neither that nor a local variable is logged."""
    logs.configure(LogSettings(level="INFO", format="json"))
    try:
        fail()
    except ValueError:
        logging.getLogger("library").exception("it broke")
    (line,) = lines(capsys)
    assert (line["event"], line["exception"]) == ("it broke", "ValueError")
    assert str(line["where"]).count("test_observe.py") == 2
    assert CANARY not in json.dumps(line)


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_line_does_not_steer_a_terminal(capsys: pytest.CaptureFixture[str], form: Literal["console", "json"]) -> None:
    """An id or a name is a stranger's: event, fields and their names are shown, and a line stays one line."""
    logs.configure(LogSettings(level="INFO", format=form))
    hostile = "\x1b]0;t\x07\x9b2J\x7f\u202e\u200b\u2028\nlevel=critical é"
    logs.logger("worker.test").info(hostile, id=hostile, ids=[hostile], **{hostile: 1})
    logging.getLogger(hostile).warning("a %s", hostile)
    said = capsys.readouterr().err
    plain = re.sub(r"\x1b\[[\d;]*m", "", said)
    assert [sign for sign in plain if unicodedata.category(sign) in {"Cc", "Cf", "Zl", "Zp"} and sign != "\n"] == []
    assert said.count("\n") == 2
    assert "é" in said
    if form == "json":
        assert json.loads(said.splitlines()[0])["id"] == hostile


@pytest.mark.parametrize("reported", ["flag", "error"])
def test_our_own_exceptions_are_logged_alike(capsys: pytest.CaptureFixture[str], reported: str) -> None:
    """A line of ours with `exc_info` says as much as a library's, and no more."""
    logs.configure(LogSettings(level="INFO", format="json"))
    try:
        fail()
    except ValueError as error:
        logs.logger("worker.test").error("it broke", exc_info=True if reported == "flag" else error)
    (line,) = lines(capsys)
    assert line["exception"] == "ValueError"
    assert CANARY not in json.dumps(line)


@pytest.mark.parametrize("level", ["DEBUG", "INFO"])
def test_loggers_that_would_show_arguments_are_held_back(capsys: pytest.CaptureFixture[str], level: str) -> None:
    """Celery's debug lines print arguments, whatever level is asked for."""
    logs.configure(LogSettings(level=level, format="json"))  # type: ignore[arg-type] # one of its literals
    for name in ("celery.worker.strategy", "celery.app.trace", "celery", "kombu", "psycopg.pool"):
        logging.getLogger(name).debug(CANARY)
    logging.getLogger("celery.worker.strategy").info(CANARY)
    assert capsys.readouterr().err == ""


def test_the_frames_of_an_error_are_named_without_its_message() -> None:
    """File, line and function of each, the innermost last."""
    with pytest.raises(ValueError, match=CANARY) as caught:
        fail()
    frames = logs.where(caught.value)
    assert [frame.split()[1] for frame in frames] == [
        "test_the_frames_of_an_error_are_named_without_its_message",
        "fail",
    ]
    assert all(frame.startswith("test_observe.py:") for frame in frames)


def test_a_log_file_is_written_again_once_it_was_moved(tmp_path: Path) -> None:
    """As logrotate does."""
    file = tmp_path / "worker.log"
    logs.configure(LogSettings(level="INFO"), str(file))
    for name in ("first", "second"):
        logs.logger("worker").info(name)
        (line,) = file.read_text().splitlines()
        assert json.loads(line)["event"] == name
        file.rename(tmp_path / name)


def test_a_log_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--logfile: .*: No such file or directory"):
        logs.configure(LogSettings(), str(tmp_path / "missing" / "worker.log"))
