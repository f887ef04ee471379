"""Writes docs/metrics.md out of the table of metrics.

python tools/generate_metrics.py            # write the page
python tools/generate_metrics.py --check    # exit 1 where the page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ottla.producer.metric_table import CLIENT_ROWS, NODE_ROWS, TOPIC_ROWS, Kind, MetricRow  # noqa: E402

PAGE = ROOT / "docs" / "metrics.md"

INTRODUCTION = """\
# Metrics

What an `ottla.Producer` tells of itself, under the names that Kafka's own producer uses (4.3), so that dashboards and
alerts keep working. Written by `tools/generate_metrics.py` from `src/ottla/producer/metric_table.py`; changes belong
there. The examples need a Kafka at `localhost:9092` with the topic `flights`: `ottla serve --topic flights` starts one.

```python
import ottla

with ottla.Producer("localhost:9092") as producer:
    producer.send("flights", b"value").result()
    metrics = producer.metrics()
    print(metrics["record-send-rate"])  # of the producer
    print(metrics.topics["flights"]["byte-rate"])  # of a topic
    for broker_id, figures in metrics.nodes.items():  # of each broker it has connected to
        print(broker_id, figures["request-latency-avg"])
    print(metrics)  # everything, a line each, with group and tags
```

`metrics()` is a snapshot: a mapping from name to value, with such a mapping for each topic (`topics`) and each broker
(`nodes`). `nodes` has only brokers that the producer has connected to: its first one, and leaders of partitions it
sends to. `metrics().all()` lists every figure as `Metric(name, group, tags, value)`. Asking costs the sending threads
nothing, and counting is done per batch and request, never per record.

Rates, averages and maxima (*recent* in the tables) are those of the last `metrics.num.samples` samples of
`metrics.sample.window.ms` and of the one under way, by default 60 to 90 seconds. As in Java, samples that are
missing because the producer is new count as empty ones. The average or maximum of nothing is NaN.

## Reporters

`metric_reporters` takes functions that are called with the metrics every `metrics.sample.window.ms` and once when the
producer closes, on a thread of their own. One that is slow or raises does the producer no harm; what it raises is
logged under `ottla.producer`.

```python
import ottla

figures = []
with ottla.Producer("localhost:9092", metric_reporters=figures.append) as producer:
    producer.send("flights", b"value")
assert figures[-1]["ottla-record-acked-total"] == 1
```

## OpenTelemetry

With the extra (`pip install 'ottla[otel]'`), `observe_metrics` has OpenTelemetry collect them as observable
instruments: counters for what grows, gauges for the rest. Names are those of its instrumentation for Java
(`kafka.producer.record_send_total`), Kafka's tags are attributes. What exists per topic or per broker is told per topic
or broker only, so that sums do not count twice.

```python
import ottla

with ottla.Producer("localhost:9092") as producer:
    ottla.observe_metrics(producer)  # or with a meter_provider of your own
    producer.send("flights", b"value")
```
"""

DIFFERENCES = """\
## Pushing metrics to brokers (KIP-714)

Where a broker has a plugin that receives clients' metrics (KIP-714; an embedded one needs none) and a subscription that
fits this producer (`kafka-client-metrics.sh`), it is sent what it asks for, as often as it asks, and once more when the
producer closes: the figures above, without those that Kafka has no names for, as OpenTelemetry's metrics.
`record-queue-time-avg` of `producer-metrics` is `org.apache.kafka.producer.record.queue.time.avg` there. The logger
`ottla.producer` says (INFO) when that begins, and under which client instance id; `producer.client_instance_id(10)`
waits up to ten seconds for that id (a `uuid.UUID`) and returns None where no broker has given it one, which needs the
plugin. No other broker is asked; `enable_metrics_push=False` keeps everything here. All it costs sending is the time in
which the I/O thread reads and encodes the figures: 0.6 ms for a producer of one topic, 70 ms for one of a thousand
topics that is asked for everything.

## Where Java's figures mean something else

- `record-size-avg` and `record-size-max` are bytes that records take in their batch, before compression. Java takes the
  largest record of each batch, estimates it from above with a whole batch header, and averages those.
- A connection to a bootstrap address that turns out to be a broker's is kept for that broker, and so are its figures:
  there is one node where Java has two (`node--1` and `node-1`).
- `io-time` is all the work of the I/O thread, which does more than Java's selector: deciding, encoding, calling back.
- Not there: `app-info` and `kafka-metrics-count`, which are no figures of a producer's work, and
  `successful-authentication-no-reauth-total`, which means something to brokers only.
"""


def write_page() -> str:
    """docs/metrics.md."""
    own = [row for row in CLIENT_ROWS if row.name.startswith("ottla-")]
    kafkas = [row for row in CLIENT_ROWS if row not in own]
    return "\n".join(
        (
            INTRODUCTION,
            "## Of the producer: group `producer-metrics`, tag `client-id`\n",
            write_table(kafkas),
            "Names that Kafka does not have:\n",
            write_table(own),
            "## Of a broker: group `producer-node-metrics`, tags `client-id` and `node-id`\n",
            write_table(NODE_ROWS),
            "## Of a topic: group `producer-topic-metrics`, tags `client-id` and `topic`\n",
            write_table(TOPIC_ROWS),
            DIFFERENCES,
        )
    )


def write_table(rows: Sequence[MetricRow]) -> str:
    """The rows as a Markdown table, in the order of the alphabet."""
    lines = ["| name | what it says | when |", "|---|---|---|"]
    lines += [f"| `{row.name}` | {row.doc} | {when(row)} |" for row in sorted(rows, key=lambda row: row.name)]
    return "\n".join(lines) + "\n"


def when(row: MetricRow) -> str:
    """Whether a figure is of now, of the last samples, or of all the time since the producer was made."""
    return {Kind.TOTAL: "since the start", Kind.GAUGE: "now"}.get(row.kind, "recent")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write docs/metrics.md from the table of metrics.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the page would change")
    given = parser.parse_args(arguments)
    page = write_page()
    if PAGE.exists() and PAGE.read_text() == page:
        return 0
    if given.check:
        print("docs/metrics.md is not what tools/generate_metrics.py would write; run it", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
