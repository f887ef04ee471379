"""Draws charts of the performance page out of benchmarks/results.json, as SVG: bars with their numbers, no script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results.json"
# What `producer` calls its clients -> what a reader calls them.
CLIENTS = {
    "send_table": "ottla, send_table",
    "send": "ottla, send, 1 MB batches",
    "send-16k": "ottla, send, 16 KiB batches",
    "async": "ottla, AsyncProducer",
    "confluent-bare": "confluent-kafka, no outcome told",
    "confluent": "confluent-kafka, callback per record",
    "java": "Java, ProducerPerformance",
    "aiokafka": "aiokafka",
    "kafka-python": "kafka-python",
}
WIDTH, NAMES, ROW, BAR = 720, 250, 26, 16
OURS, OTHERS = "#0b6e4f", "#8a8f98"

Bar = tuple[str, float, str]


def draw_charts(folder: Path) -> str:
    """Write the charts into `folder`/charts, and return the Markdown that shows them."""
    (folder / "charts").mkdir()
    results = json.loads(RESULTS.read_text())
    parts = []
    for name, title, bars in charts(results["producer"]):
        (folder / "charts" / f"{name}.svg").write_text(draw(title, bars))
        numbers = "; ".join(f"{label}: {shown}" for label, _, shown in bars)
        parts.append(f"![{title}. {numbers}.](charts/{name}.svg)\n")
    measured = (
        f"Of {results['producer']['date']}, {results['producer']['machine']}, Python {results['producer']['python']}."
    )
    return "\n".join([*parts, measured])


def charts(producer: dict[str, Any]) -> list[tuple[str, str, list[Bar]]]:
    """File name, title and bars of each chart."""
    keyed = producer["apache-100-none"]["keyed"]["clients"]
    speed = [(client, row["records_per_s"]) for client, row in keyed.items() if client in CLIENTS]
    cpu = [
        (client, row["cpu_us_per_record"])
        for client, row in keyed.items()
        if client in CLIENTS and "cpu_us_per_record" in row
    ]
    waits = {
        "send": "send",
        "async": "async",
        "confluent": "confluent",
        "aiokafka": "aiokafka",
        "kafka-python": "kafka-python",
    }
    latency = producer["latency-apache"]
    names = {**CLIENTS, "send": "ottla, send", "confluent": "confluent-kafka"}
    p50 = [
        (client, latency[f"quiet, {key}, p50"]["ms"])
        for client, key in waits.items()
        if f"quiet, {key}, p50" in latency
    ]
    return [
        (
            "records-per-second",
            "Records of 100 bytes a second to one node of Apache Kafka (more is better)",
            [(CLIENTS[client], value, f"{value:,.0f}") for client, value in sorted(speed, key=lambda it: -it[1])],
        ),
        (
            "cpu-per-record",
            "Processor time of the client per record, in microseconds (less is better)",
            [(CLIENTS[client], value, f"{value:.2f}") for client, value in sorted(cpu, key=lambda it: it[1])],
        ),
        (
            "one-record",
            "One record at a time: from send to its acknowledgement, median in milliseconds (less is better)",
            [(names[client], value, f"{value:.3f}") for client, value in sorted(p50, key=lambda it: it[1])],
        ),
    ]


def draw(title: str, bars: Sequence[Bar]) -> str:
    """A chart of horizontal bars, ours in green; it can be read on a light and on a dark page."""
    height = 44 + ROW * len(bars)
    most = max(value for _, value, _ in bars)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" font-family="sans-serif" font-size="13">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<text x="12" y="24" font-weight="bold" fill="#1c1e21">{escape(title)}</text>',
    ]
    for row, (label, value, shown) in enumerate(bars):
        top = 38 + ROW * row
        color = OURS if label.startswith("ottla") else OTHERS
        length = max(1, round((WIDTH - NAMES - 100) * value / most))
        lines += [
            f'<text x="{NAMES - 8}" y="{top + 13}" text-anchor="end" fill="#1c1e21">{escape(label)}</text>',
            f'<rect x="{NAMES}" y="{top}" width="{length}" height="{BAR}" fill="{color}"/>',
            f'<text x="{NAMES + length + 6}" y="{top + 13}" fill="#1c1e21">{escape(shown)}</text>',
        ]
    return "\n".join([*lines, "</svg>\n"])
