"""One cell of `sink_scale.py`, in a process of its own: a JSON line for each step as it ends.

Requests and connections are what the brokers have counted: a connection begins with one ApiVersions request. A thread
stands for a Python worker of Spark's: it keeps what workers keep, and runs one task after the other.
"""

from __future__ import annotations

import gzip
import json
import pickle
import resource
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from typing import Any

import ottla
from ottla.client.producer import Producer
from ottla.producer.transaction_states import TransactionIdentity
from ottla.sink.batch import Attempt, BatchId, Entry, Plan, Prepared, Span, Totals
from ottla.sink.commit import commit
from ottla.sink.decision import Decision, encode
from ottla.sink.identities import driver_id, task_transactional_id, ticket_id
from ottla.sink.kafka import Kafka
from ottla.sink.planning import plan
from ottla.sink.receipt import encode_receipt
from ottla.sink.session import Session, session_of
from ottla.sink.settings import SinkSettings
from ottla.sink.task import prepare

_TOPIC, _SINK = "rows", "orders"
_WORKERS, _PARTITIONS_MOST = 8, 100
_REQUESTS = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request="
# Those that tell how the mechanism grows; what carries the rows is left out.
_TOLD = ("FindCoordinator", "InitProducerId", "DescribeTransactions", "ListTransactions", "EndTxn", "Metadata")


def main(tasks: int, partitions: int, workers: int = _WORKERS) -> None:
    """Measure the sizes, a batch, and the plan of the next one."""
    _say("sizes", _sizes(tasks, partitions))
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic(_TOPIC, partitions=partitions, replication_factor=1)
        settings = SinkSettings(_SINK, cluster.bootstrap_servers)
        _Batch(cluster, settings, tasks, partitions).run(workers)


def _say(step: str, figures: dict[str, Any]) -> None:
    print(json.dumps({step: figures}), flush=True)


class _Batch:
    """The first batch: a row for each task and partition it writes to."""

    def __init__(self, cluster: ottla.Cluster, settings: SinkSettings, tasks: int, partitions: int) -> None:
        self._cluster = cluster
        self._session: Session = session_of(settings)
        self._worker = threading.local()
        self._sessions: list[Session] = []
        self._tasks, self._partitions = tasks, partitions
        self._batch = BatchId("query", 0)

    def run(self, workers: int) -> None:
        """Prepare and commit it, and plan the next one."""
        planned = plan(self._session)
        with self._measured("prepare"), ThreadPoolExecutor(workers, initializer=self._begin_worker) as pool:
            messages = list(pool.map(lambda task: self._prepare(planned, task), range(self._tasks)))
        with self._measured("commit"):
            commit(self._session, messages)
        with self._measured("plan"):
            plan(self._session)
        for session in (self._session, *self._sessions):
            session.close()

    def _begin_worker(self) -> None:
        settings = self._session.settings
        self._worker.session = Session(settings, Kafka(settings))
        self._sessions.append(self._worker.session)

    def _prepare(self, planned: Plan, task: int) -> Any:
        rows = min(self._partitions, _PARTITIONS_MOST)
        totals = Totals(rows, task)

        def write(producer: Callable[[], Producer]) -> Totals:
            sender = producer()
            for number in range(rows):
                sender.send(_TOPIC, b"row", partition=(task * rows + number) % self._partitions)
            return totals

        return prepare(self._worker.session, planned, self._batch, Attempt(task, task), write, lambda: totals)

    @contextmanager
    def _measured(self, step: str) -> Iterator[None]:
        before, began, cpu = self._counted(), time.perf_counter(), _cpu_s()
        yield
        took, used = time.perf_counter() - began, _cpu_s() - cpu
        asked = self._counted() - before
        _say(
            step,
            {
                "s": round(took, 2),
                "cpu_s": round(used, 2),
                "requests": sum(asked.values()),
                "connections": asked["ApiVersions"],
                **{name: asked[name] for name in _TOLD if asked[name]},
            },
        )

    def _counted(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for beans in self._cluster.metrics().values():
            for name, bean in beans.items():
                if name.startswith(_REQUESTS):
                    found[name.removeprefix(_REQUESTS)] += int(bean["Count"])
        return found


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _sizes(tasks: int, partitions: int) -> dict[str, int]:
    """Bytes of what is sent to tasks, comes from them, and is stored, with the largest of each."""
    identities = [
        task_transactional_identity(TransactionIdentity(ticket_id(_SINK, task, 0), 10_000 + task, 7))
        for task in range(tasks)
    ]
    driver_identity = TransactionIdentity(driver_id(_SINK), 9_999, 7)
    spans = tuple(Span(_TOPIC, partition, 123_456_789, 123_456_789, 1) for partition in range(partitions))
    totals = Totals(partitions, 1 << 63)
    planned = Plan(driver_identity, None, 1_764_000_000_000, 2)
    batch = BatchId("5a3c2f6e-5d0f-4a65-8b6c-0c61dbb4a1a7", 17)
    chance = Random(1)
    entries = [
        Entry(task, identity, Totals(partitions, chance.getrandbits(64)), 123_400_000 + chance.randrange(100_000))
        for task, identity in enumerate(identities)
    ]
    message = Prepared(planned, batch, Attempt(0, 0), totals, entries[-1])
    decision = Decision(_SINK, batch, totals, tasks, tuple(entries), driver_identity, 1_764_000_000_000)
    return {
        "plan_bytes": len(pickle.dumps(planned)),
        "message_bytes": len(pickle.dumps(message)),
        "decision_bytes": len(encode(decision)),
        "decision_gzip_bytes": len(gzip.compress(encode(decision))),
        "marker_bytes": len(encode_receipt(batch, Attempt(0, 0), entries[-1], spans)),
    }


def task_transactional_identity(ticket: TransactionIdentity) -> TransactionIdentity:
    """The identity of a task that was given this ticket."""
    return TransactionIdentity(task_transactional_id(ticket, 60_000), ticket.producer_id, ticket.producer_epoch)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
