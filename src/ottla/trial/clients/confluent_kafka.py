"""confluent-kafka (librdkafka) for trials."""

from __future__ import annotations

import re
from typing import Any

import confluent_kafka

from ottla.trial.clients import conversation
from ottla.trial.clients.conversation import Record


def main() -> None:
    """Send what stdin says, and tell stdout what became of it."""
    start = conversation.read_start()
    config: dict[str, Any] = {"bootstrap.servers": start["bootstrap.servers"], "log_level": 2, **start["settings"]}
    producer, without, impossible = _open(config)
    conversation.say_hello("confluent-kafka", _version(), without, impossible)
    while producer is not None:
        given = conversation.read_next()
        if isinstance(given, Record):
            _produce(producer, start["topic"], given)
        else:
            producer.flush()
        if given == "end":
            return


def _version() -> str:
    return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"


def _open(config: dict[str, Any]) -> tuple[Any, list[str], str | None]:
    """The producer, the settings that it does not have, and why there can be none."""
    without: list[str] = []
    while True:
        try:
            return confluent_kafka.Producer(config), without, None
        except confluent_kafka.KafkaException as error:
            unknown = re.search(r'No such configuration property: "([^"]+)"', str(error))
            if unknown is None:
                return None, without, error.args[0].str()
            without.append(unknown[1])
            del config[unknown[1]]


def _produce(producer: Any, topic: str, record: Record) -> None:
    def delivered(error: Any, message: Any) -> None:
        if error is None:
            conversation.tell_acked(record.number, message.partition(), message.offset())
        else:
            # An error after a time-out or a retry does not say whether the record is stored.
            conversation.tell_unknown(record.number, error)

    partition = -1 if record.partition is None else record.partition
    while True:
        try:
            producer.produce(topic, record.value, record.key, partition, headers=record.headers, on_delivery=delivered)
        except BufferError:
            producer.poll(0.1)
        except confluent_kafka.KafkaException as error:
            conversation.tell_failed(record.number, error)
            return
        else:
            producer.poll(0)
            return


if __name__ == "__main__":
    main()
