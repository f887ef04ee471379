"""Random lives of a topic: what producers, consumers and transactions ask, valid or not, and how it is answered.

The steps are made from a seed and free of ids; `Teller` asks a cluster and notes each answer without what
is each cluster's own affair: producer ids (told by name), the clock, the words of error messages.
"""

from __future__ import annotations

import random
import struct
from typing import Any, NamedTuple

import crc32c
from tests.wire import Wire

from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

PARTITIONS = 2
_TOPIC_IDS_FROM_VERSION = 13
FIRST_MS = 1_700_000_000_000
# Records carry times up to this or from the next on; those between are the clusters' own.
_LAST_MS = FIRST_MS + 100_000
_FAR_MS = 1 << 50
_CODECS = ["none", "none", "gzip", "snappy", "lz4", "zstd"]
_HEADER = struct.Struct(">qiibIhiqqqhii")
_LAST_SEQUENCE = (1 << 31) - 1
# (position, format) of the header fields that go wrong; the CRC is made right again.
_FIELDS = {"attributes": (21, ">h"), "last_offset_delta": (23, ">i"), "count": (57, ">i"), "max_timestamp": (35, ">q")}


class Step(NamedTuple):
    """One request: its kind, and what is in it."""

    kind: str
    partition: int
    given: dict[str, Any]


def steps_of(seed: int, versions: dict[int, tuple[int, int]], length: int = 60) -> list[Step]:
    """The steps of a seed, in versions out of the ranges given; APIs that are not in `versions` are left out."""
    rng = random.Random(seed)
    kinds = {
        "produce": (0, 12),
        "sequence": (0, 12),
        "damage": (0, 6),
        "fetch": (1, 12),
        "list_offsets": (2, 6),
        "delete_records": (21, 3),
        "init": (22, 2),
        "epoch_end": (23, 3),
        "begin": (24, 5),
        "end": (26, 6),
        "producers": (61, 3),
        "transactions": (65, 3),
    }
    weights = [weight for _, weight in kinds.values()]
    steps = [Step("init", 0, {"name": "p0"}), Step("init", 0, {"name": "t0"})]
    for kind in rng.choices(list(kinds), weights, k=length):
        if kinds[kind][0] in versions:
            steps.append(_STEPS[kind](rng, rng.randrange(PARTITIONS), versions))
    steps += [Step("fetch", number, whole(versions)) for number in range(PARTITIONS)]
    return steps


def whole(versions: dict[int, tuple[int, int]]) -> dict[str, Any]:
    """A fetch of all there is."""
    return {"offset": ("start", 0), "version": versions[1][1], "max_bytes": 1 << 24, "partition_max_bytes": 1 << 24}


def _version(rng: random.Random, versions: dict[int, tuple[int, int]], api_key: int) -> int:
    lowest, highest = versions[api_key]
    # As many draws whatever the range: the steps of a seed stay what they are when an API gets a new version.
    wanted, chance = rng.random(), rng.random()
    return lowest + int(chance * (highest - lowest + 1)) if wanted < 0.5 else highest


def _produce(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    times = [FIRST_MS, FIRST_MS, FIRST_MS + rng.randrange(10_000), -1, 0, rng.choice([-5, -5, -5, _FAR_MS])]
    given = {
        "count": rng.choice([1, 1, 2, 3, 10]),
        "size": rng.choice([0, 10, 100, 100, 3000]),
        "codec": rng.choice(_CODECS),
        "time_ms": rng.choice(times),
        "acks": rng.choice([-1, -1, -1, 1, 0, 2]),
        "version": _version(rng, versions, 0),
        "topic": "missing" if rng.random() < 0.05 else None,
    }
    return Step("produce", 9 if rng.random() < 0.05 else partition, given)


def _sequence(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    given = {
        "name": rng.choice(["p0", "p0", "p1", "t0", "t0"]),
        "count": rng.choice([1, 1, 2, 5]),
        "step": rng.choice(["next"] * 6 + ["again", "again", "older", "gap", "zero", "wrap"]),
        "epoch": rng.choice([0] * 8 + [-1, 1]),
        "transactional": rng.choice([None] * 9 + [True]),
        "version": versions[0][1] if rng.random() < 0.7 else 11,
    }
    return Step("sequence", partition, given)


def _damage(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    field, value = rng.choice(
        [
            ("crc", 0),
            ("magic", rng.choice([0, 1, 3, 127])),
            ("attributes", rng.choice([5, 6, 7, 16, 32, 48])),
            ("last_offset_delta", rng.choice([-1, 0, 1, 5, 100])),
            ("count", rng.choice([-1, 0, 1, 5])),
            ("cut", rng.choice([1, 20, 60])),
            ("twice", 0),
            ("base_offset", rng.choice([-1, 7, 1 << 40])),
            ("nothing", 0),
            ("garbage", 0),
        ]
    )
    return Step("damage", partition, {"field": field, "value": value, "acks": -1, "version": versions[0][1]})


def _fetch(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    given = {
        "offset": rng.choice([("start", rng.randint(-2, 6)), ("end", rng.randint(-6, 2))]),
        "version": _version(rng, versions, 1),
        "max_bytes": rng.choice([0, 1, 100, 1000, 1 << 20]),
        "partition_max_bytes": rng.choice([0, 1, 100, 300, 1 << 20]),
        "isolation": rng.choice([0, 1]),
        "leader_epoch": rng.choice([-1] * 6 + [0, 5]),
    }
    return Step("fetch", 9 if rng.random() < 0.05 else partition, given)


def _list_offsets(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    times = [-1, -2, -3, -4, -5, -6, -7, 0, FIRST_MS, FIRST_MS + 1, FIRST_MS + rng.randrange(10_000), 2 * _FAR_MS]
    given = {
        "timestamp": rng.choice(times),
        "isolation": rng.choice([0, 1]),
        "version": _version(rng, versions, 2),
        "leader_epoch": rng.choice([-1] * 6 + [0, 5]),
    }
    return Step("list_offsets", partition, given)


def _delete_records(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    offset = rng.choice([("start", rng.randint(-2, 3)), ("end", rng.randint(-1, 1)), ("all", 0)])
    return Step("delete_records", partition, {"offset": offset, "version": _version(rng, versions, 21)})


def _init(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    return Step("init", partition, {"name": rng.choice(["p0", "p1", "t0", "t0"]), "bump": rng.choice([False, True])})


def _epoch_end(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    epochs = {"epoch": rng.choice([-1, 0, 0, 1, 7]), "leader_epoch": rng.choice([-1, -1, 0, 5])}
    return Step("epoch_end", partition, {**epochs, "version": _version(rng, versions, 23)})


def _begin(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    missing = rng.random() < 0.05
    return Step("begin", partition, {"epoch": rng.choice([0] * 8 + [-1, 1]), "topic": "missing" if missing else None})


def _end(rng: random.Random, partition: int, versions: dict[int, tuple[int, int]]) -> Step:
    given = {"commit": rng.random() < 0.6, "epoch": rng.choice([0] * 8 + [-1, 1]), "version": rng.choice([4, 5])}
    return Step("end", partition, given)


def _look(kind: str) -> Any:
    return lambda rng, partition, versions: Step(kind, partition, {})


_STEPS = {
    "produce": _produce,
    "sequence": _sequence,
    "damage": _damage,
    "fetch": _fetch,
    "list_offsets": _list_offsets,
    "delete_records": _delete_records,
    "init": _init,
    "epoch_end": _epoch_end,
    "begin": _begin,
    "end": _end,
    "producers": _look("producers"),
    "transactions": _look("transactions"),
}


# A method cannot be called as the table of producers is.
_ASKED_BY = {"producers": "producers_of"}


class Teller:
    """Asks one cluster the steps of a seed in a topic of its own, and gives what is to be compared."""

    def __init__(self, address: str, topic: str) -> None:
        self.wire = Wire(address)
        self.topic = topic
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        self.topic_id: bytes = self.wire.ask(asked, 12).topics[0].topic_id
        self.producers: dict[str, tuple[int, int]] = {}
        self.names: dict[int, str] = {}
        self.first_coordinator_epoch: int | None = None
        self.sent: dict[tuple[str, int, int], list[tuple[int, int]]] = {}

    def tell(self, step: Step) -> Any:
        """What is answered to a step."""
        return getattr(self, _ASKED_BY.get(step.kind, step.kind))(step.partition, **step.given)

    # Producers.

    def init(self, partition: int, name: str, bump: bool = False) -> Any:
        transactional_id = f"{self.topic}-{name}" if name.startswith("t") else None
        before = self.producers.get(name, (-1, -1)) if bump else (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=60_000,
            producer_id=before[0],
            producer_epoch=before[1],
        )
        answer = self.wire.ask_until_ready(request, 5)
        if answer.error_code == 0:
            self.producers[name] = (answer.producer_id, answer.producer_epoch)
            self.names.setdefault(answer.producer_id, f"{name}/{len(self.names)}")
        return answer.error_code, self.names.get(answer.producer_id), answer.producer_epoch

    def send(self, partition: int, data: bytes, acks: int, version: int, topic: str | None = None, **more: Any) -> Any:
        place = PartitionProduceData(index=partition, records=data)
        if version >= _TOPIC_IDS_FROM_VERSION:
            topics = [TopicProduceData(topic_id=self.topic_id if topic is None else b"?" * 16, partition_data=[place])]
        else:
            topics = [TopicProduceData(name=topic or self.topic, partition_data=[place])]
        request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics, **more)
        if acks == 0:
            self.wire.send(request, version)
            asking = ApiVersionsRequest()
            self.wire.send(asking, 0)
            answer = self.wire.answer(asking, 0)
            return "hung up" if answer == "hung up" else "no answer"
        answer = self.wire.ask_until_ready(request, version)
        if answer == "hung up":
            return answer
        told = answer.responses[0].partition_responses[0]
        return told.error_code, told.base_offset, told.log_append_time_ms, told.log_start_offset

    def produce(
        self, partition: int, count: int, size: int, codec: str, time_ms: int, acks: int, version: int, topic: Any
    ) -> Any:
        records = [Record(n, time_ms + n if time_ms > 0 else time_ms, None, b"v" * size) for n in range(count)]
        return self.send(partition, encode_batch(records, codec=codec), acks, version, topic)

    def sequence(
        self, partition: int, name: str, count: int, step: str, epoch: int, transactional: bool | None, version: int
    ) -> Any:
        producer_id, known_epoch = self.producers.get(name, (-1, -1))
        if producer_id < 0:
            return "not yet"
        transactional = name.startswith("t") if transactional is None else transactional
        history = self.sent.setdefault((name, partition, known_epoch), [])
        following = (history[-1][0] + history[-1][1]) & _LAST_SEQUENCE if history else 0
        if step in ("again", "older") and history:
            base, count = history[-1 if step == "again" else max(-6, -len(history))]
        else:
            base = {"gap": (following + 3) & _LAST_SEQUENCE, "zero": 0, "wrap": _LAST_SEQUENCE - 1}.get(step, following)
        used_epoch = max(known_epoch + epoch, 0)
        data = encode_batch(
            [Record(n, FIRST_MS + n, b"k", b"%d" % (base + n)) for n in range(count)],
            producer_id=producer_id,
            producer_epoch=used_epoch,
            base_sequence=base,
            is_transactional=transactional,
        )
        more = {"transactional_id": f"{self.topic}-{name}"} if transactional else {}
        told = self.send(partition, data, -1, version, **more)
        if told != "hung up" and told[0] == 0 and epoch == 0:
            history.append((base, count))
        return told

    def damage(self, partition: int, field: str, value: int, acks: int, version: int) -> Any:
        data = bytearray(encode_batch([Record(n, FIRST_MS + n, None, b"value %d" % n) for n in range(3)]))
        if field in _FIELDS:
            position, layout = _FIELDS[field]
            struct.pack_into(layout, data, position, value)
            struct.pack_into(">I", data, 17, crc32c.crc32c(data[21:]))
        elif field == "crc":
            data[17] ^= 1
        elif field == "magic":
            data[16] = value
        elif field == "cut":
            del data[-value:]
        elif field == "twice":
            data *= 2
        elif field == "base_offset":
            struct.pack_into(">q", data, 0, value)
        elif field == "nothing":
            data.clear()
        else:
            data[:] = bytes(range(100))
        return self.send(partition, bytes(data), acks, version)

    # Transactions.

    def begin(self, partition: int, epoch: int, topic: str | None) -> Any:
        producer_id, known_epoch = self.producers["t0"]
        asked = AddPartitionsToTxnTopic(name=topic or self.topic, partitions=[partition])
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=f"{self.topic}-t0",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=max(known_epoch + epoch, 0),
            v3_and_below_topics=[asked],
        )
        answer = self.wire.ask_until_ready(request, 3)
        (topics,) = answer.results_by_topic_v3_and_below
        return [each.partition_error_code for each in topics.results_by_partition]

    def end(self, partition: int, commit: bool, epoch: int, version: int) -> Any:
        producer_id, known_epoch = self.producers["t0"]
        request = EndTxnRequest(
            transactional_id=f"{self.topic}-t0",
            producer_id=producer_id,
            producer_epoch=max(known_epoch + epoch, 0),
            committed=commit,
        )
        answer = self.wire.ask_until_ready(request, version)
        if answer.error_code == 0:
            self.settle()
            if version >= 5:
                self.producers["t0"] = (answer.producer_id, answer.producer_epoch)
        return answer.error_code, self.names.get(answer.producer_id), answer.producer_epoch

    def settle(self) -> None:
        """Wait until the transaction's markers are written."""
        while self.transactions(0)[1].startswith("Prepare"):
            pass

    def producers_of(self, partition: int) -> Any:
        asked = [TopicRequest(name=self.topic, partition_indexes=[partition])]
        answer = self.wire.ask(DescribeProducersRequest(topics=asked), 0)
        told = answer.topics[0].partitions[0]
        return told.error_code, sorted(
            (
                self.names.get(each.producer_id),
                each.producer_epoch,
                each.last_sequence,
                each.current_txn_start_offset,
                self.epoch_since_the_first(each.coordinator_epoch),
            )
            for each in told.active_producers
        )

    def epoch_since_the_first(self, coordinator_epoch: int) -> int:
        """Counted from the first one seen: it rises with each election, and other tests may have had some."""
        if coordinator_epoch < 0:
            return coordinator_epoch
        if self.first_coordinator_epoch is None:
            self.first_coordinator_epoch = coordinator_epoch
        return coordinator_epoch - self.first_coordinator_epoch

    def transactions(self, partition: int) -> Any:
        answer = self.wire.ask_until_ready(DescribeTransactionsRequest(transactional_ids=[f"{self.topic}-t0"]), 0)
        (told,) = answer.transaction_states
        places = sorted((each.topic, sorted(each.partitions)) for each in told.topics)
        epoch = told.producer_epoch
        return told.error_code, told.transaction_state, self.names.get(told.producer_id), epoch, places

    # Readers.

    def offset(self, partition: int, wanted: tuple[str, int]) -> int:
        anchor, distance = wanted
        if anchor == "all":
            return -1
        asked = ListOffsetsPartition(partition_index=partition, timestamp=-2 if anchor == "start" else -1)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self.topic, partitions=[asked])])
        told: int = self.wire.ask(request, 8).topics[0].partitions[0].offset
        return told + distance

    def fetch(
        self,
        partition: int,
        offset: tuple[str, int],
        version: int,
        max_bytes: int,
        partition_max_bytes: int,
        isolation: int = 0,
        leader_epoch: int = -1,
    ) -> Any:
        wanted = FetchPartition(
            partition=partition,
            fetch_offset=self.offset(partition, offset),
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch if version >= 9 else -1,
        )
        by = {"topic_id": self.topic_id} if version >= _TOPIC_IDS_FROM_VERSION else {"topic": self.topic}
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_epoch=-1 if version >= 7 else 0,
            topics=[FetchTopic(partitions=[wanted], **by)],
        )
        answer = self.wire.ask(request, version)
        told = answer.responses[0].partitions[0]
        aborted = [(self.names.get(each.producer_id), each.first_offset) for each in told.aborted_transactions or ()]
        places = (told.high_watermark, told.last_stable_offset, told.log_start_offset)
        return told.error_code, places, aborted, self.batches(bytes(told.records or b""))

    def batches(self, data: bytes) -> list[Any]:
        """The whole batches of an answer, headers and records; markers without the time they were written at."""
        found, at = [], 0
        while at + 12 <= len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12])
            if at + size > len(data):
                break
            base, _, epoch, magic, _, attributes, last, first_ms, max_ms, producer, p_epoch, sequence, count = (
                _HEADER.unpack_from(data, at)
            )
            control = attributes & 32
            times = ("now", "now") if control else (first_ms, max_ms)
            name = self.names.get(producer, producer)
            header = (base, epoch, magic, attributes, last, *times, name, p_epoch, sequence, count)
            found.append((*header, data[at + 61 : at + size]))
            at += size
        return found

    def list_offsets(self, partition: int, timestamp: int, isolation: int, version: int, leader_epoch: int) -> Any:
        asked = ListOffsetsPartition(
            partition_index=partition,
            timestamp=timestamp,
            current_leader_epoch=leader_epoch if version >= 4 else -1,
        )
        topics = [ListOffsetsTopic(name=self.topic, partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation if version >= 2 else 0, topics=topics)
        told = self.wire.ask(request, version).topics[0].partitions[0]
        when = "now" if _LAST_MS < told.timestamp < _FAR_MS else told.timestamp
        return told.error_code, told.offset, when, told.leader_epoch

    def delete_records(self, partition: int, offset: tuple[str, int], version: int) -> Any:
        asked = DeleteRecordsPartition(partition_index=partition, offset=self.offset(partition, offset))
        topics = [DeleteRecordsTopic(name=self.topic, partitions=[asked])]
        told = self.wire.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), version).topics[0].partitions[0]
        return told.error_code, told.low_watermark

    def epoch_end(self, partition: int, epoch: int, leader_epoch: int, version: int) -> Any:
        asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=leader_epoch, leader_epoch=epoch)
        topics = [OffsetForLeaderTopic(topic=self.topic, partitions=[asked])]
        request = OffsetForLeaderEpochRequest(replica_id=-1 if version >= 3 else -2, topics=topics)
        told = self.wire.ask(request, version).topics[0].partitions[0]
        return told.error_code, told.leader_epoch, told.end_offset
