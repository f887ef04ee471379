"""What acks, min.insync.replicas and flush.messages cost, and what they are worth: one table.

`make bench ARGS="acks"` measures all twelve combinations on three embedded brokers, three replicas, idempotence off:

- the time from `send` to the acknowledgement, at 500 records a second;
- records a second, as fast as `send` can;
- how many acknowledged records are lost after three failures. These are trials: the same records, the same faults, and
  the audit of `ottla trial` counts. With acks=0 nobody acknowledges, and every record that is not stored is lost.

The logs lie on the disk of this machine, so that flush.messages=1 costs what its fsync costs there.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ottla import Cluster, Producer
from ottla.trial.run import run_scenario
from ottla.trial.scenario import Scenario
from ottla.trial.scenario_file import read_scenario

RATE, PACED_RECORDS = 500, 2_000
# Every batch costs an fsync on three brokers where batches are flushed.
FAST_RECORDS, FLUSHED_RECORDS = 1_000_000, 100_000
VALUE = bytes(range(100))
DISK = "/var/tmp"
_HEADINGS = (
    "acks", "min.insync.replicas", "flush.messages", "p50 ms", "p99 ms", "records/s",
    "leader killed", "leader alone, power lost", "power of all lost",
)  # fmt: skip


class Cell(NamedTuple):
    """One combination. `is_flushed`: flush.messages=1."""

    acks: str
    min_insync: int
    is_flushed: bool

    @property
    def name(self) -> str:
        """Its name among the figures."""
        return f"acks={self.acks} min.insync.replicas={self.min_insync} flush={'1' if self.is_flushed else 'none'}"

    @property
    def topic(self) -> dict[str, str]:
        """The topic's settings."""
        flush = {"flush.messages": "1"} if self.is_flushed else {}
        return {"min.insync.replicas": str(self.min_insync), **flush}

    @property
    def side(self) -> str:
        """It as a side of a trial, which says of nothing what has to be found."""
        acks = self.acks if self.acks.isdigit() else f'"{self.acks}"'
        topic = ", ".join(f'"{name}" = {value}' for name, value in self.topic.items())
        more = ", retries = 0" if self.acks == "0" else ', "delivery.timeout.ms" = 3_000, "request.timeout.ms" = 500'
        return (
            f'[[side]]\nname = "{self.name}"\nclaims = "at-most-once"\nshows = ["lost"]\ntopic = {{ {topic} }}\n'
            f'producer = {{ acks = {acks}, "enable.idempotence" = false{more} }}\n'
        )


CELLS = tuple(Cell(*each) for each in product(("0", "1", "all"), (1, 2), (False, True)))
_HEAD = 'title = "t"\nteaches = "t"\nrecords = 300\nflush_every = 50\n'


# With this seed nothing is left of what was not flushed.
_SEED = "seed = 219627"


def _fault(kind: str, after: int, *lines: str) -> str:
    """A fault from this record on."""
    return "\n".join(("[[fault]]", f'kind = "{kind}"', f"after_records = {after}", *lines, ""))


_NOW, _UNTIL = 'moment = "now"', "until_records = 201"
FAILURES = {
    "leader killed": _fault("isolate", 100, "broker_id = 1") + _fault("kill", 250, _NOW, "broker_id = 1"),
    "leader alone, power lost": _fault("kill", 100, _NOW, _UNTIL, 'broker = "first follower"')
    + _fault("kill", 100, _NOW, _UNTIL, 'broker = "second follower"', "in_sync = 1")
    + _fault("power_off", 200, _NOW, "until_records = 202", 'broker = "leader"', _SEED),
    "power of all lost": _fault("cut_power", 200, _NOW, _UNTIL, _SEED),
}
"""What goes wrong: the leader is cut off from its followers and then killed; the followers end, and then the leader
loses its power; all lose their power at once."""


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, print the table, and return its figures by combination."""
    figures = {cell.name: {"p50_ms": [], "p99_ms": [], "records_per_s": []} for cell in CELLS}
    with _cluster() as cluster:
        for number in range(arguments.repeat):
            for cell in CELLS:
                topic = f"acks-{number}-{CELLS.index(cell)}"
                cluster.create_topic(topic, configs=cell.topic)
                for name, value in {**_latencies(cluster, topic, cell), **_speed(cluster, topic, cell)}.items():
                    figures[cell.name][name].append(value)
                cluster.delete_topic(topic)
    found: dict[str, Any] = {
        name: {figure: round(median(values), 2) for figure, values in of_cell.items()}
        for name, of_cell in figures.items()
    }
    for failure, faults in FAILURES.items():
        for name, lost in _losses(faults).items():
            found[name][failure] = lost
    _show(found)
    return found


@contextmanager
def _cluster() -> Iterator[Cluster]:
    with TemporaryDirectory(prefix="ottla-acks-", dir=DISK) as folder, Cluster(3, data_dir=folder) as cluster:
        yield cluster


def _producer(cluster: Cluster, cell: Cell) -> Producer:
    acks = int(cell.acks) if cell.acks.isdigit() else cell.acks
    return Producer(cluster.bootstrap_servers, acks=acks, enable_idempotence=False, linger_ms=0)


def _latencies(cluster: Cluster, topic: str, cell: Cell) -> dict[str, float]:
    """Milliseconds from `send` to the acknowledgement (acks=0: to the write); the first half second is left out."""
    taken: list[float] = []
    with _producer(cluster, cell) as producer:
        producer.send(topic, VALUE).result(30)
        began = time.perf_counter()
        for number in range(PACED_RECORDS):
            time.sleep(max(0.0, began + number / RATE - time.perf_counter()))
            sent = time.perf_counter()
            producer.send(topic, VALUE, on_delivery=lambda *_, sent=sent: taken.append(time.perf_counter() - sent))
        producer.flush()
    percentiles = quantiles(taken[RATE // 2 :], n=100)
    return {"p50_ms": percentiles[49] * 1000, "p99_ms": percentiles[98] * 1000}


def _speed(cluster: Cluster, topic: str, cell: Cell) -> dict[str, float]:
    """Records a second from the first `send` to the last acknowledgement."""
    count = FLUSHED_RECORDS if cell.is_flushed else FAST_RECORDS
    with _producer(cluster, cell) as producer:
        producer.send(topic, VALUE).result(30)
        began = time.perf_counter()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
        return {"records_per_s": round(count / (time.perf_counter() - began))}


class _Silent:
    def advance(self, count: int = 1) -> None: ...


def trial_of(faults: str) -> Scenario:
    """A trial with a side for each combination."""
    return read_scenario("acks", _HEAD + faults + "".join(cell.side for cell in CELLS), "acks.toml")


def _losses(faults: str) -> dict[str, str]:
    """By combination: how many records are lost, and how many were refused, of 300."""
    # The faults are meant to happen: what client and brokers log of them is of no use here.
    logging.getLogger("ottla").setLevel(logging.CRITICAL)
    told = {}
    for side in run_scenario(trial_of(faults), lambda *_: nullcontext(_Silent())).sides:
        figures = side.verdict.figures
        refused = 0 if side.side.producer["acks"] == 0 else figures.sent - figures.acked
        told[side.side.name] = f"{side.found.get('lost', 0)}" + (f" ({refused} refused)" if refused else "")
        fired = [each for each in side.faults if not each.fired]
        if fired:
            raise SystemExit(f"{side.side.name}: the fault {fired[0].fault.kind} never fired")
    return told


def _show(found: dict[str, Any]) -> None:
    print("| " + " | ".join(_HEADINGS) + " |")
    print("|" + "---|" * len(_HEADINGS))
    for cell in CELLS:
        figures = found[cell.name]
        flush = "1" if cell.is_flushed else "none"
        values = (
            cell.acks, cell.min_insync, flush, f"{figures['p50_ms']:.2f}", f"{figures['p99_ms']:.2f}",
            f"{figures['records_per_s']:,.0f}", *(figures[failure] for failure in FAILURES),
        )  # fmt: skip
        print("| " + " | ".join(str(value) for value in values) + " |")
