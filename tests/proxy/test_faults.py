"""Faults of a proxy, met by a producer of ours in front of an embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest

import ottla
from ottla.errors import ConfigError, DeliveryFailed, DeliveryUnknown, OttlaError
from ottla.faults.fault import make_fault
from ottla.patience import comes_within

_RECORDS = 5
_PATIENCE_S = 60
# The default of request.timeout.ms.
_REQUEST_TIMEOUT_S = 30


def values(cluster: ottla.Cluster, topic: str) -> list[bytes]:
    """What is stored, read past the proxy."""
    found: list[Any] = ottla.read_table(cluster.bootstrap_servers, topic).column("value").to_pylist()
    return found


def sent(count: int = _RECORDS) -> list[bytes]:
    return [b"record %d" % number for number in range(count)]


def send_one_by_one(proxy: ottla.Proxy, topic: str, **settings: Any) -> None:
    """Each record in a request of its own, acknowledged before the next one."""
    with ottla.Producer(proxy.bootstrap_servers, linger_ms=0, retry_backoff_ms=1, **settings) as producer:
        for value in sent():
            producer.send(topic, value).result(_PATIENCE_S)


@pytest.mark.parametrize("idempotent", [False, True])
def test_lost_ack_stores_two_copies_unless_the_producer_is_idempotent(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str, idempotent: bool
) -> None:
    with proxy.faults.lose_ack(topic=topic, nth=3) as fault:
        send_one_by_one(proxy, topic, enable_idempotence=idempotent)
    copies = [] if idempotent else [b"record 2"]
    assert sorted(values(cluster, topic)) == sorted([*sent(), *copies])
    # The retry is one more request.
    assert (fault.fired, fault.matched) == (1, _RECORDS + 1)


@pytest.mark.parametrize("kind", ["lose_request", "drop_request", "drop_ack"])
def test_what_an_idempotent_producer_sends_again_is_stored_once(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str, kind: str
) -> None:
    with getattr(proxy.faults, kind)(topic=topic, nth=2) as fault:
        send_one_by_one(proxy, topic, request_timeout_ms=300)
    assert values(cluster, topic) == sent()
    assert fault.fired == 1


def test_refused_request_is_not_stored_until_it_is_sent_again(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    with (
        proxy.faults.refuse(topic=topic, error=29),
        ottla.Producer(proxy.bootstrap_servers) as producer,
        pytest.raises(DeliveryFailed, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        producer.send(topic, b"refused").result(_PATIENCE_S)
    assert values(cluster, topic) == []
    with proxy.faults.refuse(topic=topic, nth=2) as fault:
        send_one_by_one(proxy, topic)
    assert values(cluster, topic) == sent()
    assert fault.fired == 1


def test_refusing_one_partition_leaves_the_others_of_the_request(
    cluster: ottla.Cluster, proxy: ottla.Proxy, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, partitions=6)
    with (
        proxy.faults.refuse(topic=kafka_name, partition=4, error=29) as fault,
        ottla.Producer(proxy.bootstrap_servers, linger_ms=50) as producer,
    ):
        deliveries = [producer.send(kafka_name, b"%d" % number, partition=number) for number in range(6)]
        outcomes = [delivery.exception(_PATIENCE_S) for delivery in deliveries]
    assert [type(outcome) is type(None) for outcome in outcomes] == [True, True, True, True, False, True]
    assert sorted(values(cluster, kafka_name)) == [b"0", b"1", b"2", b"3", b"5"]
    assert fault.fired == 1


def test_refused_after_the_append_is_stored_all_the_same(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    with proxy.faults.refuse_after_append(topic=topic, nth=2) as fault:
        send_one_by_one(proxy, topic, enable_idempotence=False)
    assert sorted(values(cluster, topic)) == sorted([*sent(), b"record 1"])
    assert fault.fired == 1


def test_held_ack_leaves_the_producer_in_the_dark_until_it_is_released(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    with (
        ottla.Producer(proxy.bootstrap_servers) as producer,
        proxy.faults.hold(topic=topic, moment="ack") as hold,
    ):
        delivery = producer.send(topic, b"held")
        hold.await_reached(timeout=_PATIENCE_S)
        assert values(cluster, topic) == [b"held"]
        assert not delivery.done()
        hold.release()
        delivery.result(_PATIENCE_S)


def test_held_request_is_not_stored_until_it_is_released(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    with ottla.Producer(proxy.bootstrap_servers) as producer, proxy.faults.hold(topic=topic) as hold:
        delivery = producer.send(topic, b"held")
        hold.await_reached(timeout=_PATIENCE_S)
        assert values(cluster, topic) == []
        hold.release()
        delivery.result(_PATIENCE_S)
    assert values(cluster, topic) == [b"held"]


def test_what_was_held_before_it_is_forwarded_meets_the_fault_of_its_answer(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    with (
        ottla.Producer(proxy.bootstrap_servers) as producer,
        proxy.faults.hold(topic=topic, nth=1) as hold,
        proxy.faults.lose_ack(topic=topic, nth=1) as lost,
    ):
        delivery = producer.send(topic, b"held")
        hold.await_reached(timeout=_PATIENCE_S)
        hold.release()
        delivery.result(_PATIENCE_S)
        assert lost.fired == 1
    assert values(cluster, topic) == [b"held"]


def test_delayed_request_is_stored_even_after_its_sender_has_sent_it_again(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    # The clock is advanced once: with a short timeout, the retry could time out, too, and be sent again.
    clock = ottla.Clock()
    with (
        proxy.faults.hold(topic=topic, nth=1) as hold,
        ottla.Producer(proxy.bootstrap_servers, enable_idempotence=False, retry_backoff_ms=1, clock=clock) as producer,
    ):
        delivery = producer.send(topic, b"late")
        hold.await_reached(timeout=_PATIENCE_S)
        clock.advance(_REQUEST_TIMEOUT_S)
        delivery.result(_PATIENCE_S)
        assert values(cluster, topic) == [b"late"]
        hold.release()
        assert comes_within(_PATIENCE_S, lambda: values(cluster, topic) == [b"late", b"late"])


@pytest.mark.parametrize("kind", ["delay_request", "delay_ack"])
def test_delays_keep_the_order(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str, kind: str) -> None:
    with getattr(proxy.faults, kind)(topic=topic, every=3, delay_ms=30) as fault:
        with ottla.Producer(proxy.bootstrap_servers, linger_ms=0, batch_size=1) as producer:
            for value in sent(20):
                producer.send(topic, value)
            producer.flush(_PATIENCE_S)
        assert fault.fired > 0
    assert values(cluster, topic) == sent(20)


@pytest.mark.parametrize("idempotent", [False, True])
def test_redelivered_request_is_stored_twice_unless_it_has_a_sequence(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str, idempotent: bool
) -> None:
    with proxy.faults.redeliver(topic=topic, nth=2) as fault:
        send_one_by_one(proxy, topic, enable_idempotence=idempotent)
    assert fault.fired == 1
    copies = [] if idempotent else [b"record 1"]
    assert sorted(values(cluster, topic)) == sorted([*sent(), *copies])


def test_acks_0_loses_a_request_without_notice(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    with proxy.faults.lose_request(topic=topic, nth=2) as fault:
        send_one_by_one(proxy, topic, acks=0, enable_idempotence=False)
    assert fault.fired == 1
    assert values(cluster, topic) == [b"record 0", b"record 2", b"record 3", b"record 4"]


def test_fetch_through_the_proxy_has_fired_by_topic(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    send_one_by_one(proxy, topic)
    with proxy.faults.lose_ack(api="Fetch", topic=topic, times=2) as fault:
        assert ottla.read_table(proxy.bootstrap_servers, topic).num_rows == _RECORDS
    assert fault.fired == 2


def test_a_fault_of_another_broker_does_not_fire(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    leader = cluster.leader(topic, 0)
    other = leader % 3 + 1
    with proxy.faults.lose_ack(broker_id=other) as elsewhere, proxy.faults.lose_ack(broker_id=leader, nth=1) as here:
        send_one_by_one(proxy, topic)
    assert (elsewhere.matched, here.fired) == (0, 1)


def test_unplugged_client_goes_on_when_it_is_plugged_in(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    leader = cluster.leader(topic, 0)
    with ottla.Producer(proxy.bootstrap_servers, client_id="ada") as producer:
        producer.send(topic, b"before").result(_PATIENCE_S)
        with proxy.faults.unplug(leader, client_id="ada") as fault:
            assert fault.fired > 0
            delivery = producer.send(topic, b"meanwhile")
            with ottla.Producer(proxy.bootstrap_servers, client_id="grace") as other:
                other.send(topic, b"of another").result(_PATIENCE_S)
            assert not delivery.done()
        delivery.result(_PATIENCE_S)
    assert values(cluster, topic) == [b"before", b"of another", b"meanwhile"]


def test_half_open_connection_is_given_up_for_a_new_one(cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str) -> None:
    with ottla.Producer(proxy.bootstrap_servers, request_timeout_ms=300) as producer:
        producer.send(topic, b"before").result(_PATIENCE_S)
        with proxy.faults.half_open(cluster.leader(topic, 0)) as fault:
            producer.send(topic, b"after").result(_PATIENCE_S)
        assert fault.fired > 0
    assert values(cluster, topic) == [b"before", b"after"]


@pytest.mark.parametrize(("kind", "fields"), [("kill", {}), ("full_disk", {"broker_id": 1})])
def test_what_a_proxy_cannot_do_is_refused_with_what_it_can(
    proxy: ottla.Proxy, kind: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=rf"fault {kind}: a proxy sees requests .* it can do refuse, lose_request"):
        proxy.faults.add(make_fault(kind, **fields))


def test_a_mistyped_api_is_told_the_nearest(proxy: ottla.Proxy) -> None:
    with pytest.raises(ConfigError, match="did you mean 'Produce'"):
        proxy.faults.lose_ack(api="Prodcue")


def test_a_fault_that_never_fires_says_so(proxy: ottla.Proxy, topic: str) -> None:
    with proxy.faults.lose_ack(topic=topic, nth=100) as fault:
        send_one_by_one(proxy, topic)
        with pytest.raises(OttlaError, match=rf"fired 0 times in 0 s, and not 1 time: {_RECORDS} requests matched"):
            fault.await_fired(timeout=0)


def test_lost_acks_of_a_producer_that_does_not_retry_are_unknown(
    cluster: ottla.Cluster, proxy: ottla.Proxy, topic: str
) -> None:
    with (
        proxy.faults.lose_ack(topic=topic),
        ottla.Producer(proxy.bootstrap_servers, retries=0, enable_idempotence=False) as producer,
    ):
        outcome = producer.send(topic, b"once").exception(_PATIENCE_S)
    assert isinstance(outcome, DeliveryUnknown)
    assert values(cluster, topic) == [b"once"]
