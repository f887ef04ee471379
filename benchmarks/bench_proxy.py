"""What `ottla proxy` costs: beside a direct connection, a bare TCP relay and Kroxylicious, in the same run, in turn.

One broker of an embedded cluster with its logs in memory, one producer in a process of its own, acks=all, plaintext.
Each round takes the ways one after the other, in an order that turns; a ratio is the median of those within each round.
The relay (`tcp_relay.py`) reads and writes bytes and knows nothing of Kafka: what it costs, any program costs.
Kroxylicious (`kroxylicious.py`) is a fourth way where `KROXYLICIOUS_JARS` says where its jars are.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from statistics import median
from typing import Any

from tools.ports import free_ports

import ottla
from benchmarks import kroxylicious
from benchmarks.parts import chosen, run_parts
from benchmarks.producer_speed import log_folder
from ottla import Listener

_KROXYLICIOUS = "kroxylicious"
_RECORDS = 3_000
_BATCHES = 400
_TIMEOUT_S = 300
_ROUNDS_FOR_ONE = 3
# What the proxy adds at the median at most, and what share of a direct connection's throughput it keeps at the least.
ADDED_US_MUST = 250
SHARE_MUST = 0.6


@contextlib.contextmanager
def _ways() -> Iterator[dict[str, str]]:
    """The bootstrap address of each way to the same broker."""
    relayed, behind = free_ports(2)
    listeners = {"PLAINTEXT": Listener(), "RELAYED": Listener(port=behind, advertised_port=relayed)}
    with (
        tempfile.TemporaryDirectory(dir=log_folder()) as data_dir,
        ottla.Cluster(brokers=1, data_dir=data_dir, listeners=listeners) as cluster,
        contextlib.ExitStack() as ending,
    ):
        direct = cluster.bootstrap_servers
        relay = [sys.executable, "-m", "benchmarks.tcp_relay", str(relayed), str(behind)]
        proxy = [sys.executable, "-m", "ottla", "proxy", "--upstream", direct, "--listen", "0", "--json"]
        for command in (relay, proxy):
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            ending.callback(process.wait)
            ending.callback(process.terminate)
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        cluster.create_topic("bench", replication_factor=1, configs={"retention.bytes": "50000000"})
        ways = {"direct": direct, "relay": f"127.0.0.1:{relayed}", "proxy": told["bootstrap_servers"]}
        if (folder := kroxylicious.jars()) is not None:
            ways[_KROXYLICIOUS] = ending.enter_context(kroxylicious.started(folder, direct))
        yield ways


def _measured(kind: str, count: int, repeat: int) -> list[dict[str, float]]:
    """The figure of each way, round by round."""
    rounds = []
    with _ways() as ways:
        names = tuple(ways)
        for number in range(repeat * _ROUNDS_FOR_ONE):
            turn = number % len(names)
            figures = {}
            for way in (*names[turn:], *names[:turn]):
                command = [sys.executable, "-m", "benchmarks.proxy_worker", kind, ways[way], "bench", str(count)]
                done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
                if done.returncode:
                    raise SystemExit(f"{way} failed:\n{done.stderr}")
                figures[way] = json.loads(done.stdout)
            rounds.append(figures)
    return rounds


def latency(arguments: argparse.Namespace) -> dict[str, Any]:
    """One record after the other: microseconds at the median, and what the ways between add to that."""
    rounds = _measured("latency", _RECORDS, arguments.repeat)
    ways = tuple(rounds[0])
    added = {way: median(one[way] - one["direct"] for one in rounds) for way in ways}
    return {
        "microseconds_at_p50": {way: round(median(one[way] for one in rounds)) for way in ways},
        **{f"{way}_adds_us": round(added[way]) for way in ("relay", _KROXYLICIOUS) if way in added},
        "proxy_adds_us": {"us": round(added["proxy"]), "must": ADDED_US_MUST, "ok": added["proxy"] <= ADDED_US_MUST},
    }


def throughput(arguments: argparse.Namespace) -> dict[str, Any]:
    """Batches of 1 MB: megabytes per second, and the share of a direct connection's."""
    rounds = _measured("throughput", _BATCHES, arguments.repeat)
    ways = tuple(rounds[0])
    shares = {way: median(one[way] / one["direct"] for one in rounds) for way in ways}
    return {
        "megabytes_per_s": {way: round(median(one[way] for one in rounds)) for way in ways},
        **{f"{way}_share": round(shares[way], 3) for way in ("relay", _KROXYLICIOUS) if way in shares},
        "proxy_share": {"share": round(shares["proxy"], 3), "must": SHARE_MUST, "ok": shares["proxy"] >= SHARE_MUST},
    }


PARTS = {"latency": latency, "throughput": throughput}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parts asked for; those left out keep the figures they had."""
    return run_parts(PARTS, chosen("proxy", PARTS, arguments.only), arguments)
