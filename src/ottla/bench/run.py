"""Runs clients one after the other on the same brokers, each in a process and with a topic of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import uuid4

from ottla.bench.clients import CLIENTS, MODULES
from ottla.bench.order import Measured, Order
from ottla.bench.security import for_others
from ottla.client.admin import Admin
from ottla.cluster.cluster import Cluster
from ottla.errors import OttlaError, UserMistake

PARTITIONS = 6
# Beyond twice the seconds: to start, to flush what is queued, to end.
_PATIENCE_S = 60


class Row(NamedTuple):
    """A client and its result; `error` says why there is none."""

    client: str
    measured: Measured | None
    error: str | None


def chosen(names: Sequence[str], untold: str | None = None) -> tuple[list[str], list[str]]:
    """(clients to measure, clients that are not installed); all there are unless some are named. UserMistake.

    `untold`: settings of security that only ottla's clients have; then no other client is measured.
    """
    for name in names:
        if name not in CLIENTS:
            raise UserMistake(f"--client {name} is not known: give one of {', '.join(CLIENTS)}")
        if untold is not None and CLIENTS[name].library != "ottla":
            raise UserMistake(f"--client {name} cannot be told {untold} by `ottla bench`: measure ottla alone")
    missing = [name for name, module in MODULES.items() if find_spec(module) is None]
    for name in names:
        if name in missing:
            raise UserMistake(f"--client {name} needs {MODULES[name]}, which is not installed: pip install {name}")
    here = [name for name in names or CLIENTS if name not in missing]
    if untold is not None:
        here = [name for name in here if CLIENTS[name].library == "ottla"]
    return here, [] if names else missing


def bench(
    names: Sequence[str],
    bootstrap_servers: str,
    *,
    record_bytes: int,
    seconds: float,
    security: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[Row]:
    """Measure these clients, one after the other; each row is given when it is there. Raises Unreachable.

    `security`: settings about it, by keyword; clients other than ottla's must have them, too.
    """
    others = for_others(security) if security else {}
    with Admin(bootstrap_servers, **security) as admin:
        admin.cluster()
        for name in names:
            with _topic(admin) as topic:
                settings: Any = security if CLIENTS[name].library == "ottla" else others
                yield _measured(admin, Order(name, bootstrap_servers, topic, record_bytes, seconds, dict(settings)))


@contextmanager
def own_cluster() -> Iterator[str]:
    """The address of one embedded broker, for as long as the block lasts."""
    with Cluster(1) as cluster:
        yield cluster.bootstrap_servers


@contextmanager
def _topic(admin: Admin) -> Iterator[str]:
    name = f"ottla-bench-{uuid4().hex[:12]}"
    admin.create_topics(name, partitions=PARTITIONS)
    try:
        yield name
    finally:
        admin.delete_topics(name)


def _measured(admin: Admin, order: Order) -> Row:
    command = [sys.executable, "-P", "-m", "ottla.bench.worker"]
    # A session of its own: Ctrl+C reaches only this process, which then ends the other.
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as worker:
        try:
            # A password stands on no command line.
            out, err = worker.communicate(json.dumps(order), timeout=2 * order.seconds + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            return Row(order.client, None, f"it had not ended {_PATIENCE_S} s after its time")
        finally:
            worker.kill()
    if worker.returncode:
        lines = err.strip().splitlines()
        return Row(order.client, None, lines[-1][:200] if lines else f"exit status {worker.returncode}")
    measured = Measured(*json.loads(out))
    stored = sum(admin.end_offsets(order.topic).values())
    if stored != measured.sent:
        raise OttlaError(f"{order.client} was told of {measured.sent:,} records, and {stored:,} are stored")
    return Row(order.client, measured, None)
