"""Under which name brokers, metrics and threads know a client that was given none: Java's."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

import ottla


def told(use: Callable[[str, ottla.Clock], Any]) -> str:
    """The client id in the first request of a client that uses this address."""
    clock = ottla.Clock()

    def work() -> None:
        with pytest.raises(ottla.OttlaError):
            use(f"127.0.0.1:{listener.getsockname()[1]}", clock)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        thread = threading.Thread(target=work)
        thread.start()
        connection, _ = listener.accept()
        with connection:
            frame = connection.recv(65_536)
        listener.close()
        clock.advance(60)
        thread.join(30)
    return frame[14 : 14 + int.from_bytes(frame[12:14])].decode()


def produce(address: str, clock: ottla.Clock, **settings: Any) -> None:
    with ottla.Producer(address, clock=clock, **settings) as producer:
        names = {thread.name for thread in threading.enumerate()}
        tag = next(iter(producer.metrics().all())).tags["client-id"]
        assert f"ottla-producer-{tag}" in names
        producer.partitions_for("flights")


def administer(address: str, clock: ottla.Clock) -> None:
    with ottla.Admin(address, clock=clock) as admin:
        admin.list_topics()


def read(address: str, clock: ottla.Clock) -> None:
    with ottla.Reader(address, "flights", clock=clock) as reader:
        next(iter(reader))


@pytest.mark.parametrize(
    ("use", "kind"),
    [(produce, "producer"), (administer, "adminclient"), (read, "consumer")],
    ids=["producer", "admin", "reader"],
)
def test_clients_without_a_name_are_numbered_by_kind(use: Callable[[str, ottla.Clock], Any], kind: str) -> None:
    names = [told(use) for _ in range(2)]
    first = int(names[0].removeprefix(f"{kind}-"))
    assert names == [f"{kind}-{first}", f"{kind}-{first + 1}"]


def test_numbers_begin_with_1_in_each_process() -> None:
    code = "import ottla; print(next(iter(ottla.Producer('127.0.0.1:1').metrics().all())).tags['client-id'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "producer-1\n"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"transactional_id": "flights"}, "producer-flights"),
        ({"transactional_id": "x" * 32_767}, "producer-" + "x" * (32_767 - 9)),
        ({"client_id": "me", "transactional_id": "flights"}, "me"),
        ({"client_id": "me"}, "me"),
    ],
    ids=["transactional", "longest", "both", "given"],
)
def test_a_name_comes_from_the_settings(settings: dict[str, Any], name: str) -> None:
    assert told(lambda address, clock: produce(address, clock, **settings)) == name
