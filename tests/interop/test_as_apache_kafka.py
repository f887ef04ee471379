"""The same random requests to the embedded cluster and to Apache Kafka: error codes, offsets, logs agree, step by step.

What differs and may stay so stands in `DIFFERENCES`, each with its reason; one that no longer occurs fails as well.
Other seeds: OTTLA_SEEDS=1000-1200 (a range), or OTTLA_SOAK=1.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.drawn import commit_seeds, fixed_seeds
from tests.wire import Wire

from ottla.broker.apis import VERSIONS
from ottla.cluster.cluster import Cluster
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from .log_steps import PARTITIONS, Step, Teller, steps_of

pytestmark = pytest.mark.kafka

_PATIENCE_S = 60
_TRANSACTION = 1
# The fixed ones show every difference that is known, those of the commit may show others.
_SEEDS = sorted({*fixed_seeds(40, soak=200, kept=[1962371300, 50760915]), *commit_seeds(10)})


class Difference(NamedTuple):
    """What may differ: which answers to which steps, why. Logs never do, so that the steps go on behind it."""

    reason: str
    applies: Callable[[Step, Any, Any], bool]


_CORRUPT_MESSAGE, _UNSUPPORTED_COMPRESSION_TYPE, _INVALID_RECORD, _UNKNOWN_SERVER_ERROR = 2, 76, 87, -1
_INVALID_REQUIRED_ACKS, _INVALID_ID_MAPPING = 21, 49
_NO_TRANSACTION = 53  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED


_UNSUPPORTED_VERSION, _INVALID_PRODUCER_EPOCH = 35, 47
_UNKNOWN_LEADER_EPOCH = 75
# (our error, Apache Kafka's) -> whether the step has the faults that both speak of.
_TWO_FAULTS: dict[tuple[int, int], Callable[[dict[str, Any]], bool]] = {
    (_INVALID_REQUIRED_ACKS, _UNSUPPORTED_COMPRESSION_TYPE): lambda given: given["acks"] == 2 and given["version"] < 7,
    (_INVALID_RECORD, _NO_TRANSACTION): lambda given: given["field"] == "attributes" and given["value"] & 48 == 48,
    (_INVALID_ID_MAPPING, _INVALID_PRODUCER_EPOCH): lambda given: given["transactional"] and given["name"] != "t0",
    (_UNKNOWN_LEADER_EPOCH, _UNSUPPORTED_VERSION): lambda given: given["timestamp"] < -2 and given["leader_epoch"] > 0,
}
# The same for bytes that are no batch; `damage` makes one that has no other fault.
_NO_BATCH: dict[tuple[int, int], Callable[[dict[str, Any]], bool]] = {
    (_CORRUPT_MESSAGE, _INVALID_RECORD): lambda given: (
        given["field"] == "cut" or (given["field"] in ("count", "base_offset") and given["value"] == -1)
    ),
    (_INVALID_RECORD, _CORRUPT_MESSAGE): lambda given: (
        given["field"] == "garbage" or (given["field"] == "magic" and given["value"] > 2)
    ),
}
_PLENTY_BYTES = 1 << 20
_HEADER_BYTES = 61
_LATEST = -1
_LARGEST = -3


def two_faults(step: Step, told: tuple[Any, Any]) -> bool:
    return told in _TWO_FAULTS and _TWO_FAULTS[told](step.given)


def only_codes(step: Step, ours: Any, theirs: Any) -> bool:
    """Whether nothing else differs; the log's start, with which Produce's errors differ anyhow, may."""
    end = 3 if produces(step) else len(ours)
    return ours[0] != theirs[0] and ours[1:end] == theirs[1:end]


def produces(step: Step) -> bool:
    return step.kind in ("produce", "sequence", "damage")


def is_stable_before_start(step: Step, ours: Any, theirs: Any) -> bool:
    """Whether nothing else differs than a last stable offset that Apache Kafka tells below the log's start."""
    if step.kind == "list_offsets":
        asks_for_it = step.given["timestamp"] == _LATEST and step.given["isolation"] == 1
        return bool(asks_for_it and ours[0] == theirs[0] == 0 and theirs[1] < ours[1] and ours[2:] == theirs[2:])
    if step.kind != "fetch" or (ours[0], *ours[2:]) != (theirs[0], *theirs[2:]):
        return False
    (high_watermark, stable, start), (their_high_watermark, their_stable, their_start) = ours[1], theirs[1]
    return bool((high_watermark, start) == (their_high_watermark, their_start) and their_stable < start == stable)


def ends_with_a_segment(step: Step, ours: Any, theirs: Any) -> bool:
    """Whether Apache Kafka sent only the first of the batches that we sent, and we did not send too many."""
    if step.kind != "fetch" or ours[:3] != theirs[:3] or not theirs[3] or theirs[3] != ours[3][: len(theirs[3])]:
        return False
    high_watermark, stable, _ = ours[1]
    sent_bytes = sum(_HEADER_BYTES + len(batch[-1]) for batch in ours[3])
    return bool(
        sent_bytes <= min(step.given["max_bytes"], step.given["partition_max_bytes"])
        and ours[3][-1][0] < (stable if step.given.get("isolation") else high_watermark)
    )


DIFFERENCES = [
    Difference(
        "Produce's answers that tell an error leave the log's start out; Apache Kafka tells it with some errors",
        lambda step, ours, theirs: produces(step) and ours[0] == theirs[0] > 0 and ours[:3] == theirs[:3],
    ),
    Difference(
        "bytes that are no batch are CORRUPT_MESSAGE or INVALID_RECORD; which one, depends on what is looked at first",
        lambda step, ours, theirs: (
            step.kind == "damage"
            and only_codes(step, ours, theirs)
            and (ours[0], theirs[0]) in _NO_BATCH
            and _NO_BATCH[ours[0], theirs[0]](step.given)
        ),
    ),
    Difference(
        "a request with two faults is told the one that is looked at first",
        lambda step, ours, theirs: two_faults(step, (ours[0], theirs[0])) and only_codes(step, ours, theirs),
    ),
    Difference(
        "the aborted transactions named with a Fetch are those of the records in it; Apache Kafka names later ones too",
        lambda step, ours, theirs: (
            step.kind == "fetch" and set(ours[2]) < set(theirs[2]) and ours[:2] == theirs[:2] and ours[3] == theirs[3]
        ),
    ),
    Difference(
        "a Fetch that is limited ends where the index knows of a batch, a little earlier than in Apache Kafka",
        lambda step, ours, theirs: (
            step.kind == "fetch"
            and min(step.given["max_bytes"], step.given["partition_max_bytes"]) < _PLENTY_BYTES
            and ours[:2] == theirs[:2]
            and ours[3] == theirs[3][: len(ours[3])] != []
        ),
    ),
    Difference(
        "only batches that are appended begin a segment, where a Fetch ends; in Apache Kafka refused batches do, too",
        ends_with_a_segment,
    ),
    Difference(
        "the last stable offset is not below the log's start; in Apache Kafka it is the base offset of the batch in "
        "which the log starts",
        is_stable_before_start,
    ),
    Difference(
        "times are looked up among what is not deleted; in Apache Kafka deleted records of a segment hide the others",
        lambda step, ours, theirs: (
            step.kind == "list_offsets"
            and ours[0] == theirs[0] == 0
            and (theirs[1] == -1 < ours[1] if step.given["timestamp"] >= 0 else step.given["timestamp"] == _LARGEST)
        ),
    ),
    Difference(
        "an unknown compression is UNSUPPORTED_COMPRESSION_TYPE; Apache Kafka's code trips over it",
        lambda step, ours, theirs: (
            (ours[0], theirs[0]) == (_UNSUPPORTED_COMPRESSION_TYPE, _UNKNOWN_SERVER_ERROR)
            and step.kind == "damage"
            and only_codes(step, ours, theirs)
            and step.given["field"] == "attributes"
            and step.given["value"] in (5, 6, 7)
        ),
    ),
]


@pytest.fixture(scope="module")
def ours() -> Iterator[Cluster]:
    with Cluster(brokers=1) as cluster:
        yield cluster


def advertised(address: str) -> dict[int, tuple[int, int]]:
    wire = Wire(address)
    told = wire.ask(ApiVersionsRequest(client_software_name="ottla", client_software_version="1"), 3)
    wire.close()
    return {each.api_key: (each.min_version, each.max_version) for each in told.api_keys}


def set_up_transactions(address: str) -> None:
    """Whoever asks for the coordinator makes the topic it keeps its state in."""
    wire = Wire(address)
    wire.ask_until_ready(FindCoordinatorRequest(key_type=_TRANSACTION, coordinator_keys=["any"]), 4)
    wire.ask_until_ready(InitProducerIdRequest(transactional_id="any", transaction_timeout_ms=60_000), 4)
    wire.close()


def common_versions(theirs: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """What both speak."""
    both = VERSIONS.keys() & theirs.keys()
    return {key: (max(VERSIONS[key][0], theirs[key][0]), min(VERSIONS[key][1], theirs[key][1])) for key in both}


def make_topic(address: str, topic: str, configs: dict[str, str]) -> None:
    """A topic of which the broker has heard."""
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    # The records are of 2023: nothing is to be deleted because of its age.
    new = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1", **configs})
    admin.create_topics([new])[topic].result(_PATIENCE_S)
    give_up = time.monotonic() + _PATIENCE_S
    while topic not in admin.list_topics(timeout=_PATIENCE_S).topics:
        assert time.monotonic() < give_up
    # Its partitions have leaders a moment before those know.
    for partition in range(PARTITIONS):
        while True:
            wanted = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=partition)])
            wire = Wire(address)
            told = wire.ask(ListOffsetsRequest(replica_id=-1, topics=[wanted]), 7).topics[0].partitions[0]
            wire.close()
            if told.error_code == 0:
                break
            assert time.monotonic() < give_up


def compare(seed: int, steps: list[Step], ours: Teller, theirs: Teller) -> set[str]:
    """Ask both; fails at the first difference that is not explained, and gives the reasons of those that are."""
    found = set()
    for number, step in enumerate(steps):
        our_answer, their_answer = ours.tell(step), theirs.tell(step)
        if our_answer == their_answer:
            continue
        known = [each for each in DIFFERENCES if each.applies(step, our_answer, their_answer)]
        said = f"seed {seed}, step {number}: {step}\n  ottla        {our_answer}\n  Apache Kafka {their_answer}"
        assert known, said
        found.add(known[0].reason)
    return found


def test_random_lives_of_a_topic_go_as_in_apache_kafka(ours: Cluster, apache_kafka: str) -> None:
    versions = common_versions(advertised(apache_kafka))
    for address in (ours.bootstrap_servers, apache_kafka):
        set_up_transactions(address)
    found: set[str] = set()
    for seed in _SEEDS:
        topic, configs = f"seed-{seed}", {"max.message.bytes": "2000"} if seed % 3 == 0 else {}
        for address in (ours.bootstrap_servers, apache_kafka):
            make_topic(address, topic, configs)
        tellers = Teller(ours.bootstrap_servers, topic), Teller(apache_kafka, topic)
        found |= compare(seed, steps_of(seed, versions), *tellers)
        for teller in tellers:
            teller.wire.close()
    if "OTTLA_SEEDS" not in os.environ:
        assert found == {each.reason for each in DIFFERENCES}
