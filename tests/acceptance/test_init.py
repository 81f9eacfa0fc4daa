"""`init`: settings files with which a worker starts, and units and manifests that their readers accept."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.command_line import command_line

from retrieval_client import RunPipeline
from workbench.devstack.workers import celery_worker
from worker.settings import load_unconnected
from worker.settings.base import config_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.command_line import Command

    from retrieval_client import Client

WRITTEN = {
    *("worker.toml", "modes.toml", "profiles.toml", "glossary.toml", "flowerconfig.py", "kustomization.yaml"),
    *("worker.env.example", "flower.env.example", "kubernetes/worker.yaml", "kubernetes/flower.yaml"),
    *("redis/redis.conf", "redis/redis-tls.conf", "redis/users.acl", "redis/certificates.sh"),
    *("systemd/retrieval-worker.service", "systemd/retrieval-worker-flower.service"),
    *("monitoring/alerts.yaml", "monitoring/dashboard.json"),
}


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs commands in this process."""
    return command_line(capsys, {})


@pytest.fixture
def folder(tmp_path: Path, typed: Command) -> Path:
    """A folder with a name that shells and units must quote, and the files in it."""
    made = tmp_path / "100 % mine"
    done = typed("init", str(made))
    assert done.returncode == 0, done.stderr
    return made


def files_in(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def manifests(folder: Path) -> Iterator[dict[str, Any]]:
    """Everything that the manifests describe."""
    for file in sorted((folder / "kubernetes").iterdir()):
        yield from yaml.safe_load_all(file.read_text())


def deployments(folder: Path) -> list[dict[str, Any]]:
    """The deployments: of the worker, and of Flower."""
    found = {one["metadata"]["name"]: one for one in manifests(folder) if one["kind"] == "Deployment"}
    assert found.keys() == {"retrieval-worker", "retrieval-worker-flower"}
    return [found[name] for name in sorted(found)]


def test_the_files_are_those_that_are_shipped(folder: Path, typed: Command) -> None:
    """But for the units, which name the folder and the programs; the next three commands are printed."""
    written = files_in(folder)
    assert written.keys() == WRITTEN
    for name, content in written.items():
        same = content == (config_folder() / name).read_bytes()
        assert same != name.endswith(".service"), name
    done = typed("init", str(folder.parent / "other"), "--json")
    told = json.loads(done.stdout)
    assert {Path(one).relative_to(folder.parent / "other").as_posix() for one in told["written"]} == WRITTEN
    assert [command.split()[0] for command in told["next"]] == ["export", "retrieval-worker", "celery"]
    printed = typed("init", str(folder.parent / "third"))
    assert sum(line.startswith("  ") for line in printed.stdout.splitlines()) == 3


def test_nothing_is_overwritten_without_force(folder: Path, typed: Command) -> None:
    """Files that are there are named, nothing is written; --force writes all of it again."""
    for name in WRITTEN - {"worker.toml", "systemd/retrieval-worker.service"}:
        (folder / name).unlink()
    (folder / "worker.toml").write_text("mine")
    before = files_in(folder)
    refused = typed("init", str(folder))
    assert refused.returncode == 2
    assert f"{folder}/worker.toml, {folder}/systemd/retrieval-worker.service. Name another" in refused.stderr
    assert files_in(folder) == before
    assert typed("init", str(folder), "--force").returncode == 0
    assert files_in(folder)["worker.toml"] == (config_folder() / "worker.toml").read_bytes()
    assert files_in(folder).keys() == WRITTEN


def test_a_folder_that_no_unit_can_name_is_refused(tmp_path: Path, typed: Command) -> None:
    """Before anything is written."""
    done = typed("init", str(tmp_path / 'a "quoted" one'))
    assert (done.returncode, "without quotes" in done.stderr) == (2, True)
    assert not [*tmp_path.iterdir()]


def test_a_worker_starts_with_the_files(
    folder: Path,
    tmp_path: Path,
    typed: Command,
    client: Client,
    worker_environment: Callable[..., dict[str, str]],
    worker_log: Path,
) -> None:
    """After the commands that are printed: a mode of the folder's own is answered."""
    (export, doctor, _) = json.loads(typed("init", str(folder), "--force", "--json").stdout)["next"]
    modes = folder / "modes.toml"
    modes.write_text(modes.read_text().replace("[modes.grounded", "[modes.mine"))
    environment = worker_environment(ARTIFACTS__URL=str(tmp_path / "artifacts"))
    path = f"{Path(sys.executable).parent}:{environment['PATH']}"
    examined = subprocess.run(
        ["sh", "-c", f"{export} && {doctor}"],
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert examined.returncode == 0, examined.stdout + examined.stderr
    config = {"RETRIEVAL_WORKER_CONFIG": str(folder / "worker.toml")}
    with celery_worker(environment | config, worker_log, "--concurrency=1"):
        job = RunPipeline(question="What causes the hum on channel 18?", mode="mine", principal={"user_id": "alice"})
        assert client.call(job, timeout=180).status == "ok"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(folder: Path) -> None:
    """With the programs that they start, and restrictions that systemd calls OK."""
    for unit in sorted((folder / "systemd").iterdir()):
        for check in (["verify"], ["security", "--offline=true", "--threshold=25"]):
            done = subprocess.run(
                ["systemd-analyze", *check, str(unit)], capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert check != ["verify"] or not done.stderr
    started = (folder / "systemd" / "retrieval-worker.service").read_text()
    assert f'ExecStart="{Path(sys.executable).parent}/celery"' in started
    assert f"{folder}/worker.toml".replace("%", "%%") in started


def test_the_manifests_have_no_secret_and_no_right_too_many(folder: Path) -> None:
    """Secrets are referred to; containers have a user without capabilities, probes and a memory limit."""
    for deployment in deployments(folder):
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"startupProbe", "livenessProbe"} <= container.keys()
        assert container["resources"]["limits"]["memory"]
        values = {one["name"] for one in container["env"] if "value" in one}
        assert not values & {"CELERY_BROKER_URL", "CELERY_RESULT_BACKEND", "RETRIEVAL_WORKER_TOKEN_KEYS"}
        mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        volumes = {one["name"]: one for one in pod["volumes"]}
        assert {*mounts.values()} == volumes.keys()
        assert volumes[mounts["/config"]]["configMap"] == {"name": "retrieval-worker"}


def test_probes_ask_what_the_worker_answers_and_a_drain_ends_one_worker_at_a_time(folder: Path) -> None:
    """No probe ends a worker that waits for Redis; it has time to end what it runs."""
    worker, _ = deployments(folder)
    pod = worker["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert pod["terminationGracePeriodSeconds"] > load_unconnected().worker.time_limit_seconds
    (budget,) = (manifest for manifest in manifests(folder) if manifest["kind"] == "PodDisruptionBudget")
    assert budget["spec"] == {"maxUnavailable": 1, "selector": worker["spec"]["selector"]}


def test_the_secrets_that_are_referred_to_are_those_of_the_examples(folder: Path) -> None:
    """Each variable of Flower's is one of its example's; the worker has all of its own."""
    worker, flower = (one["spec"]["template"]["spec"]["containers"][0] for one in deployments(folder))
    assert worker["envFrom"] == [{"secretRef": {"name": "retrieval-worker"}}]
    wanted = {one["valueFrom"]["secretKeyRef"]["key"] for one in flower["env"] if "valueFrom" in one}
    lines = (folder / "flower.env.example").read_text().splitlines()
    assert wanted == {line.partition("=")[0] for line in lines if line and not line.startswith("#")}


def test_a_worker_is_given_the_time_to_finish_its_jobs(folder: Path) -> None:
    """By systemd and by Kubernetes: longer than a job may take."""
    longest = load_unconnected(folder / "worker.toml").worker.time_limit_seconds
    unit = (folder / "systemd" / "retrieval-worker.service").read_text()
    (stop,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    pod = deployments(folder)[0]["spec"]["template"]["spec"]
    assert longest < int(stop) == pod["terminationGracePeriodSeconds"]


def test_the_kustomization_names_what_is_there(folder: Path) -> None:
    """The files of the folder, and the image of this version."""
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (config,), (image,) = named["configMapGenerator"], named["images"]
    assert {*named["resources"], *config["files"]} <= WRITTEN
    assert (image["name"], image["newTag"]) == ("retrieval-worker", metadata.version("retrieval-worker"))
    for deployment in deployments(folder):
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == image["name"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_builds_what_it_would_apply(folder: Path) -> None:
    """The settings as a ConfigMap, which both deployments mount."""
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    built = [*yaml.safe_load_all(done.stdout)]
    (config,) = (one for one in built if one["kind"] == "ConfigMap")
    assert config["data"]["worker.toml"] == (folder / "worker.toml").read_text()
    for deployment in (one for one in built if one["kind"] == "Deployment"):
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        assert config["metadata"]["name"] in {one.get("configMap", {}).get("name") for one in volumes}
