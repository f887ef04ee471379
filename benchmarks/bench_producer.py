"""send() and send_table() against confluent-kafka's produce(), on the same embedded cluster, in turn.

The logs lie in memory (/dev/shm) where there is such a place: a broker writes to the page cache, and what the disk
behind it does meanwhile would be measured with whoever is running just then. As much memory as the run will need is
touched beforehand, since a virtual machine has to fetch memory it has not used lately. Both are the same for every
client.

Two peers: `confluent` learns each record's outcome by a callback, as `send` does by its `Delivery`; `confluent-bare`
asks for no outcome at all, which is as fast as `produce()` goes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import ottla

PEERS = ("confluent", "confluent-bare")
CLIENTS = (*PEERS, "send", "send-16k", "send_table")
PARTITIONS = 6
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
LOG_BYTES_PER_RECORD = 110


def touch_memory(folder: str | None, nbytes: int) -> None:
    """Write and remove a file of this size where the logs will be."""
    block = bytes(range(256)) * 4096
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(nbytes // len(block) + 1):
            file.write(block)


def measure(client: str, cluster: ottla.Cluster, topic: str, replication_factor: int, records: int) -> dict[str, float]:
    """One client, one fresh topic; every record must have arrived."""
    touch_memory(log_folder(), records * LOG_BYTES_PER_RECORD * replication_factor)
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=replication_factor)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.worker", client, cluster.bootstrap_servers, topic, str(records)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{client} failed:\n{done.stderr}")
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        stored = sum(admin.end_offsets(topic).values())
    cluster.delete_topic(topic)
    assert stored == records + 1, f"{client}: sent {records + 1} with the warm-up, stored {stored}"
    figures = json.loads(done.stdout)
    return {"records_per_s": records / figures["wall_s"], "cpu_us_per_record": figures["cpu_s"] / records * 1e6}


def log_folder() -> str | None:
    """A folder in memory with room for the logs, None where there is none."""
    roomy = IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free > ROOM_BYTES
    return str(IN_MEMORY) if roomy else None


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Replication factor 1 and 3; medians over the rounds, and the ratios to the peers round by round."""
    folder = log_folder()
    results: dict[str, Any] = {
        "records": arguments.records,
        "rounds": arguments.repeat,
        "logs": "in memory" if folder else "on disk",
    }
    for factor in (1, 3):
        rounds: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
        with (
            tempfile.TemporaryDirectory(dir=folder) as data_dir,
            ottla.Cluster(brokers=3, data_dir=data_dir) as cluster,
        ):
            for number in range(arguments.repeat):
                for client in CLIENTS:
                    topic = f"bench-{client}-{number}"
                    rounds[client].append(measure(client, cluster, topic, factor, arguments.records))
        results[f"replication_factor_{factor}"] = summary = {client: summed_up(rounds, client) for client in CLIENTS}
        show(factor, summary, arguments)
    return results


def summed_up(rounds: dict[str, list[dict[str, float]]], client: str) -> dict[str, float]:
    """One client's medians; a ratio is the median of the ratios within each round."""
    ours = rounds[client]

    def ratio(figure: str, peer: str) -> float:
        return median(mine[figure] / theirs[figure] for mine, theirs in zip(ours, rounds[peer], strict=True))

    return {
        "records_per_s": round(median(one["records_per_s"] for one in ours)),
        "cpu_us_per_record": round(median(one["cpu_us_per_record"] for one in ours), 3),
    } | {
        f"{figure}_of_{peer}": round(ratio(figure, peer), 3)
        for peer in PEERS
        for figure in ("records_per_s", "cpu_us_per_record")
    }


def show(factor: int, summary: dict[str, Any], arguments: argparse.Namespace) -> None:
    """The rows side by side."""
    table = Table(
        title=f"{arguments.records:,} records of 100 bytes, acks=all, replication factor {factor}, "
        f"median of {arguments.repeat}"
    )
    table.add_column("client")
    for heading in ("records/s", "CPU us/record", *(f"x {peer}" for peer in PEERS), *(f"CPU of {p}" for p in PEERS)):
        table.add_column(heading, justify="right")
    for client, row in summary.items():
        table.add_row(
            client,
            f"{row['records_per_s']:,}",
            f"{row['cpu_us_per_record']:.3f}",
            *(f"{row[f'records_per_s_of_{peer}']:.2f}x" for peer in PEERS),
            *(f"1/{1 / row[f'cpu_us_per_record_of_{peer}']:.1f}" for peer in PEERS),
        )
    Console(width=120).print(table)
