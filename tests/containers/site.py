"""docker-compose.yml, run as its first lines say, under a name and on ports of its own."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.waiting import wait_for

from workbench.devstack.processes import free_port
from workbench.devstack.redis import USERS

PROJECT_FOLDER = Path(__file__).parents[2]
SERVICES = ("redis", "postgres", "worker", "flower", "inspector")
KEY = "a secret that is long enough for HS256"


def unavailable() -> str | None:
    """Why nothing here can run; none: it can."""
    for command, missing in (
        (["docker", "info"], "no Docker engine answers (`docker info`); tests/containers/engine.sh COMMAND starts one"),
        (["docker", "compose", "version"], "the engine's client has no `docker compose`"),
    ):
        try:
            done = subprocess.run(command, capture_output=True, timeout=180, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return missing
        if done.returncode:
            return missing
    return None


def docker(*arguments: str, timeout: float = 120) -> str:
    """Return the output of a docker command, which must succeed."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, f"docker {' '.join(arguments)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


@dataclass(frozen=True)
class Site:
    """One running project of docker compose.

    Attributes:
        name: of the project; containers and volumes are named after it.
        folder: has its `.env`.
        variables: what `.env` says.
    """

    name: str
    folder: Path
    variables: dict[str, str]

    @classmethod
    def make(cls, folder: Path) -> Site:
        """A project with passwords and ports of its own; nothing runs yet."""
        variables = {
            "POSTGRES_PASSWORD": secrets.token_hex(16),
            "WORKER_PASSWORD": secrets.token_hex(16),
            **{f"REDIS_{user.upper()}_PASSWORD": secrets.token_hex(16) for user in USERS},
            "FLOWER_BASIC_AUTH": f"watcher:{secrets.token_hex(16)}",
            "RETRIEVAL_WORKER_TRUST_QUEUE": "true",
            "RETRIEVAL_WORKER_TOKEN_KEYS": json.dumps({"k1": KEY}),
            "COMPOSE_PROFILES": "inspector",
            "WORKER_MOST": "2",
            "WORKER_FEWEST": "1",
            "REDIS_PORT": str(free_port()),
            "POSTGRES_PORT": str(free_port()),
            "FLOWER_PORT": str(free_port()),
            "INSPECTOR_PORT": str(free_port()),
        }
        (folder / ".env").write_text("".join(f"{name}='{value}'\n" for name, value in variables.items()))
        return cls(f"retrieval-worker-test-{os.getpid()}", folder, variables)

    def compose(self, *arguments: str, timeout: float = 180) -> str:
        """Return the output of a docker compose command, which must succeed."""
        return docker(*self._options(), *arguments, timeout=timeout)

    def start_compose(self, *arguments: str) -> subprocess.Popen[str]:
        """A docker compose command that goes on beside the test."""
        return subprocess.Popen(["docker", *self._options(), *arguments], stderr=subprocess.DEVNULL, text=True)

    def _options(self) -> list[str]:
        files = [PROJECT_FOLDER / "docker-compose.yml", PROJECT_FOLDER / "tests/containers/compose.yaml"]
        named = [option for file in files for option in ("-f", str(file))]
        return ["compose", "-p", self.name, "--env-file", str(self.folder / ".env"), *named]

    def containers(self, service: str) -> list[str]:
        """Ids of a service's containers, stopped ones too."""
        return self.compose("ps", "--all", "--quiet", service).split()

    def state(self, container: str) -> dict[str, Any]:
        """`State` of `docker inspect`."""
        state: dict[str, Any] = json.loads(docker("inspect", "--format", "{{json .State}}", container))
        return state

    def wait_until_healthy(self, *services: str) -> None:
        """Until every container of these services is healthy."""
        for service in services:
            for container in self.containers(service):
                wait_for(lambda name=container: self.state(name)["Health"]["Status"] == "healthy")  # type: ignore[misc] # mypy infers no type for a default

    def run_in(self, service: str, shell: str) -> str:
        """Return the output of a shell command in a service's first container; it must succeed."""
        return self.compose("exec", "-T", service, "sh", "-c", shell).strip()

    def kill(self, container: str) -> None:
        """`kill -9` of a container's first process, and with it of all."""
        docker("kill", "--signal", "KILL", container)
        wait_for(lambda: not self.state(container)["Running"])

    def redis_url(self, database: int, user: str = "admin") -> str:
        """How one of Redis' users reaches it from this machine."""
        password, port = self.variables[f"REDIS_{user.upper()}_PASSWORD"], self.variables["REDIS_PORT"]
        return f"redis://{user}:{password}@127.0.0.1:{port}/{database}"

    def dsn(self) -> str:
        """How the owner of the database reaches it from this machine."""
        password, port = self.variables["POSTGRES_PASSWORD"], self.variables["POSTGRES_PORT"]
        return f"postgresql://postgres:{password}@127.0.0.1:{port}/retrieval"
