"""send() and send_table() against confluent-kafka's produce(), on the same embedded cluster, in turn."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

import ottla

PEER = "confluent-bare"
CLIENTS = ("confluent-bare", "confluent", "send", "send-16k", "send_table")
PARTITIONS = 6


def measure(client: str, cluster: ottla.Cluster, topic: str, replication_factor: int, records: int) -> dict[str, float]:
    """One client, one fresh topic; every record must have arrived."""
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


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Replication factor 1 and 3; medians over the rounds, and the ratio to the peer round by round."""
    results: dict[str, Any] = {"records": arguments.records, "rounds": arguments.repeat}
    for factor in (1, 3):
        rounds: dict[str, list[dict[str, float]]] = {client: [] for client in CLIENTS}
        with ottla.Cluster(brokers=3) as cluster:
            for number in range(arguments.repeat):
                for client in CLIENTS:
                    topic = f"bench-{client}-{number}"
                    rounds[client].append(measure(client, cluster, topic, factor, arguments.records))
        results[f"replication_factor_{factor}"] = summary = {
            client: {
                "records_per_s": round(median(r["records_per_s"] for r in rounds[client])),
                "cpu_us_per_record": round(median(r["cpu_us_per_record"] for r in rounds[client]), 3),
                "times_peer": round(
                    median(
                        ours["records_per_s"] / peer["records_per_s"]
                        for ours, peer in zip(rounds[client], rounds[PEER], strict=True)
                    ),
                    2,
                ),
                "cpu_of_peer": round(
                    median(
                        ours["cpu_us_per_record"] / peer["cpu_us_per_record"]
                        for ours, peer in zip(rounds[client], rounds[PEER], strict=True)
                    ),
                    3,
                ),
            }
            for client in CLIENTS
        }
        show(factor, summary, arguments)
    return results


def show(factor: int, summary: dict[str, Any], arguments: argparse.Namespace) -> None:
    """The rows side by side."""
    table = Table(
        title=f"{arguments.records:,} records of 100 bytes, acks=all, replication factor {factor}, "
        f"median of {arguments.repeat}"
    )
    for heading in ("client", "records/s", "x peer", "CPU us/record", "of peer"):
        table.add_column(heading, justify="left" if heading == "client" else "right")
    for client, row in summary.items():
        table.add_row(
            client,
            f"{row['records_per_s']:,}",
            f"{row['times_peer']:.2f}x",
            f"{row['cpu_us_per_record']:.3f}",
            f"1/{1 / row['cpu_of_peer']:.1f}",
        )
    Console().print(table)
