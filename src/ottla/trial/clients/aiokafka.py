"""aiokafka for trials."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import aiokafka
from aiokafka.errors import KafkaError

from ottla.trial.clients import conversation
from ottla.trial.clients.conversation import Record

_RENAMED = {
    "batch.size": "max_batch_size",
    "sasl.username": "sasl_plain_username",
    "sasl.password": "sasl_plain_password",
}
_KNOWN = {
    "acks",
    "compression.type",
    "enable.idempotence",
    "linger.ms",
    "request.timeout.ms",
    "retry.backoff.ms",
    "sasl.mechanism",
    "security.protocol",
}
_IN_FLIGHT = "max.in.flight.requests.per.connection"


async def main() -> None:
    """Send what stdin says, and tell stdout what became of it."""
    start = conversation.read_start()
    settings, without = _translated(start["settings"])
    if any(name.startswith("sasl.") for name in without):
        # Without these settings it would connect without authentication.
        conversation.say_hello("aiokafka", aiokafka.__version__, without)
        return
    try:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=start["bootstrap.servers"], **settings)
    except ValueError as error:
        conversation.say_hello("aiokafka", aiokafka.__version__, without, str(error))
        return
    await producer.start()
    conversation.say_hello("aiokafka", aiokafka.__version__, without)
    while True:
        given = await asyncio.to_thread(conversation.read_next)
        if isinstance(given, Record):
            await _send(producer, start["topic"], given)
        else:
            await producer.flush()
        if given == "end":
            await producer.stop()
            return


def _translated(given: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Settings under aiokafka's names, and those that it does not have."""
    settings, without = {}, []
    for name, value in given.items():
        if name in _RENAMED or name in _KNOWN:
            settings[_RENAMED.get(name, name.replace(".", "_"))] = value
        elif name != _IN_FLIGHT or value != 1:
            # One request in flight for each broker is all that aiokafka does.
            without.append(name)
    return settings, without


async def _send(producer: Any, topic: str, record: Record) -> None:
    try:
        future = await producer.send(topic, record.value, record.key, record.partition, headers=record.headers)
    except KafkaError as error:
        conversation.tell_failed(record.number, repr(error))
        return
    future.add_done_callback(partial(_tell, record.number))


def _tell(number: int, future: asyncio.Future[Any]) -> None:
    error = future.exception()
    if error is None:
        # With acks=0 there is none.
        metadata = future.result()
        conversation.tell_acked(number, getattr(metadata, "partition", None), getattr(metadata, "offset", None))
    else:
        # An error after a time-out or a retry does not say whether the record is stored.
        conversation.tell_unknown(number, repr(error))


if __name__ == "__main__":
    asyncio.run(main())
