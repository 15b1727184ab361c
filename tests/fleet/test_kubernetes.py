"""The commands of docs/guides/fleet-kubernetes.md: the operator's part is not here, ours is."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from support.fleet import engine_on_loopback
from support.program import Program, environment

DOCUMENT = Path(__file__).parents[2] / "docs/guides/fleet-kubernetes.md"


@pytest.fixture(scope="module")
def cluster() -> dict[str, Any]:
    """`spec` of the DaskCluster, as a shell hands it on to kubectl."""
    text = "\n".join(line.removeprefix("    ") for line in DOCUMENT.read_text().splitlines())
    begin = text.index("kubectl apply -f - ")
    script = text[begin : text.index("\nEND\n", begin)].replace("kubectl apply -f -", "cat", 1) + "\nEND\n"
    done = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    document = yaml.safe_load(done.stdout)
    assert document["kind"] == "DaskCluster"
    selector = {"dask.org/cluster-name": document["metadata"]["name"], "dask.org/component": "scheduler"}
    assert document["spec"]["scheduler"]["service"]["selector"] == selector
    return dict(document["spec"])


def command(container: dict[str, Any], **given: str) -> list[str]:
    """What a container runs, by the programs of this installation; given: what the operator puts in."""
    words = list(container["args"])
    for name, value in given.items():
        words = [word.replace(f"$({name})", value) for word in words]
    return [str(Path(sys.executable).parent / words[0]), *words[1:]]


def test_the_worker_is_a_machine(cluster: dict[str, Any], place: Path, pgstrata: Program) -> None:
    (container,) = cluster["worker"]["spec"]["containers"]
    given = {"DASK_WORKER_NAME": "bench-default-worker-1"}
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    with engine_on_loopback(place, 0) as (address, _):
        worker = subprocess.Popen(
            command(container, **given),
            cwd=place,
            env=environment(DASK_SCHEDULER_ADDRESS=address, **variables, **given),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + 60
            machines: list[dict[str, Any]] = []
            while not machines and time.monotonic() < until:
                assert worker.poll() is None
                done = pgstrata("fleet", "status", address, "--format", "json")
                (fleet,) = json.loads(done.stdout)
                machines = fleet["machines"]
        finally:
            below = psutil.Process(worker.pid).children(recursive=True)
            worker.terminate()
            worker.wait()
            psutil.wait_procs(below, timeout=60)
    assert [(machine["doing"], machine["problem"]) for machine in machines] == [("free", "")]


@pytest.mark.program
def test_the_scheduler_and_its_ports(cluster: dict[str, Any]) -> None:
    (container,) = cluster["scheduler"]["spec"]["containers"]
    done = subprocess.run([*command(container), "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    service = {port["name"]: port["port"] for port in cluster["scheduler"]["service"]["ports"]}
    # The engine's own ports, by the names that the operator looks for.
    assert ports == service == {"tcp-comm": 8786, "http-dashboard": 8787}
    assert all(port["targetPort"] == port["name"] for port in cluster["scheduler"]["service"]["ports"])
