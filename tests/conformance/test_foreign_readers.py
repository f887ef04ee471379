"""What ottla wrote, read by others: Java's verifiable consumer, librdkafka by confluent-kafka, kcat."""

from __future__ import annotations

from typing import Any

import pytest

import ottla

from .sides import Side

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_EACH = 400
_TOTAL = _EACH * len(_CODECS)


@pytest.fixture(scope="module")
def written(side: Side) -> str:
    """A topic in which every codec has written its records, one after another, to three partitions."""
    side.create_topic("for-others", 3, 3)
    for place, codec in enumerate(_CODECS):
        with ottla.Producer(side.bootstrap_servers, compression_type=codec, batch_size=2000) as producer:
            for number in range(place * _EACH, (place + 1) * _EACH):
                producer.send("for-others", b"value %d" % number, b"key", partition=number % 3)
    return "for-others"


def expected() -> dict[int, list[bytes]]:
    """What each partition holds, in order."""
    return {partition: [b"value %d" % number for number in range(partition, _TOTAL, 3)] for partition in range(3)}


@pytest.mark.kafka
def test_javas_verifiable_consumer_reads_every_record_in_order(side: Side, written: str, foreign: Any) -> None:
    assert foreign.java(side, written, _TOTAL) == expected()


def test_confluent_kafka_reads_every_record_in_order(side: Side, written: str, foreign: Any) -> None:
    assert foreign.confluent(side, written, _TOTAL) == expected()


def test_kcat_reads_every_record_in_order(side: Side, written: str, foreign: Any) -> None:
    assert foreign.kcat(side, written) == expected()
