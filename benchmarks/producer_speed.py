"""Records per second and processor time per record of producers, all clients against one broker, in turn.

A cell is a broker (Apache Kafka of one node, or one embedded broker), a record size, a codec, and keys or none. In each
round every client writes the same records (payload.py) to a fresh topic of six partitions, replication factor 1, in a
process of its own; the first round of a cell against Apache Kafka is not counted. Slow peers send fewer records, which
does not change their rate. Java's ProducerPerformance sends the same values from a file, keyless always, and counts its
start in.

The logs lie in memory (/dev/shm) where there is such a place: a broker writes to the page cache, and what the disk
behind it does meanwhile would be measured with whoever is running just then. As much memory as the run will need is
touched beforehand, since a virtual machine has to fetch memory it has not used lately. Both are the same for everybody.

Two peers are confluent-kafka: `confluent` learns each record's outcome by a callback, as `send` does by its `Delivery`;
`confluent-bare` asks for no outcome at all, which is as fast as `produce()` goes. `raw` is the ceiling (raw_client.py),
`raw-16k` that of batches of 16 KiB.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import ottla
from benchmarks import payload
from benchmarks.apache_kafka import measured_kafka, producer_performance
from benchmarks.parts import chosen_clients, interval_of_median
from benchmarks.wire import create_topics, delete_topic
from benchmarks.worker import PARTITIONS

IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
SIDES = ("apache", "embedded")
SIZES = {"100": 100, "1k": 1024}
CODECS = ("none", "lz4", "zstd")
OURS = ("send", "send-16k", "send_table", "async", "async-16k")
# How many times fewer records the slow ones send.
FEWER = {"kafka-python": 30, "aiokafka": 15, "aiokafka-16k": 15, "async": 3, "async-16k": 3, "java": 3}
CLIENTS = ("raw", "raw-16k", "confluent", "confluent-bare", *OURS, "java", "aiokafka", "aiokafka-16k", "kafka-python")
# The peer that learns of each record's outcome, as ours do.
PEER = "confluent"
_RUN_TIMEOUT_S = 300

Figures = dict[str, float]


def with_peer(there: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """Those of these clients that were asked for, and the peer, which all ratios are to."""
    asked = chosen_clients("producer", CLIENTS, arguments.clients)
    return [client for client in there if client in {*asked, PEER}]


def log_folder() -> str | None:
    """A folder in memory with room for the logs, None where there is none."""
    roomy = IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM_BYTES
    return str(IN_MEMORY) if roomy else None


def touch_memory(folder: str | None, nbytes: int) -> None:
    """Write and remove a file of this size where the logs will be."""
    block = bytes(range(256)) * 4096
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(nbytes // len(block) + 1):
            file.write(block)


@contextlib.contextmanager
def broker(side: str) -> Iterator[str]:
    """One broker, its logs in memory; gives its address."""
    folder = log_folder()
    if side == "apache":
        with measured_kafka(1, folder) as apache:
            yield apache.bootstrap_servers
    else:
        with (
            tempfile.TemporaryDirectory(dir=folder) as data_dir,
            ottla.Cluster(brokers=1, data_dir=data_dir) as cluster,
        ):
            yield cluster.bootstrap_servers


class Cell:
    """What is sent in every run of one cell."""

    def __init__(self, side: str, size: str, codec: str, keyed: bool, records: int) -> None:
        self.side = side
        self.codec = codec
        self.keyed = keyed
        self.record_bytes = SIZES[size]
        # The large ones are fewer, since their logs lie in memory, and still as many as take a second: what a client
        # needs once, its buffers' memory above all, weighed as much as what it needs for each of 300,000 records.
        self.records = records if self.record_bytes == 100 else records // 3
        self.title = f"{side}, {size} bytes, {codec}, {'keyed' if keyed else 'keyless'}"

    def measure(self, client: str, bootstrap: str) -> Figures:
        """One client, one fresh topic; every record must have arrived."""
        records = self.records // FEWER.get(client, 1)
        topic = f"bench-{client}"
        touch_memory(log_folder(), records * (self.record_bytes + 20))
        create_topics(bootstrap, [topic], PARTITIONS, 1)
        figures = self._java(bootstrap, topic, records) if client == "java" else self._worker(client, bootstrap, topic)
        with ottla.Admin(bootstrap) as admin:
            stored = sum(admin.end_offsets(topic).values())
        assert records <= stored <= records + 1, f"{client}: sent {records} and one to warm up; stored {stored}"
        delete_topic(bootstrap, topic)
        return figures

    def _worker(self, client: str, bootstrap: str, topic: str) -> Figures:
        records = self.records // FEWER.get(client, 1)
        how = ["--bytes", str(self.record_bytes), "--codec", self.codec, *(() if self.keyed else ("--keyless",))]
        command = [sys.executable, "-m", "benchmarks.worker", client, bootstrap, topic, str(records), *how]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False)
        if done.returncode:
            raise SystemExit(f"{client} failed:\n{done.stderr}")
        told = json.loads(done.stdout)
        return {"records_per_s": records / told["wall_s"], "cpu_us_per_record": told["cpu_s"] / records * 1e6}

    def _java(self, bootstrap: str, topic: str, records: int) -> Figures:
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            _, values = payload.records(self.record_bytes, keyed=False)
            file.write(b"\n".join(values))
            file.flush()
            rate = producer_performance(bootstrap, topic, records, values=file.name, codec=self.codec)
        return {"records_per_s": rate}


def cells(arguments: argparse.Namespace, side: str, size: str, codec: str) -> dict[str, Any]:
    """Keyed and keyless: medians over the rounds, ratios round by round, and beside the targets what was reached."""
    results: dict[str, Any] = {"rounds": arguments.repeat, "logs": "in memory" if log_folder() else "on disk"}
    with broker(side) as bootstrap:
        for keyed in (True, False):
            cell = Cell(side, size, codec, keyed, arguments.records)
            clients = [client for client in with_peer(CLIENTS, arguments) if takes_part(client, codec)]
            rounds = [
                {client: cell.measure(client, bootstrap) for client in clients}
                for _ in range(arguments.repeat + (side == "apache" and keyed))
            ][-arguments.repeat :]
            summary = {client: summed_up(rounds, client) for client in clients}
            targets = judged(cell, rounds)
            results["keyed" if keyed else "keyless"] = {"records": cell.records, "clients": summary, "targets": targets}
            show(cell, summary, targets, arguments.repeat)
    return results


def takes_part(client: str, codec: str) -> bool:
    """Whether a client can do this, and what it does can be compared."""
    if client == "kafka-python":
        # It has zstd only with a further package, which nothing else here wants.
        return codec != "zstd"
    # Compressed, 16 KiB are what a producer stores; what is encoded beforehand is that large before it is compressed.
    return client != "raw-16k" or codec == "none"


def ratios(rounds: list[dict[str, Figures]], figure: str, ours: str, theirs: str) -> list[float]:
    """The ratios within each round."""
    return [one[ours][figure] / one[theirs][figure] for one in rounds]


def told(found: list[float]) -> dict[str, Any]:
    """The median of these ratios, and between which two of them it lies with 95 % confidence, where they are enough."""
    return {"ratio": round(median(found), 3), **interval_of_median(found, digits=3)}


def summed_up(rounds: list[dict[str, Figures]], client: str) -> Figures:
    """One client's medians, and its ratios to the peer that learns outcomes."""
    summary = {}
    for figure, digits in (("records_per_s", 0), ("cpu_us_per_record", 3)):
        if figure in rounds[0][client]:
            summary[figure] = round(median(one[client][figure] for one in rounds), digits)
            summary[f"{figure}_of_confluent"] = round(median(ratios(rounds, figure, client, PEER)), 3)
    ceiling = "raw-16k" if client.endswith("-16k") and "raw-16k" in rounds[0] else "raw"
    if ceiling in rounds[0]:
        summary["records_per_s_of_raw"] = round(median(ratios(rounds, "records_per_s", client, ceiling)), 3)
    return summary


def judged(cell: Cell, rounds: list[dict[str, Figures]]) -> dict[str, Any]:
    """Every target that stands for this cell: the figure, the target, whether it was reached."""
    rate, cpu = "records_per_s", "cpu_us_per_record"
    targets: dict[str, Any] = {}

    def at_least(name: str, figure: str, ours: str, theirs: str, must: float) -> None:
        if {ours, theirs} <= rounds[0].keys():
            found = ratios(rounds, figure, ours, theirs)
            targets[name] = {**told(found), "must": must, "ok": median(found) >= must}

    def at_most(name: str, ours: str, must: float) -> None:
        if ours in rounds[0]:
            found = ratios(rounds, cpu, ours, PEER)
            targets[name] = {**told(found), "must_be_below": must, "ok": median(found) <= must}

    if cell.codec in ("none", "lz4"):
        share = 0.85 if cell.codec == "none" else 0.60
        at_least("send_table, records/s of the ceiling", rate, "send_table", "raw", share)
    if cell.codec == "none":
        at_most("send_table, CPU of confluent", "send_table", 0.125 if cell.record_bytes == 100 else 0.25)
    for client in ("send", "send-16k"):
        at_most(f"{client}, CPU of confluent", client, 0.2)
        at_least(f"{client}, records/s of confluent", rate, client, PEER, 2.0 if cell.side == "apache" else 4.0)
    for size in ("", "-16k"):
        at_least(f"async{size}, records/s of aiokafka{size}", rate, f"async{size}", f"aiokafka{size}", 8.0)
    return targets


def show(cell: Cell, summary: dict[str, Figures], targets: dict[str, Any], rounds: int) -> None:
    """The rows side by side, then the targets."""
    table = Table(title=f"{cell.title}: {cell.records:,} records, acks=all, median of {rounds}")
    table.add_column("client")
    for heading in ("records/s", "of the ceiling", "x confluent", "CPU us/record", "CPU of confluent"):
        table.add_column(heading, justify="right")
    for client, row in summary.items():
        has_cpu = "cpu_us_per_record" in row
        table.add_row(
            client,
            f"{row['records_per_s']:,.0f}",
            f"{row['records_per_s_of_raw']:.0%}" if "records_per_s_of_raw" in row else "",
            f"{row['records_per_s_of_confluent']:.2f}",
            f"{row['cpu_us_per_record']:.3f}" if has_cpu else "",
            f"1/{1 / row['cpu_us_per_record_of_confluent']:.1f}" if has_cpu else "",
        )
    Console(width=120).print(table)
    for name, target in targets.items():
        print(f"{name:44} {'  '.join(f'{key}={value}' for key, value in target.items())}")
