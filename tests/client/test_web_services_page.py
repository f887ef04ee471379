"""The services of docs/web-services.md store what they have acknowledged, and end in order on SIGTERM."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

import ottla

PAGE = (Path(__file__).parents[2] / "docs" / "web-services.md").read_text()
FASTAPI, WSGI, CONF, PRELOADED, FEED = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)

pytestmark = pytest.mark.prove


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("orders")
        yield cluster.bootstrap_servers


@contextmanager
def running(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is stopped by SIGTERM where the test has not done so."""
    process = subprocess.Popen(
        [sys.executable, *command], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_in(output: IO[str]) -> str:
    """Where the server listens, as it says itself."""
    for line in output:
        found = re.search(r"(http://127\.0\.0\.1:[0-9]+)", line)
        if found:
            return found[1]
    raise AssertionError("the server has ended")


def post(address: str, order: bytes) -> int:
    with urllib.request.urlopen(urllib.request.Request(address, order), timeout=60) as answer:
        return int(answer.status)


def orders(servers: str) -> list[bytes]:
    return list(ottla.read_table(servers, "orders").column("value").to_pylist())


def test_an_order_that_fastapi_acknowledges_is_stored(tmp_path: Path, servers: str) -> None:
    pytest.importorskip("fastapi")
    (tmp_path / "service.py").write_text(FASTAPI.replace("localhost:9092", servers))
    with running(tmp_path, "-m", "uvicorn", "service:app", "--port", "0") as process:
        assert process.stdout is not None
        address = address_in(process.stdout)
        assert post(f"{address}/orders/anna", b"by fastapi") == 201
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)
    assert b"by fastapi" in orders(servers)


_NO_PRODUCER = re.sub("^producer = .*$", "producer = None", WSGI, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("app", "conf"), [(WSGI, CONF), (_NO_PRODUCER, CONF + PRELOADED)], ids=["imported by workers", "preloaded"]
)
def test_an_order_that_gunicorn_acknowledges_is_stored(tmp_path: Path, servers: str, app: str, conf: str) -> None:
    pytest.importorskip("gunicorn")
    (tmp_path / "app.py").write_text(app.replace("localhost:9092", servers))
    (tmp_path / "gunicorn.conf.py").write_text(conf.replace("localhost:9092", servers))
    command = ("-m", "gunicorn", "--workers", "2", "--bind", "127.0.0.1:0", "app:app")
    with running(tmp_path, *command) as process:
        assert process.stdout is not None
        address = address_in(process.stdout)
        order = f"by gunicorn {len(conf)}".encode()
        assert post(address, order) == 201
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert order in orders(servers)


def test_what_was_sent_before_sigterm_is_stored(tmp_path: Path, servers: str) -> None:
    """The batch waits for an hour, so that only `close` can have sent it."""
    waiting = (
        FEED.replace("localhost:9092", servers)
        .replace("delivery_timeout_ms=20_000", "linger_ms=3_600_000, delivery_timeout_ms=4_000_000")
        .replace("        producer.send", "        print(line, flush=True)\n        producer.send")
    )
    (tmp_path / "feed.py").write_text(waiting)
    with running(tmp_path, "feed.py") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("one\ntwo\n")
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    assert b"one" in orders(servers)
