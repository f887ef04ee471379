"""A hand-driven clock and a scripted cluster in front of a `ProducerCore`: typed messages, no sockets.

The brokers answer ApiVersions, Metadata and InitProducerId by themselves; Produce requests pile up until a test says
what becomes of each. `append` stores as a broker would: real record batches, checked, with the sequence rules of
KIP-98 (five batches remembered, a new epoch begins at 0, and whoever is unknown may begin anywhere).
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.records.handing_over import taken_from

from ottla.connection.events import Connect, Connected, Disconnect, Disconnected, Received, Transmit, Transmitted
from ottla.connection.loss import CLOSED_BY_BROKER, REFUSED
from ottla.producer.core import ProducerCore
from ottla.producer.events import (
    BatchAcked,
    BatchesAdded,
    BatchesFilled,
    BatchFailed,
    BatchSplit,
    BatchUnknown,
    Closed,
    CloseRequested,
    LoadKnown,
    TopicForgotten,
    TopicKnown,
    TopicWanted,
)
from ottla.producer.settings import ProducerSettings
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.append import Appender
from ottla.records.batch_header import BatchHeader
from ottla.records.plain import decode_batches

VERSIONS = {0: (3, 12), 3: (0, 12), 18: (0, 4), 22: (0, 5)}


class NoHooks:
    def wake(self) -> None: ...


class Log:
    """One partition as a broker keeps it: values in order, and what it remembers of producers."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        # producer id -> (epoch, the last five batches as (first sequence, last sequence, base offset))
        self.producers: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}

    def append(self, header: BatchHeader, values: list[bytes]) -> tuple[int, int]:
        """Return (error code, base offset)."""
        if header.producer_id >= 0:
            first, last = header.base_sequence, header.base_sequence + header.record_count - 1
            epoch, batches = self.producers.get(header.producer_id, (-1, []))
            if header.producer_epoch < epoch:
                return 47, -1
            if header.producer_epoch > epoch:
                if epoch >= 0 and first != 0:
                    return 45, -1
                batches = []
            for known_first, known_last, base_offset in batches:
                if (known_first, known_last) == (first, last):
                    return 0, base_offset
            if batches and first != batches[-1][1] + 1:
                return 45, -1
            batches = [*batches[-4:], (first, last, len(self.values))]
            self.producers[header.producer_id] = header.producer_epoch, batches
        base_offset = len(self.values)
        self.values.extend(values)
        return 0, base_offset


class World:
    """One producer core, its cluster, and everything that came out of it."""

    def __init__(
        self,
        *,
        partitions: int = 1,
        brokers: int = 1,
        topics: dict[str, list[int]] | None = None,
        versions: dict[int, tuple[int, int]] = VERSIONS,
        **settings: Any,
    ) -> None:
        self.settings = ProducerSettings({"bootstrap_servers": "b1:9092", **settings})
        self.core = ProducerCore(self.settings, Random(3))
        self.now_us = 1_000_000
        self.brokers = list(range(1, brokers + 1))
        # Topic -> leaders by partition (-1: none), or an error code.
        self.leaders: dict[str, Any] = {"flights": [p % brokers + 1 for p in range(partitions)]}
        if topics is not None:
            self.leaders = topics
        self.versions = versions
        self.topic_ids: dict[str, bytes] = {}
        self.epoch = 0
        self.down: set[int] = set()
        # Well, as the others see it, and out of this client's reach.
        self.shut: set[int] = set()
        self.producer_id_error = 0
        self.id_answers = True
        self.producer_id = 4000
        # Requests for an id that a test answers, with `hold_ids`.
        self.hold_ids = False
        self.ids_asked: list[Transmit] = []
        self.lines: dict[int, int] = {}  # connection id -> broker
        self.produces: list[Transmit] = []
        # Requests whose connection is gone and which have not reached the log yet, with their broker.
        self.stragglers: list[tuple[Transmit, int]] = []
        self.metadata_requests = 0
        self.topics_asked_for: list[str] = []
        self.metadata_answers = True
        self.held: list[Transmit] = []
        self.logs: dict[tuple[str, int], Log] = {}
        # Batches of more bytes are refused, with this code.
        self.batch_bytes_max = 1 << 30
        self.too_large_code = 10
        # Records with these values are refused, with this code and a message each (None: no more is said of them).
        self.refused: dict[str, str | None] = {}
        self.refused_code = 87
        self.outcomes: list[Any] = []
        self.topics_known: list[TopicKnown] = []
        self.topics_forgotten: list[str] = []
        self.loads: list[LoadKnown] = []
        self.closed = False
        self._appender = Appender(
            batch_size=self.settings.batch_size if "batch_size" in settings else 1 << 20,
            max_request_size=1 << 24,
            buffer_memory=1 << 28,
            linger_us=0,
            hooks=NoHooks(),
            clock_us=lambda: self.now_us,
            clock_ms=lambda: self.now_us // 1000,
        )
        self.core.close_batches_by(self._appender)

    # --- the user's side

    def batch(self, *values: str, topic: str = "flights", partition: int = 0) -> Any:
        """A real sealed batch with one record per value."""
        self._appender.set_topic(topic, 64)
        for value in values:
            self._appender.send(topic, value, partition=partition)
        (sealed,) = taken_from(self._appender, force=True)
        return sealed

    def append(self, *values: str, topic: str = "flights", partition: int = 0) -> Any:
        """Add records to the partition's open batch, as `Producer.send` does, and tell the core; returns the batch."""
        self._appender.set_topic(topic, 64)
        for value in values:
            delivery = self._appender.send(topic, value, partition=partition)
        self.core.receive(BatchesAdded(self._appender.take_new()), self.now_us)
        self.core.receive(BatchesFilled(self._appender.take_filled()), self.now_us)
        self.turn()
        return delivery

    def send(self, *values: str, topic: str = "flights", partition: int = 0) -> Any:
        sealed = self.batch(*values, topic=topic, partition=partition)
        self.core.receive(BatchesAdded([sealed]), self.now_us)
        self.turn()
        return sealed

    def send_each(self, *values: str, partition: int = 0) -> list[Any]:
        """One batch per value, all at once."""
        batches = [self.batch(value, partition=partition) for value in values]
        self.core.receive(BatchesAdded(batches), self.now_us)
        self.turn()
        return batches

    def want(self, topic: str) -> None:
        self.core.receive(TopicWanted(topic), self.now_us)
        self.turn()

    def close(self, within_ms: int) -> None:
        self.core.receive(CloseRequested(self.now_us + within_ms * 1000), self.now_us)
        self.turn()

    def outcome(self, sealed: Any) -> Any:
        """The one outcome of this batch, None while it has none."""
        found = [o for o in self.outcomes if o.batch is sealed]
        assert len(found) <= 1, found
        return found[0] if found else None

    # --- time

    def pass_ms(self, ms: float) -> None:
        self.now_us += int(ms * 1000)
        self.core.tick(self.now_us)
        self.turn()

    def run_to_deadline(self) -> int:
        """Jump to the core's own deadline; returns how far that was, in microseconds."""
        due = self.core.deadline_us()
        assert due is not None
        waited = max(0, due - self.now_us)
        self.now_us += waited
        self.core.tick(self.now_us)
        self.turn()
        return waited

    def run_until(self, true: Any, turns: int = 200) -> None:
        for _ in range(turns):
            if true():
                return
            self.run_to_deadline()
        raise AssertionError("it did not come to that")

    def settle(self) -> None:
        """Store whatever is sent, with time passing, until every batch has its outcome."""
        self.run_until(lambda: self.store_all() is None and self.core.metrics()["ottla-batches-unsettled"] == 0)

    # --- the cluster's side

    def turn(self) -> None:
        while outputs := self.core.outputs():
            for output in outputs:
                self._do(output)

    def _do(self, output: Any) -> None:
        if isinstance(output, Connect):
            broker = int(output.host.removeprefix("b"))
            if broker in self.down or broker in self.shut:
                self.core.receive(Disconnected(output.connection_id, REFUSED), self.now_us)
                return
            self.lines[output.connection_id] = broker
            self.core.receive(Connected(output.connection_id), self.now_us)
        elif isinstance(output, Disconnect):
            broker = self.lines.pop(output.connection_id, 0)
            gone = [t for t in self.produces if t.connection_id == output.connection_id]
            self.produces = [t for t in self.produces if t.connection_id != output.connection_id]
            self.stragglers.extend((t, broker) for t in gone)
        elif isinstance(output, Transmit):
            self._serve(output)
        elif isinstance(output, TopicKnown):
            self.topics_known.append(output)
        elif isinstance(output, TopicForgotten):
            self.topics_forgotten.append(output.topic)
        elif isinstance(output, LoadKnown):
            self.loads.append(output)
        elif isinstance(output, Closed):
            self.closed = True
        else:
            assert isinstance(output, BatchAcked | BatchFailed | BatchSplit | BatchUnknown)
            self.outcomes.append(output)

    def _serve(self, transmit: Transmit) -> None:
        message = transmit.message
        if isinstance(message, ProduceRequest):
            for topic in message.topic_data:
                for data in topic.partition_data:
                    # What a socket took stays as it was, also when the batch is numbered anew.
                    data.records = [bytes(b"".join(data.records))]
            self.produces.append(transmit)
        elif isinstance(message, ApiVersionsRequest):
            keys = [
                ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in self.versions.items()
            ]
            self.reply(transmit, ApiVersionsResponse(api_keys=keys))
        elif isinstance(message, MetadataRequest):
            if not self.metadata_answers:
                self.held.append(transmit)
                return
            self.metadata_requests += 1
            self.topics_asked_for = [t.name for t in message.topics]
            self.reply(transmit, self._metadata([t.name for t in message.topics]))
        else:
            assert isinstance(message, InitProducerIdRequest)
            if self.hold_ids:
                self.ids_asked.append(transmit)
            elif self.producer_id_error:
                self.refuse_id(transmit, self.producer_id_error)
            elif self.id_answers:
                self.reply(transmit, InitProducerIdResponse(producer_id=self.producer_id, producer_epoch=0))

    def refuse_id(self, transmit: Transmit, code: int) -> None:
        self.reply(transmit, InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1))
        self.turn()

    def _metadata(self, names: list[str]) -> MetadataResponse:
        live = [broker for broker in self.brokers if broker not in self.down]
        response = MetadataResponse(
            cluster_id="c",
            controller_id=live[0],
            brokers=[MetadataResponseBroker(node_id=b, host=f"b{b}", port=9092) for b in live],
        )
        for name in names:
            told = self.leaders.get(name, 3)
            topic = MetadataResponseTopic(name=name, topic_id=self.topic_ids.get(name, bytes(16)))
            if isinstance(told, int):
                topic.error_code = told
            else:
                topic.partitions = [
                    MetadataResponsePartition(partition_index=p, leader_id=leader, leader_epoch=self.epoch)
                    for p, leader in enumerate(told)
                ]
            response.topics.append(topic)
        return response

    def reply(self, transmit: Transmit, message: Any) -> None:
        self.core.receive(Received(transmit.connection_id, transmit.correlation_id, message), self.now_us)

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        self.epoch += 1
        self.leaders[topic][partition] = broker

    # --- what becomes of Produce requests

    def store(self, transmit: Transmit, broker: int | None = None) -> ProduceResponse:
        """Append what is in the request, as the broker it went to would; the answer is not sent yet."""
        if broker is None:
            broker = self.lines[transmit.connection_id]
        response = ProduceResponse()
        for topic in transmit.message.topic_data:
            parts = []
            for data in topic.partition_data:
                if self.leaders[topic.name][data.index] != broker:
                    parts.append(PartitionProduceResponse(index=data.index, error_code=6, base_offset=-1))
                    continue
                ((header, records),) = decode_batches(b"".join(data.records))
                if header.size_bytes > self.batch_bytes_max:
                    parts.append(
                        PartitionProduceResponse(index=data.index, error_code=self.too_large_code, base_offset=-1)
                    )
                    continue
                named = [
                    BatchIndexAndErrorMessage(batch_index=row, batch_index_error_message=self.refused[value])
                    for row, record in enumerate(records)
                    if (value := (record.value or b"").decode("latin-1")) in self.refused
                ]
                if named:
                    parts.append(
                        PartitionProduceResponse(
                            index=data.index, error_code=self.refused_code, base_offset=-1, record_errors=named
                        )
                    )
                    continue
                log = self.log(data.index, topic.name)
                code, base_offset = log.append(header, [record.value for record in records])
                parts.append(PartitionProduceResponse(index=data.index, error_code=code, base_offset=base_offset))
            response.responses.append(TopicProduceResponse(name=topic.name, partition_responses=parts))
        return response

    def ack(self, transmit: Transmit | None = None) -> None:
        """Store the oldest (or this) request and answer it."""
        transmit = self._taken(transmit)
        self.reply(transmit, self.store(transmit))
        self.turn()

    def store_straggler(self, choice: int) -> None:
        """Let the oldest request of one dead connection reach the log after all; nobody hears the answer."""
        dead = list(dict.fromkeys(t.connection_id for t, _ in self.stragglers))
        connection_id = dead[choice % len(dead)]
        straggler = next(s for s in self.stragglers if s[0].connection_id == connection_id)
        self.stragglers.remove(straggler)
        self.store(*straggler)

    def answer(self, code: int, *, base_offset: int = -1, transmit: Transmit | None = None) -> None:
        """Answer the oldest (or this) request with an error for all its partitions, storing nothing."""
        transmit = self._taken(transmit)
        response = ProduceResponse()
        for topic in transmit.message.topic_data:
            parts = [
                PartitionProduceResponse(index=data.index, error_code=code, base_offset=base_offset)
                for data in topic.partition_data
            ]
            response.responses.append(TopicProduceResponse(name=topic.name, partition_responses=parts))
        self.reply(transmit, response)
        self.turn()

    def store_all(self) -> None:
        while self.produces:
            self.ack()

    def lose_ack(self, count: int = 1) -> None:
        """Store the oldest requests, then cut the connection instead of answering."""
        taken = [self._taken(None) for _ in range(count)]
        for transmit in taken:
            self.store(transmit)
        self.hang_up(taken[0].connection_id)

    def hang_up(self, connection_id: int | None = None) -> None:
        if connection_id is None:
            connection_id = self.produces[0].connection_id
        gone = [t for t in self.produces if t.connection_id == connection_id]
        self.produces = [t for t in self.produces if t.connection_id != connection_id]
        self.stragglers.extend((t, self.lines[connection_id]) for t in gone)
        self.lines.pop(connection_id)
        self.core.receive(Disconnected(connection_id, CLOSED_BY_BROKER), self.now_us)
        self.turn()

    def transmitted(self) -> None:
        """The socket has taken the oldest request (acks=0)."""
        transmit = self._taken(None)
        self.store(transmit)
        self.core.receive(Transmitted(transmit.connection_id, transmit.correlation_id), self.now_us)
        self.turn()

    def _taken(self, transmit: Transmit | None) -> Transmit:
        return self.produces.pop(0 if transmit is None else self.produces.index(transmit))

    def log(self, partition: int = 0, topic: str = "flights") -> Log:
        return self.logs.setdefault((topic, partition), Log())

    def stored(self, partition: int = 0, topic: str = "flights") -> list[str]:
        return [value.decode() for value in self.log(partition, topic).values]


def values_of(transmit: Transmit) -> list[str]:
    """The values in one Produce request, partition by partition."""
    return [
        record.value.decode()
        for topic in transmit.message.topic_data
        for data in topic.partition_data
        for _, records in decode_batches(b"".join(data.records))
        for record in records
    ]


@pytest.fixture
def make_world() -> type[World]:
    return World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def values() -> Any:
    return values_of
