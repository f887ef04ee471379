"""`ottla run --tour`: one record, one setting at a time, and what the producer's own metrics say of it.

    record (name, location, status) -> producer of each row -> three embedded brokers, six partitions -> metrics()

Each row has a producer and a topic of its own, so that no row inherits batches, metrics or logs of another; the topic
is deleted afterwards. What is sent is bounded by time and by count: a tour takes less than a minute on a slow machine
and little room on any disk. Neither Spark nor Java nor Arrow is needed.

Invariant: everything that is shown was measured in this run; nothing is remembered from elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from math import isnan
from pathlib import Path
from typing import Any

from ottla.client.producer import Producer
from ottla.cluster.cluster import Cluster
from ottla.json_output import STDOUT, check_json_output
from ottla.screen import Step, open_console, showing_steps
from ottla.showcase.tour_knobs import (
    BATCH,
    COMPRESSION,
    KNOBS,
    LATENCY,
    MB_PER_S,
    PARTITIONS,
    PER_REQUEST,
    QUEUE,
    RECORDS_PER_S,
    REQUESTS,
    Knob,
    Measured,
    Row,
    Turned,
    make_records,
)

BROKERS = 3
_SECONDS = 1.2
_RECORDS_MAX = 300_000
# How many records are sent before the clock is looked at again.
_STRETCH = 500
_FLUSH_S = 60
_STEP_S = 0.001


def run_tour(json_file: str | Path | None = None, *, seconds: float = _SECONDS, knobs: Sequence[Knob] = KNOBS) -> int:
    """Measure all rows of every knob, show the results, and return the exit status: 0.

    `seconds`: how long each row sends. Raises UserMistake, before anything was begun, where `json_file` cannot be
    written.
    """
    began = time.monotonic()
    check_json_output(json_file, what="the figures")
    console = open_console()
    console.quiet = json_file == STDOUT
    turned: list[Turned] = []
    with Cluster(BROKERS) as cluster, showing_steps(console) as steps:
        records = make_records()
        # The first requests of a broker are slow; they count for no row.
        _measure(cluster, records, knobs[0], knobs[0].rows[0], seconds / 4)
        for knob in knobs:
            with steps.step(f"turn {knob.name}", len(knob.rows)) as step:
                turned.append(Turned(knob, tuple(_turn(cluster, records, knob, seconds, step))))
    from ottla.showcase.tour_report import show_tour, write_figures

    took_s = time.monotonic() - began
    show_tour(console, turned, took_s)
    if json_file is not None:
        write_figures(json_file, turned, took_s)
    return 0


def _turn(
    cluster: Cluster, records: list[tuple[bytes, bytes]], knob: Knob, seconds: float, step: Step
) -> Iterator[Measured]:
    for row in knob.rows:
        yield _measure(cluster, records, knob, row, seconds)
        step.advance()


def _measure(cluster: Cluster, records: list[tuple[bytes, bytes]], knob: Knob, row: Row, seconds: float) -> Measured:
    """Send with a row's settings to a topic of its own."""
    topic = "tour"
    cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=BROKERS)
    try:
        settings: dict[str, Any] = {"bootstrap.servers": cluster.bootstrap_servers, **row.settings}
        with Producer.from_config(settings) as producer:
            # Learning the topic's partitions and connecting to its leaders is no part of what is measured.
            producer.partitions_for(topic)
            began = time.monotonic()
            count = _send(producer, topic, records, knob.pace, seconds)
            # At full speed most records still wait for their request; what limits the producer shows as they leave.
            producer.flush(_FLUSH_S)
            took_s = time.monotonic() - began
            metrics, diagnosis = producer.metrics(), producer.diagnosis()
    finally:
        cluster.delete_topic(topic)
    value_bytes = count * sum(len(key) + len(value) for key, value in records) / len(records)
    figures = {
        RECORDS_PER_S: count / took_s,
        MB_PER_S: value_bytes / took_s / 1_000_000,
        REQUESTS: metrics["ottla-produce-request-total"],
        **{name: metrics[name] for name in (BATCH, PER_REQUEST, COMPRESSION, LATENCY, QUEUE)},
    }
    # The average of nothing is NaN, which JSON does not have: without acks there is no latency.
    told = {name: None if isnan(value) else value for name, value in figures.items()}
    return Measured(row, count, took_s, told, diagnosis)


def _send(producer: Producer, topic: str, records: list[tuple[bytes, bytes]], pace: int, seconds: float) -> int:
    """Send for `seconds`, `pace` records a second (0: as fast as possible); return how many, at least one."""
    send: Callable[..., object] = producer.send
    endless = cycle(records)
    began = time.monotonic()
    until = began + seconds
    count = 0
    while count < _RECORDS_MAX and ((now := time.monotonic()) < until or not count):
        stretch = _STRETCH
        if pace:
            stretch = int((now - began) * pace) - count
            if stretch <= 0:
                time.sleep(_STEP_S)
                continue
        for _ in range(min(stretch, _RECORDS_MAX - count)):
            key, value = next(endless)
            send(topic, value, key)
            count += 1
    return count
