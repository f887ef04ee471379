"""What the producer counts, and its figures under the names of Kafka's producer metrics."""

from __future__ import annotations


class ProducerMetrics:
    """Counters since the producer was made; plain integers, added to once per batch or request."""

    __slots__ = (
        "batches_acked",
        "batches_sent",
        "batches_split",
        "bytes_sent",
        "records_acked",
        "records_failed",
        "records_retried",
        "records_sent",
        "records_unknown",
        "requests_sent",
    )

    def __init__(self) -> None:
        self.requests_sent = 0
        self.batches_sent = 0
        self.batches_acked = 0
        self.batches_split = 0
        self.bytes_sent = 0
        self.records_sent = 0
        self.records_retried = 0
        self.records_acked = 0
        self.records_failed = 0
        self.records_unknown = 0

    def figures(self) -> dict[str, float]:
        """Return the figures by name; those that Kafka's producer does not have begin with `ottla-`."""
        batches = max(self.batches_sent, 1)
        return {
            "record-send-total": self.records_sent,
            "record-retry-total": self.records_retried,
            "record-error-total": self.records_failed + self.records_unknown,
            "batch-split-total": self.batches_split,
            "byte-total": self.bytes_sent,
            "request-total": self.requests_sent,
            "batch-size-avg": self.bytes_sent / batches,
            "records-per-request-avg": self.records_sent / max(self.requests_sent, 1),
            "ottla-record-acked-total": self.records_acked,
            "ottla-record-failed-total": self.records_failed,
            "ottla-record-unknown-total": self.records_unknown,
        }
