"""What `send_table` does: encodes columns into batches, and queues these behind what `send` has appended.

Each producer has one, which keeps each topic's sticky partition from one table to the next. The modules that encode are
loaded with the first table.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from ottla.client.producer_driver import ProducerDriver
from ottla.clock import MACHINE
from ottla.errors import RecordError
from ottla.records.memory import BlockedCall

if TYPE_CHECKING:
    from ottla.client.schema_columns import SchemaChoice
    from ottla.client.table_delivery import TableDelivery
    from ottla.records.encode_columns import StickyPartition

# A little under Kafka's usual limits of 1 MiB for requests and for batches.
_TABLE_BATCH_BYTES = 1_000_000


class TableGate:
    """Its lock is held while rows are queued; after `is_shut` is set and `wait` has returned, no more rows are."""

    __slots__ = ("is_shut", "lock")

    def __init__(self) -> None:
        self.is_shut = False
        self.lock = threading.Lock()

    def wait(self) -> None:
        """Wait until rows that are being queued are queued."""
        with self.lock:
            pass


class TableSender:
    """Sends tables for one producer; on the caller's thread, which waits where `buffer.memory` is full."""

    def __init__(self, driver: ProducerDriver, rng: Random, given: Mapping[str, Any]) -> None:
        """`given` are the user's settings: a batch size among them is used for tables, too."""
        self._driver = driver
        self._random = rng
        self._sticky: dict[str, StickyPartition] = {}
        settings = driver.settings
        # All rows are there at once, so large batches are filled without waiting, and they cost less per row.
        chosen = given.keys() & {"batch_size", "batch.size"}
        # `encode_stream` makes none larger than max.request.size and buffer.memory allow.
        self._batch_size = settings.batch_size if chosen else max(settings.batch_size, _TABLE_BATCH_BYTES)

    def send(
        self,
        delivery: TableDelivery,
        data: Any,
        *,
        key: str | None,
        value: str | Sequence[str] | None,
        headers: str | None,
        partition: str | None,
        timestamp_ms: str | None,
        value_format: str,
        schema: SchemaChoice,
        gate: TableGate,
    ) -> None:
        """Encode the rows a few batches at a time, add these to `delivery`, queue them; stop once the gate is shut."""
        from ottla.client.table_columns import by_their_names, value_columns
        from ottla.records.encode_columns import encode_stream
        from ottla.schemas.key_texts import key_texts

        driver, settings, topic = self._driver, self._driver.settings, delivery.topic
        named = {"key": key, "headers": headers, "partition": partition, "timestamp_ms": timestamp_ms}
        for role, name in named.items():
            if name is not None and not isinstance(name, str):
                raise RecordError(
                    f"{role}={name!r:.60} is not the name of a column; give the name (a str) of the column that has "
                    f"each row's {role}, or None"
                )
        if value is None and value_format == "raw":
            data, value, named = by_their_names(data, named)
        data, values, with_headers = value_columns(data, value, topic, value_format, schema, named["headers"])
        partition_count = driver.partition_count(topic)
        sticky = self._sticky_partition(topic, partition_count)
        sticky.load = driver.topics.load(topic)
        function = driver.partition_function
        steps = encode_stream(
            data,
            topic=topic,
            partition_count=partition_count,
            value=values,
            key=named["key"],
            key_texts=key_texts,
            headers=with_headers,
            partition=named["partition"],
            timestamp=named["timestamp_ms"],
            batch_size=self._batch_size,
            max_request_size=settings.max_request_size,
            buffer_memory=settings.buffer_memory,
            compression=settings.compression_type,
            compression_level=settings.compression_level,
            lend=driver.appender.lend,
            pool=driver.appender.buffers,
            partitioner=settings.partitioner,
            place=None if function is None else lambda keys: function(keys, driver.view(topic, BlockedCall())),
            placer="" if function is None else function.name,
            ignore_keys=settings.partitioner_ignore_keys,
            sticky=sticky,
            clock_ms=None if driver.clock is MACHINE else driver.clock.wall_ms,
        )
        try:
            for batches in steps:
                with gate.lock:
                    if gate.is_shut:
                        return
                    delivery.rows_read = steps.rows_read
                    delivery.add(batches)
                    driver.appender.add_sealed(batches)
                sticky.load = driver.topics.load(topic)
        finally:
            delivery.rows_read = steps.rows_read

    def _sticky_partition(self, topic: str, partition_count: int) -> StickyPartition:
        from ottla.records.encode_columns import StickyPartition

        known = self._sticky.get(topic)
        if known is not None:
            return known
        if self._driver.settings.partitioner == "round_robin":
            made = StickyPartition(partition_count - 1)  # the first row takes the next one
        else:
            made = StickyPartition(self._random.randrange(partition_count), self._random.getrandbits(63))
        return self._sticky.setdefault(topic, made)
