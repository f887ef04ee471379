"""The clients that are measured, each behind the same few calls, with the same settings.

Every client learns the outcome of every record: by ottla's deliveries, by callbacks of the others. All have acks=all,
idempotence, no compression, and the same `linger.ms` and `batch.size`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

from ottla.bench.order import BATCH_BYTES, RECORDS_MAX
from ottla.bench.security import for_kafka_python

Records = Sequence[tuple[bytes, bytes]]


class Client(ABC):
    """One producer; `acked` counts the records that were acknowledged to it."""

    acked = 0

    @abstractmethod
    def __init__(self, bootstrap_servers: str, topic: str, linger_ms: int, settings: dict[str, Any]) -> None:
        """Connect; the topic is there. `settings` are about security: ottla's keywords, else librdkafka's names."""

    @abstractmethod
    def send_all(self, records: Records) -> None:
        """Send these, and wait where there is no room for them."""

    def send_one(self, key: bytes, value: bytes, told: Callable[[], None]) -> None:
        """Send one record, and call `told` when it is acknowledged."""
        raise NotImplementedError

    def wait(self, seconds: float) -> None:
        """Let time pass, in which acknowledgements are handled."""
        time.sleep(seconds)

    @abstractmethod
    def flush(self) -> None:
        """Wait until all that was sent has its outcome."""

    @abstractmethod
    def close(self) -> None:
        """End it."""


class OttlaSend(Client):
    """`Producer.send`, record by record."""

    library = "ottla"
    tells_each = True

    def __init__(self, bootstrap_servers: str, topic: str, linger_ms: int, settings: dict[str, Any]) -> None:
        from ottla.client.producer import Producer

        self._producer = Producer(
            bootstrap_servers, **settings, acks="all", linger_ms=linger_ms, batch_size=BATCH_BYTES
        )
        self._topic = topic
        self._sent = 0

    def send_all(self, records: Records) -> None:
        """One after the other."""
        send, topic = self._producer.send, self._topic
        for key, value in records:
            send(topic, value, key)
        self._sent += len(records)

    def send_one(self, key: bytes, value: bytes, told: Callable[[], None]) -> None:
        """With a callback."""
        self._producer.send(self._topic, value, key, on_delivery=lambda _: told())
        self._sent += 1

    def flush(self) -> None:
        """Raises where a record was not stored."""
        self._producer.flush()
        self.acked = self._sent

    def close(self) -> None:
        """The producer."""
        self._producer.close()


class OttlaTable(OttlaSend):
    """`Producer.send_table`, thousands of rows at a time."""

    tells_each = False
    _table: Any = None

    def send_all(self, records: Records) -> None:
        """As one table: that of the first call, again and again, for making it is no part of what is measured."""
        if self._table is None:
            import pyarrow as pa

            keys, values = zip(*records, strict=True)
            self._table = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
        self._producer.send_table(self._topic, self._table, key="key", value="value")
        self._sent += self._table.num_rows


class ConfluentKafka(Client):
    """confluent-kafka (librdkafka)."""

    library = "confluent-kafka"
    tells_each = True

    def __init__(self, bootstrap_servers: str, topic: str, linger_ms: int, settings: dict[str, Any]) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                **settings,
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": linger_ms,
                "batch.size": BATCH_BYTES,
                # Its queue takes all of a row, so that it never waits for room.
                "queue.buffering.max.messages": RECORDS_MAX,
                "queue.buffering.max.kbytes": 1 << 20,
                "log_level": 2,
            }
        )
        self._topic = topic

    def _told(self, error: Any, _message: Any) -> None:
        self.acked += error is None

    def send_all(self, records: Records) -> None:
        """One after the other; acknowledgements are handled in between."""
        produce, topic, told = self._producer.produce, self._topic, self._told
        for key, value in records:
            while True:
                try:
                    produce(topic, value, key, on_delivery=told)
                    break
                except BufferError:
                    self._producer.poll(0.01)
        self._producer.poll(0)

    def send_one(self, key: bytes, value: bytes, told: Callable[[], None]) -> None:
        """With a callback."""

        def on_delivery(error: Any, _message: Any) -> None:
            self.acked += error is None
            told()

        self._producer.produce(self._topic, value, key, on_delivery=on_delivery)

    def wait(self, seconds: float) -> None:
        """It handles acknowledgements only in this call."""
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            self._producer.poll(left)

    def flush(self) -> None:
        """All callbacks were called then."""
        self._producer.flush()

    def close(self) -> None:
        """There is nothing to close."""


class KafkaPython(Client):
    """kafka-python."""

    library = "kafka-python"
    tells_each = True

    def __init__(self, bootstrap_servers: str, topic: str, linger_ms: int, settings: dict[str, Any]) -> None:
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            **for_kafka_python(settings),
            bootstrap_servers=bootstrap_servers.split(","),
            acks="all",
            enable_idempotence=True,
            linger_ms=linger_ms,
            batch_size=BATCH_BYTES,
        )
        self._topic = topic

    def _told(self, _metadata: Any) -> None:
        self.acked += 1

    def send_all(self, records: Records) -> None:
        """One after the other."""
        send, topic, told = self._producer.send, self._topic, self._told
        for key, value in records:
            send(topic, value, key).add_callback(told)

    def send_one(self, key: bytes, value: bytes, told: Callable[[], None]) -> None:
        """With a callback."""

        def on_success(_metadata: Any) -> None:
            self.acked += 1
            told()

        self._producer.send(self._topic, value, key).add_callback(on_success)

    def flush(self) -> None:
        """All callbacks were called then."""
        self._producer.flush()

    def close(self) -> None:
        """The producer."""
        self._producer.close()


CLIENTS: dict[str, Any] = {
    "ottla": OttlaSend,
    "ottla send_table": OttlaTable,
    "confluent-kafka": ConfluentKafka,
    "kafka-python": KafkaPython,
}
"""By the name of the row."""

MODULES = {"ottla send_table": "pyarrow", "confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}
"""What has to be installed for it; ottla itself is."""


def library_version(name: str) -> str:
    """The version of the library behind a row."""
    if CLIENTS[name].library == "ottla":
        from ottla import __version__

        return __version__
    return version(CLIENTS[name].library)
