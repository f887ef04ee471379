"""What a cluster tells of its clients' connections: who is there, and what is under way."""

from __future__ import annotations

from typing import Any

from tests.client.in_time import wait_until

import ottla

_PATIENCE_S = 30


def test_a_connection_says_who_is_there_and_which_requests_wait_on_it() -> None:
    with ottla.Cluster(1) as cluster:
        cluster.create_topic("orders", partitions=2)
        settings: dict[str, Any] = {"client_id": "shop", "linger_ms": 0, "batch_size": 100_000}

        def of_shop() -> list[dict[str, Any]]:
            return [each for each in cluster.connections() if each["client_id"] == "shop"]

        with ottla.Producer(cluster.bootstrap_servers, **settings) as producer:
            producer.send("orders", b"first").result(_PATIENCE_S)
            wait_until(lambda: all(each["requests_in_flight"] == 0 for each in of_shop()))
            with cluster.faults.hold(topic="orders", api="Produce") as held:
                for number in range(20):
                    producer.send("orders", bytes(90_000), partition=number % 2)
                held.await_fired(1, timeout=_PATIENCE_S)
                # The one that is held, the one behind it, and what the broker reads only when it has answered.
                # How many bytes wait depends on how much the kernel takes in of the requests behind these two.
                [found] = wait_until(
                    lambda: [each for each in of_shop() if each["requests_in_flight"] == 2 and each["unread_bytes"] > 0]
                )
                assert found["producer_id"] is not None
                assert (found["broker"], found["request"], found["listener"]) == (1, "Produce", "PLAINTEXT")
                assert (found["software_name"], found["user"]) == ("ottla", "ANONYMOUS")
                assert found["address"].startswith("127.0.0.1:")
            producer.flush()
            [found] = wait_until(
                lambda: [
                    each
                    for each in of_shop()
                    if (each["request"], each["requests_in_flight"], each["unread_bytes"]) == (None, 0, 0)
                ]
            )
        assert wait_until(lambda: not of_shop())


def test_producers_are_told_with_their_sequences_and_who_they_are() -> None:
    with ottla.Cluster(3) as cluster:
        cluster.create_topic("orders", partitions=2)
        with ottla.Producer(cluster.bootstrap_servers, client_id="shop") as producer:
            for _ in range(7):
                producer.send("orders", b"x", partition=0).result(_PATIENCE_S)
            producer.send("orders", b"x", partition=1).result(_PATIENCE_S)
            first, second = sorted(cluster.producers(), key=lambda each: each["partition"])
            assert first["broker"] == cluster.leader("orders", 0)
            assert (first["topic"], first["client_id"], first["last_sequence"]) == ("orders", "shop", 6)
            assert first["batches"] == [[number, number, number] for number in range(2, 7)]
            assert (second["partition"], second["last_sequence"], second["epoch"]) == (1, 0, 0)
            assert first["producer_id"] == second["producer_id"]
        assert wait_until(lambda: {each["client_id"] for each in cluster.producers()} == {None})
