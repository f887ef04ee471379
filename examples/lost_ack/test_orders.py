"""Does an order arrive once when Kafka stores it and the acknowledgement is lost on the way back?

Run it with `pytest examples/lost_ack`. The fixtures `kafka_cluster` and `kafka_topic` come with ottla. The fault is
exact: the first Produce request for this topic is carried out, and its connection is cut instead of answered. That is
the moment that no test hits by killing brokers at random. Each test asserts that the fault has really fired.
"""

from __future__ import annotations

import pytest
from orders import CarefulShop, Shop, read_orders


def test_without_a_fault_every_order_is_there_once(kafka_cluster, kafka_topic):
    """The control: whatever the others find is the lost acknowledgement's doing."""
    shop = Shop(kafka_cluster.bootstrap_servers, kafka_topic)
    assert shop.place("order-1", "book")
    assert shop.place("order-2", "lamp")
    assert len(read_orders(kafka_cluster.bootstrap_servers, kafka_topic)) == 2


@pytest.mark.parametrize(("idempotent", "copies"), [(False, 2), (True, 1)])
def test_a_lost_ack_makes_two_orders_of_one_unless_the_producer_is_idempotent(
    kafka_cluster, kafka_topic, idempotent, copies
):
    """The client sends again what was stored already; only an idempotent producer's broker can tell."""
    shop = Shop(kafka_cluster.bootstrap_servers, kafka_topic, **{"enable.idempotence": idempotent})
    with kafka_cluster.faults.lose_ack(topic=kafka_topic, nth=1) as fault:
        assert shop.place("order-1", "book")
    assert fault.fired == 1
    orders = read_orders(kafka_cluster.bootstrap_servers, kafka_topic)
    assert orders == [{"order": "order-1", "item": "book"}] * copies


def test_an_application_that_sends_again_by_itself_duplicates_all_the_same(kafka_cluster, kafka_topic):
    """Idempotence ends where the application makes a new record of an old order: its reader must look at the key."""
    shop = CarefulShop(kafka_cluster.bootstrap_servers, kafka_topic, acks="all", retries=0)
    with kafka_cluster.faults.lose_ack(topic=kafka_topic, nth=1) as fault:
        assert shop.place("order-1", "book")
    assert fault.fired == 1
    orders = read_orders(kafka_cluster.bootstrap_servers, kafka_topic)
    assert len(orders) == 2
    assert len({order["order"] for order in orders}) == 1
