"""Resident memory of a producer whose brokers stand still: `buffer.memory` and little more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ottla

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc to see its peak")

_MIB = 1 << 20
_BUFFER_MEMORY = 32 * _MIB
_ALLOWED = _BUFFER_MEMORY + 64 * _MIB

# What each child sends until the buffer is full, having loaded and made all that is not the producer's.
_WAYS = {
    "records of one byte": """
def send():
    while True:
        producer.send("flights", b"v")
""",
    "records of 1 KiB with lz4": """
import random
value = random.Random(1).randbytes(1024)
settings["compression_type"] = "lz4"
def send():
    while True:
        producer.send("flights", value, b"key")
""",
    "records of one byte with callbacks, which outweigh them": """
def settled(delivery):
    assert delivery.exception() is None
def send():
    while True:
        producer.send("flights", b"v", on_delivery=settled)
""",
    "a table": """
import pyarrow as pa
import ottla.client.table_delivery, ottla.records.encode_columns
table = pa.table({"v": pa.array([b"v" * 90]).take(pa.array([0] * 1_000_000))})
def send():
    while True:
        producer.send_table("flights", table, value="v")
""",
}

_CHILD = """
import json, sys
import ottla, ottla.client.producer, ottla.sockets.control
settings = {"buffer_memory": %(buffer_memory)d, "max_block_ms": 3000, "linger_ms": 50}
%(way)s

def kib(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name))

before_kib = kib("VmRSS")
producer = ottla.Producer(sys.argv[1], **settings)
producer.partitions_for("flights")
print("ready", flush=True)
sys.stdin.readline()
try:
    send()
except ottla.BufferFull:
    pass
metrics = producer.metrics()
told = {
    "grown": (kib("VmHWM") - before_kib) * 1024,
    "buffered": metrics["buffer-total-bytes"] - metrics["buffer-available-bytes"],
}
print(json.dumps(told), flush=True)
sys.stdin.readline()
producer.close(60)
metrics = producer.metrics()
print(json.dumps({"acked": metrics["ottla-record-acked-total"], "errors": metrics["record-error-total"]}), flush=True)
"""


@pytest.mark.parametrize("way", _WAYS.values(), ids=_WAYS)
def test_a_stalled_broker_leaves_memory_within_its_limit(way: str) -> None:
    code = _CHILD % {"buffer_memory": _BUFFER_MEMORY, "way": way}
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("flights", partitions=6)
        child = subprocess.Popen(
            [sys.executable, "-c", code, cluster.bootstrap_servers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                assert child.stdout.readline() == "ready\n"
                cluster.pause(1)
                child.stdin.write("\n")
                child.stdin.flush()
                full = json.loads(child.stdout.readline())
                cluster.resume(1)
                child.stdin.write("\n")
                child.stdin.flush()
                end = json.loads(child.stdout.readline())
            finally:
                child.kill()
    assert full["buffered"] > 0.8 * _BUFFER_MEMORY
    assert full["grown"] < _ALLOWED
    assert end["errors"] == 0
    assert end["acked"] > 30_000
