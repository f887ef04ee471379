"""Every figure a producer reports, under Kafka's name: one typed row each, for the producer, its nodes and its topics.

A row names the sums, peaks or gauges of the meters (`metrics`, `connection.traffic`) that its value is computed from;
`figures_of` computes the values. `tools/generate_metrics.py` writes `docs/metrics.md` from these rows, and a test
compares the names with those of Java's producer.

Names that Kafka's producer does not have begin with `ottla-`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from math import nan
from typing import NamedTuple

from ottla.connection.sampled import NOTHING, Window


class Kind(Enum):
    """How a row's value is computed."""

    TOTAL = "total since the producer was made"
    RATE = "per second of the last samples"
    AVERAGE = "average of the last samples"
    MAXIMUM = "maximum of the last samples"
    GAUGE = "now"


class MetricRow(NamedTuple):
    """One figure: `of` names the sum, peak or gauge, `per` the sum an average divides by, `scale` converts units."""

    name: str
    kind: Kind
    doc: str
    of: str
    per: str = ""
    scale: float = 1

    def value(self, window: Window, gauges: Mapping[str, float]) -> float:
        """Return the figure; NaN for the average or maximum of nothing."""
        if self.kind is Kind.TOTAL:
            return window.totals[self.of] * self.scale
        if self.kind is Kind.RATE:
            return window.rates[self.of] * self.scale
        if self.kind is Kind.AVERAGE:
            count = window.recent[self.per]
            return window.recent[self.of] * self.scale / count if count > 0 else nan
        if self.kind is Kind.MAXIMUM:
            peak = window.peaks[self.of]
            return nan if peak == NOTHING else peak * self.scale
        return gauges[self.of]


_US_AS_MS = 1 / 1_000
_NS_AS_S = 1 / 1_000_000_000


def _counted(name: str, of: str, what: str) -> Iterator[MetricRow]:
    """The two rows Kafka calls a meter: how many a second, and how many in all."""
    yield MetricRow(f"{name}-rate", Kind.RATE, f"{what}, per second.", of)
    yield MetricRow(f"{name}-total", Kind.TOTAL, f"{what}, in all.", of)


def _measured(
    name: str, of: str, per: str, most: str, what: str, most_what: str, scale: float = 1
) -> Iterator[MetricRow]:
    """An average and a maximum."""
    yield MetricRow(f"{name}-avg", Kind.AVERAGE, what, of, per, scale)
    yield MetricRow(f"{name}-max", Kind.MAXIMUM, most_what, most, "", scale)


def _total_ns(name: str, of: str, doc: str) -> MetricRow:
    return MetricRow(f"{name}-time-ns-total", Kind.TOTAL, doc, of)


def _gauge(name: str, doc: str) -> MetricRow:
    return MetricRow(name, Kind.GAUGE, doc, name)


# Reported for each node, and added up for the producer.
NODE_ROWS: tuple[MetricRow, ...] = (
    *_counted("request", "requests", "Requests sent, of every kind"),
    *_measured(
        "request-size",
        "request_bytes",
        "requests",
        "request_bytes_max",
        "Bytes of a request.",
        "Bytes of the largest request.",
    ),
    *_counted("response", "responses", "Answers received"),
    *_counted("outgoing-byte", "outgoing_bytes", "Bytes written to sockets"),
    *_counted("incoming-byte", "incoming_bytes", "Bytes read from sockets"),
    *_measured(
        "request-latency",
        "produce_latency_us",
        "produce_answers",
        "produce_latency_us_max",
        "Milliseconds from sending a Produce request to its answer.",
        "Milliseconds of the slowest Produce request.",
        _US_AS_MS,
    ),
)

# Reported for each topic.
TOPIC_ROWS: tuple[MetricRow, ...] = (
    *_counted("record-send", "records", "Records sent; those sent again count again"),
    *_counted("byte", "bytes", "Bytes of batches sent, compressed, headers included"),
    MetricRow(
        "compression-rate",
        Kind.AVERAGE,
        "Size of a batch after compression, divided by its size before.",
        "compression_ratio",
        "batches",
    ),
    *_counted("record-retry", "records_retried", "Records that had to be sent again"),
    *_counted("record-error", "record_errors", "Records given up: failed or unknown"),
)

_BATCH_ROWS: tuple[MetricRow, ...] = (
    *_counted("record-send", "records", "Records sent; those sent again count again"),
    *_counted("record-retry", "records_retried", "Records that had to be sent again"),
    *_counted("record-error", "record_errors", "Records given up: failed or unknown"),
    *_measured(
        "record-size",
        "record_bytes",
        "records",
        "record_bytes_max",
        "Bytes a record takes in its batch before compression.",
        "Bytes of the largest record before compression.",
    ),
    *_measured(
        "record-queue-time",
        "queue_us",
        "batches",
        "queue_us_max",
        "Milliseconds from a batch's first record to the request it leaves in.",
        "Milliseconds of the batch that waited longest.",
        _US_AS_MS,
    ),
    MetricRow("records-per-request-avg", Kind.AVERAGE, "Records in a Produce request.", "records", "produce_requests"),
    *_measured(
        "batch-size",
        "bytes",
        "batches",
        "batch_bytes_max",
        "Bytes of a batch on the wire.",
        "Bytes of the largest batch on the wire.",
    ),
    *_counted("batch-split", "splits", "Batches split because a broker found them too large"),
    MetricRow(
        "compression-rate-avg",
        Kind.AVERAGE,
        "Size of a batch after compression, divided by its size before.",
        "compression_ratio",
        "batches",
    ),
)

_BUFFER_ROWS: tuple[MetricRow, ...] = (
    _gauge("buffer-total-bytes", "`buffer.memory`."),
    _gauge("buffer-available-bytes", "How much of `buffer.memory` is free."),
    *_counted("buffer-exhausted", "buffer_exhausted", "Sends refused because `buffer.memory` stayed full"),
    MetricRow(
        "bufferpool-wait-ratio",
        Kind.RATE,
        "Share of time that senders waited for room in `buffer.memory`; two that wait at once count twice.",
        "buffer_wait_ns",
        "",
        _NS_AS_S,
    ),
    _total_ns("bufferpool-wait", "buffer_wait_ns", "Nanoseconds that senders waited for room in `buffer.memory`."),
    _gauge("waiting-threads", "Threads waiting for room in `buffer.memory`."),
)

_CONNECTION_ROWS: tuple[MetricRow, ...] = (
    *_measured(
        "produce-throttle-time",
        "throttle_ms",
        "responses",
        "throttle_ms_max",
        "Milliseconds of pause a broker asked for with an answer, because of a quota.",
        "Milliseconds of the longest pause a broker asked for.",
    ),
    _gauge("requests-in-flight", "Requests waiting for their answer."),
    _gauge("metadata-age", "Seconds since the cluster's metadata was last received; NaN before the first time."),
    _gauge("connection-count", "Connections that are open."),
    *_counted("connection-creation", "connections_opened", "Connections opened"),
    *_counted("connection-close", "connections_closed", "Connections that ended after they were open"),
    *_counted("network-io", "network_operations", "Times a connection was written to or read from"),
)

_AUTHENTICATION_ROWS: tuple[MetricRow, ...] = (
    *_counted("successful-authentication", "authentications", "Connections that were authenticated (TLS and SASL)"),
    *_counted("failed-authentication", "authentication_failures", "Connections that ended because of TLS or SASL"),
    *_counted("successful-reauthentication", "reauthentications", "Sessions renewed by SASL"),
    *_counted("failed-reauthentication", "reauthentication_failures", "Sessions that could not be renewed"),
    *_measured(
        "reauthentication-latency",
        "reauthentication_us",
        "reauthentications",
        "reauthentication_us_max",
        "Milliseconds it took to renew a session.",
        "Milliseconds it took at most to renew a session.",
        _US_AS_MS,
    ),
)

_LOOP_ROWS: tuple[MetricRow, ...] = (
    *_counted("select", "selects", "Times the I/O thread looked for ready sockets"),
    MetricRow(
        "io-wait-time-ns-avg", Kind.AVERAGE, "Nanoseconds the I/O thread waited, each time.", "wait_ns", "selects"
    ),
    MetricRow("io-wait-ratio", Kind.RATE, "Share of time the I/O thread waited.", "wait_ns", "", _NS_AS_S),
    _total_ns("io-wait", "wait_ns", "Nanoseconds the I/O thread waited."),
    MetricRow(
        "io-time-ns-avg",
        Kind.AVERAGE,
        "Nanoseconds the I/O thread worked each time, between two waits.",
        "work_ns",
        "selects",
    ),
    MetricRow("io-ratio", Kind.RATE, "Share of time the I/O thread worked.", "work_ns", "", _NS_AS_S),
    _total_ns("io", "work_ns", "Nanoseconds the I/O thread worked."),
)

_CALL_ROWS: tuple[MetricRow, ...] = (
    _total_ns("flush", "flush_ns", "Nanoseconds spent in `flush`."),
    _total_ns("metadata-wait", "metadata_wait_ns", "Nanoseconds spent waiting to learn a topic's partitions."),
    _total_ns("txn-init", "txn_init_ns", "Nanoseconds spent in `init_transactions`."),
    _total_ns("txn-begin", "txn_begin_ns", "Nanoseconds spent in `begin_transaction`."),
    _total_ns("txn-send-offsets", "txn_send_offsets_ns", "Nanoseconds spent in `send_offsets_to_transaction`."),
    _total_ns("txn-prepare", "txn_prepare_ns", "Nanoseconds spent in `prepare_transaction`."),
    _total_ns("txn-commit", "txn_commit_ns", "Nanoseconds spent in `commit_transaction`."),
    _total_ns("txn-abort", "txn_abort_ns", "Nanoseconds spent in `abort_transaction`."),
)

_OWN_ROWS: tuple[MetricRow, ...] = (
    *_counted("ottla-produce-request", "produce_requests", "Produce requests sent"),
    MetricRow("ottla-record-acked-total", Kind.TOTAL, "Records stored, as far as `acks` asks.", "records_acked"),
    MetricRow("ottla-record-failed-total", Kind.TOTAL, "Records certainly not stored.", "records_failed"),
    MetricRow("ottla-record-unknown-total", Kind.TOTAL, "Records perhaps stored.", "records_unknown"),
    _gauge("ottla-idempotence-enabled", "1 where batches are numbered, so that one sent again is stored once; else 0."),
    _gauge("ottla-interceptor-error-total", "What interceptors raised."),
    _gauge("ottla-batches-in-flight", "Batches waiting for an answer."),
    _gauge("ottla-batches-unsettled", "Batches without an outcome, open ones included."),
)

CLIENT_ROWS: tuple[MetricRow, ...] = (
    *_BATCH_ROWS,
    *_BUFFER_ROWS,
    *NODE_ROWS,
    *_CONNECTION_ROWS,
    *_AUTHENTICATION_ROWS,
    *_LOOP_ROWS,
    *_CALL_ROWS,
    *_OWN_ROWS,
)

GROUPS: dict[str, tuple[MetricRow, ...]] = {
    "producer-metrics": CLIENT_ROWS,
    "producer-node-metrics": NODE_ROWS,
    "producer-topic-metrics": TOPIC_ROWS,
}


def figures_of(rows: Sequence[MetricRow], window: Window, gauges: Mapping[str, float]) -> dict[str, float]:
    """Return name -> value; gauges that are not given are left out."""
    return {row.name: row.value(window, gauges) for row in rows if row.kind is not Kind.GAUGE or row.of in gauges}
