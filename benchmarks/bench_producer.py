"""The producer against confluent-kafka, aiokafka, kafka-python and Java's ProducerPerformance, on both brokers.

`make bench ARGS="producer"` runs all parts, `--only apache-100-none,latency` some of them; the beginning of a name
stands for all parts that begin so (`--only embedded`). Each takes less than five minutes with three rounds and the
default of 3,000,000 records of 100 bytes (`--records`; a third as many of 1 KiB). The parts:

- `apache-100-none` to `embedded-1k-zstd`: records/s and CPU per record by broker, size and codec (producer_speed)
- `latency-apache`, `latency-embedded`: one record at a time, also beside a busy thread (producer_latency)
- `stall`: memory while the broker is silent (producer_stall)

Every figure that has a target stands beside it: `must` or `must_be_below` says the target, `ok` whether it was reached.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks import producer_latency, producer_speed, producer_stall
from benchmarks.producer_speed import CODECS, SIDES, SIZES

PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    **{
        f"{side}-{size}-{codec}": partial(producer_speed.cells, side=side, size=size, codec=codec)
        for side in SIDES
        for size in SIZES
        for codec in CODECS
    },
    **{f"latency-{side}": partial(producer_latency.latency, side=side) for side in SIDES},
    "stall": producer_stall.stall,
}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts asked for; those left out keep the figures they had."""
    results: dict[str, Any] = {}
    for name in wanted(arguments.only):
        print(f"\n-- {name}")
        results[name] = PARTS[name](arguments)
        for figure, value in results[name].items():
            if isinstance(value, dict) and "clients" not in value:
                print(f"{figure:48} {'  '.join(f'{key}={each}' for key, each in value.items())}")
    return results


def wanted(only: str | None) -> list[str]:
    """The parts that begin as asked, in their order."""
    asked = only.split(",") if only else [""]
    unknown = [each for each in asked if not any(name.startswith(each) for name in PARTS)]
    if unknown:
        raise SystemExit(f"producer has no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    return [name for name in PARTS if any(name.startswith(each) for each in asked)]
