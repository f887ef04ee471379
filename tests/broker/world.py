"""Broker cores in a world of their own: memory for a disk, a clock moved by hand, and messages carried one by one."""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Sequence
from typing import Any

from ottla.broker.apis import VERSIONS
from ottla.broker.controller.core import ControllerCore
from ottla.broker.core import BrokerCore
from ottla.broker.events import (
    AskController,
    AskPeer,
    BrokerAddress,
    ClientContext,
    ConnectionLost,
    ControllerAnswered,
    ControllerRequest,
    ControllerResponse,
    FaultFired,
    Halted,
    HangUp,
    ImagePublished,
    LetGo,
    PartitionImage,
    PeerAnswered,
    RequestReceived,
    Respond,
)
from ottla.broker.log.directory import directory_id
from ottla.broker.log.lacking_logs import lacking_logs
from ottla.broker.settings import BrokerSettings
from ottla.broker.write_back import WriteBack
from ottla.faults.plan import FaultPlan
from ottla.protocol.frames import encode_response
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, decode_batches, encode_batch

TOPIC = "flights"
# The clock on the wall shows 2026-01-01 when `now_us` is 0.
WALL_OFFSET_US = 1_767_225_600_000_000
# So often all brokers may have something to say, or to do at one moment, before that counts as endless.
ROUNDS_MAX = 100_000
# No two folders are the same.
_SEEDS = itertools.count()
VERSIONS_ASKED = {"Produce": 12, "Fetch": 12, "ListOffsets": 8, "Metadata": 12, "ApiVersions": 4}


class MemorySlice:
    """A range of a file in memory."""

    def __init__(self, file: MemoryFile, position: int, size: int) -> None:
        self.file, self.position, self.size = file, position, size

    def read(self) -> bytes:
        return self.file.read(self.position, self.size)

    def source(self) -> None:
        return None


class MemoryFile:
    """An append-only file in memory that can be told to fail."""

    def __init__(self, storage: MemoryStorage, path: str) -> None:
        self.storage, self.path, self.closed = storage, path, False
        self.content = storage.contents[path]

    @property
    def size(self) -> int:
        return len(self.content)

    def append(self, buffers: Sequence[Any]) -> int:
        self.storage.check_writable(self.path)
        position = len(self.content)
        self.content += b"".join(buffers)
        self.storage.write_back.wrote(self.path, position, len(self.content))
        self.storage.appends += 1
        return position

    def read(self, position: int, size: int) -> bytes:
        assert not self.closed
        self.storage.check_readable(self.path)
        self.storage.reads += 1
        return bytes(self.content[position : position + size])

    def file_slice(self, position: int, size: int) -> MemorySlice:
        assert not self.closed
        assert 0 <= position <= position + size <= self.size
        return MemorySlice(self, position, size)

    def truncate(self, size: int) -> None:
        self.storage.check_writable(self.path)
        del self.content[size:]
        self.storage.write_back.cut(self.path, size)

    def sync(self) -> None:
        if self.storage.sync_failures:
            self.storage.sync_failures -= 1
            self.storage.drop(self.path)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.storage.write_back.synced(self.path)
        self.storage.syncs += 1
        self.storage.write_back.flushed(self.storage.sync_time_us)

    def begin_sync(self) -> Any:
        try:
            self.sync()
        except OSError as error:
            return Failed(error)
        return lambda: True

    def close(self) -> None:
        self.closed = True


class Failed:
    """A sync in the background that failed."""

    def __init__(self, error: OSError) -> None:
        self.error = error

    def __call__(self) -> bool:
        raise self.error


class MemoryStorage:
    """A folder in memory; `failure` is the errno writes below `failing` end with, None while all is well.

    `read_failures`: so many reads to come fail; `sync_failures`: so many syncs do, and what they were to write is on no
    disk after that, though the next sync succeeds.
    """

    def __init__(self) -> None:
        self.contents: dict[str, bytearray] = {}
        self.failure: int | None = None
        self.failing = ""
        self.appends = self.reads = self.syncs = 0
        self.read_failures = self.sync_failures = 0
        self.dropped: dict[str, int] = {}
        self.sync_time_us = 0
        self.write_back = WriteBack()

    def check_writable(self, path: str) -> None:
        if self.failure is not None and path.startswith(self.failing):
            raise OSError(self.failure, os.strerror(self.failure))

    def check_readable(self, path: str) -> None:
        if self.read_failures and path.startswith(self.failing):
            self.read_failures -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def drop(self, path: str) -> None:
        self.dropped[path] = self.write_back.synced_bytes(path, len(self.contents[path]))
        self.write_back.synced(path)

    def make_folder(self, path: str, files: Sequence[tuple[str, bytes]]) -> bool:
        if self.files(path):
            return False
        for name, content in files:
            self.write_file(f"{path}/{name}", content)
        return True

    def open(self, path: str) -> MemoryFile:
        if path not in self.contents:
            self.check_writable(path)
            self.contents[path] = bytearray()
        return MemoryFile(self, path)

    def exists(self, path: str) -> bool:
        return path in self.contents or bool(self.files(path))

    def volume(self) -> tuple[str, int, int]:
        used = sum(map(len, self.contents.values()))
        return "memory", 1 << 30, (1 << 30) - used

    def folders(self) -> list[str]:
        return sorted({path.split("/")[0] for path in self.contents if "/" in path})

    def files(self, folder: str) -> list[str]:
        start = folder + "/"
        return sorted(path.removeprefix(start) for path in self.contents if path.startswith(start))

    def read_file(self, path: str) -> bytes | None:
        return bytes(self.contents[path]) if path in self.contents else None

    def write_file(self, path: str, content: bytes, *, synced: bool = False) -> None:
        self.check_writable(path)
        self.dropped.pop(path, None)
        self.contents[path] = bytearray(content)
        self.write_back.synced(path)

    def rename(self, old: str, new: str) -> None:
        self.check_writable(old)
        for path in [path for path in self.contents if path == old or path.startswith(old + "/")]:
            self.contents[new + path.removeprefix(old)] = self.contents.pop(path)
        self.write_back.renamed(old, new)

    def remove(self, path: str, *, synced: bool = False) -> None:
        self.check_writable(path)
        for name in [n for n in self.contents if n == path or n.startswith(path + "/")]:
            del self.contents[name]
        self.write_back.removed(path)

    def power_off(self, rng: random.Random) -> None:
        for path, size in self.write_back.survivors(rng):
            self.contents[path] = self.contents[path][:size]
        for path, size in self.dropped.items():
            self.contents[path] = self.contents[path][:size]
        self.dropped.clear()


class World:
    """A cluster of broker cores; what clients get is in `answers` by connection, "hung up" where that happened.

    Peers in `unreachable` are not reached by questions of others; from those in `cut` no answers arrive either.
    """

    def __init__(
        self,
        brokers: int,
        storages: dict[int, MemoryStorage] | None = None,
        *,
        cut_off: tuple[int, ...] = (),
        **settings: int,
    ) -> None:
        self.now_us = 1_000_000
        self.settings = BrokerSettings(**settings)
        self.faults = FaultPlan()
        self.storages = storages or {broker_id: MemoryStorage() for broker_id in range(brokers + 1)}
        addresses = [BrokerAddress(broker_id, "localhost", 9090 + broker_id) for broker_id in range(1, brokers + 1)]
        rng = random.Random(7)
        self.rng = rng
        self.controller = self.new_controller(addresses)
        self.brokers: dict[int, BrokerCore] = {}
        self.starts: dict[int, int] = {}
        self.frozen: dict[int, list[Any]] = {}
        self.frozen_images: set[int] = set()
        self.let_go: list[int] = []
        self.halted: list[tuple[int, str]] = []
        for broker_id in range(1, brokers + 1):
            self._boot(broker_id)
        self.unreachable: set[int] = set(cut_off)
        self.cut: set[int] = set()
        self.without_controller = False
        self.off_controller: set[int] = set()
        self.last_question = 0
        self.answers: dict[int, list[Any]] = {}
        self.questions: dict[int, tuple[int, int, int]] = {}
        self.order: list[str] = []
        self.fault_fired: list[tuple[int, str]] = []
        self.last_connection = 0
        self.drain()

    def new_controller(self, addresses: list[BrokerAddress]) -> ControllerCore:
        directories = {
            each: directory_id(self.storages[each], each, random.Random(next(_SEEDS))) for each in self.storages if each
        }
        lacking = {each: lacking_logs(self.storages[each]) for each in self.storages if each}
        return ControllerCore(
            addresses, self.storages[0], self.settings, self.rng, directories=directories, lacking=lacking
        )

    # Breaking brokers.

    def _boot(self, broker_id: int) -> None:
        self.starts[broker_id] = self.starts.get(broker_id, 0) + 1
        storage, epoch = self.storages[broker_id], self.starts[broker_id]
        self.brokers[broker_id] = BrokerCore(
            broker_id,
            storage,
            self.settings,
            self.rng,
            self.faults,
            broker_epoch=epoch,
            wall_offset_us=WALL_OFFSET_US,
        )

    def kill(self, broker_id: int) -> None:
        """The broker dies; what it was asked is answered by a cut connection."""
        del self.brokers[broker_id]
        self.frozen.pop(broker_id, None)
        for connection, (asker, peer, token) in list(self.questions.items()):
            if peer == broker_id:
                del self.questions[connection]
                self._deliver(asker, PeerAnswered(peer, token, None))
            elif asker == broker_id:
                del self.questions[connection]
                self._deliver(peer, ConnectionLost(connection))
        self.drain()

    def power_off(self, broker_id: int, *, seed: int = 1) -> None:
        """The broker's machine loses power."""
        self.kill(broker_id)
        self.storages[broker_id].power_off(random.Random(seed))

    def start(self, broker_id: int) -> None:
        self._boot(broker_id)
        self.brokers[broker_id].tick(self.now_us)
        self.drain()

    def pause(self, broker_id: int) -> None:
        self.frozen[broker_id] = []

    def resume(self, broker_id: int) -> None:
        for event in self.frozen.pop(broker_id):
            self.brokers[broker_id].receive(event, self.now_us)
        self.brokers[broker_id].tick(self.now_us)
        self.drain()

    def _deliver(self, broker_id: int, event: Any) -> None:
        if broker_id in self.frozen:
            self.frozen[broker_id].append(event)
        elif broker_id in self.brokers:
            self.brokers[broker_id].receive(event, self.now_us)

    # Carrying messages.

    def drain(self) -> None:
        """Carry messages until nobody has anything to say; AssertionError where that never comes."""
        for _ in range(ROUNDS_MAX):
            busy = False
            for output in self.controller.outputs():
                busy = True
                self._from_controller(output)
            for broker_id, core in list(self.brokers.items()):
                for output in core.outputs() if broker_id not in self.frozen else ():
                    busy = True
                    self._from_broker(broker_id, output)
            if not busy:
                return
        raise AssertionError(f"brokers that still talk after {ROUNDS_MAX} rounds")

    def _from_controller(self, output: Any) -> None:
        self.order.append(type(output).__name__)
        if isinstance(output, ImagePublished):
            for broker_id in list(self.brokers):
                if broker_id not in self.frozen_images:
                    self._deliver(broker_id, output)
        else:
            assert isinstance(output, ControllerResponse)
            self._deliver(output.broker_id, ControllerAnswered(output.token, output.message))

    def _from_broker(self, broker_id: int, output: Any) -> None:
        if isinstance(output, AskPeer):
            away = self.unreachable | self.cut
            unreachable = output.broker_id in away or broker_id in away
            if unreachable or output.broker_id not in self.brokers:
                answer = PeerAnswered(output.broker_id, output.token, None)
                self.brokers[broker_id].receive(answer, self.now_us)
                return
            self.last_question += 1
            connection = -self.last_question
            self.questions[connection] = (broker_id, output.broker_id, output.token)
            version = VERSIONS[output.message.API_KEY][1]
            event = RequestReceived(connection, output.token, version, "peer", output.message)
            self._deliver(output.broker_id, event)
        elif isinstance(output, LetGo):
            self.let_go.append(broker_id)
        elif isinstance(output, Halted):
            self.halted.append((broker_id, output.reason))
            self.kill(broker_id)
        elif isinstance(output, AskController):
            if self.without_controller or broker_id in self.off_controller:
                self.brokers[broker_id].receive(ControllerAnswered(output.token, None), self.now_us)
            else:
                self.controller.receive(ControllerRequest(broker_id, output.token, output.message), self.now_us)
        elif isinstance(output, FaultFired):
            self.fault_fired.append((broker_id, output.kind))
        elif output.connection_id < 0:
            if output.connection_id not in self.questions:
                return
            asker, peer, token = self.questions.pop(output.connection_id)
            lost = asker in self.cut or peer in self.cut
            self._deliver(asker, PeerAnswered(peer, token, None if lost else output.message))
        elif isinstance(output, HangUp):
            self.answers.setdefault(output.connection_id, []).append("hung up")
            self.brokers[broker_id].receive(ConnectionLost(output.connection_id), self.now_us)
        else:
            assert isinstance(output, Respond)
            if output.message is not None:
                encode_response(1, output.message, output.version)  # raises where the version cannot carry the answer
            self.answers.setdefault(output.connection_id, []).append(output.message)

    def pass_time(self, ms: int) -> None:
        """Move the clock, stopping wherever a broker wants to be told."""
        end_us = self.now_us + ms * 1000
        stands_still = 0
        while stands_still < ROUNDS_MAX:
            running = [core for broker_id, core in self.brokers.items() if broker_id not in self.frozen]
            cores: list[Any] = [self.controller, *running]
            due = [d for d in (core.deadline_us() for core in cores) if d is not None]
            if not due or min(due) > end_us:
                break
            stands_still = 0 if min(due) > self.now_us else stands_still + 1
            self.now_us = max(self.now_us, min(due))
            for core in cores:
                deadline = core.deadline_us()
                if deadline is not None and deadline <= self.now_us:
                    core.tick(self.now_us)
            self.drain()
        else:
            raise AssertionError(f"deadlines that are still due after {ROUNDS_MAX} rounds")
        self.now_us = end_us

    # Being a client.

    def connect(self) -> int:
        self.last_connection += 1
        return self.last_connection

    def send(
        self,
        broker_id: int,
        message: Any,
        *,
        connection: int | None = None,
        version: int | None = None,
        client_id: str = "test",
        client: ClientContext | None = None,
        size: int = 0,
    ) -> int:
        """Hand a request to a broker and return the connection's number."""
        connection = connection or self.connect()
        name = type(message).__name__.removesuffix("Request")
        version = version if version is not None else VERSIONS_ASKED.get(name, 5)
        self._deliver(broker_id, RequestReceived(connection, 1, version, client_id, message, size, client=client))
        self.drain()
        return connection

    def ask(self, broker_id: int, message: Any, *, version: int | None = None, **client: Any) -> Any:
        """The answer to a request on a new connection: a message, "hung up", or "waiting"."""
        connection = self.send(broker_id, message, version=version, **client)
        answers = self.answers.get(connection, ["waiting"])
        assert len(answers) == 1
        return answers[0]

    def create_topic(
        self, name: str = TOPIC, partitions: int = 1, replicas: int = 1, *, broker_id: int = 1, **configs: Any
    ) -> int:
        """Create a topic (configs with underscores for dots) and return the error code."""
        given = [CreatableTopicConfig(name=key.replace("_", "."), value=str(value)) for key, value in configs.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=given)
        response = self.ask(broker_id, CreateTopicsRequest(topics=[topic]))
        return response.topics[0].error_code

    def partition(self, topic: str = TOPIC, index: int = 0) -> PartitionImage:
        return self.controller.image.topics[topic].partitions[index]

    def leader(self, topic: str = TOPIC, partition: int = 0) -> int:
        return self.controller.image.topics[topic].partitions[partition].leader

    def produce(
        self, batch: bytes, *, acks: int = -1, topic: str = TOPIC, partition: int = 0, broker_id: int | None = None
    ) -> Any:
        """The partition's part of the answer, "hung up", "waiting", or None where none is expected."""
        message = produce_request({(topic, partition): batch}, acks=acks)
        answer = self.ask(broker_id or self.leader(topic, partition), message)
        return answer if answer is None or isinstance(answer, str) else answer.responses[0].partition_responses[0]

    def fetch(self, offset: int = 0, *, topic: str = TOPIC, partition: int = 0, **more: Any) -> Any:
        """The partition's part of a consumer's Fetch that does not wait."""
        message = fetch_request(offset, topic=topic, partition=partition, **{"max_wait_ms": 0, **more})
        return self.ask(self.leader(topic, partition), message).responses[0].partitions[0]

    def stored(self, topic: str = TOPIC, partition: int = 0, broker_id: int | None = None) -> list[Record]:
        """Every record in a replica's log."""
        storage = self.storages[broker_id or self.leader(topic, partition)]
        folder = f"{topic}-{partition}"
        content = b"".join(storage.contents[f"{folder}/{name}"] for name in storage.files(folder) if ".log" in name)
        return [record for _, records in decode_batches(content) for record in records]

    def end_offset(self, topic: str = TOPIC, partition: int = 0, *, timestamp: int = -1) -> Any:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        return self.ask(self.leader(topic, partition), message).topics[0].partitions[0]

    def close(self) -> None:
        for core in self.brokers.values():
            core.close()


def full_disk_of_the_last_in_line(world: World, topic: str, index: int) -> tuple[int, int, int]:
    """The partition's leader, who leads after it, and who would lead then: that one can write nothing of it now."""
    first = world.leader(topic, index)
    second, third = (each for each in world.partition(topic, index).replicas if each != first)
    world.storages[third].failing = f"{topic}-{index}/"
    world.storages[third].failure = errno.ENOSPC
    return first, second, third


def batch_of(*values: bytes, timestamp_ms: int = 1000, producer_id: int = -1, sequence: int = -1, **more: Any) -> bytes:
    """A record batch as a producer sends it: one record for each value, timestamps a millisecond apart."""
    first = more.get("base_offset", 0)
    records = [Record(first + index, timestamp_ms + index, None, value) for index, value in enumerate(values)]
    epoch = more.pop("producer_epoch", 0 if producer_id >= 0 else -1)
    return encode_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **more)


def produce_request(batches: dict[tuple[str, int], Any], *, acks: int = -1, timeout_ms: int = 30_000) -> ProduceRequest:
    """A Produce request, its records in writable memory as a frame's are."""
    topics: dict[str, TopicProduceData] = {}
    for (topic, partition), batch in batches.items():
        data = topics.setdefault(topic, TopicProduceData(name=topic, partition_data=[]))
        records = memoryview(bytearray(batch)) if isinstance(batch, bytes) else batch
        data.partition_data.append(PartitionProduceData(index=partition, records=records))
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values()))


def fetch_request(offset: int = 0, *, topic: str = TOPIC, partition: int = 0, **more: Any) -> FetchRequest:
    """A Fetch of one partition; keywords of FetchPartition and FetchRequest."""
    of_partition = {name: more.pop(name) for name in list(more) if name in FetchPartition.__slots__}
    of_partition = {"partition_max_bytes": 1 << 20, **of_partition}
    wanted = FetchPartition(partition=partition, fetch_offset=offset, **of_partition)
    topics = [FetchTopic(topic=topic, partitions=[wanted])]
    return FetchRequest(**{"max_wait_ms": 500, "min_bytes": 1, "session_epoch": -1, **more}, topics=topics)


def records_of(answer: Any) -> list[Record]:
    """The records in a partition's part of a Fetch answer."""
    content = answer.records.read() if hasattr(answer.records, "read") else bytes(answer.records)
    return [record for _, records in decode_batches(content) for record in records]
