"""Producers at the end of a process, across a fork, and dropped without a word; each in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.client.in_time import UNHURRIED

import ottla
from ottla.client import lifetime
from ottla.client.admin import Admin
from ottla.client.callers_turn import ALONE_AFTER
from ottla.protocol.error_codes import ErrorCode


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", UNHURRIED + script, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def stored_count(cluster: ottla.Cluster, topic: str) -> int:
    with Admin(cluster.bootstrap_servers) as admin:
        return sum(admin.end_offsets(topic).values())


def test_what_was_sent_is_delivered_at_exit_without_close(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    done = run(
        """
import sys, ottla
producer = ottla.Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
for _ in range(1000):
    producer.send(sys.argv[2], b"x")
""",
        kafka_cluster.bootstrap_servers,
        kafka_topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert stored_count(kafka_cluster, kafka_topic) == 1000


_CHILD = """
import multiprocessing, sys, ottla

def work(servers, topic, keep):
    producer = ottla.Producer(servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    for _ in range(1000):
        producer.send(topic, b"x")
    if keep:
        keep.append(producer)

if __name__ == "__main__":
    servers, topic, method, kept = sys.argv[1:]
    keep = [None] if kept == "kept" else []
    child = multiprocessing.get_context(method).Process(target=work, args=(servers, topic, keep))
    child.start()
    child.join()
    sys.exit(child.exitcode)
"""


@pytest.mark.parametrize("kept", ["kept", "dropped"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_a_child_of_multiprocessing_has_sent_is_delivered_at_its_end_without_close(
    kafka_cluster: ottla.Cluster, kafka_topic: str, tmp_path: Path, method: str, kept: str
) -> None:
    """Such a child ends without what `atexit` was given."""
    script = tmp_path / "parent.py"
    script.write_text(UNHURRIED + _CHILD)
    done = subprocess.run(
        [sys.executable, str(script), kafka_cluster.bootstrap_servers, kafka_topic, method, kept],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert stored_count(kafka_cluster, kafka_topic) == 1000


def test_a_dropped_producer_delivers_what_was_sent_and_ends(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    done = run(
        """
import sys, threading, ottla
def work():
    producer = ottla.Producer(sys.argv[1], linger_ms=60_000, delivery_timeout_ms=120_000)
    return producer.send(sys.argv[2], b"x")
delivery = work()
assert delivery.result(30).offset == 0
for thread in threading.enumerate():
    if thread.name.startswith("ottla-producer"):
        thread.join()
""",
        kafka_cluster.bootstrap_servers,
        kafka_topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert stored_count(kafka_cluster, kafka_topic) == 1


def test_a_forked_child_is_told_and_the_parent_goes_on(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    done = run(
        """
import os, sys, ottla
servers, topic = sys.argv[1:]
producer = ottla.Producer(servers, linger_ms=0)
reader = ottla.Reader(servers, topic, end=None)
admin = ottla.Admin(servers)
delivery = producer.send(topic, b"parent")
delivery.result(30)
pending = producer.send(topic, b"pending")
child = os.fork()
if child == 0:
    uses = [
        lambda: producer.send(topic, b"child"),
        producer.flush,
        lambda: producer.partitions_for(topic),
        lambda: next(reader.iter_raw()),
        lambda: admin.list_topics(),
    ]
    for use in uses:
        try:
            use()
        except ottla.ForkError as error:
            assert "make a new one in the child" in str(error)
        else:
            os._exit(1)
    producer.close()
    with ottla.Producer(servers) as own:
        own.send(topic, b"child's own")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
pending.result(30)
producer.send(topic, b"parent again").result(30)
reader.close()
admin.close()
producer.close()
""",
        kafka_cluster.bootstrap_servers,
        kafka_topic,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert stored_count(kafka_cluster, kafka_topic) == 4


_FLUSHES = """
import os, signal, sys, threading, ottla
producer = ottla.Producer(sys.argv[1])
producer.partitions_for(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
deliveries = [producer.send(sys.argv[2], b"x") for _ in range(1000)]
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    producer.flush()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    producer.flush()
    assert all(delivery.result(0).offset >= 0 for delivery in deliveries)
producer.close()
"""


def test_ctrl_c_in_flush_loses_nothing_and_a_second_flush_works(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", UNHURRIED + _FLUSHES, kafka_cluster.bootstrap_servers, kafka_topic],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with child, contextlib.ExitStack() as unplugged:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "ready\n"
            for broker_id in kafka_cluster.brokers():
                unplugged.enter_context(kafka_cluster.faults.unplug(broker_id))
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "interrupted\n"
            unplugged.close()
            _, told = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (child.returncode, told) == (0, "")
    assert stored_count(kafka_cluster, kafka_topic) == 1000


def test_an_unreachable_cluster_does_not_hold_up_the_end_of_the_process(closed_port: str) -> None:
    done = run(
        """
import sys, ottla
producer = ottla.Producer(sys.argv[1])
""",
        closed_port,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_sending_producer_loads_neither_numpy_nor_pyarrow(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    done = run(
        """
import sys, ottla
with ottla.Producer(sys.argv[1]) as producer:
    producer.send(sys.argv[2], b"x").result(30)
print(sorted({"numpy", "pyarrow", "asyncio", "dataclasses"} & sys.modules.keys()))
""",
        kafka_cluster.bootstrap_servers,
        kafka_topic,
    )
    assert (done.stdout, done.stderr) == ("['dataclasses']\n", "")


def test_what_a_dropped_producer_could_not_deliver_is_logged(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with kafka_cluster.faults.refuse(topic=kafka_topic, error=ErrorCode.INVALID_RECORD):
        done = run(
            """
import sys, threading, ottla
def work():
    producer = ottla.Producer(sys.argv[1])
    producer.send(sys.argv[2], b"x")
work()
for thread in threading.enumerate():
    if thread.name.startswith("ottla-producer"):
        thread.join()
""",
            kafka_cluster.bootstrap_servers,
            kafka_topic,
        )
    assert done.returncode == 0
    assert "a producer was dropped without close(): 1 record was not delivered" in done.stderr


def test_what_has_a_thread_of_its_own_cannot_be_pickled_and_says_what_to_do(
    kafka_cluster: ottla.Cluster, kafka_topic: str
) -> None:
    address = kafka_cluster.bootstrap_servers

    async def made() -> ottla.AsyncProducer:
        async with ottla.AsyncProducer(address) as producer:
            return producer

    with ottla.Producer(address) as producer, ottla.Reader(address, kafka_topic) as reader, Admin(address) as admin:
        for client in (producer, reader, admin, asyncio.run(made())):
            for how in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=f"this {type(client).__name__} cannot be .*; make one in each pro"):
                    how(client)
        delivery = producer.send(kafka_topic, b"x")
        with pytest.raises(TypeError, match=r"A Delivery cannot be pickled: .*; pickle what result\(\) returns"):
            pickle.dumps(delivery)
        told = delivery.result(60)
        assert pickle.loads(pickle.dumps(told)) == told


def test_sending_on_a_dropped_producer_says_what_to_do(kafka_cluster: ottla.Cluster, kafka_topic: str) -> None:
    with pytest.raises(ottla.ClosedError, match="keep a name for it while you send"):
        ottla.Producer(kafka_cluster.bootstrap_servers).send(kafka_topic, b"x")


def _admin_closed(servers: str, topic: str) -> None:
    Admin(servers).close()


def _reader_closed(servers: str, topic: str) -> None:
    ottla.Reader(servers, topic).close()


def _producer_closed(servers: str, topic: str) -> None:
    with ottla.Producer(servers, linger_ms=0) as producer:
        producer.send(topic, b"x")


def _producer_dropped(servers: str, topic: str) -> None:
    producer = ottla.Producer(servers, linger_ms=0)
    producer.send(topic, b"x").result(60)
    loop = producer._driver.loop
    del producer
    assert loop.join(60)


def _producer_crashed(servers: str, topic: str) -> None:
    with ottla.Producer(servers, linger_ms=0) as producer:
        producer.send(topic, b"x").result(60)
        producer._driver.loop.post("no event")
        assert producer._driver.loop.join(60)


def _async_producer_closed(servers: str, topic: str) -> None:
    async def work() -> None:
        async with ottla.AsyncProducer(servers, linger_ms=0) as producer:
            # So many that the event loop watches the connection itself.
            for _ in range(2 * ALONE_AFTER):
                await (await producer.send(topic, b"x"))

    asyncio.run(work())


def _async_producer_closed_after_its_event_loop(servers: str, topic: str) -> None:
    async def work() -> ottla.AsyncProducer:
        producer = ottla.AsyncProducer(servers, linger_ms=0)
        for _ in range(2 * ALONE_AFTER):
            await (await producer.send(topic, b"x"))
        return producer

    asyncio.run(work())._driver.at_exit()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="descriptors cannot be counted")
@pytest.mark.parametrize(
    "end_one",
    [
        _admin_closed,
        _reader_closed,
        _producer_closed,
        _producer_dropped,
        _producer_crashed,
        _async_producer_closed,
        _async_producer_closed_after_its_event_loop,
    ],
    ids=lambda end_one: end_one.__name__[1:],
)
def test_a_client_gives_its_descriptors_back_at_its_end(
    kafka_cluster: ottla.Cluster, kafka_topic: str, end_one: Callable[[str, str], None]
) -> None:
    end_one(kafka_cluster.bootstrap_servers, kafka_topic)
    gc.collect()
    gc.disable()
    try:
        before = open_files()
        for _ in range(5):
            end_one(kafka_cluster.bootstrap_servers, kafka_topic)
        # Fewer where a client of another test ended meanwhile; five that keep one each are more.
        assert open_files() <= before
    finally:
        gc.enable()


def open_files() -> int:
    """How many of the kinds that a client makes are open: the cluster in this process has others."""
    count = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            count += os.readlink(f"/proc/self/fd/{name}").startswith(("anon_inode:[event", "pipe:"))
    return count


_NO_THREADS = """
import sys, threading, ottla
from ottla.client import lifetime
kind, servers, topic = sys.argv[1:]
make = {
    "Producer": lambda: ottla.Producer(servers),
    "AsyncProducer": lambda: ottla.AsyncProducer(servers),
    "Reader": lambda: ottla.Reader(servers, topic),
    "Admin": lambda: ottla.Admin(servers),
}[kind]
# No thread gets a stack of this size.
threading.stack_size(1 << 46)
try:
    make()
except ottla.OttlaError as error:
    print(error)
import gc, os
gc.collect()
links = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if int(name) > 2
         and os.path.exists(f"/proc/self/fd/{name}")]
print(sum(link.startswith("anon_inode:[event") for link in links), len(lifetime._living))
"""


@pytest.mark.parametrize("kind", ["Producer", "AsyncProducer", "Reader", "Admin"])
def test_a_client_without_a_thread_says_so_leaves_nothing_open_and_does_not_hold_up_the_end(
    kind: str, closed_port: str
) -> None:
    done = run(_NO_THREADS, kind, closed_port, "orders")
    told, left = done.stdout.splitlines()
    assert "I/O thread cannot be started (can't start new thread)" in told
    assert "raise the limit" in told
    assert (left, done.returncode, done.stderr) == ("0 0", 0, "")


class _Interrupted:
    """In place of a loop: Ctrl+C comes just before it is stopped."""

    def stop(self) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("make", [ottla.Admin, partial(ottla.Reader, topic="orders")], ids=["Admin", "Reader"])
def test_closing_again_after_ctrl_c_ends_what_the_first_call_left(
    closed_port: str, make: Callable[[str], ottla.Admin | ottla.Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make(closed_port)
    driver = client._driver

    with monkeypatch.context() as patched:
        patched.setattr(driver, "loop", _Interrupted())
        with pytest.raises(KeyboardInterrupt):
            client.close()
    assert id(driver) in lifetime._living
    client.close()
    assert driver.loop.join(0)
    assert id(driver) not in lifetime._living


_NO_THREADS_ASIDE = """
import threading, ottla
from ottla.client.listener_probe import ask_in_plaintext
from ottla.client.resolve import resolve
from ottla.client.security import Security
from ottla.clock import MACHINE
from ottla.reader.settings import ReaderSettings
settings = ReaderSettings({
    "bootstrap_servers": "localhost:1", "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_provider": lambda: None,
})
security = Security.of(settings.connection.security, MACHINE)
threading.stack_size(1 << 46)
resolve("nowhere.invalid", 1, lambda addresses, loss: print(addresses, loss.detail))
security.get_token(lambda token, failure: print(token, failure))
ask_in_plaintext((2, ("127.0.0.1", 1)), print)
"""


def test_what_a_loop_has_done_beside_it_fails_alone_where_there_are_no_threads() -> None:
    """An exception there would end the loop, and with it the client."""
    done = run(_NO_THREADS_ASIDE)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[] its name cannot be looked up (can't start new thread)",
        "None no thread can ask for a token (can't start new thread)",
        "None",
    ]
