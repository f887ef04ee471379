"""confluent-kafka (librdkafka) for trials."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import confluent_kafka

from ottla.trial.clients import conversation
from ottla.trial.clients.conversation import Record


def main() -> None:
    """Send what stdin says, and tell stdout what became of it."""
    start = conversation.read_start()
    producer, without, impossible = _open({"bootstrap.servers": start["bootstrap.servers"], **start["settings"]})
    conversation.say_hello("confluent-kafka", _version(), without, impossible)
    waiting: dict[int, None] = {}
    while producer is not None:
        given = conversation.read_next()
        if isinstance(given, Record):
            _produce(producer, start["topic"], given, waiting)
        else:
            _flush(producer, waiting)
        if given == "end":
            return


def _version() -> str:
    return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"


def _open(config: dict[str, Any]) -> tuple[Any, list[str], str | None]:
    """The producer, the settings that it does not have, and why there can be none."""
    without: list[str] = []
    while True:
        try:
            return confluent_kafka.Producer({"log_level": 2, **config}), without, None
        except confluent_kafka.KafkaException as error:
            unknown = re.search(r'No such configuration property: "([^"]+)"', str(error))
            if unknown is None:
                return None, without, error.args[0].str()
            without.append(unknown[1])
            del config[unknown[1]]


def _produce(producer: Any, topic: str, record: Record, waiting: dict[int, None]) -> None:
    def delivered(error: Any, message: Any) -> None:
        if error is None:
            conversation.tell_acked(record.number, message.partition(), message.offset())
        else:
            # An error after a time-out or a retry does not say whether the record is stored.
            conversation.tell_unknown(record.number, error)
        del waiting[record.number]

    partition = -1 if record.partition is None else record.partition
    waiting[record.number] = None
    while True:
        try:
            producer.produce(topic, record.value, record.key, partition, headers=record.headers, on_delivery=delivered)
        except BufferError:
            _calling_back(partial(producer.poll, 0.1))
        except confluent_kafka.KafkaException as error:
            conversation.tell_failed(record.number, error)
            del waiting[record.number]
            return
        else:
            _calling_back(partial(producer.poll, 0))
            return


def _flush(producer: Any, waiting: dict[int, None]) -> None:
    while len(producer):
        _calling_back(producer.flush)
    for number in list(waiting):
        conversation.tell_unknown(number, "a fatal error came in place of its outcome")
    waiting.clear()


def _calling_back(call: Callable[[], Any]) -> None:
    """Calls of librdkafka from which records' outcomes come.

    A fatal error is raised from there, too. The callback that is next then fails with a SystemError, since it begins
    with that error pending; its record is told by `_flush`.
    """
    try:
        call()
    except (confluent_kafka.KafkaException, SystemError) as error:
        sys.stderr.write(f"{error!r}\n")


if __name__ == "__main__":
    main()
