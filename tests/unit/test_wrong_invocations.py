"""The command line used wrongly: one sentence, a documented exit code, and no stack trace."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

import workbench
from workbench.main import cli
from worker.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for
NOWHERE = "127.0.0.1:1"
"""No server listens there: what is not wrong by itself ends there."""

ENVIRONMENT = {
    "DATABASE_CONNECTION_STRING": f"postgresql://worker:{SECRET}@{NOWHERE}/app",
    "MIGRATION_CONNECTION_STRING": f"postgresql://admin:{SECRET}@{NOWHERE}/app",
    "CELERY_BROKER_URL": f"redis://:{SECRET}@{NOWHERE}/0",
    "CELERY_RESULT_BACKEND": f"redis://:{SECRET}@{NOWHERE}/1",
}
FILES = {
    "empty": b"",
    "binary": bytes(range(256)),
    "list.json": b"[]",
    "number.json": b"1e999",
    "deep.json": b"[" * 100_000,
    "half.npy": b"\x93NUMPY\x01\x00v",
    "part.json": b'{"by_section": {}}',
    "documents.json": b'{"documents": [{"id": 1}]}',
}
VALUES = [
    *("", " ", "é🎸\u202e", "a\nb\x1b[2J", "x" * 70_000),
    *("\udcff", "$(x)", "%s%d", "-", "--", "a=b", "a=" + "9" * 30),
    *("9" * 30, "-1", "nan", "inf", "1e999", "0x10", "1.5", "100,200", "100,,x"),
    *("{", "[]", "null", '{"user_id": 1}', '{"user_id": {}}', "{" * 5000),
    *FILES,
    *("folder", "nowhere/file", "folder/list.json/x", "/proc/self/mem"),
    *("foo://x", "redis://[::1", "redis://x:99999/0", "redis://x/abc", "rediss://x?ssl_cert_reqs=maybe", "unix:///x"),
    *(f"redis://{NOWHERE}/0?socket_timeout=x", f"redis://{NOWHERE}/0?x=1", f"redis://{NOWHERE}?ssl_cert_reqs=none"),
    *("postgresql://h:abc/x", "host=x port=y", "garbage=1", f"postgresql://u:{SECRET}@{NOWHERE}/x?sslmode=maybe"),
]  # fmt: skip
CALLER = {"caller", "claims", "token"}
"""Options of which one names the caller."""
CHOSEN = 4
"""Values that each option and argument gets, of those above: others for each, the same in each run."""

COMMAND = get_command(cli)
ROOT = str(Path(str(workbench.__file__)).parents[1])


def commands(command: Any = COMMAND, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command, as it is typed, with what it takes."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield name, command
        return
    for part, one in inner.items():
        yield from commands(one, (*name, part))


def options_of(command: Any) -> set[str]:
    """The options of a command."""
    return {typed for one in command.params for typed in one.opts}


def chosen(*place: str) -> list[str]:
    """Some of the values, by a place."""
    return sorted(VALUES, key=lambda value: hashlib.sha256(repr((place, value)).encode()).digest())[:CHOSEN]


def typed(name: tuple[str, ...], command: Any, wrong: Any, value: str) -> list[str]:
    """A command with one wrong value; all else that it needs is there."""
    options: list[str] = []
    arguments: list[str] = []
    for one in command.params:
        if one.param_type_name == "argument":
            if one is wrong or one.required:
                arguments.append(value if one is wrong else {"file": "list.json"}.get(one.name, "x"))
        elif one is wrong or (one.name == "caller" and wrong.name not in CALLER):
            options += [one.opts[0], *([value if one is wrong else "x"] * one.nargs)]
        elif one.required and one.name not in {"broker", "dsn"}:
            options += [one.opts[0], *(["x"] * one.nargs)]
    return [*name, *options, *arguments]


def generated() -> Iterator[list[str]]:
    """Each command without arguments, with one too many, with an unknown option, and each option with wrong values."""
    for name, command in commands():
        yield [*name, "--no-such-option"]
        yield [*name, *["x"] * 9, "--no-such-option=\x1b[2J"]
        for one in command.params:
            if getattr(one, "is_flag", False) or "--help" in one.opts:
                if one.opts[0].startswith("--"):
                    yield [*name, f"{one.opts[0]}=x"]
                continue
            if one.param_type_name == "option":
                yield [*name, one.opts[0]]
            # Others would start servers, or write the files that they are given; and `doctor` reports on any caller.
            takes_all = name[0] in {"up", "contract", "init"} or (*name, one.name) == ("doctor", "caller")
            if not takes_all or one.name == "postgres":
                yield from (typed(name, command, one, value) for value in chosen(*name, one.name))


INVOCATIONS = [*generated()]


NO_RESULTS = {("demo",), ("up",), ("inspect",), ("report",), ("ui",)}
"""Commands that run servers or screens, or write a page for people."""


@pytest.mark.parametrize("name", [name for name, _ in commands() if name not in NO_RESULTS], ids=" ".join)
def test_every_command_that_prints_a_result_prints_json(name: tuple[str, ...]) -> None:
    """With --json; an exported run is JSON anyway."""
    command = dict(commands())[name]
    assert name == ("runs", "export") or any("--json" in one.opts for one in command.params)


@pytest.mark.parametrize("name", [name for name, one in commands() if "--as" in options_of(one)], ids=" ".join)
def test_every_command_takes_its_caller_by_claims_and_by_token(name: tuple[str, ...]) -> None:
    """Visitors of `inspect` sign in with their tokens."""
    assert {"--claims", "--token"} <= options_of(dict(commands())[name]) | (
        {"--token"} if name == ("inspect",) else set()
    )


@pytest.mark.parametrize("name", [name for name, one in commands() if "--as" in options_of(one)], ids=" ".join)
def test_an_empty_caller_is_wrong_usage(name: tuple[str, ...], place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As by a shell's unset variable: taken for none, it would mean every caller to `verify` and `tune`."""
    command = dict(commands())[name]
    for option in (one for one in command.params if one.name in CALLER and not one.multiple):
        code = run(COMMAND, typed(name, command, option, ""))
        assert (code, "caller" in capfd.readouterr().err.splitlines()[-1]) == (2, True)
    assert place.is_dir()


@pytest.mark.parametrize("name", [name for name, _ in commands() if name != ("up",)], ids=" ".join)
def test_text_that_is_not_utf_8_is_wrong_usage(
    name: tuple[str, ...], place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In each argument and option that takes text, before anything is connected; those of `up` are numbers."""
    command = dict(commands())[name]
    hints = typing.get_type_hints(command.callback)
    for text in (one for one in command.params if re.search(r"\bstr\b", str(hints.get(one.name)))):
        code = run(COMMAND, typed(name, command, text, "\udcff\udcfe"))
        assert (code, capfd.readouterr().err.splitlines()[-1].count("UTF-8")) == (2, 1), text.name
    assert place.is_dir()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of all kinds, and connection strings that lead nowhere."""
    for file, content in FILES.items():
        (tmp_path / file).write_bytes(content)
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    for pause in ("kombu.utils.functional.sleep", "redis.retry.sleep"):  # a hundred times: Redis is still away then
        monkeypatch.setattr(pause, lambda _: None)
    return tmp_path


def check(code: int, out: str, err: str) -> None:
    """One sentence, at the end; before it, at most how a command is used."""
    lines = err.splitlines()
    assert code in {1, 2, 69, 78}, err
    assert out == ""
    assert "Traceback" not in err
    assert SECRET not in err
    assert [line for line in lines if line.startswith("retrieval-worker: ")] == lines[-1:]
    assert len(lines) == 1 or (code == 2 and lines[0].startswith("Usage: "))


def test_there_are_enough_of_them() -> None:
    """Two hundred at least, and of every command."""
    assert len(INVOCATIONS) >= 200
    assert {tuple(name) for name, _ in commands()} == {
        name for name, _ in commands() if any(tuple(one[: len(name)]) == name for one in INVOCATIONS)
    }


@pytest.mark.parametrize("name", [" ".join(name) for name, _ in commands()])
def test_a_wrong_invocation_is_answered_in_one_sentence(
    name: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, 2, 69 or 78; nothing on standard output; no stack trace, and no password."""
    del place
    for arguments in INVOCATIONS:
        if " ".join(arguments[: len(name.split())]) == name:
            code = run(COMMAND, arguments)
            out, err = capfd.readouterr()
            try:
                check(code, out, err)
            except AssertionError as error:
                raise AssertionError(f"{[one[:60] for one in arguments]}: {code}\n{out[:500]}\n{err[:1000]}") from error


PROCESSES = [
    ["query"],
    ["query", "hum", "--as", "alice", "--broker", "foo://x"],
    ["search", "hum", "--corpus", "docs=many"],
    ["runs", "import", "binary", "--as", "alice"],
    ["runs", "list", "--as", "{"],
    ["dead", "show", "\udcff"],
    ["load", "folder"],
    ["migrate", "--dsn", "garbage=1"],
    ["doctor", "x"],
    ["calibrate", "--vectors", "half.npy"],
    ["contract", "--check", "binary"],
    ["no-such-command"],
]


@pytest.mark.parametrize(
    "arguments", PROCESSES, ids=lambda arguments: " ".join(arguments).encode("ascii", "replace").decode()
)
def test_a_process_says_the_same(arguments: list[str], place: Path) -> None:
    """As it is typed, with the exit code of a process."""
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *arguments],
        capture_output=True,
        timeout=120,
        check=False,
        cwd=place,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": ROOT},
    )
    check(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["contract", "folder"]], ids=" ".join)
def test_a_closed_standard_output_is_no_stack_trace(arguments: list[str], place: Path) -> None:
    """The reader of a pipe has gone, or the disk is full: one sentence at most, and exit code 1."""
    with open("/dev/full", "w") as full:  # noqa: PTH123 -- a device, not a path of ours
        done = subprocess.run(
            [sys.executable, "-m", "workbench", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
            cwd=place,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": ROOT},
        )
    said = done.stderr.decode()
    assert done.returncode == 1, said
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    assert said.splitlines() == ["retrieval-worker: No space left on device"]


@pytest.mark.parametrize("arguments", [["--help"], ["ask", "--help"], ["--version"]], ids=" ".join)
def test_a_command_ends_quietly_with_the_reader_of_its_output(arguments: list[str], place: Path) -> None:
    """As by SIGPIPE, whoever notices it first: Typer, Rich or the last flush."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "workbench", *arguments],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
        cwd=place,
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": ROOT},
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["load", "nowhere/file"], 2),
        (["load", "list.json"], 2),
        (["replay", "s", "r", "--as", "alice", "--citations", "binary"], 2),
        (["runs", "keep", "s", "r", "nowhere/file", "--as", "alice"], 2),
        (["runs", "import", "nowhere/file", "--as", "alice"], 2),
        (["calibrate", "--as", "alice", "--vectors", "nowhere/file"], 2),
        (["replay", "s", "r", "--as", "alice", "--citations", "part.json"], 2),
        (["replay", "s", "r", "--as", "alice", "--citations", "deep.json"], 2),
        (["up", "--autoscale", "many"], 2),
        (["up", "--autoscale", "1,4"], 2),
        (["tune", "--method", "bogus"], 2),
        (["contract", "--check", "folder"], 1),
        (["contract", "--check"], 2),
        (["init", "list.json"], 1),
        (["contract", "--check", "list.json"], 2),
        (["query", " ", "--as", "alice"], 2),
        (["query", "hum", "--as", "alice", "--broker", "amqp://x"], 78),
        (["query", "hum", "--as", "alice", "--broker", f"redis://{NOWHERE}/0?socket_timeout=5"], 78),
        (["query", "hum", "--as", "alice", "--backend", f"redis://{NOWHERE}/0?socket_timeout=5"], 69),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_was_typed_is_told_from_what_is_set(
    arguments: list[str], code: int, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """2 for a file or a value that can't be used, 78 for settings, 1 for files of the contract that differ."""
    del place
    assert run(COMMAND, arguments) == code, capfd.readouterr().err


def test_files_of_the_contract_that_differ_are_named_with_the_command_that_writes_them(
    place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In the folder that was given; a few of many."""
    del place
    assert run(COMMAND, ["contract", "folder"]) == 0
    for name, said in (
        ("message.json", "message.json differs"),
        ("asyncapi.json", "asyncapi.json, message.json differ"),
    ):
        (Path("folder") / name).unlink()
        assert run(COMMAND, ["contract", "--check", "folder"]) == 1
        sentence = f"retrieval-worker: {said} from the types: run 'retrieval-worker contract folder'"
        assert capfd.readouterr().err.splitlines()[-1] == sentence
    assert run(COMMAND, ["contract", "--check", "."]) == 1
    assert re.search(r": asyncapi\.json, (\S+, ){4}and \d+ more differ from", capfd.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["tune", "--k", "0"], "Invalid value for --k: expected a number from 1 to 50"),
        (["tune", "--k", "51"], "Invalid value for --k: expected a number from 1 to 50"),
        (["ask", "hum", "--k", "99"], "Invalid value for --k: expected a number from 1 to 50"),
        (["calibrate", "--mean", "2"], "Invalid value for --mean: expected a number from 0 to 1"),
        (
            ["up", "--autoscale", "1,4"],
            "Invalid value for --autoscale: expected the maximum, a comma and the minimum, from 1: 4,1",
        ),
        (["query", "", "--as", "alice"], "Invalid value for question: expected at least one word"),
        (["dead", "retry"], "Invalid value: give either entries or --all"),
        (["feedback", "s", "r", "--as", "a"], "Invalid value: give --used, --not-used, --rating or --note"),
        (["feedback", "s", "r", "--rating", "2"], "Invalid value for --rating: expected a number from -1 to 1"),
        (
            ["feedback", "s", "r", "--rating", "1"],
            "Invalid value: name the caller: give one of --as, --claims and --token",
        ),
        (
            ["feedback", "s", "r", "--used", "x", "--as", "a"],
            "used[0]: expected 64 hex digits, with or without sha256: before them",
        ),
        (
            ["runs", "list", "--as", "a", "--token", "x"],
            "Invalid value: give one of --as, --claims and --token (INSPECTOR_TOKEN)",
        ),
        (["search", "hum", "--token", "x"], "Invalid value for --token: expected a principal token, a signed JWT"),
        (
            ["query", "hum", "--claims", "[]"],
            'Invalid value for --claims: expected a JSON object: \'{"user_id": "u1"}\'',
        ),
        (
            ["contract", "--check"],
            "docs/contract: no such folder: run this in a checkout, or name the folder of the files",
        ),
        (["replay", "s", "r", "--as", "a", "--citations", "nowhere"], "nowhere: No such file or directory"),
        (["replay", "s", "r", "--as", "a", "--citations", "list.json"], "list.json: citations: expected an object"),
        (["replay", "s", "r", "--as", "a", "--citations", "binary"], "binary: expected a file with JSON"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_sentence_names_what_was_typed_and_what_is_expected(
    arguments: list[str], sentence: str, place: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Both bounds of a range, the option's own name, the file's own problem."""
    del place
    assert run(COMMAND, arguments) == 2
    assert capfd.readouterr().err.splitlines()[-1] == f"retrieval-worker: {sentence}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fusion", "nope"], "fusion: expected 'similarity', 'rrf' or 'weighted'"),
        (["--leg", "nope"], "legs[0]: expected 'primary', 'contextual' or 'sparse'"),
        (["-refund"], "No such option: -r. A text that begins with - goes after --"),
    ],
)
def test_a_wrong_option_of_a_job_is_wrong_usage(
    capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    """Exit code 2, as for any wrong option."""
    assert run(COMMAND, ["search", "hum", "--broker", f"redis://{NOWHERE}/0", *arguments]) == 2
    assert said in capfd.readouterr().err


def test_the_module_of_the_command_line_says_how_it_is_run() -> None:
    """It is none itself; silence would look like success."""
    done = subprocess.run(
        [sys.executable, "-m", "worker.cli.main", "--help"], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "run retrieval-worker, or python -m workbench" in done.stderr
