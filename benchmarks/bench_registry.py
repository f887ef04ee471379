"""What the embedded schema registry answers in a second, beside Karapace where that is there.

The registry runs on one core, the load comes from the other one. Schemas are read by id by 100 clients of a native tool
(`hey`; `HEY` names it where it is not in the path), and registered by `registry_worker.py`. Karapace is a peer where
`KARAPACE_PYTHON` names a Python that has it; both work on one embedded broker, in turn in each round.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from tools.ports import free_ports

import ottla
from benchmarks.parts import chosen, run_parts

_CLIENTS = 100
_READS = {"ottla": 60_000, "karapace": 3_000}
_REGISTRATIONS = {"ottla": 3_000, "karapace": 300}
_TIMEOUT_S = 300
_START_S = 90.0
READS_MUST = 3_000
TIMES_KARAPACE_MUST = 8
REGISTRATIONS_MUST = 1_000
SCHEMA = json.dumps(
    {"type": "record", "name": "Bench", "fields": [{"name": f"field{each}", "type": "string"} for each in range(10)]}
)


@contextlib.contextmanager
def _registries() -> Iterator[dict[str, str]]:
    """The address of each registry, which has the schema with the id 1; on the first core, the load on the second."""
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as ending:
        found = {}
        cluster = ending.enter_context(ottla.Cluster(brokers=1))
        registry = ending.enter_context(ottla.Registry(cluster.bootstrap_servers))
        assert registry.pid is not None
        os.sched_setaffinity(registry.pid, cores[:1])
        found["ottla"] = registry.url
        python = os.environ.get("KARAPACE_PYTHON")
        if python is not None:
            theirs = ending.enter_context(ottla.Cluster(brokers=1))
            found["karapace"] = ending.enter_context(_karapace(python, theirs.bootstrap_servers, cores[0]))
        for url in found.values():
            _register(url)
        yield found


@contextlib.contextmanager
def _karapace(python: str, servers: str, core: int) -> Iterator[str]:
    (port,) = free_ports(1)
    settings = {
        "BOOTSTRAP_URI": servers,
        "HOST": "127.0.0.1",
        "PORT": port,
        "ADVERTISED_HOSTNAME": "127.0.0.1",
        "REPLICATION_FACTOR": 1,
        "KARAPACE_REGISTRY": "true",
        "LOG_LEVEL": "ERROR",
    }
    environment = {**os.environ, **{f"KARAPACE_{name}": str(value) for name, value in settings.items()}}
    process = subprocess.Popen(
        [python, "-m", "karapace"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.sched_setaffinity(process.pid, [core])
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _register(url: str) -> None:
    """Have the schema registered; a registry that has just been started is waited for."""
    body = json.dumps({"schema": SCHEMA}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    end_s = time.monotonic() + _START_S
    while True:
        try:
            with urlopen(Request(f"{url}/subjects/bench/versions", body, headers), timeout=10) as answer:
                assert json.load(answer)["id"] == 1
                return
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.2)


def _on_the_other_core(command: list[str]) -> str:
    core = sorted(os.sched_getaffinity(0))[-1]
    done = subprocess.run(
        ["taskset", "-c", str(core), *command], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stderr}")
    return done.stdout


def _reads(url: str, name: str) -> float:
    hey = os.environ.get("HEY") or shutil.which("hey")
    if hey is None:
        raise SystemExit("`hey` is not there: go install github.com/rakyll/hey@latest, or name it by HEY")
    told = _on_the_other_core([hey, "-n", str(_READS[name]), "-c", str(_CLIENTS), f"{url}/schemas/ids/1"])
    codes = re.findall(r"\[(\d+)\]\s+(\d+) responses", told)
    assert [code for code, _ in codes] == ["200"], told
    found = re.search(r"Requests/sec:\s+([\d.]+)", told)
    assert found is not None, told
    return float(found[1])


def _rounds(measure: Any, repeat: int) -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {}
    with _registries() as registries:
        for number in range(repeat):
            names = list(registries)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                figures.setdefault(name, []).append(measure(registries[name], name))
    return figures


def _told(figures: dict[str, list[float]], must: float, what: str) -> dict[str, Any]:
    ours = median(figures["ottla"])
    told: dict[str, Any] = {f"{what} a second": {"ottla": round(ours), "must": must, "ok": ours >= must}}
    if "karapace" in figures:
        times = median(one / other for one, other in zip(figures["ottla"], figures["karapace"], strict=True))
        told["karapace"] = round(median(figures["karapace"]))
        told["times karapace"] = {
            "times": round(times, 1),
            "must": TIMES_KARAPACE_MUST,
            "ok": times >= TIMES_KARAPACE_MUST,
        }
    return told


def read(arguments: argparse.Namespace) -> dict[str, Any]:
    """GET by id with 100 clients."""
    return _told(_rounds(_reads, arguments.repeat), READS_MUST, "reads")


def register(arguments: argparse.Namespace) -> dict[str, Any]:
    """New schemas from 100 clients; each round has a registry of its own, since it must not know them."""

    def measure(url: str, name: str) -> float:
        address = url.removeprefix("http://")
        worker = [sys.executable, "-m", "benchmarks.registry_worker", address, str(_REGISTRATIONS[name])]
        found: float = json.loads(_on_the_other_core(worker))
        return found

    rounds = [_rounds(measure, 1) for _ in range(arguments.repeat)]
    figures = {name: [each for one in rounds for each in one[name]] for name in rounds[0]}
    ours = median(figures["ottla"])
    told: dict[str, Any] = {
        "registrations a second": {"ottla": round(ours), "must": REGISTRATIONS_MUST, "ok": ours >= REGISTRATIONS_MUST}
    }
    if "karapace" in figures:
        told["karapace"] = round(median(figures["karapace"]))
    return told


PARTS = {"read": read, "register": register}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """All parts, or those asked for."""
    return run_parts(PARTS, chosen("registry", PARTS, arguments.only), arguments)
