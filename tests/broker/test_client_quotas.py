"""Quotas of clients (KIP-13, KIP-546): set, told, and how long who is beyond one has to wait (KIP-219)."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from ottla.broker.client_quotas import ByteRate, ClientQuotas
from ottla.broker.events import ClientContext, ConnectionLost
from ottla.broker.settings import BrokerSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
    RequestEntityData,
    RequestEntryData,
)
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

from .world import TOPIC, World, batch_of, fetch_request, produce_request

Entity = dict[str, str | None]
PRODUCED, CONSUMED = "producer_byte_rate", "consumer_byte_rate"
EXACT, DEFAULT, ANY = range(3)


def alter(
    world: World, entity: Entity, *, remove: tuple[str, ...] = (), validate_only: bool = False, **limits: float
) -> tuple[int, str | None]:
    ops = [OpData(key=key, value=value) for key, value in limits.items()]
    ops += [OpData(key=key, remove=True) for key in remove]
    return ask(world, [(kind, name) for kind, name in entity.items()], ops, validate_only=validate_only)


def ask(
    world: World, entity: list[tuple[str, str | None]], ops: list[OpData], *, validate_only: bool = False
) -> tuple[int, str | None]:
    parts = [RequestEntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    message = AlterClientQuotasRequest(entries=[RequestEntryData(entity=parts, ops=ops)], validate_only=validate_only)
    (entry,) = world.ask(2, message, version=1).entries
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == entity
    assert bool(entry.error_code) == (entry.error_message is not None)
    return entry.error_code, entry.error_message


def described(world: World, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    asked = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    told = world.ask(3, DescribeClientQuotasRequest(components=asked, strict=strict), version=1)
    if told.error_code:
        return told.error_code
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in told.entries
    ]


@pytest.fixture
def world() -> World:
    world = World(3)
    assert world.create_topic() == 0
    return world


def produce(world: World, size: int, client_id: str = "test", user: str = "ANONYMOUS") -> int:
    """How long a producer has to wait that has sent a request of so many bytes, in milliseconds."""
    answer = world.ask(
        world.leader(),
        produce_request({(TOPIC, 0): batch_of(b"v")}),
        size=size,
        client_id=client_id,
        client=ClientContext(user),
    )
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def test_what_is_set_is_told_and_survives(world: World) -> None:
    assert alter(world, {"client-id": "a"}, producer_byte_rate=1000.0)[0] == 0
    assert alter(world, {"user": "u", "client-id": None}, consumer_byte_rate=5.0, request_percentage=0.5)[0] == 0
    assert alter(world, {"ip": "10.0.0.1"}, connection_creation_rate=3.0)[0] == 0
    told = [
        ({"client-id": "a"}, {PRODUCED: 1000.0}),
        ({"client-id": None, "user": "u"}, {CONSUMED: 5.0, "request_percentage": 0.5}),
        ({"ip": "10.0.0.1"}, {"connection_creation_rate": 3.0}),
    ]
    assert described(world) == told
    again = World(3, world.storages)
    assert described(again) == told
    again.controller.close()
    assert described(World(3, world.storages)) == told


def test_limits_are_changed_and_removed(world: World) -> None:
    assert alter(world, {"user": "u"}, producer_byte_rate=10.0, consumer_byte_rate=20.0)[0] == 0
    assert alter(world, {"user": "u"}, producer_byte_rate=30.0, remove=(CONSUMED,))[0] == 0
    assert described(world) == [({"user": "u"}, {PRODUCED: 30.0})]
    assert alter(world, {"user": "u"}, remove=(PRODUCED, CONSUMED))[0] == 0
    assert described(world) == []


def test_validating_changes_nothing(world: World) -> None:
    assert alter(world, {"user": "u"}, validate_only=True, producer_byte_rate=10.0)[0] == 0
    assert described(world) == []


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ([], [OpData(key=PRODUCED, value=1.0)]),
        ([("group", "g")], [OpData(key=PRODUCED, value=1.0)]),
        ([("user", "u"), ("user", "v")], [OpData(key=PRODUCED, value=1.0)]),
        ([("user", "")], [OpData(key=PRODUCED, value=1.0)]),
        ([("user", "u"), ("ip", "10.0.0.1")], [OpData(key="connection_creation_rate", value=1.0)]),
        ([("ip", "10.0.0.1")], [OpData(key=PRODUCED, value=1.0)]),
        ([("ip", "nowhere")], [OpData(key="connection_creation_rate", value=1.0)]),
        ([("user", "u")], [OpData(key="connection_creation_rate", value=1.0)]),
        ([("user", "u")], [OpData(key="bytes", value=1.0)]),
        ([("user", "u")], [OpData(key=PRODUCED, value=0.0)]),
        ([("user", "u")], [OpData(key=PRODUCED, value=-1.0)]),
        ([("user", "u")], [OpData(key=PRODUCED, value=1.5)]),
        ([("user", "u")], [OpData(key=PRODUCED, value=inf)]),
        ([("user", "u")], [OpData(key=PRODUCED, value=nan)]),
        ([("user", "u")], [OpData(key="request_percentage", value=inf)]),
        ([("user", "u")], [OpData(key=PRODUCED, value=1.0), OpData(key=PRODUCED, value=2.0)]),
    ],
)
def test_what_is_no_quota_is_refused(world: World, entity: list[tuple[str, str | None]], ops: list[OpData]) -> None:
    assert ask(world, entity, ops)[0] == ErrorCode.INVALID_REQUEST
    assert described(world) == []


def test_filters_find_names_defaults_and_all(world: World) -> None:
    entities: list[Entity] = [
        {"client-id": "a"},
        {"client-id": None},
        {"user": "u"},
        {"client-id": "a", "user": "u"},
        {"ip": None},
    ]
    for entity in entities:
        key = "connection_creation_rate" if "ip" in entity else PRODUCED
        assert alter(world, entity, **{key: 7.0})[0] == 0

    def found(*components: tuple[str, int, str | None], strict: bool = False) -> list[Entity]:
        return [entity for entity, _ in described(world, *components, strict=strict)]

    assert found() == entities
    assert found(("client-id", EXACT, "a")) == [entities[0], entities[3]]
    assert found(("client-id", EXACT, "a"), strict=True) == [entities[0]]
    assert found(("client-id", DEFAULT, None)) == [entities[1]]
    assert found(("client-id", ANY, None), ("user", ANY, None)) == [entities[3]]
    assert found(("ip", ANY, None)) == [entities[4]]


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_mean_nothing_are_refused(world: World, components: Any, code: int) -> None:
    assert described(world, *components) == code


def test_a_rate_is_that_of_nearly_all_windows_also_at_the_beginning() -> None:
    rate = ByteRate(11, 1_000_000)
    assert rate.add(10_000, 1000, 0) == 0
    # 20,000 bytes in ten seconds are twice as many as are allowed: ten seconds more make it right.
    assert rate.add(10_000, 1000, 0) == 10_000
    assert rate.add(0, 1000, 10_000_000) == 10_000
    # After eleven seconds the first window no longer counts.
    assert rate.add(1000, 1000, 11_000_000) == 0


def test_a_producer_beyond_its_quota_waits_before_it_is_heard_again(world: World) -> None:
    assert alter(world, {"client-id": "busy"}, producer_byte_rate=1000.0)[0] == 0
    leader = world.leader()
    connection = world.connect()
    request = produce_request({(TOPIC, 0): batch_of(b"v")})
    for _ in range(2):
        world.send(leader, request, connection=connection, client_id="busy", size=12_000)
    # The first one is stored and answered; the second one waits for 2 s, then for its own bytes.
    (first,) = world.answers[connection]
    assert (first.throttle_time_ms, first.responses[0].partition_responses[0].base_offset) == (2000, 0)
    world.pass_time(1990)
    assert len(world.answers[connection]) == 1
    world.pass_time(20)
    _, second = world.answers[connection]
    assert second.responses[0].partition_responses[0].base_offset == 1
    assert second.throttle_time_ms > 2000
    # Others are not held back.
    assert produce(world, 12_000, "calm") == 0


def test_a_muted_connection_that_is_lost_is_forgotten(world: World) -> None:
    assert alter(world, {"client-id": None}, producer_byte_rate=1000.0)[0] == 0
    broker = world.brokers[world.leader()]
    before = len(broker.connections)
    connection = world.send(world.leader(), produce_request({(TOPIC, 0): batch_of(b"v")}), size=50_000)
    assert len(broker.connections) == before + 1
    broker.receive(ConnectionLost(connection), world.now_us)
    assert len(broker.connections) == before
    world.pass_time(60_000)
    assert len(broker.connections) == before


def test_a_consumer_beyond_its_quota_waits(world: World) -> None:
    assert world.produce(batch_of(b"v" * 30_000)).error_code == 0
    assert alter(world, {"user": None}, consumer_byte_rate=1000.0)[0] == 0
    leader = world.leader()
    connection = world.connect()
    message = fetch_request(0, max_wait_ms=0)
    for _ in range(2):
        world.send(leader, message, connection=connection)
    (first,) = world.answers[connection]
    assert 19_000 < first.throttle_time_ms < 21_000
    assert first.responses[0].partitions[0].records
    world.pass_time(first.throttle_time_ms + 20)
    assert len(world.answers[connection]) == 2


def test_followers_have_no_quota() -> None:
    world = World(2)
    assert world.create_topic(replicas=2) == 0
    entities: list[Entity] = [{"user": None}, {"client-id": None}]
    for entity in entities:
        assert alter(world, entity, consumer_byte_rate=1.0)[0] == 0
    for _ in range(3):
        assert world.produce(batch_of(b"v" * 10_000)).error_code == 0
    assert sorted(world.partition().isr) == [1, 2]


QUOTAS: list[tuple[Entity, float]] = [
    ({"user": "u", "client-id": "c"}, 1000.0),
    ({"user": "u", "client-id": None}, 2000.0),
    ({"user": "u"}, 3000.0),
    ({"user": None, "client-id": "c"}, 4000.0),
    ({"user": None, "client-id": None}, 5000.0),
    ({"user": None}, 6000.0),
    ({"client-id": "c"}, 7000.0),
    ({"client-id": None}, 8000.0),
]


@pytest.mark.parametrize("first", range(len(QUOTAS)))
def test_the_most_specific_quota_holds(world: World, first: int) -> None:
    """In Kafka's order: of all quotas from the `first` on, that one."""
    for entity, limit in reversed(QUOTAS[first:]):
        assert alter(world, entity, producer_byte_rate=limit)[0] == 0
    limit = QUOTAS[first][1]
    assert produce(world, int(limit * 20), "c", "u") == 10_000


def test_clients_of_one_user_share_its_quota_and_those_of_two_do_not(world: World) -> None:
    assert alter(world, {"user": None}, producer_byte_rate=1000.0)[0] == 0
    assert produce(world, 10_000, "a", "u") == 0
    assert produce(world, 10_000, "b", "u") == 10_000
    assert produce(world, 10_000, "b", "v") == 0


def test_a_quota_that_is_removed_holds_nobody_back(world: World) -> None:
    assert alter(world, {"client-id": None}, producer_byte_rate=1000.0)[0] == 0
    assert produce(world, 20_000) == 10_000
    assert alter(world, {"client-id": None}, remove=(PRODUCED,))[0] == 0
    assert produce(world, 20_000) == 0
    assert all(broker._port.quotas is None for broker in world.brokers.values())


def test_nobody_waits_longer_than_an_answer_can_say(world: World) -> None:
    assert alter(world, {"client-id": None}, producer_byte_rate=1.0)[0] == 0
    assert produce(world, 100_000_000) == (1 << 31) - 1


def test_clients_that_are_gone_are_forgotten() -> None:
    quotas = ClientQuotas(BrokerSettings())
    quotas.take({(("client-id", None),): {PRODUCED: 1e6}})
    for number in range(40_000):
        quotas.used(PRODUCED, "ANONYMOUS", f"client {number}", 100, number * 10_000)
    assert len(quotas._found) + len(quotas._rates) < 25_000


def test_clients_without_a_quota_are_counted_nowhere() -> None:
    quotas = ClientQuotas(BrokerSettings())
    quotas.take({(("user", "somebody else"),): {PRODUCED: 1e6}})
    for number in range(40_000):
        quotas.used(PRODUCED, "ANONYMOUS", f"client {number}", 100, 0)
    assert len(quotas._found) + len(quotas._rates) < 25_000


def test_the_settings_of_windows_hold() -> None:
    world = World(3, quota_window_num=2, quota_window_size_seconds=3)
    assert world.create_topic() == 0
    assert alter(world, {"client-id": None}, producer_byte_rate=1000.0)[0] == 0
    assert produce(world, 3000) == 0
    assert produce(world, 3000) == 3000
