"""kafka-python for trials."""

from __future__ import annotations

from functools import partial
from typing import Any

import kafka
from kafka.errors import KafkaConfigurationError, KafkaError

from ottla.trial.clients import conversation
from ottla.trial.clients.conversation import Record

_RENAMED = {"sasl.username": "sasl_plain_username", "sasl.password": "sasl_plain_password"}


def main() -> None:
    """Send what stdin says, and tell stdout what became of it."""
    start = conversation.read_start()
    settings = {_translated(name): (name, value) for name, value in start["settings"].items()}
    known = {name: value for name, (_, value) in settings.items() if name in kafka.KafkaProducer.DEFAULT_CONFIG}
    without = [dotted for name, (dotted, _) in settings.items() if name not in known]
    if any(name.startswith("sasl.") for name in without):
        # Without these settings it would connect without authentication.
        conversation.say_hello("kafka-python", kafka.__version__, without)
        return
    try:
        producer = kafka.KafkaProducer(bootstrap_servers=start["bootstrap.servers"], **known)
    except (KafkaConfigurationError, AssertionError) as error:
        conversation.say_hello("kafka-python", kafka.__version__, without, str(error))
        return
    conversation.say_hello("kafka-python", kafka.__version__, without)
    while True:
        given = conversation.read_next()
        if isinstance(given, Record):
            _send(producer, start["topic"], given)
        else:
            producer.flush()
        if given == "end":
            producer.close()
            return


def _translated(name: str) -> str:
    """A setting under kafka-python's name, where it has one."""
    return _RENAMED.get(name, name.replace(".", "_"))


def _send(producer: Any, topic: str, record: Record) -> None:
    try:
        future = producer.send(topic, record.value, record.key, record.headers, record.partition)
    except KafkaError as error:
        conversation.tell_failed(record.number, repr(error))
        return
    future.add_callback(partial(_tell_acked, record.number))
    # An error after a time-out or a retry does not say whether the record is stored.
    future.add_errback(partial(_tell_unknown, record.number))


def _tell_acked(number: int, metadata: Any) -> None:
    conversation.tell_acked(number, metadata.partition, metadata.offset)


def _tell_unknown(number: int, error: BaseException) -> None:
    conversation.tell_unknown(number, repr(error))


if __name__ == "__main__":
    main()
