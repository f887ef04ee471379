"""Records per second through the embedded cluster and through Apache Kafka: Java's and librdkafka's clients, in turn.

One run is one client process against one cluster and one fresh topic of six partitions, 100-byte records, acks=all,
settings as they come. librdkafka produces by `produce_batch` and reads by `consume`, the fastest ways it has, in three
processes, as many as keep both cores busy: one is itself what limits the rate against any broker that keeps up with it.

Producers meet brokers that have just been started, as in a test: each round starts both sides anew, and of its two runs
the second counts. A Java broker compiles what it does often, and goes on doing so for the better part of a minute at
full load: `warm` is what comes of brokers at replication factor 1 after that. No target is held against it, for the
clients alone then take some nine tenths of both cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

import ottla
from benchmarks.apache_kafka import consumer_performance, measured_kafka, producer_performance
from benchmarks.parts import interval_of_median
from benchmarks.producer_speed import log_folder, touch_memory
from benchmarks.wire import create_topics, delete_topic
from benchmarks.worker import PARTITIONS

RECORD_BYTES = 100
LOG_BYTES_PER_RECORD = 110
SIDES = ("ottla", "apache")
# What the embedded cluster must reach, in times Apache Kafka's records per second.
PRODUCE_MUST = {1: 1.3, 3: 1.0}
FETCH_MUST = 1.0
_RUN_TIMEOUT_S = 300
_PROCESSES = 3
# Reading takes two seconds, of which the broker has a tenth: the rest is the client's, and as good as the machine is to
# it just then. So there are several rounds for each that was asked for.
_FETCH_ROUNDS = 5
# Rounds of three million records until an Apache Kafka broker's processor time for one no longer falls.
_ROUNDS_TO_WARM_UP = 8

Client = Callable[[str, str, int], float]


def worker(name: str, processes: int = 1) -> Client:
    """One of the clients in benchmarks/worker.py, in so many processes at once, which share the records."""

    def run(bootstrap: str, topic: str, records: int) -> float:
        share = records // processes
        command = [sys.executable, "-m", "benchmarks.worker", name, bootstrap, topic, str(share), f"--of={processes}"]
        begun = [
            subprocess.Popen(
                [*command, "--number", str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for number in range(processes)
        ]
        said = [process.communicate(timeout=_RUN_TIMEOUT_S) for process in begun]
        if any(process.returncode for process in begun):
            raise SystemExit(f"{name} failed:\n{''.join(stderr for _, stderr in said)}")
        figures = [json.loads(stdout) for stdout, _ in said]
        took_s: float = max(each["end_s"] for each in figures) - min(each["begin_s"] for each in figures)
        return share * processes / took_s

    return run


def java_producer(bootstrap: str, topic: str, records: int) -> float:
    """Java's ProducerPerformance."""
    return producer_performance(bootstrap, topic, records, RECORD_BYTES)


PRODUCERS: dict[str, Client] = {"java": java_producer, "confluent": worker("confluent-batch", _PROCESSES)}
CONSUMERS: dict[str, Client] = {"java": consumer_performance, "confluent": worker("confluent-consume", _PROCESSES)}


def produce(arguments: argparse.Namespace) -> dict[str, Any]:
    """Replication factor 1 on one broker, 3 on three."""
    results: dict[str, Any] = {"records": arguments.records, "rounds": arguments.repeat}
    for factor, must in PRODUCE_MUST.items():
        for name, client in PRODUCERS.items():
            rounds = [_produce_rounds(client, factor, arguments.records, 1, 1)[0] for _ in range(arguments.repeat)]
            results[f"{name}_replication_factor_{factor}"] = summed_up(rounds, must)
    for name, client in PRODUCERS.items():
        rounds = _produce_rounds(client, 1, arguments.records, _ROUNDS_TO_WARM_UP, arguments.repeat)
        results[f"{name}_warm_replication_factor_1"] = summed_up(rounds, None)
    return results


def _produce_rounds(client: Client, factor: int, records: int, uncounted: int, counted: int) -> list[dict[str, float]]:
    """Records per second of both sides, round by round, on brokers started for it; those that count."""
    folder = log_folder()
    with (
        tempfile.TemporaryDirectory(dir=folder) as data_dir,
        measured_kafka(factor, folder) as apache,
        ottla.Cluster(brokers=factor, data_dir=data_dir) as cluster,
    ):
        sides = {"ottla": cluster.bootstrap_servers, "apache": apache.bootstrap_servers}
        rounds = [
            {side: _produce_once(sides[side], client, factor, records) for side in SIDES}
            for _ in range(uncounted + counted)
        ]
    return rounds[uncounted:]


def _produce_once(bootstrap: str, client: Client, factor: int, records: int) -> float:
    first = bootstrap.split(",")[0]
    topic = "bench-produce"
    touch_memory(log_folder(), records * LOG_BYTES_PER_RECORD * factor)
    create_topics(first, [topic], PARTITIONS, factor)
    rate = client(bootstrap, topic, records)
    with ottla.Admin(bootstrap) as admin:
        stored = sum(admin.end_offsets(topic).values())
    assert records <= stored <= records + _PROCESSES, f"sent {records}, and one each to warm up; stored {stored}"
    delete_topic(first, topic)
    return rate


def fetch(arguments: argparse.Namespace) -> dict[str, Any]:
    """From one broker, out of a topic that Java's ProducerPerformance has filled."""
    results: dict[str, Any] = {"records": arguments.records, "rounds": arguments.repeat * _FETCH_ROUNDS}
    folder = log_folder()
    topic = "bench-fetch"
    with (
        tempfile.TemporaryDirectory(dir=folder) as data_dir,
        measured_kafka(1, folder) as apache,
        ottla.Cluster(brokers=1, data_dir=data_dir) as cluster,
    ):
        sides = {"ottla": cluster.bootstrap_servers, "apache": apache.bootstrap_servers}
        touch_memory(folder, 2 * arguments.records * LOG_BYTES_PER_RECORD)
        for bootstrap in sides.values():
            create_topics(bootstrap, [topic], PARTITIONS, 1)
            java_producer(bootstrap, topic, arguments.records)
        for name, client in CONSUMERS.items():
            # Who has the turn after the other's is changed from round to round; the first of them is not counted.
            rounds = [
                {side: client(sides[side], topic, arguments.records) for side in (SIDES, SIDES[::-1])[number % 2]}
                for number in range(arguments.repeat * _FETCH_ROUNDS + 1)
            ]
            results[name] = summed_up(rounds[1:], FETCH_MUST)
    return results


def summed_up(rounds: list[dict[str, float]], must: float | None) -> dict[str, Any]:
    """Medians of both sides, the median of the ratios within each round, and whether it is enough."""
    ratios = [one["ottla"] / one["apache"] for one in rounds]
    figures: dict[str, Any] = {
        "ottla_records_per_s": round(median(one["ottla"] for one in rounds)),
        "apache_records_per_s": round(median(one["apache"] for one in rounds)),
        "ratio": round(median(ratios), 3),
        **interval_of_median(ratios, digits=3),
        "ratios": [round(ratio, 3) for ratio in ratios],
    }
    return figures if must is None else {**figures, "must": must, "ok": median(ratios) >= must}
