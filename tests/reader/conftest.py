"""A scripted cluster around a `ReaderCore`: no sockets, and a clock that only the test moves."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from ottla.connection.events import Connect, Connected, Disconnect, Disconnected, Received, Transmit
from ottla.connection.loss import CLOSED_BY_BROKER, REFUSED
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import EpochEndOffset as DivergingEpoch
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.reader.core import ReaderCore
from ottla.reader.settings import ReaderSettings
from ottla.records.plain import Record, encode_batch

APIS = (ApiVersionsRequest, MetadataRequest, ListOffsetsRequest, FetchRequest, OffsetForLeaderEpochRequest)
FENCED, UNKNOWN = 74, 75


class World:
    """Brokers 1 and 2, one topic "flights" with as many partitions as `leaders`; answers what the core asks."""

    def __init__(self, **settings: Any) -> None:
        self.core = ReaderCore(
            ReaderSettings({"bootstrap_servers": "one:1", "retry_backoff_ms": 100, **settings}), Random(1)
        )
        self.now_us = 0
        self.leaders = [1, 2]
        # Each partition's leader epoch, and the newest version of an API by its key where brokers are older.
        self.epochs: dict[int, int] = {}
        self.versions: dict[int, int] = {}
        self.logs: dict[int, list[bytes]] = {}
        self.begin: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.fetch_errors: dict[int, list[int]] = {}
        self.offset_errors: dict[int, list[int]] = {}
        self.topic_error = 0
        self.refuse_connections = False
        self.lose_next_fetch = False
        # What a broker that answers wrongly makes of an answer.
        self.alter: Callable[[Any], Any] = lambda answer: answer
        # The host of each connection, and of the request at hand.
        self.hosts: dict[int, str] = {}
        self.asked_at = ""
        self.fetches: list[FetchRequest] = []
        self.questions: list[ListOffsetsRequest] = []
        self.checks: list[OffsetForLeaderEpochRequest] = []
        self.held: list[tuple[int, int, FetchRequest]] = []
        self.said: list[Any] = []

    def store(self, partition: int, *values: bytes) -> None:
        """One batch with these records at the partition's end."""
        base = self.end.setdefault(partition, 0)
        self.begin.setdefault(partition, 0)
        records = [Record(base + n, 1000 + n, None, value, []) for n, value in enumerate(values)]
        batch = encode_batch(records, base_offset=base, partition_leader_epoch=self.epochs.get(partition, 0))
        self.logs.setdefault(partition, []).append(bytes(batch))
        self.end[partition] = base + len(values)

    def elect(self, partition: int, leader: int, keeps: int | None = None) -> None:
        """Another leader, whose log ends at the offset `keeps`, where it is not the same."""
        self.leaders[partition] = leader
        self.epochs[partition] = self.epochs.get(partition, 0) + 1
        if keeps is not None:
            self.logs[partition] = [batch for batch in self.logs[partition] if int.from_bytes(batch[:8], "big") < keeps]
            self.end[partition] = keeps

    def wake(self, partition: int, error_code: int = 0) -> None:
        """Answer the Fetch that was held back for want of records: with this error, or as it is to be answered now."""
        connection_id, correlation_id, request = self.held.pop()
        if error_code:
            self.fetch_errors[partition] = [error_code]
            asked = request.topics[0].partitions[0]
            asked.current_leader_epoch = -1
        self.core.receive(Received(connection_id, correlation_id, self._fetched(request)), self.now_us)

    def run(self, rounds: int = 50) -> list[Any]:
        """Answer until the core asks nothing more; what it said to its user."""
        for _ in range(rounds):
            outputs = self.core.outputs()
            if not outputs:
                break
            for output in outputs:
                self._answer(output)
        said, self.said = self.said, []
        return said

    def later(self, milliseconds: int) -> list[Any]:
        """Let time pass, and run."""
        self.now_us += milliseconds * 1000
        self.core.tick(self.now_us)
        return self.run()

    def _answer(self, output: Any) -> None:
        if isinstance(output, Connect):
            self.hosts[output.connection_id] = output.host
            event = Disconnected(output.connection_id, REFUSED) if self.refuse_connections else None
            self.core.receive(event or Connected(output.connection_id), self.now_us)
        elif isinstance(output, Transmit):
            assert output.version <= self.versions.get(output.message.API_KEY, output.message.MAX_VERSION)
            if isinstance(output.message, FetchRequest) and self.lose_next_fetch:
                self.lose_next_fetch = False
                self.core.receive(Disconnected(output.connection_id, CLOSED_BY_BROKER), self.now_us)
                return
            self.asked_at = self.hosts[output.connection_id]
            message = self._respond(output.message)
            if message is not None:
                message = self.alter(message)
                self.core.receive(Received(output.connection_id, output.correlation_id, message), self.now_us)
            else:
                self.held.append((output.connection_id, output.correlation_id, output.message))
        elif not isinstance(output, Disconnect):
            self.said.append(output)

    def _respond(self, request: Any) -> Any:
        if isinstance(request, ApiVersionsRequest):
            return ApiVersionsResponse(
                api_keys=[
                    ApiVersion(
                        api_key=api.API_KEY,
                        min_version=api.MIN_VERSION,
                        max_version=self.versions.get(api.API_KEY, api.MAX_VERSION),
                    )
                    for api in APIS
                    if api.API_KEY not in self.versions or self.versions[api.API_KEY] >= api.MIN_VERSION
                ]
            )
        if isinstance(request, MetadataRequest):
            return self._metadata(request)
        if isinstance(request, ListOffsetsRequest):
            self.questions.append(request)
            return self._offsets(request)
        if isinstance(request, OffsetForLeaderEpochRequest):
            self.checks.append(request)
            return self._epoch_ends(request)
        self.fetches.append(request)
        return self._fetched(request)

    def _epoch_error(self, partition: int, told: int) -> int:
        epoch = self.epochs.get(partition, 0)
        return 0 if told in (-1, epoch) else FENCED if told < epoch else UNKNOWN

    def _epoch_end(self, partition: int, epoch: int) -> tuple[int, int]:
        """The newest epoch of the log not above this one, and where it ends."""
        found, end = -1, -1
        for batch in self.logs.get(partition, []):
            base, batch_epoch = int.from_bytes(batch[:8], "big"), int.from_bytes(batch[12:16], "big")
            if batch_epoch > epoch:
                return (found, end) if found >= 0 else (epoch, base)
            found, end = batch_epoch, base + int.from_bytes(batch[23:27], "big") + 1
        return (epoch if epoch == self.epochs.get(partition, 0) else found), self.end.get(partition, 0)

    def _epoch_ends(self, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.topics:
            told = []
            for place in topic.partitions:
                error = self._epoch_error(place.partition, place.current_leader_epoch)
                epoch, end = (-1, -1) if error else self._epoch_end(place.partition, place.leader_epoch)
                told.append(
                    EpochEndOffset(partition=place.partition, error_code=error, leader_epoch=epoch, end_offset=end)
                )
            topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=told))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        partitions = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=self.epochs.get(index, 0),
                replica_nodes=[leader],
                isr_nodes=[leader],
            )
            for index, leader in enumerate(self.leaders)
        ]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=1, host="one", port=1),
                MetadataResponseBroker(node_id=2, host="two", port=2),
            ],
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name=topic.name,
                    error_code=self.topic_error,
                    partitions=[] if self.topic_error else partitions,
                )
                for topic in request.topics or ()
            ],
        )

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        told = []
        for place in request.topics[0].partitions:
            index = place.partition_index
            errors = self.offset_errors.get(index)
            if errors:
                told.append(ListOffsetsPartitionResponse(partition_index=index, error_code=errors.pop(0)))
                continue
            offset = {-2: self.begin.get(index, 0), -1: self.end.get(index, 0)}.get(place.timestamp)
            if offset is None:
                younger = place.timestamp - 1000
                offset = younger if younger < self.end.get(index, 0) else -1
            epoch = self.epochs.get(index, 0)
            told.append(ListOffsetsPartitionResponse(partition_index=index, offset=offset, leader_epoch=epoch))
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=request.topics[0].name, partitions=told)])

    def _fetched(self, request: FetchRequest) -> FetchResponse | None:
        responses = []
        any_data = False
        for topic in request.topics:
            told = []
            for place in topic.partitions:
                index = place.partition
                errors = list(filter(None, [self._epoch_error(index, place.current_leader_epoch)]))
                errors = errors or self.fetch_errors.get(index, [])
                if errors:
                    any_data = True
                    told.append(
                        PartitionData(
                            partition_index=index,
                            error_code=errors.pop(0),
                            high_watermark=self.end.get(index, 0),
                            log_start_offset=self.begin.get(index, 0),
                        )
                    )
                    continue
                if place.last_fetched_epoch >= 0:
                    epoch, end = self._epoch_end(index, place.last_fetched_epoch)
                    if epoch < place.last_fetched_epoch or end < place.fetch_offset:
                        any_data = True
                        diverging = DivergingEpoch(epoch=epoch, end_offset=end)
                        told.append(PartitionData(partition_index=index, diverging_epoch=diverging))
                        continue
                data = self._batches_from(index, place.fetch_offset, place.partition_max_bytes)
                any_data = any_data or bool(data)
                told.append(
                    PartitionData(
                        partition_index=index, high_watermark=self.end.get(index, 0), records=memoryview(data)
                    )
                )
            responses.append(FetchableTopicResponse(topic=topic.topic, partitions=told))
        # A broker holds back an answer without data; here that means for ever.
        return FetchResponse(responses=responses) if any_data else None

    def _batches_from(self, partition: int, offset: int, most_bytes: int) -> bytes:
        found = b""
        for batch in self.logs.get(partition, []):
            base = int.from_bytes(batch[:8], "big")
            last = base + int.from_bytes(batch[23:27], "big")
            if last >= offset:
                if found and len(found) + len(batch) > most_bytes:
                    # As a broker does: what fits of the next batch, cut in the middle.
                    return found + batch[: most_bytes - len(found)]
                found += batch
        return found


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(scope="session")
def make_world() -> type[World]:
    return World
