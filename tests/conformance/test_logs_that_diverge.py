"""Two replicas whose logs went different ways: what the new leader tells, and what is left of the old one's.

One life of a topic for all tests, with a leader 1 and a follower 2: records reach both; 2 is killed and 1 writes more;
1 is killed, and 2 leads although it was not in sync; it writes; 1 comes back, follows, and at last leads again.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import ottla
from ottla.broker.apis import VERSIONS
from ottla.protocol.messages import FETCH
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.records.plain import Record, encode_batch

from ..interop.log_steps import FIRST_MS, Teller, whole
from ..wire import Wire
from .sides import Side

_PATIENCE_S = 60
_TOPIC = "diverging"
# By hand, batch by batch; and by a producer that lives through it all.
_RAW, _SENT = 0, 1
_LEADER, _FOLLOWER = 1, 2
_NOT_LEADER_OR_FOLLOWER, _FENCED_LEADER_EPOCH, _UNKNOWN_LEADER_EPOCH = 6, 74, 75
_ALL, _ALONE = -1, 1


class Told(NamedTuple):
    """What the brokers told of the partition written by hand.

    `appended` are the answers to every batch, (error code, base offset); `second` and `third` what the second and the
    third leader told of it when both replicas were in sync, epochs by their number among the leaders'. `offsets` are
    where the records of the producer went that it sent after the election, `producers` what each broker tells of it.
    """

    appended: list[Any]
    second: dict[str, Any]
    third: dict[str, Any]
    offsets: list[int]
    producers: dict[int, Any]


def at(side: Side, broker_id: int) -> str:
    """A broker's address."""
    return side.bootstrap_servers.split(",")[broker_id - 1]


def append(side: Side, broker_id: int, name: str, count: int, acks: int) -> Any:
    """Have a broker append one batch: (error code, base offset)."""
    records = [Record(n, FIRST_MS + n, None, b"%s %d" % (name.encode(), n)) for n in range(count)]
    teller = Teller(at(side, broker_id), _TOPIC)
    told = teller.send(_RAW, encode_batch(records), acks, 12)
    teller.wire.close()
    return told[:2]


def await_leader(side: Side, broker_id: int) -> int:
    """Wait until a broker leads both partitions and says so itself; the leader's epoch."""
    give_up_s = time.monotonic() + _PATIENCE_S
    wire = Wire(at(side, broker_id))
    while True:
        answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=_TOPIC)]), 12)
        places = sorted(answer.topics[0].partitions, key=lambda place: place.partition_index)
        if [place.leader_id for place in places] == [broker_id] * 2:
            break
        assert time.monotonic() < give_up_s, f"broker {broker_id} does not lead {_TOPIC}: {places}"
    wire.close()
    # Others are told before it knows itself.
    teller = Teller(at(side, broker_id), _TOPIC)
    while teller.epoch_end(_RAW, 0, places[_RAW].leader_epoch, 4)[0]:
        assert time.monotonic() < give_up_s
    teller.wire.close()
    epoch: int = places[_RAW].leader_epoch
    return epoch


def producers(side: Side, broker_id: int) -> Any:
    """What a broker tells of who wrote to the other partition: (error code, (epoch, last sequence) of each)."""
    wire = Wire(at(side, broker_id))
    asked = DescribeProducersRequest(topics=[TopicRequest(name=_TOPIC, partition_indexes=[_SENT])])
    told = wire.ask(asked, 0).topics[0].partitions[0]
    wire.close()
    return told.error_code, sorted((each.producer_epoch, each.last_sequence) for each in told.active_producers)


def values(data: bytes, count: int) -> list[bytes]:
    """What a batch of `append` holds."""
    found, at = [], 0
    for _ in range(count):
        # Every length here fits in one byte, and is twice what it says (zigzag).
        size, value_size = data[at] // 2, data[at + 5] // 2
        found.append(data[at + 6 : at + 6 + value_size])
        at += 1 + size
    return found


def look(side: Side, broker_id: int, epochs: list[int]) -> dict[str, Any]:
    """All that a leader tells of epochs, ends and contents; epochs by number, "?" for those that were no leader's."""

    def named(epoch: int) -> Any:
        return epochs.index(epoch) if epoch in epochs else {-1: None}.get(epoch, "?")

    teller = Teller(at(side, broker_id), _TOPIC)
    code, places, _, batches = teller.fetch(_RAW, **whole(VERSIONS))
    ends = {}
    asked = {f"before {number}": epoch - 1 for number, epoch in enumerate(epochs)}
    asked |= {f"{number}": epoch for number, epoch in enumerate(epochs)}
    asked[f"after {len(epochs) - 1}"] = epochs[-1] + 1
    for name, epoch in asked.items():
        error, found, end = teller.epoch_end(_RAW, epoch, -1, 4)
        ends[name] = error, named(found), end
    currents = (epochs[0], epochs[-1], epochs[-1] + 1)
    seen = {
        "code": code,
        "places": places,
        "batches": [(header[0], named(header[1]), values(header[-1], header[-2])) for header in batches],
        "ends": ends,
        "fenced": [teller.epoch_end(_RAW, epochs[0], current, 4)[0] for current in currents],
        "fenced fetches": [ask_behind(teller, current, epochs[0], 0).error_code for current in currents],
        "last offset": teller.list_offsets(_RAW, -1, 0, 8, -1)[:2],
        "diverging": {
            (number, offset): diverging(teller, epochs[-1], epoch, offset, named)
            for number, epoch in enumerate(epochs)
            for offset in (3, 6, 11)
        },
    }
    teller.wire.close()
    return seen


def ask_behind(teller: Teller, current_epoch: int, epoch: int, offset: int) -> Any:
    """A Fetch of who has read to an offset that was written in an epoch."""
    wanted = FetchPartition(
        partition=_RAW,
        fetch_offset=offset,
        current_leader_epoch=current_epoch,
        last_fetched_epoch=epoch,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=teller.topic_id, partitions=[wanted])],
    )
    return teller.wire.ask(request, VERSIONS[FETCH][1]).responses[0].partitions[0]


def diverging(teller: Teller, current_epoch: int, epoch: int, offset: int, named: Any) -> Any:
    """What a Fetch behind that offset of that epoch is told: its error, and where its log went another way."""
    told = ask_behind(teller, current_epoch, epoch, offset)
    went = told.diverging_epoch
    return told.error_code, went and (named(went.epoch), went.end_offset)


@pytest.fixture(scope="module")
def told(side: Side) -> Told:
    """Live through it."""
    admin = AdminClient({"bootstrap.servers": side.bootstrap_servers, "log_level": 0})
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "retention.ms": "-1"}
    topic = NewTopic(_TOPIC, 2, replica_assignment=[[_LEADER, _FOLLOWER]] * 2, config=config)
    admin.create_topics([topic])[_TOPIC].result(_PATIENCE_S)
    side.await_in_sync(_TOPIC, 2)
    epochs = [await_leader(side, _LEADER)]
    with ottla.Producer(side.bootstrap_servers, linger_ms=0, retry_backoff_ms=50) as producer:
        for n in range(5):
            producer.send(_TOPIC, b"%d" % n, partition=_SENT).result(_PATIENCE_S)
        appended = [append(side, _LEADER, "both", count, _ALL) for count in (2, 4)]
        # A follower answers for what it does not lead.
        appended.append(append(side, _FOLLOWER, "nobody", 1, _ALL))
        side.kill(_FOLLOWER)
        for n in range(5, 10):
            producer.send(_TOPIC, b"%d" % n, partition=_SENT).result(_PATIENCE_S)  # by a leader that is alone
        appended += [append(side, _LEADER, "lost", count, _ALONE) for count in (1, 4)]
        side.kill(_LEADER)
        side.start(_FOLLOWER)
        epochs.append(await_leader(side, _FOLLOWER))
        appended += [append(side, _FOLLOWER, "kept", count, _ALL) for count in (3, 1, 5)]
        deliveries = [producer.send(_TOPIC, b"%d" % n, partition=_SENT) for n in range(10, 300)]
        offsets = [delivery.result(_PATIENCE_S).offset for delivery in deliveries]
    side.start(_LEADER)
    side.await_in_sync(_TOPIC, 2)
    second = look(side, _FOLLOWER, epochs)
    written_by = {broker_id: producers(side, broker_id) for broker_id in (1, 2, 3)}
    places = [TopicPartition(_TOPIC, _RAW), TopicPartition(_TOPIC, _SENT)]
    admin.elect_leaders(ElectionType.PREFERRED, places).result(_PATIENCE_S)
    epochs.append(await_leader(side, _LEADER))
    appended.append(append(side, _LEADER, "last", 2, _ALL))
    return Told(appended, second, look(side, _LEADER, epochs), offsets, written_by)


# What remains: (base offset, whose epoch, values), by who leads.
_BOTH = [(0, 0, [b"both 0", b"both 1"]), (2, 0, [b"both 0", b"both 1", b"both 2", b"both 3"])]
_KEPT = [
    (6, 1, [b"kept 0", b"kept 1", b"kept 2"]),
    (9, 1, [b"kept 0"]),
    (10, 1, [b"kept 0", b"kept 1", b"kept 2", b"kept 3", b"kept 4"]),
]
_LAST = [(15, 2, [b"last 0", b"last 1"])]


def test_every_batch_is_answered_with_its_place_and_a_follower_refuses(told: Told) -> None:
    shared, refused, lost, kept, last = (
        [(0, 0), (0, 2)],
        [(_NOT_LEADER_OR_FOLLOWER, -1)],
        [(0, 6), (0, 7)],
        [(0, 6), (0, 9), (0, 10)],
        (0, 15),
    )
    assert told.appended == [*shared, *refused, *lost, *kept, last]


def test_the_new_leaders_batches_remain_in_both_logs_and_the_old_leaders_own_are_gone(told: Told) -> None:
    assert (told.second["code"], told.second["places"], told.second["last offset"]) == (0, (15, 15, 0), (0, 15))
    assert told.second["batches"] == _BOTH + _KEPT
    assert (told.third["code"], told.third["places"], told.third["last offset"]) == (0, (17, 17, 0), (0, 17))
    assert told.third["batches"] == _BOTH + _KEPT + _LAST


def test_both_leaders_tell_alike_where_each_epoch_ended(told: Told) -> None:
    nothing = (0, None, -1)
    assert told.second["ends"] == {
        "before 0": nothing,
        "0": (0, 0, 6),
        "before 1": (0, 0, 6),
        "1": (0, 1, 15),
        "after 1": nothing,
    }
    assert told.third["ends"] == {
        "before 0": nothing,
        "0": (0, 0, 6),
        "before 1": (0, 0, 6),
        "1": (0, 1, 15),
        "before 2": (0, 1, 15),
        "2": (0, 2, 17),
        "after 2": nothing,
    }


def test_who_read_what_is_gone_is_told_where_to_go_back_to(told: Told) -> None:
    """Up to offset 6 the first leader's log is everybody's; behind, it went another way."""
    assert told.second["diverging"] == {
        (0, 3): (0, None),
        (0, 6): (0, None),
        (0, 11): (0, (0, 6)),
        (1, 3): (0, None),
        (1, 6): (0, None),
        (1, 11): (0, None),
    }
    assert told.third["diverging"] == told.second["diverging"] | {(2, offset): (0, None) for offset in (3, 6, 11)}


def test_an_old_epoch_is_fenced_and_a_later_one_is_unknown(told: Told) -> None:
    for seen in (told.second, told.third):
        assert seen["fenced"] == [_FENCED_LEADER_EPOCH, 0, _UNKNOWN_LEADER_EPOCH]
        assert seen["fenced fetches"] == [_FENCED_LEADER_EPOCH, 0, _UNKNOWN_LEADER_EPOCH]


def test_every_replica_tells_of_the_producer_and_others_refuse(told: Told) -> None:
    """Its epoch is a new one, for the log had lost numbers that it had been acknowledged (KIP-360)."""
    assert told.producers[_FOLLOWER] == told.producers[_LEADER] == (0, [(1, 289)])
    assert told.producers[3] == (_NOT_LEADER_OR_FOLLOWER, [])


def test_a_log_that_lost_what_it_acknowledged_takes_what_comes_next(side: Side, told: Told, reading: Any) -> None:
    assert told.offsets == list(range(5, 295))
    assert reading.values(side, _TOPIC)[_SENT] == [b"%d" % n for n in [*range(5), *range(10, 300)]]
