"""The command that writes the settings files to begin with."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from worker.adapters.terminal import console, write_json
from worker.cli.commands.jobs import JsonDocument  # noqa: TC001 -- typer reads the annotations when it runs

_WORKER = "celery -A worker.app worker -n worker@%h -Q retrieval,pipeline --without-mingle --without-gossip"


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    as_json: JsonDocument = False,
) -> None:
    """Write the settings files to review: as shipped, with units of systemd and manifests for Kubernetes.

    worker.toml, modes.toml, profiles.toml, glossary.toml, flowerconfig.py; redis/ (settings, users); systemd/ (worker,
    Flower); kustomization.yaml and kubernetes/; monitoring/ (alerts of Prometheus, a dashboard of Grafana);
    worker.env.example and flower.env.example. No secret is in them.

    Exit code 2 if one of them is there: nothing is written, unless --force is given.

    Example: [bold]retrieval-worker init /etc/retrieval-worker[/bold]
    """
    from workbench.starter_files import starter_files, write

    files = starter_files(folder)
    write(files, force=force)
    config = shlex.quote(str(folder.resolve() / "worker.toml"))
    commands = [f"export RETRIEVAL_WORKER_CONFIG={config}", "retrieval-worker doctor", _WORKER]
    if as_json:
        write_json({"written": [str(file) for file in files], "next": commands})
        return
    console.print(f"{len(files)} files written to {folder}. Review worker.toml; then, with the variables of")
    console.print("worker.env.example in the environment:")
    for command in commands:
        console.print(f"  {command}", soft_wrap=True)
