"""A RabbitMQ server that can be hurt, in the place of Redis; Debian's package has its files."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import NoReturn

import redis

from chaos.servers import GONE_SECONDS, ForeignServerError, RedisServer
from workbench.devstack.processes import free_port, wait_until

PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class RabbitServer(RedisServer):
    """One node on one port and folder for all its lives, with a port mapper of its own; all on the loopback."""

    name = "RabbitMQ"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._mapper: subprocess.Popen[bytes] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pid_file = folder / "pid"
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(free_port()),
            "RABBITMQ_NODENAME": "chaos@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
            "RABBITMQ_PID_FILE": str(self._pid_file),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        }

    def __exit__(self, *_: object) -> None:
        for process in (self._process, self._mapper):
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    @property
    def version(self) -> str:
        """Its name and version."""
        return next(PROGRAM.parents[1].glob("lib/rabbitmq_server-*")).name.replace("rabbitmq_server-", "RabbitMQ ")

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The script that waits for the node."""
        assert self._process is not None  # noqa: S101 -- for the type checker: started
        return self._process

    def url(self, database: int = 0, user: str = "guest", port: int | None = None) -> str:  # noqa: ARG002 -- the base's
        """Return the URL for its user."""
        return f"amqp://guest:guest@127.0.0.1:{port or self.port}//"

    def client(self, *_: object, **__: object) -> NoReturn:
        """Raise as if Redis were away."""
        raise redis.ConnectionError("RabbitMQ is no Redis")

    def start(self) -> None:
        """Start it, again or for the first time; returns once it answers."""
        self.folder.mkdir(exist_ok=True)
        log = self.folder / "output.log"
        with log.open("ab") as file:
            if self._mapper is None:
                (mapper,) = Path("/usr/lib/erlang").glob("erts-*/bin/epmd")
                self._mapper = self._spawn(str(mapper), file.fileno())
            self._process = self._spawn(str(PROGRAM), file.fileno())
        wait_until(self._answers, self.process, self.name, log)

    def _spawn(self, program: str, output: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 -- Debian's programs, no shell
            [program],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=self._environment,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 2) as link:
            link.sendall(b"AMQP\0\0\x09\x01")
            return bool(link.recv(8))
        return False

    def check_pid(self) -> int:
        """Return the node's pid, from its pid file.

        Raises:
            ForeignServerError: the file names a process of another session.
        """
        pid = int(self._pid_file.read_text())
        if os.getsid(pid) != self.process.pid:
            raise ForeignServerError(f"{self._pid_file} names process {pid}, which is not of this run")
        return pid

    def kill(self, signal_number: signal.Signals = signal.SIGKILL) -> None:
        """End it."""
        os.kill(self.check_pid(), signal_number)
        self.process.wait(GONE_SECONDS)
