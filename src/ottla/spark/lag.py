"""How far streams are behind, under the names that Spark's own Kafka source uses for it.

Spark takes metrics only from sources written in Java, so `sources[].metrics` of a query's progress is empty. But the
progress has the offsets: `LagListener` computes the metrics from them after every micro-batch.
"""

# ruff: noqa: N802  (methods are called as Spark calls them)

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from ottla.errors import UserMistake
from ottla.spark.stream_offsets import lag_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_log = logging.getLogger("ottla.spark")


def offsets_behind_latest(progress: Any) -> list[dict[str, str]]:
    """`minOffsetsBehindLatest`, `maxOffsetsBehindLatest` and `avgOffsetsBehindLatest` of each source, in Spark's order.

    `progress` is what `query.lastProgress` or a listener gives. Empty for a source that has no partitions yet, and for
    one that does not read Kafka.
    """
    return [_metrics_of(source) for source in progress["sources"]] if progress else []


def _metrics_of(source: Any) -> dict[str, str]:
    try:
        behind = list(lag_of(source).values())
    except (UserMistake, ValueError):
        return {}
    if not behind:
        return {}
    return {
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "minOffsetsBehindLatest": str(min(behind)),
    }


class LagListener(StreamingQueryListener):
    """`spark.streams.addListener(LagListener())`: keeps and logs how far every query is behind.

    `latest` has the metrics of each running query's last micro-batch, one dict per source, by its name, else by its
    id. The log has them, too (`ottla.spark`, INFO).
    """

    def __init__(self) -> None:
        self.latest: dict[str, list[dict[str, str]]] = {}
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Compute the metrics of this micro-batch."""
        progress = event.progress
        name = self._names.setdefault(str(progress.id), progress.name or str(progress.id))
        self.latest[name] = offsets_behind_latest(progress)
        for metrics in filter(None, self.latest[name]):
            _log.info("query %s: %s", name, ", ".join(f"{key} {value}" for key, value in metrics.items()))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """There is nothing to read: the last metrics hold."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        self.latest.pop(self._names.pop(str(event.id), ""), None)
