"""kcat, the command-line client of Debian and Homebrew, against the embedded cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import Any

import pytest

import ottla
from ottla.cluster.cluster import Cluster
from ottla.records.plain import decode_batches

from ..needs import lacking

_PARTITIONS = 3
_PATIENCE_S = 60
_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]  # by their numbers in a batch's attributes


@pytest.fixture(scope="module")
def kcat() -> str:
    path = shutil.which("kcat")
    if path is None:
        lacking("kcat", "there is no `kcat` on the PATH: install the package `kcat` (Debian, Ubuntu, Homebrew)")
    return path


def run(kcat: str, cluster: Cluster, *arguments: str, given: str | None = None) -> str:
    command = [kcat, "-b", cluster.bootstrap_servers, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_kcat_lists_brokers_topics_and_leaders(kcat: str, cluster: Cluster, topic: str) -> None:
    told = json.loads(run(kcat, cluster, "-L", "-J"))
    assert sorted(f"{each['name']}" for each in told["brokers"]) == sorted(cluster.bootstrap_servers.split(","))
    (described,) = [each for each in told["topics"] if each["topic"] == topic]
    leaders = {each["partition"]: each["leader"] for each in described["partitions"]}
    assert leaders == {number: cluster.leader(topic, number) for number in range(_PARTITIONS)}


@pytest.mark.parametrize("codec", _CODECS)
def test_ottla_reads_what_kcat_was_given(kcat: str, cluster: Cluster, topic: str, codec: str, exchange: Any) -> None:
    # Each is smaller when it is compressed: else librdkafka leaves a batch as it is, and one record may be a batch.
    lines = [f"key-{number % 5}\t{','.join([f'value {number}'] * 20)}" for number in range(200)]
    sending = ["-P", "-t", topic, "-K", "\t", "-z", codec, "-X", "acks=all", "-H", "by=kcat"]
    run(kcat, cluster, *sending, given="\n".join(lines))
    stored = exchange.ottla_reads(cluster.bootstrap_servers, topic).values()
    assert sorted(f"{key.decode()}\t{value.decode()}" for key, value, _, _ in stored) == sorted(lines)
    assert {headers for _, _, headers, _ in stored} == {(("by", b"kcat"),)}
    with ottla.Reader(cluster.bootstrap_servers, topic) as reader:
        batches = [header for fetched in reader.iter_raw() for header, _ in decode_batches(fetched.records)]
    # An old librdkafka that finds no Produce version 0 in ApiVersions sends uncompressed without a word.
    assert {header.attributes & 7 for header in batches} == {_CODECS.index(codec)}


def test_kcat_shows_what_ottla_sent_and_where_it_is(kcat: str, cluster: Cluster, topic: str) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        sent = [producer.send(topic, f"value {number} äöü", f"key {number}") for number in range(200)]
    expected = sorted(
        f"{delivery.result(0).partition} {delivery.result(0).offset} key {number} value {number} äöü"
        for number, delivery in enumerate(sent)
    )
    shown = run(kcat, cluster, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p %o %k %s\n")
    assert sorted(shown.splitlines()) == expected
    told = run(kcat, cluster, "-Q", "-t", f"{topic}:0:-1")
    assert told.split() == [topic, "[0]", "offset", str(sum(line.startswith("0 ") for line in expected))]
