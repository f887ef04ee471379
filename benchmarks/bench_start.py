"""How soon things are there: `import ottla`, and three brokers that answer Metadata."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from statistics import median
from typing import Any

IMPORT = """
import time, json
begin = time.perf_counter()
import ottla
print(json.dumps({"s": time.perf_counter() - begin}))
"""

# The clock runs from before Cluster() until the last of three brokers has answered a Metadata request.
CLUSTER = """
import json, os, socket, time
import ottla
from ottla.protocol.frames import decode_response, encode_request
from ottla.protocol.messages.metadata import MetadataRequest

begin = time.perf_counter()
cluster = ottla.Cluster(brokers=3)
for address in cluster.bootstrap_servers.split(","):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(b"".join(encode_request(1, "bench", MetadataRequest(), 9)))
        size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL))
        frame = memoryview(bytearray(connection.recv(size, socket.MSG_WAITALL)))
        _, answer = decode_response(frame, MetadataRequest, 9)
        assert len(answer.brokers) == 3
took = time.perf_counter() - begin
cluster.close()
print(json.dumps({"s": took}))
"""


def timed(code: str, repeat: int) -> float:
    """Median seconds of `code` in fresh interpreters, after one unmeasured run."""
    seconds = []
    for _ in range(repeat + 1):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        seconds.append(json.loads(done.stdout)["s"])
    return median(seconds[1:])


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Medians in milliseconds."""
    results = {
        "import_ottla_ms": round(timed(IMPORT, arguments.repeat) * 1000, 1),
        "three_brokers_answer_metadata_ms": round(timed(CLUSTER, arguments.repeat) * 1000, 1),
    }
    for name, figure in results.items():
        print(f"{name:40} {figure:8.1f}")
    return results
