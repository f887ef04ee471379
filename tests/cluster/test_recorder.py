"""What a cluster records of a topic: batches and answers, faults, brokers, leaders, and who held what at an ack."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.producer import Producer
from ottla.cluster import recorder
from ottla.cluster.cluster import Cluster
from ottla.errors import OttlaError, UserMistake
from ottla.faults.fault import make_fault
from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence

TOPIC = "orders"


def send(cluster: Cluster, count: int, **settings: Any) -> None:
    """So many records, each a batch of its own, one after the other."""
    given = {"linger_ms": 0, "retry_backoff_ms": 10, **settings}
    with Producer(cluster.bootstrap_servers, **given) as producer:
        for number in range(count):
            producer.send(TOPIC, b"value", headers=[(SEQUENCE_HEADER, pack_sequence(number))])
            producer.flush()


def recorded_cluster(cluster: Cluster, configs: dict[str, str] | None = None) -> None:
    cluster.create_topic(TOPIC, configs=configs)
    cluster.record(TOPIC, SEQUENCE_HEADER)


def told(cluster: Cluster) -> dict[str, Any]:
    found = cluster.recorded()
    assert found is not None
    return found


def test_a_lost_ack_is_recorded_between_its_request_and_its_retry() -> None:
    with Cluster() as cluster:
        recorded_cluster(cluster)
        with cluster.faults.lose_ack(topic=TOPIC, nth=2):
            send(cluster, 3, enable_idempotence=False)
        found = told(cluster)
    first, lost, again, last = found["exchanges"]
    assert [each["first"] for each in found["exchanges"]] == [0, 1, 1, 2]
    assert [each["appended_at"] for each in found["exchanges"]] == [0, 1, 2, 3]
    assert [each["ending"] for each in (first, lost, again, last)] == ["answered", "hung up", "answered", "answered"]
    assert lost["reason"] == "answer lost by fault 1"
    assert lost["base_offset"] == -1
    assert (lost["crc"], lost["count"]) == (again["crc"], again["count"])
    (firing,) = [each for each in found["events"] if each["kind"] == "fires"]
    assert lost["order"] < firing["order"] < lost["ended_order"] < again["order"]
    assert firing["broker"] == lost["broker"]
    assert [mark for _, _, mark in found["watermarks"]] == [1, 2, 3, 4]
    assert found["left_out"] == 0


def test_a_batch_known_by_its_sequence_number_is_answered_and_not_appended() -> None:
    with Cluster() as cluster:
        recorded_cluster(cluster)
        with cluster.faults.lose_ack(topic=TOPIC, nth=2):
            send(cluster, 2)
        lost, again = told(cluster)["exchanges"][1:]
    assert (lost["appended_at"], again["appended_at"], again["base_offset"]) == (1, -1, 1)
    assert again["sequence"] == lost["sequence"] == 1


@pytest.mark.parametrize(("configs", "synced"), [(None, []), ({"flush.messages": "1"}, [1, 2, 3])])
def test_who_held_a_batch_and_had_synced_it_is_noted_at_the_ack(
    configs: dict[str, str] | None, synced: list[int]
) -> None:
    with Cluster() as cluster:
        recorded_cluster(cluster, configs)
        send(cluster, 2)
        exchanges = told(cluster)["exchanges"]
    assert [each["held"] for each in exchanges] == [[1, 2, 3]] * 2
    assert [each["synced"] for each in exchanges] == [synced] * 2


def test_acks_0_is_noted_without_an_offset_told() -> None:
    with Cluster() as cluster:
        recorded_cluster(cluster)
        send(cluster, 1, acks=0, enable_idempotence=False)
        send(cluster, 1)
        silent, loud = told(cluster)["exchanges"]
    assert (silent["acks"], silent["appended_at"], silent["base_offset"], silent["error"]) == (0, 0, -1, "")
    assert (loud["acks"], loud["appended_at"], loud["base_offset"]) == (-1, 1, 1)


def test_the_end_of_a_leader_and_the_next_one_are_events() -> None:
    with Cluster() as cluster:
        recorded_cluster(cluster)
        leader = cluster.leader(TOPIC, 0)
        with cluster.faults.kill(moment="append", topic=TOPIC, nth=1):
            send(cluster, 1)
            after = cluster.leader(TOPIC, 0)
        cluster.await_isr(TOPIC, 0)
        found = told(cluster)
    hit, *others = found["exchanges"]
    assert (hit["broker"], hit["ending"], hit["base_offset"]) == (leader, "broker ended", -1)
    assert others[-1]["broker"] == after
    kinds = [each["kind"] for each in found["events"] if each["broker"] in (leader, after) or each["kind"] != "leads"]
    assert kinds.index("begins") < kinds.index("fires") < kinds.index("down") < kinds.index("healed")
    assert kinds.index("healed") < kinds.index("starts")
    assert {"was": leader, "leader": after}.items() <= next(
        each for each in found["events"] if each["kind"] == "leads" and each["leader"] == after
    ).items()


def test_a_fault_that_was_refused_has_not_begun() -> None:
    with Cluster(2) as cluster:
        cluster.create_topic(TOPIC)
        cluster.record(TOPIC)
        cluster.kill(2)
        with pytest.raises(OttlaError, match="nothing to apply to"):
            cluster.faults.stop(2)
        with pytest.raises(OttlaError, match="for simulated clients"):
            cluster.faults.add(make_fault("drift_clock", client_id="a", drift_ppm=1))
        with cluster.faults.slow_disk(1, delay_ms=1):
            pass
        recorded = cluster.recorded()
        assert recorded is not None
        begun = [event["words"] for event in recorded["events"] if event["kind"] == "begins"]
        assert len(begun) == 1
        assert "broker 1" in begun[0]


def test_what_finds_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "EXCHANGES_MAX", 2)
    with Cluster(1, in_process=True) as cluster:
        recorded_cluster(cluster)
        send(cluster, 5)
        found = told(cluster)
    assert len(found["exchanges"]) == 2
    assert found["left_out"] == 3


def test_one_recorder_is_enough() -> None:
    with Cluster(1) as cluster:
        assert cluster.recorded() is None
        recorded_cluster(cluster)
        with pytest.raises(UserMistake, match="this cluster is being recorded already"):
            cluster.record("other")
