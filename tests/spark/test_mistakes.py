"""How errors are shown by Spark: settings have the names of options there."""

from __future__ import annotations

import pytest

from ottla.errors import OttlaError
from ottla.spark.mistakes import NotPlanned, plainly, while_pickling

SENTENCES = [
    ("bootstrap_servers must name Kafka listeners", "kafka.bootstrap.servers must name Kafka listeners"),
    (
        "max.request.size allows 5; raise max_request_size.",
        "kafka.max.request.size allows 5; raise kafka.max.request.size.",
    ),
    ("acks='7' is not known", "kafka.acks='7' is not known"),
    ("retry.backoff.max.ms=5 is below 10", "kafka.retry.backoff.max.ms=5 is below 10"),
]
# What is an option already, no setting, or not one that can be given.
AS_THEY_ARE = [
    "The option kafka.linger.ms is missing",
    "the topic's max.message.bytes, the broker's transactional.id.expiration.ms",
    "partition 3 of my-client.id, acks from all replicas",
    "transactional.id ottla-sink-orders",
]


@pytest.mark.parametrize(("told", "shown"), [*SENTENCES, *zip(AS_THEY_ARE, AS_THEY_ARE, strict=True)])
def test_an_error_names_options_and_not_settings(told: str, shown: str) -> None:
    def fail() -> None:
        raise OttlaError(told, topic="orders")

    with pytest.raises(OttlaError) as caught:
        plainly(fail)()
    assert (str(caught.value), caught.value.topic) == (shown, "orders")
    with pytest.raises(NotPlanned) as planned:
        while_pickling(fail)()
    assert str(planned.value) == shown
