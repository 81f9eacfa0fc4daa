"""A worker that is set up wrongly: its start and the doctor name the setting and the mend, in one sentence."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import kombu.serialization
import psycopg
import pytest
import structlog
from celery.signals import celeryd_init
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from typer.main import get_command
from typer.testing import CliRunner

from workbench.devstack.redis import missing_tls, redis_server
from workbench.devstack.workers import celery_worker
from workbench.main import cli
from worker import app as worker_app
from worker.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result

    from workbench.devstack.stack import Stack

SECRET = "hunter2-correct-horse-battery"  # noqa: S105 -- planted, to be looked for
SHORT = "hunter2-short"
_PAIR = ed25519.Ed25519PrivateKey.generate()
PRIVATE = _PAIR.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
PUBLIC = (
    _PAIR.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


class Relay(socketserver.BaseRequestHandler):
    """Hands every byte on to the socket of a Postgres, so that one that listens on no port is asked over TCP."""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as there, contextlib.suppress(OSError):
            there.connect(self.server.target)  # type: ignore[attr-defined] # set by `serving`
            threading.Thread(target=pour, args=(there, self.request), daemon=True).start()
            pour(self.request, there)


def pour(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(4096):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


class WebServer(socketserver.BaseRequestHandler):
    """Answers everything as a web server answers what it does not understand."""

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self.request.recv(100)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


@contextlib.contextmanager
def serving(handler: type[socketserver.BaseRequestHandler], target: str = "") -> Iterator[int]:
    """Port of a server that runs meanwhile."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.target = target  # type: ignore[attr-defined] # for `Relay`
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


@dataclass
class Place:
    """Servers that ask for passwords.

    Attributes:
        variables: what the cases fill in.
    """

    variables: dict[str, Any]


@pytest.fixture(scope="module")
def place(servers: Stack, sample_template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """The session's Postgres, asking a few roles for passwords; a Redis without and one with TLS; a web server."""
    if missing := missing_tls():
        pytest.skip(missing)
    roles = f"""
        CREATE ROLE asked LOGIN PASSWORD '{SECRET}'; CREATE ROLE asleep NOLOGIN PASSWORD '{SECRET}';
        CREATE ROLE outside LOGIN PASSWORD '{SECRET}'
    """
    with psycopg.connect(servers.postgres.dsn(), autocommit=True) as admin:
        admin.execute(roles.encode())
        admin.execute(f"CREATE DATABASE misconfigured TEMPLATE {sample_template}".encode())
        admin.execute("CREATE DATABASE closed")
        admin.execute("REVOKE CONNECT ON DATABASE closed FROM PUBLIC")
        (path,) = admin.execute("SHOW hba_file").fetchone() or ("",)
        kept = f"{path}.kept"
        shutil.copy(path, kept)
        rules = "".join(f"local all {role} scram-sha-256\n" for role in ("asked", "asleep", "unknown"))
        with open(kept) as before, open(path, "w") as now:  # noqa: PTH123 -- Postgres' own file, its owner stays
            now.write(f"{rules}local all outside reject\n{before.read()}")
        admin.execute("SELECT pg_reload_conf()")
    folder = tmp_path_factory.mktemp("misconfigured")
    socket_path = f"{servers.postgres.socket_dir}/.s.PGSQL.5432"
    with (
        redis_server(folder / "plain") as plain,
        redis_server(folder / "tls", tls=True) as secure,
        serving(Relay, socket_path) as relay,
        serving(WebServer) as web,
    ):
        yield Place(
            {
                "postgres": servers.postgres.socket_dir,
                "relay": f"127.0.0.1:{relay}",
                "web": f"127.0.0.1:{web}",
                "redis": f"127.0.0.1:{plain.port}",
                "tls": f"127.0.0.1:{secure.port}",
                "authority": secure.authority,
                "password": plain.passwords["worker"],
                "tls_password": secure.passwords["worker"],
                "good": plain.url(0, "worker"),
                "good_results": plain.url(1, "worker"),
                "good_database": servers.postgres.dsn("misconfigured", "retrieval_worker"),
                "folder": folder,
            }
        )
    with psycopg.connect(servers.postgres.dsn(), autocommit=True) as admin:
        shutil.copy(kept, path)
        admin.execute("SELECT pg_reload_conf()")
        for name in ("misconfigured", "closed"):
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        admin.execute("DROP ROLE asked; DROP ROLE asleep; DROP ROLE outside")


@dataclass
class Mistake:
    """One wrong setting.

    Attributes:
        name: for the report.
        setting: how the sentence names what is wrong.
        says: what else stands in it.
        variables: the environment; names in braces are filled in from the place.
    """

    name: str
    setting: str
    says: str
    variables: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def postgres(name: str, dsn: str, says: str) -> Mistake:
    return Mistake(f"postgres: {name}", "DATABASE_CONNECTION_STRING", says, {"DATABASE_CONNECTION_STRING": dsn})


def keys(name: str, says: str, key: str, *algorithms: str) -> Mistake:
    variables = {"TOKEN_KEYS": json.dumps({"k1": key}), "PRINCIPAL__TOKEN__ALGORITHMS": json.dumps([*algorithms])}
    return Mistake(f"keys: {name}", "RETRIEVAL_WORKER_TOKEN_KEYS: the key k1: ", says, variables)


def redis(name: str, url: str, says: str) -> list[Mistake]:
    """The same mistake with the queues and with the results."""
    return [
        Mistake(f"{what}: {name}", f"{variable}: ", says, {variable: url})
        for what, variable in (("broker", "CELERY_BROKER_URL"), ("results", "CELERY_RESULT_BACKEND"))
    ]


HOST = "there is no host no-such-host.invalid"
PROFILES = {
    "http": '{"dense_rerank": {"legs": [{"kind": "dense"}], "rerank": "http"}}',
    "cross_encoder": '{"dense_rerank": {"legs": [{"kind": "dense"}], "rerank": "cross_encoder"}}',
}
MODE = '{"grounded": {"corpora": {"documents": 0}, "profile": "hyde_hybrid", "instructions": "Answer."}}'

MISTAKES = [
    keys("too short", "at least 32 bytes", SHORT, "HS256"),
    keys("white space", "at least 32 bytes", " " * 40, "HS256"),
    keys("no PEM for RS256", "expected a public key in PEM", SECRET * 2, "RS256"),
    keys("no PEM for EdDSA", "expected a public key in PEM", SECRET * 2, "EdDSA"),
    keys("of the wrong kind", "allows RS256 only, and this is a public key for EdDSA", PUBLIC, "RS256"),
    keys("private", "its private key", PRIVATE, "EdDSA"),
    postgres("password", f"postgresql://asked:{SECRET}x@/misconfigured?host={{postgres}}", "this role or password"),
    postgres("no password", "postgresql://asked@/misconfigured?host={postgres}", "there is none in it"),
    postgres("unknown role", f"postgresql://unknown:{SECRET}@/misconfigured?host={{postgres}}", "role or password"),
    postgres("role may not log in", f"postgresql://asleep:{SECRET}@/misconfigured?host={{postgres}}", "LOGIN"),
    postgres("not in pg_hba.conf", f"postgresql://outside:{SECRET}@/misconfigured?host={{postgres}}", "pg_hba.conf"),
    postgres("database", f"postgresql://asked:{SECRET}@/nowhere?host={{postgres}}", "CREATE DATABASE"),
    postgres(
        "a line end", f"postgresql://asked:{SECRET}@/misconfigured\n?host={{postgres}}", "white space or the quot"
    ),
    postgres("no database", f"postgresql://asked:{SECRET}@/?host={{postgres}}", "it names no database"),
    postgres("a password with %", f"postgresql://asked:{SECRET}%zz@{{relay}}/misconfigured", "% in a password"),
    postgres("closed database", f"postgresql://asked:{SECRET}@/closed?host={{postgres}}", "GRANT CONNECT"),
    postgres("host", f"postgresql://asked:{SECRET}@no-such-host.invalid/misconfigured", HOST),
    postgres("a password with @", f"postgresql://asked:{SECRET}@{SECRET}@{{relay}}/misconfigured", "@ is written %40"),
    postgres("an option", f"postgresql://asked:{SECRET}@{{relay}}/misconfigured?sslmod=require", "sslmod is no"),
    postgres("TLS", f"postgresql://asked:{SECRET}@{{relay}}/misconfigured?sslmode=require", "Postgres offers none"),
    postgres("sslmode", f"postgresql://asked:{SECRET}@{{relay}}/misconfigured?sslmode=yes", "as sslmode"),
    postgres("port", f"postgresql://asked:{SECRET}@127.0.0.1:five/misconfigured", "expected a number as the port"),
    postgres("scheme", f"mysql://asked:{SECRET}@{{relay}}/misconfigured", "libpq connection string or URI"),
    postgres("scheme of SQLAlchemy", f"postgresql+psycopg://asked:{SECRET}@{{relay}}/x", "connection string or URI"),
    postgres("a web server", f"postgresql://asked:{SECRET}@{{web}}/misconfigured", "is no Postgres"),
    *redis("password", f"redis://worker:{SECRET}@{{redis}}/1", "refuses this user or password"),
    *redis("no password", "redis://{redis}/1", "refuses this user or password"),
    *redis("host", f"redis://worker:{SECRET}@no-such-host.invalid/1", HOST),
    *redis("TLS where there is none", "rediss://worker:{password}@{redis}/1?ssl_cert_reqs=required", "redis://"),
    *redis("none where there is TLS", "redis://worker:{tls_password}@{tls}/1", "speaks TLS only"),
    *redis("certificate", "rediss://worker:{tls_password}@{tls}/1?ssl_cert_reqs=required", "certificate of Redis"),
    *redis("authority", "rediss://worker:{tls_password}@{tls}/1?ssl_cert_reqs=required&ssl_ca_certs=/no", "read"),
    *redis("folder", "rediss://worker:{tls_password}@{tls}/1?ssl_cert_reqs=required&ssl_ca_certs=/", "read"),
    *redis("no PEM", "rediss://worker:{tls_password}@{tls}/1?ssl_cert_reqs=required&ssl_ca_certs=/dev/null", "no PEM"),
    *redis("scheme", f"amqp://worker:{SECRET}@{{redis}}/1", "redis:// or rediss://"),
    *redis("database", "redis://worker:{password}@{redis}/99", "refuses its database 99"),
    *redis("name of a database", "redis://worker:{password}@{redis}/jobs", "the number of a database"),
    *redis("white space", "redis://worker:{password}@{redis}/1 ", "white space or the quotation marks"),
    *redis("an option", "redis://worker:{password}@{redis}/1?foo=1", "behind its question mark is not supported"),
    *redis("TLS of redis://", "redis://worker:{password}@{redis}/1?ssl_cert_reqs=required", "are of rediss:// only"),
    Mistake(
        "broker: an option of results",
        "CELERY_BROKER_URL: ",
        "behind its question mark is not supported",
        {"CELERY_BROKER_URL": "redis://worker:{password}@{redis}/1?socket_timeout=5"},
    ),
    *redis("a password with /", f"redis://worker:{SECRET}/x@{{redis}}/1", "percent-encoded"),
    *redis("a web server", "redis://worker:{password}@{web}/1", "is no Redis"),
    Mistake(
        "cache: password",
        "RETRIEVAL_WORKER_CACHE__URL: ",
        "refuses this user or password",
        {"CACHE__URL": f"redis://worker:{SECRET}@{{redis}}/2", "CACHE__TASKS": '["retrieve_hybrid"]'},
    ),
    Mistake("embedder: key", "RETRIEVAL_WORKER_EMBEDDER__API_KEY", "embedder.base_url", {"EMBEDDER__KIND": "openai"}),
    Mistake(
        "language model: key",
        "RETRIEVAL_WORKER_LANGUAGE_MODEL__API_KEY",
        "language_model.base_url",
        {"LANGUAGE_MODEL__KIND": "openai"},
    ),
    Mistake(
        "language model: tokenizer",
        "language_model.tokenizer",
        "",
        {"LANGUAGE_MODEL__TOKENIZER": "/no/such/tokenizer.json"},
    ),
    Mistake("profile: no server", "reranker.url", "profiles.dense_rerank", {"PROFILES": PROFILES["http"]}),
    Mistake("profile: no model", "reranker.model", "profiles.dense_rerank", {"PROFILES": PROFILES["cross_encoder"]}),
    *(
        []
        if importlib.util.find_spec("sentence_transformers")
        else [
            Mistake(
                "profile: no extra",
                "profiles.dense_rerank",
                "pip install 'retrieval-worker[rerank]'",
                {"PROFILES": PROFILES["cross_encoder"], "RERANKER__MODEL": "a-model"},
            )
        ]
    ),
    Mistake("mode: no language model", "modes.grounded", "language_model.kind", {"MODES": MODE}),
    Mistake("artifacts: no package", "artifacts.url", "", {"ARTIFACTS__URL": "nosuchstore://bucket/prefix"}),
    Mistake("artifacts: below a file", "artifacts.url", "can't be kept", {"ARTIFACTS__URL": "/proc/version/runs"}),
    Mistake("artifacts: no folder can be made", "artifacts.url", "can't be kept", {"ARTIFACTS__URL": "/proc/nope"}),
    Mistake("metrics: folder", "metrics.folder", "/proc/x", {"METRICS__FOLDER": "/proc/x"}),
    Mistake(
        "metrics: another machine's address",
        "metrics.port",
        "192.0.2.1 port 9464",
        {"METRICS__PORT": "9464", "METRICS__ADDRESS": "192.0.2.1"},
    ),
    Mistake(
        "drift watch: a claim that is none",
        "verify.principal",
        "expected at least one of the claims user_id",
        {"VERIFY__EVERY_MINUTES": "5", "VERIFY__PRINCIPAL": '{"email": "x"}'},
    ),
]


@pytest.fixture
def environment(place: Place) -> Callable[[Mistake], dict[str, str]]:
    """Makes the environment of a mistake: all else is right."""

    def make(mistake: Mistake) -> dict[str, str]:
        named = {
            name if name.startswith(("DATABASE", "CELERY")) else f"RETRIEVAL_WORKER_{name}": value
            for name, value in mistake.variables.items()
        }
        # JSON has braces of its own.
        filled = {name: value.format(**place.variables) if "://" in value else value for name, value in named.items()}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("RETRIEVAL_WORKER_")}
        return {
            **inherited,
            "DATABASE_CONNECTION_STRING": place.variables["good_database"],
            "CELERY_BROKER_URL": place.variables["good"],
            "CELERY_RESULT_BACKEND": place.variables["good_results"],
            "RETRIEVAL_WORKER_TRUST_QUEUE": "true",
            **filled,
        }

    return make


def start(environment: dict[str, str], folder: Path, *options: str) -> tuple[int, str]:
    """Exit code and output of a real worker, which is given the time that a slow machine needs to refuse."""
    command = ("-m", "celery", "-A", "worker.app", "worker", "--concurrency=1", "-Q", "retrieval,pipeline")
    done = subprocess.run(
        [sys.executable, *command, "--without-mingle", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=folder,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout


def secrets_of(place: Place) -> list[str]:
    lines = [line for line in (PRIVATE + PUBLIC).splitlines() if "KEY" not in line]
    return [SECRET, SHORT, place.variables["password"], place.variables["tls_password"], *lines]


def begin() -> None:
    """Do what a worker does first: make the app of the environment, and tell it that a worker begins."""
    made = worker_app.__getattr__("app")
    celeryd_init.send(sender="worker", conf=made.conf, options={"queues": "retrieval,pipeline"})


@pytest.fixture
def start_here(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[dict[str, str]], tuple[int, str]]]:
    """Exit code and output of a worker's start in this process."""

    def start_it(environment: dict[str, str]) -> tuple[int, str]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                begin()
        said = capfd.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, said.out + said.err

    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield start_it
    root.handlers[:], root.level = before
    structlog.reset_defaults()
    for name in ("app", "celery"):
        vars(worker_app).pop(name, None)
    kombu.serialization.register_json()


def assert_refused(mistake: Mistake, doctor: Result, started: tuple[int, str], place: Place) -> None:
    """The worker ended with 78, the doctor with 1; both named the setting, and neither showed a trace or a secret."""
    code, said = started
    for shown in (doctor.output, said):
        assert "Traceback" not in shown, shown
        assert [secret for secret in secrets_of(place) if secret in shown] == []
    problems = [line for line in doctor.output.splitlines() if line.startswith("problem")]
    sentences = [line for line in said.splitlines() if line.startswith("retrieval-worker: ")]
    assert (doctor.exit_code, code) == (1, 78), doctor.output + said
    assert (len(problems), len(sentences)) == (1, 1), doctor.output + said
    for sentence in problems + sentences:
        assert mistake.setting in sentence
        assert mistake.says in sentence


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_one_sentence_of_the_start_and_of_the_doctor(
    mistake: Mistake,
    environment: Callable[[Mistake], dict[str, str]],
    place: Place,
    start_here: Callable[[dict[str, str]], tuple[int, str]],
) -> None:
    """Both print the same sentence for each kind of mistake."""
    made = environment(mistake)
    assert_refused(mistake, CliRunner().invoke(cli, ["doctor"], env=made), start_here(made), place)


# One for each place where a start is refused.
OF_A_PROCESS = ("keys: too short", "broker: password", "postgres: password", "profile: no server", "metrics: folder")


@pytest.mark.parametrize("mistake", [one for one in MISTAKES if one.name in OF_A_PROCESS], ids=str)
def test_a_process_ends_with_that_sentence(
    mistake: Mistake, environment: Callable[[Mistake], dict[str, str]], place: Place, tmp_path: Path
) -> None:
    """A real worker does as the one above."""
    made = environment(mistake)
    assert_refused(mistake, CliRunner().invoke(cli, ["doctor"], env=made), start(made, tmp_path), place)


@pytest.mark.parametrize(
    ("option", "says"), [("--logfile=missing/worker.log", "--logfile: missing/worker.log: "), ("-Q,", "-Q: expected")]
)
def test_an_option_with_which_nothing_can_be_done_is_refused(
    option: str, says: str, environment: Callable[[Mistake], dict[str, str]], tmp_path: Path
) -> None:
    code, output = start(environment(Mistake("none", "", "")), tmp_path, option)
    assert code == 78, output
    assert output.splitlines()[-1].startswith(f"retrieval-worker: {says}")


def test_a_log_file_has_all_that_is_logged(environment: Callable[[Mistake], dict[str, str]], tmp_path: Path) -> None:
    file = tmp_path / "all.log"
    with celery_worker(environment(Mistake("none", "", "")), tmp_path / "err.log", f"--logfile={file}"):
        pass
    events = [json.loads(line)["event"] for line in file.read_text().splitlines()]
    assert any(event.endswith(" ready.") for event in events)
    assert '"event"' not in (tmp_path / "err.log").read_text()


def test_a_log_file_has_also_what_precedes_a_start(
    environment: Callable[[Mistake], dict[str, str]], tmp_path: Path
) -> None:
    """And why there was none: with --detach, no one reads standard error."""
    away = {"DATABASE_CONNECTION_STRING": "postgresql://nobody@127.0.0.1:1/x", "METRICS__FOLDER": "/proc/x"}
    code, output = start(environment(Mistake("none", "", "", away)), tmp_path, "--logfile=%n.log", "-n", "w@here")
    lines = [json.loads(line) for line in (tmp_path / "w.log").read_text().splitlines()]
    assert code == 78
    assert [line["event"] for line in lines] == ["starting without a server", "worker not started"]
    assert output == f"retrieval-worker: {lines[1]['reason']}\n"


COMMANDS = {
    "query": ["query", "hum", "--as", "alice"],
    "ask": ["ask", "hum"],
    "dead": ["dead", "list"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_tells_a_wrong_password_from_an_outage(
    name: str,
    environment: Callable[[Mistake], dict[str, str]],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Exit code 78 and one sentence that names the variable; it would be as wrong later."""
    (broker, _) = redis("password", f"redis://worker:{SECRET}@{{redis}}/1", "")
    for variable, value in environment(broker).items():
        monkeypatch.setenv(variable, value)
    code = run(get_command(cli), COMMANDS[name])
    said = capfd.readouterr().err
    assert code == 78, said
    assert "CELERY_BROKER_URL" in said
    assert "Redis refuses this user or password" in said
    assert [secret for secret in secrets_of(place) if secret in said] == []
