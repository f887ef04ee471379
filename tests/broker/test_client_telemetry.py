"""Clients' metrics (KIP-714): who is asked for which, what may be pushed when, what is kept of it."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.drawn import fixed_seeds

from ottla.broker.apis import OF_CLIENT_METRICS
from ottla.broker.events import ClientContext
from ottla.broker.otlp import FIELDS_MAX, NotOtlp, read_metrics
from ottla.broker.patterns import compile_pattern
from ottla.producer.otlp import Point, attributes, metrics_data
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.records.compression import compress

from .test_configs import DELETE, INVALID_CONFIG, INVALID_REQUEST, METRICS_TYPE, SET, alter, described
from .world import World

POINTS = [
    Point("org.apache.kafka.producer.record.send.total", attributes({"topic": "t"}), 7.0, 1000),
    Point("org.apache.kafka.producer.connection.count", attributes({}), 2.5, None),
]
DATA = metrics_data(POINTS, {"transactional_id": "shop"}, 2000, delta=True)
_NAME = UUID("12345678-1234-5678-1234-567812345678").bytes


@pytest.fixture
def world() -> World:
    return World(2)


def subscribe(world: World, name: str = "all", **configs: str) -> int:
    given = {"metrics": "*", "interval.ms": "1000", **{key.replace("_", "."): value for key, value in configs.items()}}
    return alter(world, METRICS_TYPE, name, *((key, SET, value) for key, value in given.items()))


def get(world: World, number: bytes = ZERO_UUID, *, client_id: str = "test", software: str = "") -> Any:
    client = ClientContext(host="10.0.0.1", port=4711)
    client.software_name = software
    message = GetTelemetrySubscriptionsRequest(client_instance_id=number)
    return world.ask(1, message, version=0, client_id=client_id, client=client)


def push(world: World, told: Any, data: bytes = DATA, *, codec: int = 0, terminating: bool = False, **more: Any) -> int:
    message = PushTelemetryRequest(
        client_instance_id=more.get("number", told.client_instance_id),
        subscription_id=more.get("subscription_id", told.subscription_id),
        terminating=terminating,
        compression_type=codec,
        metrics=data,
    )
    return int(world.ask(1, message, version=0).error_code)


def pushed(world: World) -> list[Any]:
    return [each for each in world.brokers[1].client_telemetry.instances(world.now_us) if each.data]


def test_clients_are_told_of_it_only_where_somebody_subscribes(world: World) -> None:
    def told() -> list[int]:
        answer = world.ask(1, ApiVersionsRequest(client_software_name="a", client_software_version="1"), version=4)
        return [each.api_key for each in answer.api_keys if each.api_key in OF_CLIENT_METRICS]

    assert told() == []
    assert subscribe(world) == 0
    assert told() == [71, 72]
    assert alter(world, METRICS_TYPE, "all", ("metrics", DELETE, None), ("interval.ms", DELETE, None)) == 0
    assert told() == []


def test_a_subscription_is_told_with_its_number_and_what_was_pushed_is_kept(world: World) -> None:
    assert subscribe(world, metrics="org.apache.kafka.producer.,other", interval_ms="2000") == 0
    told = get(world)
    assert told.error_code == 0
    assert told.client_instance_id != ZERO_UUID
    assert (told.push_interval_ms, told.telemetry_max_bytes, told.delta_temporality) == (2000, 1 << 20, True)
    assert told.requested_metrics == ["org.apache.kafka.producer.", "other"]
    assert list(told.accepted_compression_types) == [4, 3, 1, 2]
    assert pushed(world) == []
    assert push(world, told) == 0
    (kept,) = pushed(world)
    assert (kept.id, kept.client_id, kept.pushes) == (told.client_instance_id, "test", 1)
    assert kept.resource == {"transactional_id": "shop"}
    total, count = kept.metrics
    assert (total["name"], total["value"], total["kind"], total["is_delta"], total["attributes"]) == (
        "org.apache.kafka.producer.record.send.total",
        7.0,
        "sum",
        True,
        {"topic": "t"},
    )
    assert (total["start_ns"], total["time_ns"]) == (1000, 2000)
    assert (count["value"], count["kind"], count["attributes"]) == (2.5, "gauge", {})


@pytest.mark.parametrize(("codec", "name"), [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_metrics_come_compressed(world: World, codec: int, name: str) -> None:
    assert subscribe(world) == 0
    assert push(world, get(world), bytes(compress(name, None, DATA)), codec=codec) == 0
    assert len(pushed(world)[0].metrics) == 2


def test_who_comes_too_soon_is_told_so(world: World) -> None:
    assert subscribe(world) == 0
    told = get(world)
    number = told.client_instance_id
    assert get(world, number).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert push(world, told) == 0  # the first push may come at once
    assert push(world, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.pass_time(1000)
    assert push(world, told) == 0
    assert push(world, told, terminating=True) == 0  # the last one, too
    assert push(world, told, terminating=True) == ErrorCode.INVALID_REQUEST
    assert pushed(world)[0].pushes == 3


def test_a_subscription_that_changed_is_asked_for_anew(world: World) -> None:
    assert subscribe(world) == 0
    told = get(world)
    assert subscribe(world, metrics="a") == 0
    assert push(world, told) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = get(world, told.client_instance_id)
    assert (again.error_code, again.client_instance_id, again.requested_metrics) == (0, told.client_instance_id, ["a"])
    assert again.subscription_id != told.subscription_id
    # What was refused counts for the interval, as in Apache Kafka.
    assert push(world, again) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    world.pass_time(1000)
    assert push(world, again) == 0


def test_the_same_client_has_the_same_number_at_every_broker(world: World) -> None:
    assert subscribe(world) == 0
    told = get(world, _NAME)
    other = world.ask(2, GetTelemetrySubscriptionsRequest(client_instance_id=_NAME), version=0)
    assert (other.subscription_id, other.client_instance_id) == (told.subscription_id, _NAME)
    assert get(world, UUID(int=2).bytes).subscription_id != told.subscription_id


@pytest.mark.parametrize(
    ("data", "more", "code"),
    [
        (DATA, {"subscription_id": 5}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        (DATA, {"codec": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (DATA, {"codec": 1}, ErrorCode.INVALID_RECORD),
        (b"no protobuf", {}, ErrorCode.INVALID_RECORD),
        (bytes(1 << 20) + b"1", {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (bytes(compress("gzip", None, bytes(2 << 20))), {"codec": 1}, ErrorCode.TELEMETRY_TOO_LARGE),
        (b"\0\0" * (FIELDS_MAX + 1), {}, ErrorCode.TELEMETRY_TOO_LARGE),
        (DATA, {"number": ZERO_UUID}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_taken_is_refused(world: World, data: bytes, more: dict[str, Any], code: int) -> None:
    assert subscribe(world) == 0
    assert push(world, get(world), data, **more) == code
    assert pushed(world) == []


def test_only_those_that_match_are_asked_and_of_all_subscriptions_together(world: World) -> None:
    assert subscribe(world, "ids", metrics="a,b", interval_ms="5000", match="client_id=pay.*") == 0
    assert subscribe(world, "software", metrics="b,c", interval_ms="2000", match="client_software_name=ottla") == 0
    assert subscribe(world, "place", metrics="d", match="client_source_address=10.0.0.1,client_source_port=4712") == 0
    told = get(world, client_id="payments", software="ottla")
    assert (told.requested_metrics, told.push_interval_ms) == (["a", "b", "c"], 2000)
    told = get(world, client_id="pay")
    assert (told.requested_metrics, told.push_interval_ms) == (["a", "b"], 5000)
    told = get(world, client_id="other")
    assert (told.requested_metrics, told.push_interval_ms) == ([], 300_000)


def test_a_name_too_long_for_a_pattern_matches_none(world: World) -> None:
    assert subscribe(world, "ids", metrics="a", match="client_id=p.*") == 0
    assert get(world, client_id="p" * 249).requested_metrics == ["a"]
    assert get(world, client_id="p" * 250).requested_metrics == []


def test_a_pattern_that_is_refused_today_but_was_stored_earlier_matches_none(world: World) -> None:
    with pytest.MonkeyPatch.context() as older:
        older.setattr("ottla.broker.patterns._REPEATS_MAX", 9)
        assert subscribe(world, "ids", metrics="a", match="client_id=c+d+e+f+g+") == 0
        assert get(world, client_id="cdefg").requested_metrics != []
    compile_pattern.cache_clear()
    assert get(world, client_id="cdefg").requested_metrics == []


def test_one_subscription_to_all_is_to_all(world: World) -> None:
    assert subscribe(world, "some", metrics="a") == 0
    assert subscribe(world, "all") == 0
    assert get(world).requested_metrics == ["*"]


def test_clients_that_are_silent_are_forgotten(world: World) -> None:
    assert subscribe(world, interval_ms="30000") == 0
    assert push(world, get(world)) == 0
    world.pass_time(89_000)
    assert len(pushed(world)) == 1
    world.pass_time(2000)
    assert pushed(world) == []


def test_of_what_many_clients_push_the_newest_is_kept(world: World) -> None:
    assert subscribe(world) == 0
    # A mebibyte of few fields, which are passed over.
    large = bytes(compress("gzip", None, b"\x7a\xfb\xff\x3f" + bytes(0xFFFFB)))
    clients = [get(world) for _ in range(70)]
    assert [push(world, told, large, codec=1) for told in clients] == [0] * 70
    assert [each.id for each in pushed(world)] == [told.client_instance_id for told in clients[-64:]]
    world.pass_time(1000)
    assert push(world, clients[0]) == 0
    assert [each.id for each in pushed(world)][-1] == clients[0].client_instance_id
    assert len(pushed(world)[-1].metrics) == 2


def test_subscriptions_are_listed_described_and_outlive_the_cluster(world: World) -> None:
    assert subscribe(world, "two") == 0
    assert subscribe(world, "one", match="client_id=a") == 0
    for each in (world, World(2, world.storages)):
        listed = each.ask(1, ListConfigResourcesRequest(resource_types=[16]), version=1).config_resources
        assert [(found.resource_type, found.resource_name) for found in listed] == [(16, "one"), (16, "two")]
        told = {found.name: found for found in described(each, METRICS_TYPE, "one").configs}
        assert {name: (found.value, found.config_source) for name, found in told.items()} == {
            "metrics": ("*", 7),
            "interval.ms": ("1000", 7),
            "match": ("client_id=a", 7),
        }
    told = {found.name: found for found in described(world, METRICS_TYPE, "none").configs}
    assert {name: (found.value, found.config_source) for name, found in told.items()} == {
        "metrics": ("", 5),
        "interval.ms": ("300000", 5),
        "match": ("", 5),
    }
    assert described(world, METRICS_TYPE, "").error_code == INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "key", "value", "code"),
    [
        ("", "metrics", "*", INVALID_REQUEST),
        ("a", "period", "1", INVALID_REQUEST),
        ("a", "interval.ms", "99", INVALID_REQUEST),
        ("a", "interval.ms", "3600001", INVALID_REQUEST),
        ("a", "interval.ms", "often", INVALID_CONFIG),
        ("a", "match", "client_id", INVALID_CONFIG),
        ("a", "match", "colour=red", INVALID_CONFIG),
        ("a", "match", "client_id=(", INVALID_CONFIG),
        # It may take longer than the broker lives.
        ("a", "match", "client_id=(a+)+b", INVALID_CONFIG),
    ],
)
def test_subscriptions_that_cannot_be_are_refused(world: World, name: str, key: str, value: str, code: int) -> None:
    assert alter(world, METRICS_TYPE, name, (key, SET, value)) == code
    assert world.controller.image.client_metrics == {}


def test_every_cut_of_metrics_is_read_or_refused() -> None:
    whole = read_metrics(DATA)
    for size in range(len(DATA)):
        try:
            assert read_metrics(DATA[:size]) != whole
        except NotOtlp:
            continue


@pytest.mark.parametrize("value", [b"\x08\x01", b"\x12\x01x", b"\x1a\x01x", b"\x21x", b"\x22\x01x"])
def test_attributes_that_are_of_another_type_than_they_say_are_refused(value: bytes) -> None:
    attribute = _field(1, _field(1, b"key") + _field(2, value))
    with pytest.raises(NotOtlp):
        read_metrics(_field(1, _field(1, attribute)))


def _field(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 2, len(content))) + content


@pytest.mark.parametrize("seed", fixed_seeds(20, soak=2000))
def test_spoilt_metrics_are_read_or_refused(seed: int) -> None:
    rng = Random(seed)
    for _ in range(500):
        spoilt = bytearray(DATA)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(spoilt))
            spoilt[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 2))
        with suppress(NotOtlp):
            read_metrics(bytes(spoilt))


def test_metrics_are_read_as_the_library_writes_them() -> None:
    metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")
    data = metrics_pb2.MetricsData()
    of_resource = data.resource_metrics.add()
    for key, value in (("text", "a"), ("number", -5), ("truth", True), ("half", 0.5)):
        pair = of_resource.resource.attributes.add(key=key)
        kind = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}[type(value)]
        setattr(pair.value, kind, value)
    scope = of_resource.scope_metrics.add()
    scope.scope.name = "scope"
    gauge = scope.metrics.add(name="gauge", unit="ms", description="how long")
    gauge.gauge.data_points.add(as_int=-3, time_unix_nano=9)
    histogram = scope.metrics.add(name="histogram")
    histogram.histogram.data_points.add(count=2, sum=1.0)
    total = scope.metrics.add(name="total")
    total.sum.aggregation_temporality, total.sum.is_monotonic = 2, True
    for value in (1.0, 2.0):
        total.sum.data_points.add(as_double=value, start_time_unix_nano=4, time_unix_nano=9)
    resource, points = read_metrics(data.SerializeToString())
    assert resource == {"text": "a", "number": -5, "truth": True, "half": 0.5}
    assert [(each["name"], each["value"], each["is_delta"], each["start_ns"]) for each in points] == [
        ("gauge", -3, False, 0),
        ("total", 1.0, False, 4),
        ("total", 2.0, False, 4),
    ]
