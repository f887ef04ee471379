"""A served cluster with a console over it, and Chromium to look at the page."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.remote.client import RemoteCluster
from ottla.remote.server import ControlServer

from ..needs import lacking
from ..read_back import stored
from .looking import HOSTILE, Looked


class Asking:
    """Asks the console as its page does, without a browser."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.headers = {"Sec-Fetch-Site": "same-origin"}

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any, bytes]:
        """(status, headers, content)."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, body, {**self.headers, **named}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def get(self, path: str) -> Any:
        """What is there; an error of the console's fails the test."""
        status, _, content = self.raw("GET", path)
        assert status == 200, content
        return json.loads(content)

    def lines(self, path: str) -> list[dict[str, Any]]:
        """All lines of a stream that ends."""
        status, _, content = self.raw("GET", path)
        assert status == 200, content
        return [json.loads(line) for line in content.splitlines()]

    def change(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """(status, answer), with the change token."""
        token = self.get("api/session")["change_token"] or "none"
        content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        status, _, answer = self.raw(method, path, None if method == "DELETE" else content, X_Ottla_Change=token)
        return status, json.loads(answer)


@pytest.fixture(scope="package")
def cluster() -> Iterator[ottla.Cluster]:
    # With the sessions that brokers have by default: on a busy machine, shorter ones end, and partitions lack a leader.
    with ottla.Cluster(3, clock=ottla.Clock()) as cluster:
        yield cluster


@contextmanager
def controlled(cluster: ottla.Cluster) -> Iterator[RemoteCluster]:
    """The cluster as one that `ottla serve --control` runs."""
    with ControlServer("127.0.0.1", 0) as server, server.serving(cluster):
        host, _, port = server.address.rpartition(":")
        yield RemoteCluster(host, int(port))


@pytest.fixture(scope="package")
def control(cluster: ottla.Cluster) -> Iterator[RemoteCluster]:
    with controlled(cluster) as control:
        yield control


@pytest.fixture(scope="package")
def looked_at(cluster: ottla.Cluster, control: RemoteCluster) -> Iterator[Console]:
    with Console(cluster.bootstrap_servers, control=control) as console:
        yield console


@pytest.fixture(scope="package")
def server(looked_at: Console) -> Iterator[ConsoleServer]:
    with ConsoleServer(looked_at, "127.0.0.1", 0) as server:
        yield server


@pytest.fixture
def asking(server: ConsoleServer) -> Asking:
    return Asking(server.url)


# Of one file: while playwright is there, an event loop of its own runs in this thread, and no test can run another.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium of the distribution, by playwright."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        lacking("chromium", "there is no Chromium here")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # The pages are our own, and tests may run as root.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def orders(cluster: ottla.Cluster) -> Iterator[str]:
    """A topic with records, one of them hostile and one that is no text.

    All tests of a worker share it, in any order: they look at it, and write to topics of their own.
    """
    cluster.create_topic("orders", partitions=3)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(90):
            value = json.dumps({"id": number, "customer": {"name": f"c{number % 9}"}}).encode()
            headers = [("number", str(number).encode())]
            producer.send("orders", value, f"k{number}".encode(), headers=headers, partition=number % 3)
        producer.send("orders", HOSTILE.encode(), HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())], partition=0)
        producer.send("orders", b"\x00\xff\xfe", partition=1)
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="orders-writer") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("orders", b"in a transaction", partition=2)
        producer.commit_transaction()
    yield "orders"
    assert len(stored(cluster, "orders", "read_committed")) == 93, "a test has written to `orders`"


@pytest.fixture
def opened(chromium: Any, server: ConsoleServer, orders: str) -> Iterator[Looked]:
    """A page 1280 pixels wide; after the test its console must have said no error."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}) as context:
        looked = Looked(context.new_page(), server.url)
        yield looked
        assert looked.said == []
