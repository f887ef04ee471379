"""Prints the README's speed table out of benchmarks/results.json, so that no figure is typed by hand."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROWS = (
    ("send_table", "`send_table`"),
    ("send", "`send`, 1 MB batches as librdkafka's"),
    ("send-16k", "`send`, Kafka's default 16 KiB batches"),
)


def main() -> None:
    figures = json.loads((ROOT / "benchmarks" / "results.json").read_text())["producer"]
    print("| against `confluent-kafka` `produce()` | records/s | CPU per record | with 3 replicas | CPU |")
    print("|---|---|---|---|---|")
    for client, name in ROWS:
        cells = []
        for factor in (1, 3):
            row = figures[f"replication_factor_{factor}"][client]
            cells += [f"{row['records_per_s_of_confluent']:.1f}x", f"1/{1 / row['cpu_us_per_record_of_confluent']:.0f}"]
        print(f"| {name} | {' | '.join(cells)} |")


main()
