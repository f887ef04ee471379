"""A cluster whose controller was ended by a fault: it stays down until that fault is healed, and then it is back."""

from __future__ import annotations

import pytest

import ottla
from ottla.errors import UserMistake


def test_a_broker_that_is_started_does_not_bring_the_controller_back() -> None:
    with ottla.Cluster(2) as cluster:
        with cluster.faults.stop_controller():
            cluster.kill(2)
            cluster.start(2)
            with pytest.raises(UserMistake, match="the controller is down: heal the fault"):
                cluster.create_topic("orders")
            cluster.kill()
            with pytest.raises(UserMistake, match="all brokers are down: start them first"):
                cluster.create_topic("orders")
            cluster.start()
            with pytest.raises(UserMistake, match="the controller is down"):
                cluster.create_topic("orders")
        cluster.create_topic("orders")


def test_a_fault_that_was_refused_keeps_nothing_down() -> None:
    with ottla.Cluster(1) as cluster:
        with cluster.faults.stop_controller(), pytest.raises(UserMistake, match="has nothing to apply to"):
            cluster.faults.stop_controller()
        cluster.create_topic("orders")


def test_brokers_that_are_all_started_again_have_a_controller() -> None:
    with ottla.Cluster(2) as cluster, cluster.faults.cut_power(moment="now"):
        cluster.start()
        cluster.create_topic("orders")


def test_after_a_power_cut_and_a_start_only_what_stops_the_controller_keeps_it_down() -> None:
    with ottla.Cluster(2) as cluster, cluster.faults.cut_power(moment="now"):
        cluster.start()
        with cluster.faults.stop_controller(), pytest.raises(UserMistake, match="the controller is down"):
            cluster.create_topic("orders")
        cluster.create_topic("orders")
