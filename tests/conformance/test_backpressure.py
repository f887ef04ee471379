"""A broker that does not keep up: `send` waits for room up to max.block.ms, then says so; what it took arrives."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.errors import BufferFull

from .sides import Side, await_topic

_BUFFER_MEMORY = 200_000


def send_for_ever(producer: ottla.Producer, topic: str, accepted: list[Any]) -> None:
    """Numbered records until one is refused."""
    while True:
        accepted.append(producer.send(topic, b"%0100d" % (len(accepted))))


def test_a_full_buffer_is_an_error_with_figures_and_what_was_accepted_arrives(
    side: Side, kafka_name: str, reading: Any
) -> None:
    side.create_topic(kafka_name, 1, 1)
    leader = side.leader(kafka_name, 0)
    with ottla.Producer(side.bootstrap_servers, buffer_memory=_BUFFER_MEMORY, max_block_ms=1_500) as producer:
        await_topic(producer, kafka_name)
        producer.send(kafka_name, b"before").result(120)
        accepted = []
        side.pause(leader)
        try:
            with pytest.raises(BufferFull, match=str(_BUFFER_MEMORY)):
                send_for_ever(producer, kafka_name, accepted)
        finally:
            side.resume(leader)
        assert producer.metrics()["buffer-available-bytes"] >= 0
        producer.flush()
        accepted.append(producer.send(kafka_name, b"after"))
    expected = [b"before", *(b"%0100d" % number for number in range(len(accepted) - 1)), b"after"]
    assert [one.value for one in reading.records(side, kafka_name)] == expected
    assert [delivery.result(0).offset for delivery in accepted] == list(range(1, len(accepted) + 1))


def test_who_waits_for_room_goes_on_when_the_broker_does(side: Side, topic: str, reading: Any) -> None:
    with ottla.Producer(side.bootstrap_servers, buffer_memory=_BUFFER_MEMORY, batch_size=4000) as producer:
        for number in range(20_000):
            producer.send(topic, b"%0100d" % number, partition=number % 3)
    expected = {partition: [b"%0100d" % number for number in range(partition, 20_000, 3)] for partition in range(3)}
    assert reading.values(side, topic) == expected
