"""What the console tells of a Kafka, and does there, as its page asks for it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from tests.wire import Wire

import ottla
from ottla.client.config_admin import ConfigDescription
from ottla.console import cluster_views, record_views, sending
from ottla.console.console import Console
from ottla.console.server import ConsoleServer
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.records.plain import Record, encode_batch

from .conftest import Asking

_PATIENCE_S = 30


def sent(cluster: ottla.Cluster, topic: str, values: list[bytes | None], *, partition: int = 0) -> None:
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            headers = [("number", b"%d" % number)]
            producer.send(topic, value, f"k{number}".encode(), partition=partition, headers=headers)


def shown(page: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(each["partition"], each["offset"], each["value"]["text"]) for each in page["records"]]


def test_brokers_and_topics_are_told_with_what_they_store(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, partitions=2)
    sent(cluster, kafka_name, [b"x" * 1000] * 5)
    told = asking.get("api/brokers")
    assert [each["id"] for each in told["brokers"]] == [1, 2, 3]
    assert (told["missing"], told["sizes_untold"]) == ([], None)
    assert all(each["bytes"] > 5000 and each["log_dirs"][0]["error"] is None for each in told["brokers"])
    [row] = [each for each in asking.get("api/topics")["topics"] if each["name"] == kafka_name]
    assert row == {
        "name": kafka_name,
        "internal": False,
        "partitions": 2,
        "replication": 3,
        "under_replicated": 0,
        "leaderless": 0,
    }
    sizes = asking.get("api/topic-sizes")
    assert sizes["offsets"][kafka_name] == 5
    assert sizes["bytes"][kafka_name] > 15_000
    first, second = asking.get(f"api/topics/{kafka_name}")["partitions"]
    assert (first["log_start_offset"], first["high_watermark"], first["last_stable_offset"]) == (0, 5, 5)
    assert (second["high_watermark"], second["bytes"]) == (0, 0)
    assert sorted(first["isr"]) == sorted(first["replicas"]) == [1, 2, 3]
    configs = {each["name"]: each for each in asking.get(f"api/topics/{kafka_name}/configs")["configs"]}
    assert configs["cleanup.policy"]["value"] == "delete"
    assert asking.get("api/brokers/2/configs")["configs"]
    status, _, content = asking.raw("GET", "api/brokers/77/configs")
    assert (status, b"there is no broker 77 now: there are 1, 2, 3" in content) == (400, True)


def test_the_log_end_is_beyond_the_high_watermark_while_a_replica_lags(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    [part] = asking.get(f"api/topics/{kafka_name}")["partitions"]
    follower = next(each for each in part["replicas"] if each != part["leader"])
    with (
        cluster.faults.cut_link(part["leader"], follower),
        ottla.Producer(cluster.bootstrap_servers, acks=1) as producer,
    ):
        for _ in range(3):
            producer.send(kafka_name, b"value").result(_PATIENCE_S)
        [part] = asking.get(f"api/topics/{kafka_name}")["partitions"]
        assert part["log_end_offset"] == 3
        # A Fetch that waits when the link is cut may still be answered.
        assert part["high_watermark"] <= 1


def configs_told(*described: ConfigDescription) -> dict[str, str | None]:
    """What the view of settings shows of them."""
    return {each["name"]: each["value"] for each in cluster_views.configs_of({each.name: each for each in described})}


def test_sensitive_values_are_hidden_and_nothing_else_is() -> None:
    assert configs_told(
        ConfigDescription("ssl.keystore.password", None, "file", read_only=True, is_sensitive=True),
        ConfigDescription("sasl.jaas.config", None, "broker", read_only=False, is_sensitive=True),
        # What is not set, though its name looks like a secret.
        ConfigDescription("ssl.key.password", None, "default", read_only=True, is_sensitive=True),
        ConfigDescription("ssl.keystore.location", None, "default", read_only=True, is_sensitive=False),
        ConfigDescription("delegation.token.max.lifetime.ms", "1", "default", read_only=True, is_sensitive=False),
    ) == {
        "ssl.keystore.password": cluster_views.HIDDEN,
        "sasl.jaas.config": cluster_views.HIDDEN,
        "ssl.key.password": None,
        "ssl.keystore.location": None,
        "delegation.token.max.lifetime.ms": "1",
    }


def test_a_topic_is_made_and_deleted(asking: Asking, kafka_name: str) -> None:
    assert asking.change("POST", "api/topics", {"name": kafka_name, "partitions": 3}) == (200, {"created": kafka_name})
    assert len(asking.get(f"api/topics/{kafka_name}")["partitions"]) == 3
    status, told = asking.change("POST", "api/topics", {"name": kafka_name})
    assert (status, "TOPIC_ALREADY_EXISTS" in told["error"]) == (409, True)
    assert asking.change("DELETE", f"api/topics/{kafka_name}")[0] == 200
    status, _, content = asking.raw("GET", f"api/topics/{kafka_name}")
    assert (status, b"no such topic" in content) == (404, True)
    assert asking.raw("GET", f"api/topics/{kafka_name}/records")[0] == 404
    assert asking.raw("GET", f"api/topics/{kafka_name}/search")[0] == 404


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("records?limit=0", "limit must be a whole number from 1 to 200, not 0"),
        ("records?start=middle", "start=middle is none of"),
        ("records?cursor=x&start=cursor", "cursor must be PARTITION:OFFSET"),
        ("records?start=offset&at=-1", "at must be a whole number from 0 on"),
        ("records/0/12345", "there is no record at offset 12345"),
        ("records/0/0/header", "no header"),
        ("search?path=$..a", "JSON path"),
        ("search?value=(&value_regex=true", "regular expression"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(asking: Asking, cluster: ottla.Cluster, path: str, says: str) -> None:
    if "asked" not in cluster.topics():
        cluster.create_topic("asked")
    status, _, content = asking.raw("GET", f"api/topics/asked/{path}")
    assert status == 400
    assert says in json.loads(content)["error"]


@pytest.mark.parametrize("path", ["records?partition=99", "search?partition=99", "export?partition=99"])
def test_a_partition_that_the_topic_lacks_is_never_read_as_an_empty_one(
    asking: Asking, cluster: ottla.Cluster, path: str
) -> None:
    if "asked" not in cluster.topics():
        cluster.create_topic("asked")
    status, _, content = asking.raw("GET", f"api/topics/asked/{path}")
    assert status == 404
    assert "the topic has 1 partition, counted from 0" in json.loads(content)["error"]


@pytest.mark.parametrize(
    ("path", "given", "refused"),
    [
        ("api/topics", {"name": "<b>"}, (400, "allowed are ASCII letters")),
        ("api/topics", {"name": ["x"]}, (400, "name must be text")),
        ("api/topics", {"name": "y", "configs": {"retention.ms": None}}, (400, "configs must be an object")),
        ("api/topics", {"name": "y", "configs": {"retention.ms": {}}}, (400, "configs must be an object")),
        ("api/topics", {"name": "y", "replication_factor": 99_999}, (400, "from 1 to 32767")),
        ("api/topics/asked/records", {}, (400, "the record is no JSON object")),
        ("api/topics/asked/records", {"record": {"value": "x", "partition": 99}}, (400, "not 99")),
        ("api/topics/asked/records", {"record": {"value": {"base64": "\xe9"}}}, (400, "is not base64")),
        ("api/topics/asked/records", {"record": {"headers": [["\ud800", "x"]]}}, (400, "surrogates not allowed")),
        ("api/served/faults", {"kind": "pause", "\ud800": "x"}, (400, "\ud800")),
        ("api/topics/nowhere/records", {"record": {"value": "x"}}, (404, "no such topic")),
        ("api/topics/nowhere/import", b'{"value": "x"}', (404, "no such topic")),
        ("api/transactions/end", {}, (400, "transactional_id is missing")),
        ("api/producers/abort", {"topic": "asked"}, (400, "partition is missing")),
    ],
)
def test_what_cannot_be_done_is_one_sentence(
    asking: Asking, cluster: ottla.Cluster, path: str, given: Any, refused: tuple[int, str]
) -> None:
    if "asked" not in cluster.topics():
        cluster.create_topic("asked")
    status, told = asking.change("POST", path, given)
    assert (status, refused[1] in told["error"]) == (refused[0], True), told


def test_pages_lead_through_all_records_and_back(asking: Asking, cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name, partitions=2)
    for partition in (0, 1):
        sent(cluster, kafka_name, [f"{partition}:{number}".encode() for number in range(7)], partition=partition)
    all_places = sorted((partition, offset) for partition in (0, 1) for offset in range(7))
    for start, direction, backward in (("newest", "older", "true"), ("oldest", "newer", "false")):
        page = asking.get(f"api/topics/{kafka_name}/records?start={start}&limit=4")
        assert page["offsets"] == 14
        seen = []
        while True:
            assert page["errors"] == []
            assert all(text == f"{partition}:{offset}" for partition, offset, text in shown(page))
            seen += [place[:2] for place in shown(page)]
            if page[direction] is None:
                break
            cursor = ",".join(f"{each}:{offset}" for each, offset in page[direction].items())
            page = asking.get(
                f"api/topics/{kafka_name}/records?start=cursor&cursor={cursor}&backward={backward}&limit=4"
            )
        assert sorted(seen) == all_places
        of_one = [offset for partition, offset in seen if partition == 1]
        assert of_one == sorted(of_one, reverse=backward == "true")


def test_a_page_ends_early_only_where_something_is_left(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic(kafka_name, partitions=2)
    sent(cluster, kafka_name, [b"x" * 1000] * 60)
    monkeypatch.setattr(record_views, "_PAGE_BYTES_MAX", 1)
    page = asking.get(f"api/topics/{kafka_name}/records?limit=50")
    assert (len(page["records"]), page["errors"]) == (50, [])
    sent(cluster, kafka_name, [b"x"], partition=1)
    page = asking.get(f"api/topics/{kafka_name}/records?limit=50")
    assert page["errors"] == ["records are large or brokers slow: the page ends before its last record"]


def test_a_page_begins_at_an_offset_or_a_time(asking: Asking, cluster: ottla.Cluster, kafka_name: str) -> None:
    cluster.create_topic(kafka_name)
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(5):
            producer.send(kafka_name, f"{number}".encode(), timestamp_ms=1_700_000_000_000 + 1000 * number)
    at_offset = asking.get(f"api/topics/{kafka_name}/records?start=offset&at=3")
    assert [text for *_, text in shown(at_offset)] == ["3", "4"]
    at_time = asking.get(f"api/topics/{kafka_name}/records?start=time&at=1700000001500")
    assert [text for *_, text in shown(at_time)] == ["2", "3", "4"]
    assert asking.get(f"api/topics/{kafka_name}/records?start=time&at=1800000000000")["records"] == []


def test_what_is_no_text_is_shown_as_digits_and_what_is_long_in_part(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    long = b'{"a": "' + b"x" * 500_000 + b'"}'
    sent(cluster, kafka_name, [b"\x00\xff\x01", b"", None, "häh <b>&".encode(), long])
    values = [each["value"] for each in asking.get(f"api/topics/{kafka_name}/records?start=oldest")["records"]]
    assert values[0] == {"bytes": 3, "as": "hex", "text": "00 ff 01", "cut": False, "shown_bytes": 3}
    assert values[1] == {"bytes": 0, "as": "text", "text": "", "cut": False, "shown_bytes": 0}
    assert values[2] is None
    assert values[3]["text"] == "häh <b>&"
    assert (values[4]["bytes"], values[4]["cut"], len(values[4]["text"])) == (len(long), True, 4096)
    status, headers, content = asking.raw("GET", f"api/topics/{kafka_name}/records/0/4/value")
    assert (status, content == long, headers["content-type"]) == (200, True, "application/octet-stream")
    assert "attachment" in headers["content-disposition"]


def test_a_transactional_id_is_open_in_a_transaction_alone(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)

    def seen() -> tuple[str, bool]:
        rows = asking.get("api/transactions")["transactions"]
        [row] = [each for each in rows if each["transactional_id"] == kafka_name]
        return row["state"], row["started_ms"] is not None

    with ottla.Producer(cluster.bootstrap_servers, transactional_id=kafka_name) as producer:
        producer.begin_transaction()
        producer.send(kafka_name, b"in a transaction").result(30)
        assert seen() == ("Ongoing", True)
        producer.commit_transaction()
        while seen()[0] == "PrepareCommit":
            pass
        # A coordinator goes on telling when the last transaction began.
        assert seen() == ("CompleteCommit", False)


def test_a_record_says_whether_its_transaction_was_committed(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name)
    with ottla.Producer(cluster.bootstrap_servers, transactional_id=kafka_name) as producer:
        producer.init_transactions()
        for ending in ("aborted", "committed", "aborted", "open"):
            producer.begin_transaction()
            for number in range(2):
                producer.send(kafka_name, f"{ending} {number}".encode())
            producer.flush()
            if ending == "committed":
                producer.commit_transaction()
            elif ending == "aborted":
                producer.abort_transaction()
        sent(cluster, kafka_name, [b"none"])
        for limit in (1, 2, 50):
            page = asking.get(f"api/topics/{kafka_name}/records?start=oldest&limit={limit}")
            for record in page["records"]:
                ending = record["value"]["text"].split()[0]
                assert record["transaction"] == (None if ending == "none" else ending)
        assert len(page["records"]) == 9
        one = asking.get(f"api/topics/{kafka_name}/records/0/{page['records'][3]['offset']}")
        assert one["transaction"] == "committed"
        assert one["batch"]["records"] == 2
        assert one["batch"]["sequence"] is not None
        [row] = [
            each for each in asking.get("api/transactions")["transactions"] if each["transactional_id"] == kafka_name
        ]
        assert (row["state"], row["partitions"]) == ("Ongoing", [f"{kafka_name}-0"])
        [opened] = [
            each for each in asking.get(f"api/topics/{kafka_name}/producers")["producers"] if each["transaction_offset"]
        ]
        assert (opened["hangs"], opened["producer_id"]) == (False, row["producer_id"])
        status, told = asking.change("POST", "api/transactions/end", {"transactional_id": kafka_name})
        assert (status, told["producer_id"]) == (200, row["producer_id"])
        last = asking.get(f"api/topics/{kafka_name}/records?start=oldest")["records"][-2]
        assert (last["value"]["text"], last["transaction"]) == ("open 1", "aborted")
        with pytest.raises(ottla.OttlaError, match="FENCED"):
            producer.commit_transaction()
    status, told = asking.change("POST", "api/transactions/end", {"transactional_id": "nobody's"})
    assert (status, "TRANSACTIONAL_ID_NOT_FOUND" in told["error"]) == (404, True)


def test_a_search_finds_what_is_asked_for_and_says_how_far_it_has_come(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str
) -> None:
    cluster.create_topic(kafka_name, partitions=3)
    for partition in range(3):
        values: list[bytes | None] = [json.dumps({"p": partition, "n": number}).encode() for number in range(100)]
        sent(cluster, kafka_name, values, partition=partition)

    def found(query: str) -> tuple[list[tuple[int, int]], dict[str, Any]]:
        lines = asking.lines(f"api/topics/{kafka_name}/search?{query}")
        matches = [line["match"] for line in lines if "match" in line]
        return sorted((each["partition"], each["offset"]) for each in matches), lines[-1]["end"]

    places, end = found("path=n&operator=%3D&operand=42")
    assert places == [(0, 42), (1, 42), (2, 42)]
    assert (end["is_done"], end["records"], end["offsets"], end["cursor"]) == (True, 300, 300, None)
    assert found("key=k7&path=p&operator=%3D&operand=1")[0] == [(1, 7), *((1, number) for number in range(70, 80))]
    assert found("header=number%3D99")[0] == [(0, 99), (1, 99), (2, 99)]
    assert found("value=nothing")[0] == []
    assert found("partition=2&value=n&limit=1000")[0] == [(2, number) for number in range(100)]
    # Where it stops it can go on.
    all_places, query = [], ""
    while True:
        places, end = found(f"path=n&operator=<&operand=10&limit=7{query}".replace("<", "%3C"))
        assert len(places) <= 7
        all_places += places
        if end["is_done"]:
            break
        query = "&cursor=" + ",".join(f"{each}:{offset}" for each, offset in end["cursor"].items())
    assert sorted(all_places) == [(partition, number) for partition in range(3) for number in range(10)]


def test_a_record_is_sent_and_a_file_taken_in_as_it_was_exported(
    asking: Asking, cluster: ottla.Cluster, kafka_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic(kafka_name)
    cluster.create_topic(f"{kafka_name}-copy")
    path = f"api/topics/{kafka_name}"
    records = [
        {
            "key": "ada",
            "value": "häh",
            "headers": [["source", "page"], ["empty", None]],
            "timestamp_ms": 1_700_000_000_000,
        },
        {"key": None, "value": {"base64": "AP8="}},
        {"key": "gone", "value": None},
    ]
    for number, record in enumerate(records):
        status, stored = asking.change("POST", f"{path}/records", {"record": record})
        assert (status, stored["offset"]) == (200, number)
    exported = asking.raw("GET", f"{path}/export")[2]
    assert [json.loads(line)["value"] for line in exported.splitlines()] == ["häh", {"base64": "AP8="}, None]
    status, told = asking.change("POST", f"{path}-copy/import", exported)
    assert (status, told) == (200, {"stored": 3, "failed": 0, "unknown": 0, "left_out": 0, "error": None})
    assert asking.raw("GET", f"{path}-copy/export")[2] == exported
    broken = exported.splitlines()[0] + b"\n{no json\n" + exported
    status, told = asking.change("POST", f"{path}-copy/import", broken)
    assert (status, told["stored"]) == (200, 1)
    assert told["error"].startswith("line 2 is not JSON")
    monkeypatch.setattr(sending, "LINE_BYTES_MAX", 100_000)
    long = b'{"value": "first"}\n' + b"x" * 200_000
    status, told = asking.change("POST", f"{path}-copy/import", long)
    assert (status, told["stored"], told["error"][:15]) == (200, 1, "line 2 has more")
    for record, says in (
        ({"value": 1}, "the value of the record must be text, null or"),
        ({"text": "x"}, "has a field 'text'"),
        ({"headers": {"a": "b"}}, "must be a list of pairs"),
        ([], "is no JSON object"),
    ):
        status, told = asking.change("POST", f"{path}/records", {"record": record})
        assert (status, says in told["error"]) == (400, True)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_told_with_its_lag(asking: Asking, cluster: ottla.Cluster, kafka_name: str, protocol: str) -> None:
    cluster.create_topic(kafka_name, partitions=2)
    sent(cluster, kafka_name, [b"x"] * 5, partition=0)
    sent(cluster, kafka_name, [b"x"] * 3, partition=1)
    settings = {"group.id": kafka_name, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    reading = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "enable.auto.commit": False, **settings})
    reading.subscribe([kafka_name])
    try:
        give_up = time.monotonic() + _PATIENCE_S
        read = 0
        while read < 8:
            assert time.monotonic() < give_up
            message = reading.poll(0.2)
            if message is not None and message.error() is None:
                read += 1
        reading.commit(asynchronous=False)
        sent(cluster, kafka_name, [b"more"] * 2, partition=1)
        [row] = [each for each in asking.get("api/groups")["groups"] if each["id"] == kafka_name]
        assert (row["protocol"], row["state"], row["lag"]) == (protocol, "Stable", 2)
        told = asking.get(f"api/group?id={kafka_name}")
        [topic] = told["topics"]
        assert (topic["topic"], topic["lag"]) == (kafka_name, 2)
        assert [(each["committed"], each["end"], each["lag"]) for each in topic["partitions"]] == [(5, 5, 0), (3, 5, 2)]
        [member] = told["members"]
        assert (member["partitions"], member["id"]) == (2, topic["partitions"][0]["member"])
    finally:
        reading.close()
    status, _, content = asking.raw("GET", "api/group?id=nobody")
    assert (status, b"GROUP_ID_NOT_FOUND" in content) == (404, True)


@pytest.fixture
def trusting() -> Iterator[tuple[ottla.Cluster, Asking]]:
    """Brokers that take a transaction's word, so that one can be left hanging."""
    settings = {"transaction.partition.verification.enable": False, "transaction.max.timeout.ms": 1000}
    with (
        ottla.Cluster(1, settings=settings) as cluster,
        Console(cluster.bootstrap_servers) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
    ):
        yield cluster, Asking(server.url)


def leave_hanging(bootstrap_servers: str, topic: str) -> None:
    """Open a transaction of a producer that no coordinator has heard of, with a record of long ago."""
    records = [Record(0, 1_600_000_000_000, None, b"stuck")]
    batch = encode_batch(records, producer_id=4711, producer_epoch=3, base_sequence=0, is_transactional=True)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    wire = Wire(bootstrap_servers)
    answer = wire.ask(ProduceRequest(transactional_id="x", acks=-1, timeout_ms=5000, topic_data=[data]), 11)
    assert answer.responses[0].partition_responses[0].error_code == 0
    wire.close()


AS_OLD_AS_IT_IS = {"retention.ms": "-1", "message.timestamp.before.max.ms": str(1 << 60)}


def test_a_hanging_transaction_is_found_and_aborted(trusting: tuple[ottla.Cluster, Asking]) -> None:
    cluster, asking = trusting
    cluster.create_topic("stuck", configs=AS_OLD_AS_IT_IS)
    leave_hanging(cluster.bootstrap_servers, "stuck")
    [found] = asking.get("api/topics/stuck/producers")["producers"]
    assert found in asking.get("api/producers")["producers"]
    assert (found["hangs"], found["producer_id"], found["transaction_offset"]) == (True, 4711, 0)
    status, told = asking.change("POST", "api/producers/abort", {**found, "producer_id": 4712})
    assert (status, "does not hang (any more)" in told["error"]) == (400, True)
    assert asking.change("POST", "api/producers/abort", found)[0] == 200
    assert not any(each["hangs"] for each in asking.get("api/producers")["producers"])
    [record] = asking.get("api/topics/stuck/records")["records"]
    assert record["transaction"] == "aborted"
    assert asking.change("POST", "api/producers/abort", found)[0] == 400


def test_a_cluster_that_nobody_can_reach_is_said_to_be_so() -> None:
    with (
        Console("127.0.0.1:1", reading={"default_api_timeout_ms": 500}) as console,
        ConsoleServer(console, "127.0.0.1", 0) as server,
    ):
        asking = Asking(server.url)
        assert asking.get("api/session")["bootstrap_servers"] == "127.0.0.1:1"
        status, _, content = asking.raw("GET", "api/topics")
        assert status == 503
        assert "127.0.0.1:1" in json.loads(content)["error"]
        status, _, content = asking.raw("GET", "api/served")
        assert (status, b"--control" in content) == (400, True)
