"""A producer's metrics for OpenTelemetry: observable instruments that read `Producer.metrics()` when collected.

Names are those of OpenTelemetry's instrumentation for Java's client, `kafka.producer.record_send_total` for
`record-send-total`, with Kafka's tags as attributes. As there, a metric that exists per topic or per broker is reported
only so: a sum over its attributes must not count twice. Totals are counters, the rest are gauges; NaN is left out.

A meter has one instrument of each name, however many producers there are: the producers are kept in a weak set, and
each instrument reports all of them that have not ended. One collection reads each producer's metrics once: the snapshot
is used until an instrument asks for the second time.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ottla.errors import MissingExtra
from ottla.producer.figures import Metric
from ottla.producer.metric_table import CLIENT_ROWS, NODE_ROWS, TOPIC_ROWS, Kind, MetricRow

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider, Observation

    from ottla.client.async_producer import AsyncProducer
    from ottla.client.producer import Producer

# Meter provider -> its instruments.
_observed: weakref.WeakKeyDictionary[Any, _Instruments] = weakref.WeakKeyDictionary()


def observe_metrics(producer: Producer | AsyncProducer, meter_provider: MeterProvider | None = None) -> None:
    """Have OpenTelemetry observe a producer's metrics from now on, until it is closed or dropped.

    Without `meter_provider` the global one of the moment is taken. Needs the extra `otel` (MissingExtra).
    """
    try:
        from opentelemetry.metrics import get_meter_provider
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise MissingExtra(
            "observe_metrics needs OpenTelemetry, which is not installed: pip install 'ottla[otel]'"
        ) from None
    provider = get_meter_provider() if meter_provider is None else meter_provider
    instruments = _observed.get(provider)
    if instruments is None:
        instruments = _observed[provider] = _Instruments()
        instruments.register(provider)
    instruments.producers.add(producer)


class _Instruments:
    """The instruments of one meter provider and the producers that they report."""

    def __init__(self) -> None:
        self.producers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._snapshot: list[Metric] = []
        self._served: set[str] | None = None

    def register(self, provider: MeterProvider) -> None:
        """Make one instrument for every metric."""
        from ottla import __version__

        meter = provider.get_meter("ottla", __version__)
        for group, row in _rows():
            name = f"kafka.producer.{row.name.replace('-', '_')}"
            make = meter.create_observable_counter if row.kind is Kind.TOTAL else meter.create_observable_gauge
            make(name, [self._callback(group, row.name)], description=row.doc)

    def _callback(self, group: str, name: str) -> Callable[[Any], Iterator[Observation]]:
        from opentelemetry.metrics import Observation

        def observe(_options: Any) -> Iterator[Observation]:
            for metric in self._metrics(name):
                if metric.name == name and metric.group == group and metric.value == metric.value:
                    yield Observation(metric.value, metric.tags)

        return observe

    def _metrics(self, asked_by: str) -> list[Metric]:
        served = self._served
        if served is None or asked_by in served:
            self._snapshot = [metric for each in list(self.producers) for metric in _figures(each)]
            served = self._served = set()
        served.add(asked_by)
        return self._snapshot


def _figures(producer: Any) -> list[Metric]:
    return [] if producer._driver.has_ended else producer.metrics().all()


def _rows() -> Iterator[tuple[str, MetricRow]]:
    """(group, row): per broker and per topic where there is such a row, else per producer."""
    finer = {row.name for row in (*NODE_ROWS, *TOPIC_ROWS)}
    yield from (("producer-node-metrics", row) for row in NODE_ROWS)
    yield from (("producer-topic-metrics", row) for row in TOPIC_ROWS)
    yield from (("producer-metrics", row) for row in CLIENT_ROWS if row.name not in finer)
