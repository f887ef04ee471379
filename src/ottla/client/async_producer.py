"""`AsyncProducer`: the producer for coroutines.

Like `Producer` it has an `Appender`, here called in the event loop's thread, and one I/O thread that does the rest.
`send` is the appender's own compiled method. What it returns is nearly always done already: awaiting it then needs
neither a task nor a turn of the event loop. What has to be waited for is in `coroutine_waits.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.async_leaving import leave_async, told_of
from ottla.client.coroutine_waits import CoroutineWaits
from ottla.client.own_send import own_send
from ottla.client.producer_base import Headers, ProducerBase
from ottla.client.schemas_first import SchemasFirst
from ottla.client.table_sender import TableGate
from ottla.timeouts import seconds

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.client.async_transactions import AsyncTransaction
    from ottla.client.table_delivery import AsyncTableDelivery
    from ottla.client.transaction_verbs import Call, Offset
    from ottla.producer.transaction_states import TransactionIdentity
    from ottla.records.append import Appender
    from ottla.records.delivery import Delivery
    from ottla.registry.client import RegistryClient
    from ottla.registry.registered import RegisteredSchema


class AsyncProducer(ProducerBase[CoroutineWaits]):
    """Sends records to Kafka from coroutines, and returns the outcome of each.

    Settings are those of `Producer`. It belongs to the event loop it is first used in; make one in each. `async with`
    closes it.

        async with ottla.AsyncProducer("localhost:9092") as producer:
            delivery = await producer.send("orders", b"value")    # appended, to be sent
            stored = await delivery                               # acknowledged
    """

    _waits_class = CoroutineWaits

    @staticmethod
    def _appending(appender: Appender) -> Callable[..., Coroutine[Any, Any, Delivery]]:
        return appender.send_async

    def _later(self) -> Callable[..., Coroutine[Any, Any, Delivery]]:
        return SchemasFirst(self._driver.clock)

    @own_send
    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Append one record to its partition's batch; `await` gives its `Delivery`, nearly always at once.

        `await` waits for the topic's metadata before its first record, and for memory where `buffer.memory` is full, in
        the order of the calls: `max.block.ms` at most. Now and then it lets other tasks run. Before the first record of
        a topic, serializers with a schema registry ask it, in a thread. The event loop goes on meanwhile. Awaiting the
        `Delivery` waits for the acknowledgement: it gives a RecordMetadata, or raises DeliveryFailed (certainly not
        stored) or DeliveryUnknown (perhaps stored). `on_delivery` is called in the event loop.

        A record is not sent if `send` is cancelled while it waits; once `send` has returned, it is sent. Cancelling the
        wait for a `Delivery` ends that wait and nothing else. Arguments and errors are those of `Producer.send`;
        RecordError may be raised before anything is awaited.
        """
        # Instances have the appender's own method; this one is for subclasses that override it, and for its docstring.
        delivery: Delivery = await self._send(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )
        return delivery

    async def send_table(
        self,
        topic: str,
        data: Any,
        *,
        key: str | None = None,
        value: str | Sequence[str] | None = None,
        headers: str | None = None,
        partition: str | None = None,
        timestamp_ms: str | None = None,
        value_format: str = "raw",
        registry: str | Sequence[str] | RegistryClient | None = None,
        value_schema: str | RegisteredSchema | None = None,
        value_message: str | None = None,
        schema_id_in: str = "prefix",
    ) -> AsyncTableDelivery:
        """Send every row of an Arrow table as a record; return when all are queued to be sent.

        Arguments, batches and errors are those of `Producer.send_table`; awaiting what it returns gives the Arrow
        table of its `result`. The table is read, encoded and queued in one of the event loop's worker threads, while
        the event loop goes on. If it is cancelled, it stops after the rows that are being queued: the queued rows are
        delivered, and `flush` waits for them; the others are not sent. An exception that ends it, also the
        CancelledError, has the AsyncTableDelivery as its attribute `table`.
        """
        from ottla.client.schema_columns import SchemaChoice
        from ottla.client.table_delivery import AsyncTableDelivery

        await self._waits.partitions(topic)
        delivery = AsyncTableDelivery(self._waits, topic)
        try:
            await self._send_in_thread(
                delivery,
                data,
                key=key,
                value=value,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                value_format=value_format,
                schema=SchemaChoice(registry, value_schema, value_message, schema_id_in),
            )
        except BaseException as error:
            delivery.end_early(error)
            raise
        return delivery

    async def _send_in_thread(self, *table: Any, **columns: Any) -> None:
        gate = TableGate()
        try:
            await asyncio.to_thread(self._tables.send, *table, **columns, gate=gate)
        except asyncio.CancelledError:
            gate.is_shut = True
            if gate.lock.locked():
                await asyncio.shield(asyncio.to_thread(gate.wait))
            raise

    async def init_transactions(
        self,
        identity: TransactionIdentity | tuple[str, int, int] | None = None,
        *,
        transaction_version: int | None = None,
    ) -> None:
        """`Producer.init_transactions`, awaited; the first `begin_transaction` does it, too."""
        await self._carry_out(self._transactions.initialize(identity, transaction_version))

    async def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on counts when it is committed, all of it or nothing.

        If this is cancelled, the transaction may be open or not: `abort_transaction` ends it.
        """
        await self._carry_out(self._transactions.begin())

    async def commit_transaction(self) -> None:
        """Wait until everything sent in the transaction is stored, and commit it; errors as in `Producer`.

        If it is cancelled, or raises TransactionUnfinished, the commit goes on: await it again for the outcome. It
        never turns into an abort.
        """
        await self._carry_out(self._transactions.end(True))

    async def abort_transaction(self) -> None:
        """Take back everything sent in the transaction; what has not left yet fails with TransactionAborted."""
        await self._carry_out(self._transactions.end(False))

    async def prepare_transaction(self) -> TransactionIdentity:
        """As `Producer.prepare_transaction`: whoever has the returned identity can commit or abort the transaction."""
        await self._carry_out(self._transactions.end(None))
        return self._prepared()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[tuple[str, int], Offset],
        group_id: str,
        *,
        generation: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        """Commit a consumer group's offsets with the transaction (KIP-447); arguments as in `Producer`."""
        await self._carry_out(
            self._transactions.commit_offsets(offsets, group_id, generation, member_id, group_instance_id)
        )

    def transaction(self) -> AsyncTransaction:
        """`async with producer.transaction():` begins one, commits it, and aborts it where the block raises."""
        from ottla.client.async_transactions import AsyncTransaction

        return AsyncTransaction(self)

    async def _carry_out(self, calls: Iterator[Call]) -> None:
        from ottla.client.async_transactions import carry_out

        await carry_out(self._driver, self._waits, calls)

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far has an outcome.

        Raises DeliveryError for records that failed or are unknown, if the program has not yet asked their deliveries.
        Raises TimeoutError after `timeout` seconds. Either way, and when it is cancelled, sending goes on, and flush
        can be called again.
        """
        with told_of(self._driver, "flush", seconds(timeout)):
            await self._waits.flush(timeout)

    async def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent and end the I/O thread; raises as `flush` does.

        What has no outcome after `timeout` seconds is given up: failed, or unknown where its request has left. An open
        transaction is aborted, one that is being committed goes on for `max.block.ms`, a prepared one stays.
        If it is cancelled, closing goes on; call it again to wait for the end.
        """
        with told_of(self._driver, "close", seconds(timeout)):
            await self._waits.close(timeout)
        self._abandon.detach()

    async def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions; waits for metadata as `send` does."""
        return list(range(await self._waits.partitions(topic)))

    async def client_instance_id(self, timeout: float) -> UUID | None:
        """The id under which brokers know this producer's metrics (KIP-714), as `Producer.client_instance_id`."""
        from ottla.client import client_instance

        timeout_s = seconds(timeout)
        self._waits.bind()
        has_ended = client_instance.ask(self._driver)
        await self._waits.within(timeout_s, has_ended)
        return client_instance.told(self._driver)

    async def __aenter__(self) -> Self:
        self._waits.bind()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await leave_async(self, error)
