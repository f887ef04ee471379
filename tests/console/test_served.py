"""A served cluster from inside: every kind of fault, what is live, and an end of it that is told."""

from __future__ import annotations

import json
import urllib.request
from contextlib import ExitStack
from typing import Any

import ottla
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.console.streams import STREAMS_MAX
from ottla.faults.fault import KINDS
from ottla.remote.client import RemoteCluster

from .conftest import Asking


def first_lines(url: str, wanted: str) -> dict[str, Any]:
    """What a live stream has told until it told this."""
    told: dict[str, Any] = {}
    with urllib.request.urlopen(url, timeout=30) as stream:
        while wanted not in told:
            told.update(json.loads(stream.readline()))
    return told


def test_every_kind_of_fault_is_offered_with_its_fields(asking: Asking) -> None:
    kinds = {each["kind"]: each["fields"] for each in asking.get("api/served")["kinds"]}
    assert set(kinds) == set(KINDS)
    assert {"topic", "nth"} <= {field["name"] for field in kinds["lose_ack"]}


def test_a_fault_is_put_in_force_from_texts_and_healed(asking: Asking, cluster: ottla.Cluster) -> None:
    status, told = asking.change("POST", "api/served/faults", {"kind": "lose_ack", "topic": "any", "nth": "2"})
    assert (status, told["fault"]["nth"]) == (200, 2)
    assert [each["id"] for each in first_lines(f"{asking.url}api/served/live", "requests")["faults"]] == [told["id"]]
    assert asking.change("DELETE", f"api/served/faults/{told['id']}")[0] == 200
    assert cluster.faults.in_force() == []
    for given, says in (({"kind": "lose_ack", "nth": "x"}, "nth"), ({"kind": "lose_ak"}, "lose_ack")):
        status, refused = asking.change("POST", "api/served/faults", given)
        assert (status, says in refused["error"]) == (400, True)
    status, refused = asking.change("POST", "api/served/brokers/1/tickle")
    assert (status, "kill" in refused["error"]) == (400, True)


def test_the_logs_of_a_topic_are_live(asking: Asking, cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        producer.send(kafka_name, b"value").result(30)
    logs = first_lines(f"{asking.url}api/served/live?topic={kafka_name}", "logs")["logs"]
    assert sorted(each["broker"] for each in logs["logs"]) == [1, 2, 3]
    leader = next(each for each in logs["logs"] if each["broker"] == logs["partitions"][0]["leader"])
    assert leader["producers"][0]["batches"] == [[0, 0, 0]]
    assert leader["files"][0]["resident_bytes"] in (leader["files"][0]["bytes"], None)
    gone = first_lines(f"{asking.url}api/served/live?topic=nowhere", "logs")["logs"]
    assert "nowhere" in gone["error"]


def test_one_stream_too_many_is_refused_and_does_not_wait_for_another(
    looked_at: Console, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    search, export = f"api/topics/{kafka_name}/search", f"api/topics/{kafka_name}/export"
    # A separate server: a stream that another test left counts until its server notices it.
    with ConsoleServer(looked_at, "127.0.0.1", 0) as server:
        asking = Asking(server.url)
        with ExitStack() as stack:
            for _ in range(STREAMS_MAX):
                live = stack.enter_context(urllib.request.urlopen(f"{asking.url}api/served/live", timeout=30))
                assert live.readline()
            for path in (search, export, "api/served/live"):
                status, _, content = asking.raw("GET", path)
                told = b"16 searches, exports, imports, downloads and live views are open"
                assert (status, told in content) == (503, True)
            # What ends by itself is answered.
            assert len(asking.get("api/brokers")["brokers"]) == 3
        # They end when the console finds that nobody listens any more.
        while asking.raw("GET", search)[0] == 503:
            pass


def test_a_served_cluster_that_has_ended_is_said_to_be_gone(cluster: ottla.Cluster) -> None:
    with (
        Console(cluster.bootstrap_servers, control=RemoteCluster("127.0.0.1", 1)) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
    ):
        asking = Asking(server.url)
        status, _, content = asking.raw("GET", "api/served")
        assert (status, b"127.0.0.1:1" in content) == (503, True)
        assert "127.0.0.1:1" in first_lines(f"{server.url}api/served/live", "error")["error"]
        # Kafka itself is there.
        assert len(asking.get("api/brokers")["brokers"]) == 3
