"""`Producer`: how programs send.

A producer has an `Appender` (compiled; it puts records into batches on the caller's thread) and a `ProducerDriver` with
an I/O thread. `send` is the appender's own bound method, so no interpreted line runs per record. `send_table` encodes
whole columns on the caller's thread and queues the finished batches behind what `send` has appended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ottla.client.leaving import leave
from ottla.client.own_send import own_send
from ottla.client.producer_base import Headers, ProducerBase
from ottla.client.table_sender import TableGate
from ottla.client.thread_waits import ThreadWaits
from ottla.timeouts import seconds

if TYPE_CHECKING:
    from uuid import UUID

    from ottla.client.table_delivery import TableDelivery
    from ottla.client.transaction import Transaction
    from ottla.client.transaction_verbs import Call, Offset
    from ottla.producer.transaction_states import TransactionIdentity
    from ottla.records.append import Appender
    from ottla.records.delivery import Delivery
    from ottla.registry.client import RegistryClient
    from ottla.registry.registered import RegisteredSchema


class Producer(ProducerBase[ThreadWaits]):
    """Sends records to Kafka, many at a time, and returns the outcome of each.

    Settings are keywords: Kafka's names with underscores (`linger_ms=5`, `compression_type="zstd"`), its meanings and
    its defaults; sizes in bytes, times in milliseconds. `help("ottla.client.producer_settings_keywords")` lists them.
    ConfigError for one that is unknown, cannot be used or contradicts another. Several threads may share a producer.
    `with` closes it.
    """

    _waits_class = ThreadWaits

    @staticmethod
    def _appending(appender: Appender) -> Callable[..., Delivery]:
        return appender.send

    @own_send
    def send(
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
        """Append one record to its partition's batch and return its `Delivery`, without waiting for brokers.

        Only the first record of a topic waits for the topic's metadata, and any record waits while `buffer.memory` is
        full: `max.block.ms` at most.

        `value` and `key` are bytes or text (sent as UTF-8), or what `value_serializer` and `key_serializer` take; None
        as value is a tombstone. `headers` are pairs of a str and bytes, text or None. All are copied: they may be
        changed once `send` has returned. Without `partition`, `partitioner_class` decides. By default that is the key's
        murmur2 hash, as in Kafka's own clients; records without a key fill one partition's batch after another's.
        `on_delivery` is called on the I/O thread. Raises RecordError for what cannot be sent as it is, BufferFull when
        `buffer.memory` stays full for `max.block.ms`, Unreachable, NotKafka or KafkaError when the topic's partitions
        do not become known.
        """
        # Instances have the appender's own method; this one is for subclasses that override it, and for its docstring.
        delivery: Delivery = self._send(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )
        return delivery

    def send_table(
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
    ) -> TableDelivery:
        """Send every row of an Arrow table as a record; return when all are queued to be sent.

        `data` is anything with `__arrow_c_stream__` or `__arrow_c_array__` (pyarrow, polars, pandas, duckdb) or an
        iterator of such. The other arguments name columns: `key` text or binary (numbers, dates and times become text),
        `headers` a list of struct<key, value>, `partition` integers, `timestamp_ms` integers, timestamps or dates. With
        value_format="raw" `value` names one text or binary column. None is for a table with the columns of a record, as
        `read_table` and Spark return it: they are found by their names. With "json" the record is a JSON object of the
        columns named (None: all). With "avro" or "protobuf", or with "json" and a `registry` (its address, or a
        `RegistryClient`), it has a schema: `value_schema`, which is registered for the topic, else that of the columns
        (Avro) or the latest one there is (`value_message` names the message of Protobuf). With schema_id_in="header"
        records name it by its GUID in a header, not by its id in front. Rows keep their order within a partition.
        Batches are about 1 MB unless `batch_size` was given. Encoding happens on the caller's thread; a full
        `buffer.memory` makes it wait. Raises RecordError naming the column and row that cannot be sent, RegistryError,
        and what `send` raises. An exception that ends it, Ctrl+C too, has the TableDelivery as its attribute `table`;
        if some rows were sent, a note says how many.
        """
        from ottla.client.schema_columns import SchemaChoice
        from ottla.client.table_delivery import TableDelivery

        delivery = TableDelivery(self._waits, topic)
        try:
            self._tables.send(
                delivery,
                data,
                key=key,
                value=value,
                headers=headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                value_format=value_format,
                schema=SchemaChoice(registry, value_schema, value_message, schema_id_in),
                gate=TableGate(),
            )
        except BaseException as error:
            delivery.end_early(error)
            raise
        return delivery

    def init_transactions(
        self,
        identity: TransactionIdentity | tuple[str, int, int] | None = None,
        *,
        transaction_version: int | None = None,
    ) -> None:
        """Get the identity of `transactional_id` and fence older producers of it, ending what they left open.

        The first `begin_transaction` does it, too. With `identity`, as `Admin.fence_producers` returned it, this
        producer uses that one, whatever its `transactional_id`, and fences no other producer. So several producers may
        share a transaction, as long as no two write to the same partition. While no transaction is open, or when one is
        prepared, it may be called again with another identity: a prepared transaction stays prepared, for whoever has
        its identity, and connections and metadata stay. `transaction_version` (KIP-890: 1 or 2) says how all
        transactions of that identity are begun and ended; by default it is the version that the cluster has when one
        begins, as far as this producer has heard. If such an identity can no longer be used, the next
        `begin_transaction` gets a new one. Like every call about transactions it waits for `max.block.ms`
        and raises TransactionUnfinished after that, TransactionMisuse where it does not fit, KafkaError for what the
        coordinator refuses, ProducerFenced where a newer producer has taken over.
        """
        self._carry_out(self._transactions.initialize(identity, transaction_version))

    def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on counts when it is committed, all of it or nothing."""
        self._carry_out(self._transactions.begin())

    def commit_transaction(self) -> None:
        """Wait until everything sent in the transaction is stored, and commit it.

        Raises TransactionError where something was not stored: abort it. Raises TransactionUnfinished after
        `max.block.ms`: it is not known yet whether it is committed, the producer goes on trying, and calling this again
        waits for the outcome; it is never turned into an abort.
        """
        self._carry_out(self._transactions.end(True))

    def abort_transaction(self) -> None:
        """Take back everything sent in the transaction; what has not left yet fails with TransactionAborted."""
        self._carry_out(self._transactions.end(False))

    def prepare_transaction(self) -> TransactionIdentity:
        """Wait until everything sent in the transaction is stored, and return the identity by which it can be ended.

        Any process can then commit or abort it by `ottla.TransactionHandle` within `transaction.timeout.ms`; closing
        this producer leaves it open. It can also be ended here.
        """
        self._carry_out(self._transactions.end(None))
        return self._prepared()

    @property
    def transaction_identity(self) -> TransactionIdentity | None:
        """The identity of the open transaction, or of the next one; None without `transactional_id`.

        It changes with `init_transactions` and, from transaction version 2 on, with the end of each transaction.
        """
        return self._driver.core.transaction_identity

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[tuple[str, int], Offset],
        group_id: str,
        *,
        generation: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction (KIP-447); wait until the group's coordinator has them.

        `offsets` is {(topic, partition): the next offset to read}; (offset, metadata) or (offset, metadata, leader
        epoch) may take an offset's place. With `generation` and `member_id` a member that was replaced is refused.
        """
        self._carry_out(self._transactions.commit_offsets(offsets, group_id, generation, member_id, group_instance_id))

    def transaction(self) -> Transaction:
        """`with producer.transaction():` begins one, commits it at the end, and aborts it where the block raises."""
        from ottla.client.transaction import Transaction

        return Transaction(self)

    def _carry_out(self, calls: Iterator[Call]) -> None:
        self._transactions.wait(calls)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything sent so far has an outcome.

        Raises DeliveryError for records that failed or are unknown, if the program has not yet asked their deliveries.
        Raises TimeoutError after `timeout` seconds. Either way sending goes on, and flush can be called again.
        """
        self._waits.flush(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Deliver what was sent and end the I/O thread; raises as `flush` does.

        What has no outcome after `timeout` seconds is given up: failed, or unknown where its request has left. An open
        transaction is aborted, one that is being committed goes on for `max.block.ms`, a prepared one stays.
        """
        self._waits.close(timeout)
        self._abandon.detach()

    def partitions_for(self, topic: str) -> list[int]:
        """The numbers of the topic's partitions; waits for metadata as `send` does."""
        return list(range(self._driver.partition_count(topic)))

    def client_instance_id(self, timeout: float) -> UUID | None:
        """The id under which brokers know this producer's metrics (KIP-714); None where no broker has given one.

        Only brokers with a plugin for clients' metrics give one, and embedded ones with a subscription to them: the
        first of these that is connected. `timeout` is how many seconds to wait for that. Once there is an id, this
        returns it at once, after closing, too. Raises ConfigError with `enable_metrics_push=False`, ClosedError
        if the producer was closed before it got an id.
        """
        from ottla.client import client_instance

        timeout_s = seconds(timeout)
        self._waits.wait_for(client_instance.ask(self._driver), timeout_s)
        return client_instance.told(self._driver)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        leave(self, error)
