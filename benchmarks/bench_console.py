"""What the console costs a producer, how soon its page is there, how fast it searches, and how much memory it takes.

`cluster` and `topic`: what a look at a served cluster costs a producer at full speed. The cluster, the console, the
producer and who reads the live view have a process each; the browser is left out. The producer sends the same records
with and without a reader of the view, one after the other, and the ratio is taken within each pair: records/s with the
view, of those without.

`paint`: how long Chromium takes for the first paint of a page that it has not seen before, and until the view has its
rows. `search`: a search through a topic that finds nothing. `browse`: the largest memory of the console while a topic
of 100 million records is looked at in many places, and then searched from end to end.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

import ottla
from benchmarks.parts import chosen, run_parts

_PAIRS = 11
_RECORDS = 6_000_000
_MUST = 0.9
_TIMEOUT_S = 300
_TOPIC = "orders"
_PARTITIONS = 6
_PAINTS = 9
_TOPICS = 1_000
_SEARCHED = 800_000
_SEARCHES = 5
_BROWSED = 100_000_000
_ROWS = 500_000
_PLACES = 100
_RSS_MUST_MIB = 300
# What was sent is deleted soon: the rounds of the producer come to several gigabytes.
_DELETED_SOON = (
    "log.segment.bytes=33554432",
    "log.retention.bytes=67108864",
    "log.retention.check.interval.ms=1000",
)
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
    with _served(*_DELETED_SOON) as (bootstrap, url, _):
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


def _paint() -> dict[str, Any]:
    """Seconds from the address to the first paint and to the rows, each time with a browser profile of its own."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        return {"left_out": "there is no Chromium here"}
    views = {
        "topics_view": ("topics", "table tbody tr"),
        "records_view": (f"topic/{_TOPIC}", "button[aria-label^='Record at offset']"),
    }
    told: dict[str, Any] = {"topics": _TOPICS, "rounds": _PAINTS}
    with _served() as (bootstrap, url, _), sync_playwright() as playwright:
        with ottla.Admin(bootstrap) as admin:
            admin.create_topics({f"topic-{number:04}": 1 for number in range(_TOPICS - 1)})
        ottla.write_table(bootstrap, _TOPIC, _orders(0, 10_000))
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        for name, (view, rows) in views.items():
            paints, filled = [], []
            for _ in range(_PAINTS):
                with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
                    page = context.new_page()
                    page.goto(f"{url}#/{view}")
                    page.wait_for_selector(f"main {rows}")
                    filled.append(page.evaluate("performance.now()") / 1000)
                    paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
                    paints.append(page.evaluate(paint) / 1000)
            told[name] = {"first_paint_s": round(median(paints), 3), "rows_s": round(median(filled), 3)}
        browser.close()
    return told


def _search() -> dict[str, Any]:
    """Seconds of a search through all records of a topic, for a text and for a number at a JSON path."""
    conditions = {
        "text": {"value": "no such order"},
        "path": {"path": "$.customer.id", "operator": "=", "operand": "-1"},
    }
    told: dict[str, Any] = {"records": _SEARCHED, "rounds": _SEARCHES}
    with _served() as (bootstrap, url, console):
        for first in range(0, _SEARCHED, _ROWS // 5):
            ottla.write_table(bootstrap, _TOPIC, _orders(first, _ROWS // 5))
        for name, condition in conditions.items():
            ends = [_searched(url, condition) for _ in range(_SEARCHES)]
            assert all(end["records"] == _SEARCHED and end["is_done"] and not end["matches"] for end in ends), ends
            seconds = median(end["seconds"] for end in ends)
            told[name] = {"seconds": seconds, "records_per_s": round(_SEARCHED / seconds)}
        told["console_peak_mib"] = _peak_mib(console)
    return told


def _browse() -> dict[str, Any]:
    """The console's largest resident memory: at its start, after pages from all over a topic, after a whole search."""
    import pyarrow as pa

    table = pa.table({"value": pa.array([b"%020d" % number for number in range(_ROWS)])})
    with _served() as (bootstrap, url, console):
        at_start = _peak_mib(console)
        with ottla.Producer(bootstrap, batch_size=1_000_000) as producer:
            for _ in range(_BROWSED // _ROWS):
                producer.send_table(_TOPIC, table)
        seconds = []
        for number in range(_PLACES):
            at = _BROWSED // _PARTITIONS * number // _PLACES
            began = time.monotonic()
            page = _answer(url, f"api/topics/{_TOPIC}/records", start="offset", at=at, limit=200)
            seconds.append(time.monotonic() - began)
            assert len(page["records"]) == 200, page
        after_pages = _peak_mib(console)
        end = _searched(url, {"value": "no such order"})
        assert (end["records"], end["is_done"]) == (_BROWSED, True), end
        peak = _peak_mib(console)
    return {
        "records": _BROWSED,
        "pages": _PLACES,
        "page_s": round(median(seconds), 4),
        "search_s": end["seconds"],
        "at_start_mib": at_start,
        "after_pages_mib": after_pages,
        "peak": {"mib": peak, "must": _RSS_MUST_MIB, "ok": peak <= _RSS_MUST_MIB},
    }


def _orders(first: int, count: int) -> Any:
    """JSON of about 100 bytes each."""
    import pyarrow as pa

    values = (
        f'{{"id": {number}, "customer": {{"id": {number % 997}, "name": "customer {number % 997}"}}, '
        f'"status": "shipped", "note": "nothing of interest"}}'
        for number in range(first, first + count)
    )
    return pa.table({"value": pa.array(values, pa.string())})


def _searched(url: str, condition: dict[str, str]) -> dict[str, Any]:
    """What the last line of a search says."""
    with urllib.request.urlopen(f"{url}api/topics/{_TOPIC}/search?{urlencode(condition)}") as stream:
        for line in stream:
            told = json.loads(line)
    end: dict[str, Any] = told["end"]
    return end


def _answer(url: str, path: str, **query: Any) -> Any:
    with urllib.request.urlopen(f"{url}{path}?{urlencode(query)}", timeout=_TIMEOUT_S) as answer:
        return json.load(answer)


def _peak_mib(process: subprocess.Popen[str]) -> int:
    """The largest resident memory that the process has had."""
    told = Path(f"/proc/{process.pid}/status").read_text()
    [kib] = re.findall(r"VmHWM:\s+(\d+) kB", told)
    return round(int(kib) / 1024)


@contextmanager
def _served(*settings: str) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """(brokers, the console's address, its process)."""
    serve = [*_OTTLA, "serve", "--brokers", "1", "--topic", f"{_TOPIC}:{_PARTITIONS}"]
    serve += ["--port", "0", "--control", "0", "--json"]
    for setting in settings:
        serve += ["--set", setting]
    with _process(serve) as served:
        told = json.loads(served.stdout.readline())
        console = [*_OTTLA, "console", "--control", told["control"], "--listen", "0", "--json"]
        with _process(console) as page:
            yield told["bootstrap_servers"], json.loads(page.stdout.readline())["url"], page


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
    "paint": lambda _: _paint(),
    "search": lambda _: _search(),
    "browse": lambda _: _browse(),
}
