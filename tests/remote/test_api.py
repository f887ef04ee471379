"""What a served cluster is asked over HTTP: it is done to the brokers, and the answer says how things are then."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ottla
from ottla.faults.fault import KINDS, fault_class
from ottla.remote.api import ROUTES, carry_out
from ottla.remote.route import Refusal

from .http_client import Http, heard


def send(cluster: ottla.Cluster, value: bytes = b"order", topic: str = "orders", **settings: Any) -> int:
    """The offset at which one record is stored in partition 0."""
    with ottla.Producer(cluster.bootstrap_servers, linger_ms=0, **settings) as producer:
        return producer.send(topic, value, partition=0).result(60).offset


def states(told: Any) -> dict[int, str]:
    return {each["id"]: each["state"] for each in told["brokers"]}


def test_the_list_of_routes_names_each_with_its_fields(http: Http) -> None:
    told = http.get("/v1")
    assert (told["ottla"], told["api"]) == (ottla.__version__, 1)
    assert [(each["method"], each["path"]) for each in told["routes"]] == [(each.method, each.path) for each in ROUTES]
    [power_off] = [each for each in told["routes"] if each["path"].endswith("/power-off")]
    assert [(field["name"], field["wanted"]) for field in power_off["fields"]] == [("seed", False)]


def test_a_cluster_is_described_as_python_sees_it(http: Http, cluster: ottla.Cluster) -> None:
    with cluster.faults.lose_ack(topic="orders", nth=3) as fault:
        told = http.get("/v1/cluster")
    assert told["bootstrap_servers"] == {"PLAINTEXT": cluster.bootstrap_servers}
    addresses = cluster.bootstrap_servers.split(",")
    assert [each["addresses"] for each in told["brokers"]] == [{"PLAINTEXT": address} for address in addresses]
    assert states(told) == {1: "running", 2: "running", 3: "running"}
    [orders] = [each for each in told["topics"] if each["topic"] == "orders"]
    assert orders["partitions"] == [
        {"partition": number, **each} for number, each in enumerate(cluster.topics()["orders"])
    ]
    [described] = told["faults"]
    assert described["id"] == fault.id
    assert described["fault"] == {"kind": "lose_ack", "topic": "orders", "nth": 3}


@pytest.mark.parametrize(
    ("verb", "undo", "state"),
    [
        ("kill", "start", "down"),
        ("power-off", "start", "down"),
        ("stop", "start", "down"),
        ("pause", "resume", "paused"),
    ],
)
@pytest.mark.parametrize("broker", ["2", "all"])
def test_brokers_are_ended_and_run_again(
    http: Http, cluster: ottla.Cluster, verb: str, undo: str, state: str, broker: str
) -> None:
    affected = {1, 2, 3} if broker == "all" else {2}
    wanted = {each: state if each in affected else "running" for each in (1, 2, 3)}
    assert states(http.post(f"/v1/brokers/{broker}/{verb}")) == wanted
    assert cluster.brokers() == wanted
    status, told = http.ask("POST", f"/v1/brokers/{broker}/{undo}")
    assert status == 200
    assert states(told) == {1: "running", 2: "running", 3: "running"}


def test_of_two_controllers_that_kill_a_broker_at_once_one_does(http: Http) -> None:
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(lambda _: http.ask("POST", "/v1/brokers/3/kill"), range(2)))
    refused, done = sorted(answers, key=lambda answer: -answer[0])
    assert done[0] == 200
    assert refused == (409, {"error": "broker 3 is down: it cannot be killed now."})


def test_a_lost_ack_is_put_in_force_awaited_and_healed(http: Http, cluster: ottla.Cluster) -> None:
    status, made = http.ask("POST", "/v1/faults", {"kind": "lose_ack", "topic": "orders", "nth": 1})
    assert status == 201
    assert made == {
        "id": made["id"],
        "fault": {"kind": "lose_ack", "topic": "orders", "nth": 1},
        "what": "lose ack of Produce (topic='orders', nth=1)",
        "in_force": True,
        "fired": 0,
        "matched": 0,
    }
    send(cluster)
    path = f"/v1/faults/{made['id']}"
    assert http.get(f"{path}?await=1&timeout=60")["fired"] == 1
    assert [each["id"] for each in http.get("/v1/faults")["in_force"]] == [made["id"]]
    status, healed = http.ask("DELETE", path)
    assert status == 200
    assert (healed["in_force"], healed["fired"], healed["matched"]) == (False, 1, 2)
    # What it has counted stays readable, and it can be posted again as it is shown.
    assert http.get(path) == healed
    assert http.get("/v1/faults")["in_force"] == []
    assert http.post("/v1/faults", **healed["fault"])["id"] == made["id"] + 1


def test_what_was_awaited_in_vain_says_how_often_it_fired(http: Http) -> None:
    made = http.post("/v1/faults", kind="lose_ack", topic="orders")
    status, told = http.ask("GET", f"/v1/faults/{made['id']}?await=2&timeout=0")
    assert status == 504
    late = "fault lose_ack(topic='orders') fired 0 times in 0 s, and not 2 times: 0 requests matched it."
    assert told == {"error": late}


def test_all_faults_are_healed_and_brokers_run_again(http: Http, cluster: ottla.Cluster) -> None:
    made = [
        http.post("/v1/faults", kind="kill", moment="now", broker_id=2),
        http.post("/v1/faults", kind="isolate", broker_id=1, silently=True),
    ]
    assert cluster.brokers()[2] == "down"
    status, told = http.ask("DELETE", "/v1/faults")
    assert status == 200
    assert [each["id"] for each in told["healed"]] == [each["id"] for each in made]
    assert cluster.brokers()[2] == "running"
    assert http.ask("DELETE", "/v1/faults") == (200, {"healed": []})


def test_every_kind_of_fault_is_listed_with_its_fields(http: Http) -> None:
    kinds = http.get("/v1/faults")["kinds"]
    assert [each["kind"] for each in kinds] == list(KINDS)
    for each in kinds:
        found = fault_class(each["kind"])
        assert each["what"]
        assert [field["name"] for field in each["fields"] if field["wanted"]] == [field.name for field in found.wanted]
        assert {field["name"] for field in each["fields"]} == set(found.fields())


def test_who_waits_keeps_nobody_else_waiting(http: Http, cluster: ottla.Cluster) -> None:
    made = http.post("/v1/faults", kind="lose_ack", topic="orders", nth=1)
    waiting = [http.connect() for _ in range(5)]
    for sock in waiting:
        sock.sendall(b"GET /v1/faults/%d?await=1&timeout=600 HTTP/1.1\r\nHost: a\r\n\r\n" % made["id"])
    assert states(http.post("/v1/brokers/2/pause"))[2] == "paused"
    assert states(http.post("/v1/brokers/2/resume"))[2] == "running"
    assert http.get(f"/v1/faults/{made['id']}")["fired"] == 0
    send(cluster)
    for sock in waiting:
        with sock:
            assert json.loads(heard(sock).partition(b"\r\n\r\n")[2])["fired"] == 1


def test_who_waits_for_a_fault_that_another_heals_is_told(http: Http) -> None:
    made = http.post("/v1/faults", kind="lose_ack", topic="orders")
    path = f"/v1/faults/{made['id']}"
    with http.connect() as sock:
        sock.sendall(b"GET %s?await=1&timeout=600 HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
        http.ask("DELETE", path)
        answer = heard(sock)
    assert answer.startswith(b"HTTP/1.1 504 ")
    assert b"is over: it fired 0 times" in answer


def test_topics_are_made_shown_and_deleted(http: Http, cluster: ottla.Cluster) -> None:
    configs = {"min.insync.replicas": "2", "retention.ms": 86_400_000}
    status, told = http.ask(
        "POST",
        "/v1/topics",
        {"topic": "a-b", "partitions": 2, "replication_factor": 2, "configs": configs},
    )
    assert status == 201
    assert told["topic"] == "a-b"
    assert [(each["partition"], len(each["replicas"])) for each in told["partitions"]] == [(0, 2), (1, 2)]
    with ottla.Admin(cluster.bootstrap_servers) as admin:
        found = admin.describe_configs(topic="a-b")
        assert [found[name].value for name in configs] == ["2", "86400000"]
    send(cluster, topic="a-b")
    first, _ = http.get("/v1/topics/a-b")["partitions"]
    assert {each["log_end_offset"] for each in first["replicas"]} == {1}
    assert http.ask("DELETE", "/v1/topics/a-b") == (200, {"deleted": "a-b"})
    assert http.ask("GET", "/v1/topics/a-b")[0] == 404


def test_leaders_are_moved_elected_and_awaited(http: Http, cluster: ottla.Cluster) -> None:
    path = "/v1/partitions/orders/0"
    first = cluster.topics()["orders"][0]["replicas"][0]
    http.post(f"{path}/elect-leader")
    assert http.get(path)["leader"] == first
    other = next(each for each in (1, 2, 3) if each != first)
    assert http.post(f"{path}/move-leader", broker_id=other)["leader"] == other
    assert cluster.leader("orders", 0) == other
    assert http.post(f"{path}/move-leader")["leader"] != other
    assert http.post(f"{path}/elect-leader")["leader"] == first
    http.post(f"/v1/brokers/{first}/kill")
    moved = http.get(f"{path}?await=leader&other_than={first}&timeout=60")
    assert moved["leader"] not in (None, first)
    assert set(http.get(f"{path}?await=isr&size=2&timeout=60")["isr"]) <= {1, 2, 3}
    status, told = http.ask("GET", f"{path}?await=isr&timeout=0")
    assert status == 504
    assert "is led by broker" in told["error"]
    http.post(f"/v1/brokers/{first}/start")
    assert sorted(http.get(f"{path}?await=isr&timeout=60")["isr"]) == [1, 2, 3]


def test_a_partition_that_nobody_can_lead_has_no_leader(http: Http, cluster: ottla.Cluster) -> None:
    http.post("/v1/topics", topic="alone", replication_factor=1)
    [alone] = cluster.topics()["alone"]
    http.post(f"/v1/brokers/{alone['leader']}/stop")
    assert http.get("/v1/partitions/alone/0")["leader"] is None


def test_coordinators_are_shown_and_moved(http: Http, cluster: ottla.Cluster) -> None:
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="shop") as producer, producer.transaction():
        producer.send("orders", b"in a transaction")
    told = http.get("/v1/coordinator?transactional_id=shop")
    assert told == {"transactional_id": "shop", "coordinator": cluster.coordinator(transactional_id="shop")}
    moved = http.post("/v1/coordinator/move", transactional_id="shop")
    assert moved["coordinator"] != told["coordinator"]
    assert cluster.coordinator(transactional_id="shop") == moved["coordinator"]


def test_metrics_are_those_of_the_brokers_that_run(http: Http, cluster: ottla.Cluster) -> None:
    http.post("/v1/brokers/1/kill")
    told = http.get("/v1/metrics")["brokers"]
    assert [each["id"] for each in told] == [2, 3]
    assert set(told[0]["metrics"]) == set(cluster.metrics(2))


def test_connections_are_told_with_their_requests(http: Http, cluster: ottla.Cluster) -> None:
    with ottla.Producer(cluster.bootstrap_servers, client_id="shop") as producer:
        producer.send("orders", b"order").result(60)
        told = http.get("/v1/connections")["connections"]
        assert len(http.get("/v1/brokers?connections=true")["connections"]) == len(told)
        assert "connections" not in http.get("/v1/brokers")
    shop = [each for each in told if each["client_id"] == "shop"]
    assert shop
    assert {each["requests_in_flight"] for each in shop} <= {0, 1}
    assert {each["software_name"] for each in shop} == {"ottla"}


def test_the_cluster_s_clock_is_set_ahead_and_a_transaction_runs_into_its_timeout(
    http: Http, cluster: ottla.Cluster
) -> None:
    before = http.get("/v1/clock")["time_ms"]
    with ottla.Producer(cluster.bootstrap_servers, transactional_id="late", transaction_timeout_ms=600_000) as producer:
        producer.begin_transaction()
        producer.send("orders", b"late").result(60)
        assert http.post("/v1/clock", advance_s=601)["time_ms"] >= before + 601_000
        with pytest.raises(ottla.OttlaError):
            producer.commit_transaction()
    for partition in range(2):
        cluster.await_isr("orders", partition, 3, timeout=60)


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("POST", "/v1/brokers/9/kill", None, 404, "there is no broker 9: this cluster's brokers are 1, 2, 3."),
        ("POST", "/v1/brokers/9/power-off", {"seed": 1}, 404, "there is no broker 9"),
        ("POST", "/v1/brokers/two/kill", None, 404, "there is no broker 'two': give its id, or all."),
        ("POST", "/v1/brokers/-1/kill", None, 404, "there is no broker '-1'"),
        ("POST", "/v1/brokers/%D9%A2/kill", None, 404, "there is no broker"),
        ("POST", "/v1/brokers/1/resume", None, 409, "broker 1 is running: it cannot be resumed now."),
        ("POST", "/v1/brokers/all/start", None, 409, "no broker is down: none can be started now."),
        (
            "POST",
            "/v1/brokers/1/kill",
            {"seed": 1},
            400,
            "/v1/brokers/{broker}/kill has no field 'seed'; its fields: none.",
        ),
        ("POST", "/v1/brokers/1/power-off", {"sed": 1}, 400, "did you mean 'seed'? its fields: seed."),
        (
            "POST",
            "/v1/brokers/1/power-off",
            {"seed": "x"},
            400,
            "seed='x' must be an integer from 0 to 9223372036854775807.",
        ),
        ("POST", "/v1/brokers/1/power-off?seed=1", None, 400, "takes its fields as a JSON object"),
        ("POST", "/v1/brokers/1/explode", None, 404, "there is no /v1/brokers/1/explode; GET /v1 lists all paths."),
        ("GET", "/", None, 404, "GET /v1 lists"),
        ("GET", "/v2/cluster", None, 404, "there is no /v2/cluster"),
        ("GET", "/v1/topics/" + "a" * 60_000, None, 404, f"there is no /v1/topics/{'a' * 189}; GET /v1 lists"),
        ("GET", "/v1/brokers/1/kill", None, 405, "/v1/brokers/1/kill takes the method POST, not GET."),
        ("PUT", "/v1/faults", None, 405, "/v1/faults takes the method GET, POST, DELETE, not PUT."),
        ("GET", "/v1/faults/999", None, 404, "there is no fault 999 in this cluster."),
        ("GET", "/v1/faults/all", None, 404, "there is no fault 'all'"),
        ("DELETE", "/v1/faults/999", None, 404, "there is no fault 999"),
        ("GET", "/v1/faults/1?await=0", None, 400, "await='0' must be an integer from 1 to 2147483647."),
        (
            "GET",
            "/v1/faults/1?await=1&timeout=601",
            None,
            400,
            "timeout='601' must be a number of seconds from 0 to 600.",
        ),
        ("GET", "/v1/faults/1?await=1&timeout=nan", None, 400, "timeout='nan'"),
        ("GET", "/v1/faults/1?awiat=1", None, 400, "did you mean 'await'?"),
        ("GET", "/v1/faults/1?a=1&&b", None, 400, "NAME=VALUE"),
        ("POST", "/v1/faults", {}, 400, "a fault needs a kind"),
        ("POST", "/v1/faults", {"kind": "lose_ak"}, 400, "did you mean 'lose_ack'?"),
        ("POST", "/v1/faults", {"kind": ["lose_ack"]}, 400, "fault kind ['lose_ack'] is unknown"),
        ("POST", "/v1/faults", {"kind": "lose_ack", "nht": 3}, 400, "did you mean 'nth'?"),
        (
            "POST",
            "/v1/faults",
            {"kind": "lose_ack", "nth": True},
            400,
            "nth=True must be an integer from 1 to 2147483647",
        ),
        ("POST", "/v1/faults", {"kind": "lose_ack", "topic": "\ud800"}, 400, "must be a topic's name"),
        ("POST", "/v1/faults", {"kind": "lose_ack", "self": 1}, 400, "it has no field self"),
        ("POST", "/v1/faults", {"kind": "isolate", "broker_id": 9}, 400, "there is no broker 9"),
        (
            "POST",
            "/v1/faults",
            {"kind": "corrupt", "topic": "no", "partition": 0, "offset": 0, "broker_id": 1},
            409,
            "holds no log",
        ),
        ("POST", "/v1/topics", {}, 400, "/v1/topics needs topic: the name of a topic."),
        ("POST", "/v1/topics", {"topic": "orders"}, 409, "exists already"),
        ("POST", "/v1/topics", {"topic": "a b"}, 400, "a b"),
        (
            "POST",
            "/v1/topics",
            {"topic": "x", "partitions": 0},
            400,
            "partitions=0 must be an integer from 1 to 2147483647.",
        ),
        ("POST", "/v1/topics", {"topic": "x", "configs": {"a": None}}, 400, "an object of texts and numbers."),
        ("POST", "/v1/topics", {"topic": "x", "replication_factor": 9}, 400, ""),
        ("DELETE", "/v1/topics/nope", None, 404, "nope"),
        ("GET", "/v1/partitions/nope/0", None, 404, "no partition 0 of topic 'nope'"),
        ("GET", "/v1/partitions/orders/7", None, 404, "no partition 7"),
        ("GET", "/v1/partitions/orders/x", None, 404, "there is no partition 'x': give a number."),
        ("GET", "/v1/partitions/orders/0?other_than=1", None, 400, "other_than goes with await=leader."),
        ("GET", "/v1/partitions/orders/0?await=godot", None, 400, "await='godot' must be one of 'leader', 'isr'."),
        ("POST", "/v1/partitions/nope/0/move-leader", None, 404, "no partition 0 of topic 'nope'"),
        ("GET", "/v1/coordinator", None, 400, "name either a group or a transactional_id."),
        ("GET", "/v1/coordinator?group=g", None, 409, "nothing is coordinated yet"),
        ("POST", "/v1/clock", {"advance_s": -1}, 400, "advance_s=-1 must be a number of seconds"),
        ("POST", "/v1/clock", {}, 400, "needs advance_s"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    http: Http, method: str, path: str, body: Any, status: int, words: str
) -> None:
    got, told = http.ask(method, path, body)
    assert list(told) == ["error"]
    assert words in told["error"]
    assert got == status, told
    assert "\n" not in told["error"]
    assert set(states(http.get("/v1/cluster")).values()) == {"running"}


def test_a_bug_is_told_in_the_log_and_not_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(Refusal) as refused:
        carry_out(None, "GET", "/v1/cluster", {})  # type: ignore[arg-type]
    assert refused.value.status == 500
    assert str(refused.value) == "it could not be done: the log of the program that was asked says why."
    assert "AttributeError" in caplog.text
