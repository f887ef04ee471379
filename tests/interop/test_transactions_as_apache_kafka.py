"""The same transaction requests to the embedded cluster and to Apache Kafka: error codes, epochs, logs agree.

`SCRIPTS` are functions over a `Session`, which plays any of both clusters to the same hand-driven producers that the
tests of the cores use; what they note is compared entry by entry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from ottla.records.plain import decode_batches

from ..broker.group_world import find_coordinator
from ..broker.transaction_world import Producer, listed
from ..broker.world import fetch_request
from ..wire import Wire
from .test_as_apache_kafka import make_topic

pytestmark = pytest.mark.kafka

_PATIENCE_S = 60
_NOT_READY = (6, 14, 15, 16)  # not the leader yet; the coordinator loads, is not available, is not this one
_OVER = ("Empty", "CompleteCommit", "CompleteAbort", "Ongoing", "")


class Session:
    """One cluster of one broker; takes the place of a `World` for `Producer`, and notes what is seen."""

    brokers = (1,)

    def __init__(self, address: str, topic: str) -> None:
        self.topic = topic
        self.seen: list[Any] = []
        self._wire = Wire(address)
        self._first_producer_id: int | None = None

    def ask(self, broker_id: int, message: Any, *, version: int) -> Any:
        """The answer, when the coordinators are ready to give one."""
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            answer = self._wire.ask(message, version)
            if not any(code in _NOT_READY for code in _codes(answer)) or time.monotonic() > give_up:
                return answer
            time.sleep(0.05)

    def leader(self, topic: str, partition: int) -> int:
        return 1

    def producer(self, name: str, version: int, **more: Any) -> Producer:
        return Producer(self, f"{self.topic}-{name}", version=version, **more)  # type: ignore[arg-type]

    def note(self, *what: Any) -> None:
        self.seen.append(what)

    def identity(self, producer: Producer) -> tuple[int, int]:
        """Producer ids as distances from the first one seen."""
        if self._first_producer_id is None:
            self._first_producer_id = producer.producer_id
        return producer.producer_id - self._first_producer_id, producer.epoch

    def init(self, producer: Producer, label: str, **more: Any) -> None:
        self.note(label, producer.init(**more), self.identity(producer)[1])
        self.settle(producer)

    def send(self, producer: Producer, label: str, *values: bytes, **more: Any) -> None:
        self.note(label, producer.send(*(values or (b"v",)), topic=self.topic, **more))

    def end(self, producer: Producer, label: str, committed: bool, **more: Any) -> None:
        self.note(label, producer.end(committed, **more), self.identity(producer)[1])
        self.settle(producer)

    def settle(self, producer: Producer) -> None:
        """Wait until no marker is being written."""
        give_up = time.monotonic() + _PATIENCE_S
        while producer.state not in _OVER:
            assert time.monotonic() < give_up
            time.sleep(0.02)
        told = producer.describe()
        self.note("state", told.error_code, told.transaction_state, told.producer_epoch, bool(told.topics))

    def note_log(self) -> None:
        """Batches of partition 0, and what a reader of committed records is told."""
        asked = fetch_request(0, topic=self.topic, isolation_level=1, max_wait_ms=0)
        for topic in asked.topics:
            topic.topic = self.topic
        found = self.ask(1, asked, version=12).responses[0].partitions[0]
        self.note("fetch", found.error_code, found.high_watermark, found.last_stable_offset)
        self.note("aborted", sorted(row.first_offset for row in found.aborted_transactions or ()))
        content = b"".join(map(bytes, found.records)) if isinstance(found.records, list) else bytes(found.records)
        for header, records in decode_batches(content):
            told = [(record.key, None if header.is_control else record.value) for record in records]
            self.note(header.base_offset, header.is_control, header.producer_epoch, header.base_sequence, told)


def life(session: Session, version: int) -> None:
    producer = session.producer("life", version)
    session.init(producer, "init")
    session.end(producer, "commit nothing", True)
    session.end(producer, "abort nothing", False)
    for committed in (True, False, True):
        session.send(producer, "first", b"a", b"b")
        session.send(producer, "second", b"c")
        session.end(producer, "end", committed)
        session.end(producer, "the same end again", committed)
        session.end(producer, "the other end", not committed)
    if version == 2:
        producer.epoch -= 1
        session.end(producer, "an epoch before", True)
        producer.epoch -= 5
        session.end(producer, "long before", True)
    session.note_log()


def zombies(session: Session, version: int) -> None:
    old, new = session.producer("zombie", version), session.producer("zombie", version)
    session.init(old, "old")
    session.send(old, "old sends")
    session.init(new, "new, first try")
    session.init(new, "new")
    session.send(old, "zombie sends")
    session.end(old, "zombie commits", True)
    session.end(old, "zombie commits in version 1", True, api_version=1)
    session.note("zombie adds", old.add((session.topic, 0), api_version=1), old.add((session.topic, 0)))
    session.init(old, "zombie goes on", keep=True)
    session.send(new, "new sends")
    session.end(new, "new commits", True)
    new.producer_id += 1000
    session.end(new, "another id", True)
    session.note_log()


def fenced_goes_on(session: Session, version: int) -> None:
    old, new = session.producer("fenced", version), session.producer("fenced", version)
    session.init(old, "old")
    session.init(old, "old again", keep=True)
    session.send(old, "old sends")
    session.init(new, "new, first try")
    epoch = old.epoch
    session.init(old, "old goes on", keep=True)
    session.note("epoch", old.epoch - epoch)
    session.init(new, "new")
    session.init(old, "old goes on once more", keep=True)
    session.note_log()


def going_on(session: Session, version: int) -> None:
    producer = session.producer("on", version)
    session.init(producer, "init")
    session.init(producer, "goes on", keep=True)
    producer.epoch -= 1
    session.init(producer, "asks again", keep=True)
    producer.epoch += 7
    session.init(producer, "from the future", keep=True)
    for timeout_ms in (0, -1, 900_001):
        producer.timeout_ms = timeout_ms
        session.init(producer, "timeout")


def not_added(session: Session, version: int) -> None:
    producer = session.producer("unadded", version)
    session.init(producer, "init")
    for api_version in (9, 10, 11):
        code = producer.produce(b"v", topic=session.topic, api_version=api_version)
        session.note("not added", api_version, code)
    session.note("no id", producer.produce(b"v", topic=session.topic, transactional_id=None))
    session.note("no such partition", producer.add((session.topic, 0), (session.topic, 9)))
    session.send(producer, "added")
    session.note("outside", producer.produce(b"v", topic=session.topic, sequence=1, is_transactional=False))
    session.note("gap", producer.produce(b"v", topic=session.topic, sequence=5))
    session.note("twice", producer.produce(b"v", topic=session.topic, sequence=0))
    session.note("epoch ahead", producer.produce(b"v", topic=session.topic, sequence=0, epoch=producer.epoch + 1))
    session.end(producer, "commit", True)
    session.note("late", producer.produce(b"late", topic=session.topic, sequence=1, epoch=0))
    session.note_log()


def offsets(session: Session, version: int) -> None:
    producer, group = session.producer("offsets", version), f"{session.topic}-{version}"
    find_coordinator(session, group)  # type: ignore[arg-type]
    session.init(producer, "init")

    def fetched(label: str) -> None:
        for stable in (False, True):
            places = [OffsetFetchRequestTopics(name=session.topic, partition_indexes=[0])]
            asked = OffsetFetchRequestGroup(group_id=group, topics=places)
            answer = session.ask(1, OffsetFetchRequest(groups=[asked], require_stable=stable), version=9)
            found = answer.groups[0].topics[0].partitions[0]
            session.note(label, stable, found.error_code, found.committed_offset)

    for offset, committed in ((3, False), (5, True), (7, False)):
        session.note("commit offset", producer.commit_offset(group, offset, topic=session.topic))
        fetched("open")
        session.end(producer, "end", committed)
        fetched("ended")
    member = {"generation_id": 3, "member_id": "nobody"}
    session.note("no member", producer.commit_offset(group, 9, topic=session.topic, **member))
    session.note("no group", producer.commit_offset(group + "x", 9, topic=session.topic, **member))
    producer.epoch += 1
    session.note("another epoch", producer.commit_offset(group, 9, topic=session.topic))


def markers(session: Session, version: int) -> None:
    producer = session.producer("markers", version)
    for _ in range(3):
        session.init(producer, "init")
    session.send(producer, "send")
    places = [WritableTxnMarkerTopic(name=session.topic, partition_indexes=[0, 9])]
    # (epoch ahead of the producer's, coordinator's epoch)
    for ahead, coordinator_epoch in ((-1, 0), (0, 0), (1, 0), (1, -1), (1, 5), (2, 4)):
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch + ahead,
            transaction_result=False,
            topics=places,
            coordinator_epoch=coordinator_epoch,
        )
        answer = session.ask(1, WriteTxnMarkersRequest(markers=[marker]), version=1)
        codes = [(each.partition_index, each.error_code) for each in answer.markers[0].topics[0].partitions]
        session.note("marker", ahead, coordinator_epoch, sorted(codes))
    asked = DescribeProducersRequest(topics=[TopicRequest(name=session.topic, partition_indexes=[0, 9])])
    for each in session.ask(1, asked, version=0).topics[0].partitions:
        told = [
            (row.producer_epoch, row.last_sequence, row.coordinator_epoch, row.current_txn_start_offset)
            for row in each.active_producers
        ]
        session.note("producers", each.partition_index, each.error_code, told)
    session.note_log()


def tools(session: Session, version: int) -> None:
    producer = session.producer("tools", version)
    session.note("unknown", producer.describe().error_code, producer.end(True))
    session.init(producer, "init")
    session.send(producer, "send")
    mine = producer.transactional_id
    filters: tuple[dict[str, Any], ...] = (
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["Empty", "Nonsense"]},
        {"producer_id_filters": [producer.producer_id]},
        {"duration_filter": 3_600_000},
        {"transactional_id_pattern": f"{session.topic}-to.*"},
        {"transactional_id_pattern": "tools"},
    )
    for chosen in filters:
        session.note(chosen if "producer_id_filters" not in chosen else 0, listed(session, **chosen).get(mine))  # type: ignore[arg-type]
    session.end(producer, "end", True)


def _codes(answer: Any) -> list[int]:
    """Every error code in an answer, at whatever depth."""
    codes = [getattr(answer, name) for name in ("error_code", "partition_error_code") if hasattr(answer, name)]
    for name in getattr(answer, "__slots__", ()):
        inner = getattr(answer, name)
        if isinstance(inner, list):
            for each in inner:
                codes += _codes(each)
    return codes


SCRIPTS: tuple[Callable[[Session, int], None], ...] = (
    life,
    zombies,
    fenced_goes_on,
    going_on,
    not_added,
    offsets,
    markers,
    tools,
)


@pytest.fixture(scope="module")
def embedded() -> Any:
    with Cluster(brokers=1) as cluster:
        yield cluster.bootstrap_servers


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_same_transaction_requests_get_the_same_answers(
    script: Callable[[Session, int], None], version: int, embedded: str, apache_kafka: str
) -> None:
    seen = []
    for address in (embedded, apache_kafka):
        topic = f"{script.__name__}-{version}"
        make_topic(address, topic, {})
        session = Session(address, topic)
        script(session, version)
        seen.append(session.seen)
    assert seen[0] == seen[1]
