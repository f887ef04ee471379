"""What a look at a served cluster costs a producer at full speed: with the console's live view, and without.

The cluster, the console, the producer and who reads the live view have a process each; the browser is left out. The
producer sends the same records with and without a reader of the view, one after the other, and the ratio is taken
within each pair: records/s with the view, of those without.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from benchmarks.parts import chosen, run_parts

_PAIRS = 11
_RECORDS = 6_000_000
_MUST = 0.9
_TIMEOUT_S = 300
_TOPIC = "orders"
_OTTLA = [sys.executable, "-m", "ottla"]
_READ = """
import sys, urllib.request
live = urllib.request.urlopen(sys.argv[1])
print(live.readline(), flush=True)
for _ in live:
    pass
"""


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Median ratios of the pairs, for each live view."""
    return run_parts(PARTS, chosen("console", PARTS, arguments.only), arguments)


def _live(view: str) -> dict[str, Any]:
    with _served() as (bootstrap, url):
        ratios, rates = [], []
        _records_per_s(bootstrap)
        for _ in range(_PAIRS):
            without = _records_per_s(bootstrap)
            with _reading(url + view):
                looked_at = _records_per_s(bootstrap)
            rates.append(without)
            ratios.append(looked_at / without)
    ratio = round(median(ratios), 3)
    rounds = [round(each, 3) for each in ratios]
    return {
        "records_per_s": round(median(rates)),
        "looked_at": {"ratio": ratio, "ratios": rounds, "must": _MUST, "ok": ratio >= _MUST},
    }


@contextmanager
def _served() -> Iterator[tuple[str, str]]:
    """(brokers, the console's address)."""
    serve = [*_OTTLA, "serve", "--brokers", "1", "--topic", f"{_TOPIC}:6", "--port", "0", "--control", "0", "--json"]
    # What was sent is deleted soon: the rounds come to several gigabytes.
    for setting in (
        "log.segment.bytes=33554432",
        "log.retention.bytes=67108864",
        "log.retention.check.interval.ms=1000",
    ):
        serve += ["--set", setting]
    with _process(serve) as served:
        told = json.loads(served.stdout.readline())
        console = [*_OTTLA, "console", "--control", told["control"], "--listen", "0", "--json"]
        with _process(console) as page:
            yield told["bootstrap_servers"], json.loads(page.stdout.readline())["url"]


@contextmanager
def _process(command: list[str]) -> Iterator[Any]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def _reading(url: str) -> Iterator[None]:
    """Somebody reads the live view, from before the block begins until it ends."""
    with _process([sys.executable, "-c", _READ, url]) as reader:
        assert reader.stdout.readline(), f"nothing came from {url}"
        yield
        assert reader.poll() is None, f"the reader of {url} has ended"


def _records_per_s(bootstrap: str) -> float:
    command = [sys.executable, "-m", "benchmarks.worker", "send", bootstrap, _TOPIC, str(_RECORDS)]
    told = json.loads(subprocess.check_output(command, timeout=_TIMEOUT_S))
    return float(_RECORDS / told["wall_s"])


PARTS = {
    "cluster": lambda _: _live("api/served/live"),
    "topic": lambda _: _live(f"api/served/live?topic={_TOPIC}"),
}
