"""PySpark meets ottla: source and sink by Spark's Python Data Source API (no jar), and a session to try them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.spark.stream_offsets import consumer_lag

if TYPE_CHECKING:
    from ottla.spark.by_partition import sink_partitions

__all__ = ["consumer_lag", "sink_partitions"]


def __getattr__(name: str) -> Any:
    # It brings pyarrow along, which a driver's source has no need of.
    if name == "sink_partitions":
        from ottla.spark.by_partition import sink_partitions

        return sink_partitions
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
