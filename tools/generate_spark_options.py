"""Writes the table of options in docs/spark-source.md out of the table in src/ottla/spark/option_table.py.

    python tools/generate_spark_options.py     # write it

`tests/spark/test_source_page.py` fails where the page is not what would be written.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from ottla.spark.option_table import BATCH, OPTIONS, REFUSED_SETTINGS, STREAMING, WITHOUT_EFFECT  # noqa: E402

PAGE = ROOT / "docs" / "spark-source.md"
HEADING = "| option | for | takes | default | what it does |\n|---|---|---|---|---|\n"
FOR = {BATCH: "batch", STREAMING: "streaming"}


def write_table() -> str:
    """The table, and what stands below it."""
    rows = [
        f"| `{row.name}` | {FOR.get(row.used_by, 'both')} | {row.takes} | {row.default} | {row.what} |"
        for row in OPTIONS
    ]
    taken = ", ".join(f"`{name}`" for name in WITHOUT_EFFECT)
    refused = "\n".join(f"- `{name}`: {why}." for name, why in REFUSED_SETTINGS.items())
    return (
        HEADING
        + "\n".join(rows)
        + f"\n\nTaken without effect, since there is no pool of consumers to tune: {taken}, and Kafka's settings about "
        "members of groups, polling and metrics.\n\nRefused, as Spark's own source does:\n\n" + refused + "\n"
    )


def write_page(page: str) -> str:
    """The page with the table as it should be; it is the last thing on it."""
    return page.partition(HEADING)[0].rstrip() + "\n\n" + write_table()


if __name__ == "__main__":
    PAGE.write_text(write_page(PAGE.read_text()))
