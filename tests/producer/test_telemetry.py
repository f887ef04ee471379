"""When a producer pushes its metrics, and when it does not (KIP-714)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.connection.events import Transmit
from ottla.producer.core import ProducerCore
from ottla.producer.events import ClientInstanceKnown, MetricsRead, MetricsWanted, TelemetryBegun
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

WITH_TELEMETRY = {0: (3, 12), 3: (0, 12), 18: (0, 4), 22: (0, 5), 71: (0, 0), 72: (0, 0)}
UNIX_NS = 1_700_000_000_000_000_000
ID = bytes(range(16))


@pytest.fixture
def asking(make_world: Any) -> Any:
    """Makes worlds whose brokers list both APIs; what they are asked and told piles up."""

    class AskingWorld(make_world):  # type: ignore[misc]
        def __init__(self, seed: int = 3, **settings: Any) -> None:
            self.questions: list[Transmit] = []
            self.pushes: list[Transmit] = []
            self.begun: list[str] = []
            self.named: list[str] = []
            self.readings = 0
            super().__init__(**{"versions": WITH_TELEMETRY, **settings})
            self.core = ProducerCore(self.settings, Random(seed))

        def _do(self, output: Any) -> None:
            if isinstance(output, MetricsWanted):
                self.readings += 1
                read = MetricsRead(self.core.metrics(), UNIX_NS + self.now_us * 1000)
                self.core.receive(read, self.now_us)
            elif isinstance(output, ClientInstanceKnown):
                self.named.append(output.client_instance_id)
            elif isinstance(output, TelemetryBegun):
                self.begun.append(output.client_instance_id)
            else:
                super()._do(output)

        def _serve(self, transmit: Transmit) -> None:
            if isinstance(transmit.message, GetTelemetrySubscriptionsRequest):
                self.questions.append(transmit)
            elif isinstance(transmit.message, PushTelemetryRequest):
                self.pushes.append(transmit)
            else:
                super()._serve(transmit)

        def tell(self, **subscription: Any) -> None:
            """Answer the last question."""
            self.reply(
                self.questions[-1],
                GetTelemetrySubscriptionsResponse(
                    **{
                        "client_instance_id": ID,
                        "subscription_id": 1,
                        "push_interval_ms": 60_000,
                        "telemetry_max_bytes": 1 << 20,
                        "requested_metrics": [""],
                        **subscription,
                    }
                ),
            )
            self.turn()

        def take(self, code: int = 0, throttle_time_ms: int = 0) -> None:
            """Answer the last push."""
            answer = PushTelemetryResponse(error_code=code, throttle_time_ms=throttle_time_ms)
            self.reply(self.pushes[-1], answer)
            self.turn()

        def settle_one(self) -> None:
            self.send("a")
            self.settle()

    return AskingWorld


def test_a_broker_is_asked_once_there_is_a_connection_and_not_before(asking: Any) -> None:
    world = asking()
    world.turn()
    assert not world.questions
    world.settle_one()
    (question,) = world.questions
    assert question.message.client_instance_id == bytes(16)


def test_a_broker_without_it_is_never_asked(asking: Any, make_world: Any) -> None:
    world = asking(versions={key: WITH_TELEMETRY[key] for key in (0, 3, 18, 22)})
    world.settle_one()
    world.pass_ms(1_000_000)
    world.settle_one()
    assert not world.questions
    world.close(1000)
    assert world.closed


def test_the_first_push_is_drawn_by_chance_and_the_next_comes_an_interval_later(asking: Any) -> None:
    waited = []
    for seed in range(20):
        world = asking(seed)
        world.settle_one()
        world.tell()
        begun_us = world.now_us
        world.run_until(lambda world=world: world.pushes)
        waited.append((world.now_us - begun_us) / 60_000_000)
        world.take()
        world.pass_ms(59_999)
        assert len(world.pushes) == 1
        world.pass_ms(1)
        assert len(world.pushes) == 2
    assert 0.5 <= min(waited) < 0.7
    assert 1.3 < max(waited) <= 1.5


def test_sending_does_not_wait_for_it(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.settle_one()  # the question has no answer
    world.tell()
    world.run_until(lambda: world.pushes)
    world.settle_one()  # nor has the push
    assert world.stored() == ["a", "a", "a"]


def test_a_lost_answer_costs_an_interval_and_no_record(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell()
    world.run_until(lambda: world.pushes)
    world.hang_up(world.pushes[0].connection_id)
    world.settle_one()
    world.pass_ms(59_000)
    assert len(world.questions) == 1
    world.pass_ms(2_000)
    assert [question.message.client_instance_id for question in world.questions] == [bytes(16), ID]
    assert world.begun == ["00010203-0405-0607-0809-0a0b0c0d0e0f"]


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_what_came_too_soon_or_was_too_large_comes_an_interval_later(asking: Any, code: int) -> None:
    world = asking()
    world.settle_one()
    world.tell()
    world.run_until(lambda: world.pushes)
    world.take(code)
    world.pass_ms(59_999)
    assert len(world.questions) == 1
    world.pass_ms(1)
    assert len(world.questions) == 2


def test_a_refused_question_is_not_asked_in_a_circle(asking: Any) -> None:
    world = asking()
    world.settle_one()
    for count in range(1, 4):
        assert len(world.questions) == count
        world.tell(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        world.pass_ms(299_999)
        assert len(world.questions) == count
        world.pass_ms(1_001)


def test_a_client_instance_id_of_zeros_ends_it(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell(client_instance_id=bytes(16))
    world.pass_ms(1_000_000)
    assert len(world.questions) == 1
    assert not world.readings


def test_where_nothing_is_wanted_nothing_is_read(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell(requested_metrics=[])
    world.pass_ms(59_999)
    assert len(world.questions) == 1
    world.pass_ms(1)
    assert len(world.questions) == 2
    assert not world.readings
    assert not world.begun


def test_a_pause_that_a_broker_asks_for_is_kept(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell(push_interval_ms=100)
    world.run_until(lambda: world.pushes)
    world.take(throttle_time_ms=5_000)
    world.pass_ms(4_000)
    assert len(world.pushes) == 1
    world.run_until(lambda: len(world.pushes) == 2)


def test_the_same_broker_is_told_as_long_as_there_is_a_connection(asking: Any) -> None:
    world = asking(brokers=3, partitions=3)
    for partition in range(3):
        world.send("a", partition=partition)
    world.settle()
    world.tell(push_interval_ms=1000)
    told = set()
    for count in range(1, 6):
        world.run_until(lambda count=count: len(world.pushes) == count)
        told.add(world.lines[world.pushes[-1].connection_id])
        world.take()
    (broker,) = told
    assert world.lines[world.questions[0].connection_id] == broker
    world.down.add(broker)
    connection_id = world.pushes[-1].connection_id
    world.hang_up(connection_id)
    world.run_until(lambda: len(world.pushes) == 6)
    assert world.lines[world.pushes[-1].connection_id] != broker


def test_closing_pushes_once_more_after_the_last_record(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell()
    world.send("b")
    world.close(10_000)
    assert not world.pushes
    world.ack()
    (push,) = world.pushes
    assert push.message.terminating
    assert not world.closed
    world.take()
    assert world.closed


def test_closing_waits_for_the_push_under_way_and_then_for_the_last(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell()
    world.run_until(lambda: world.pushes)
    world.close(10_000)
    world.take()
    assert [push.message.terminating for push in world.pushes] == [False, True]
    world.take()
    assert world.closed


@pytest.mark.parametrize("within_ms", [10_000, 300, 0])
def test_closing_waits_a_second_at_most_for_a_broker_that_does_not_answer(asking: Any, within_ms: int) -> None:
    world = asking()
    world.settle_one()
    world.tell()
    begun_us = world.now_us
    world.close(within_ms)
    while not world.closed:
        world.run_to_deadline()
    assert world.now_us - begun_us == min(within_ms, 1000) * 1000
    assert len(world.pushes) == (1 if within_ms else 0)


@pytest.mark.parametrize("told", [False, True])
def test_closing_waits_for_nothing_where_there_is_no_subscription(asking: Any, told: bool) -> None:
    world = asking()
    world.settle_one()
    if told:
        world.tell(requested_metrics=[])
    world.close(10_000)
    assert world.closed
    assert not world.pushes


def test_a_refused_last_push_does_not_keep_it_from_closing(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell()
    world.close(10_000)
    world.take(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
    assert world.closed
    assert len(world.questions) == 1


def test_an_id_is_told_once_and_the_pushing_when_it_is_wanted_for_the_first_time(asking: Any) -> None:
    world = asking()
    world.settle_one()
    world.tell(requested_metrics=[])
    assert world.named == ["00010203-0405-0607-0809-0a0b0c0d0e0f"]
    assert not world.begun
    world.run_until(lambda: len(world.questions) == 2)
    world.tell()
    assert world.begun == world.named == ["00010203-0405-0607-0809-0a0b0c0d0e0f"]
