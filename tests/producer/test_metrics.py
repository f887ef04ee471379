"""What the producer core tells under the names of Kafka's producer metrics, for a run with known figures."""

from __future__ import annotations

from math import isnan

import pytest

from ottla.producer.events import BatchesAdded
from ottla.producer.metric_table import CLIENT_ROWS, GROUPS


def test_counts_of_a_batch_that_is_sent_twice(world):
    world.send("a", "b")
    world.answer(19)
    world.settle()
    figures = world.core.metrics()
    # As in Java, records count again when they are sent again.
    assert figures["record-send-total"] == 4
    assert figures["record-retry-total"] == 2
    assert figures["record-error-total"] == 0
    assert figures["ottla-produce-request-total"] == 2
    assert figures["ottla-record-acked-total"] == 2
    assert figures["ottla-batches-in-flight"] == 0
    assert figures["records-per-request-avg"] == 2


def test_requests_of_every_kind_are_requests(world):
    world.send("a")
    world.settle()
    # Handshake, metadata, producer id, produce.
    figures = world.core.metrics()
    assert figures["request-total"] == figures["response-total"] == 4
    assert figures["connection-creation-total"] == figures["connection-count"] == 1


def test_a_batch_is_measured_when_it_leaves(world):
    sealed = world.batch("a", "b" * 100)
    world.pass_ms(250)
    world.core.receive(BatchesAdded([sealed]), world.now_us)
    world.turn()
    figures = world.core.metrics()
    assert figures["batch-size-avg"] == figures["batch-size-max"] == sealed.size_bytes
    assert figures["record-size-max"] == sealed.record_bytes_max
    assert figures["record-size-avg"] == (sealed.size_bytes - 61) / 2
    assert figures["record-queue-time-avg"] == figures["record-queue-time-max"] == 250
    assert figures["compression-rate-avg"] == 1
    assert figures["requests-in-flight"] == 1


def test_latency_is_told_of_the_node_that_was_slow(make_world):
    world = make_world(brokers=2, partitions=2)
    world.send("a", partition=0)
    world.send("b", partition=1)
    slow, fast = sorted(world.produces, key=lambda transmit: world.lines[transmit.connection_id])
    world.pass_ms(5)
    world.ack(fast)
    world.pass_ms(35)
    world.ack(slow)
    figures = world.core.metrics()
    assert (figures["request-latency-max"], figures["request-latency-avg"]) == (40, 22.5)
    assert figures.nodes[1]["request-latency-avg"] == 40
    assert figures.nodes[2]["request-latency-max"] == 5
    assert figures["request-total"] == sum(node["request-total"] for node in figures.nodes.values())


def test_topics_are_told_apart(make_world):
    world = make_world(topics={"flights": [1], "weather": [1]})
    world.send("a", "b", topic="flights")
    world.send("cloud", topic="weather")
    world.settle()
    figures = world.core.metrics()
    assert {name: topic["record-send-total"] for name, topic in figures.topics.items()} == {"flights": 2, "weather": 1}
    assert figures["record-send-total"] == 3
    assert figures["record-send-rate"] == pytest.approx(sum(t["record-send-rate"] for t in figures.topics.values()))


def test_a_record_given_up_is_an_error_of_its_topic(world):
    world.send("a", "b")
    world.answer(29)
    figures = world.core.metrics()
    assert figures["record-error-total"] == figures["ottla-record-failed-total"] == 2
    assert figures.topics["flights"]["record-error-rate"] > 0
    world.send("c")
    world.lose_ack()
    world.close(within_ms=0)
    assert world.core.metrics()["ottla-record-unknown-total"] == 1
    assert world.core.metrics()["record-error-total"] == 3


def test_throttling_is_averaged_over_all_answers(world):
    world.send("a")
    transmit = world.produces[0]
    answer = world.store(transmit)
    answer.throttle_time_ms = 100
    world.produces.remove(transmit)
    world.reply(transmit, answer)
    world.turn()
    figures = world.core.metrics()
    assert figures["produce-throttle-time-max"] == 100
    assert figures["produce-throttle-time-avg"] == 100 / figures["response-total"]


def test_what_is_lately_fades_and_totals_stay(world):
    world.send("a" * 1000)
    world.settle()
    assert world.core.metrics()["record-send-rate"] > 0
    world.pass_ms(200_000)
    world.pass_ms(200_000)
    figures = world.core.metrics()
    assert figures["record-send-rate"] == 0
    assert isnan(figures["batch-size-max"])
    assert figures["record-send-total"] == 1


def test_metadata_ages(world):
    world.send("a")
    world.settle()
    heard_us = world.core.metadata.updated_us
    assert world.core.metrics(heard_us + 7_500_000)["metadata-age"] == 7.5


def test_the_window_is_a_setting(make_world):
    world = make_world(metrics_sample_window_ms=1000, metrics_num_samples=1)
    world.send("a")
    world.settle()
    before = world.core.metrics()["record-send-rate"]
    world.pass_ms(1500)
    world.pass_ms(1500)
    assert before > 0
    assert world.core.metrics()["record-send-rate"] == 0


def test_how_many_samples_are_kept_is_a_setting(make_world):
    """Two windows later the record counts for the producer that keeps more samples than the default."""
    rates = {}
    for count in (1, 2, 4):
        world = make_world(metrics_sample_window_ms=1000, metrics_num_samples=count)
        world.send("a")
        world.settle()
        for _ in range(3):
            world.pass_ms(1100)
        rates[count] = world.core.metrics()["record-send-rate"]
    assert rates[1] == rates[2] == 0
    assert rates[4] > 0


def test_before_anything_happened_nothing_is_known(make_world):
    figures = make_world().core.metrics()
    assert figures["record-send-total"] == 0
    assert figures["record-send-rate"] == 0
    for name in ("batch-size-avg", "request-latency-max", "metadata-age"):
        assert isnan(figures[name])
    assert (figures.nodes, figures.topics) == ({}, {})


def test_a_connection_that_ended_is_counted_as_closed(world):
    world.send("a")
    world.hang_up()
    figures = world.core.metrics()
    assert (figures["connection-creation-total"], figures["connection-close-total"]) == (1, 1)
    assert figures["connection-count"] == 0
    world.settle()
    assert world.core.metrics()["connection-count"] == 1


def test_a_bootstrap_address_becomes_its_brokers_node(world):
    world.send("a")
    world.settle()
    assert list(world.core.metrics().nodes) == [1]


def test_acks_0_has_no_latency(make_world):
    world = make_world(acks=0)
    world.send("a")
    world.transmitted()
    figures = world.core.metrics()
    assert isnan(figures["request-latency-avg"])
    assert figures["record-send-total"] == 1


def test_metrics_are_a_mapping_and_a_list_with_groups_and_tags(world):
    world.send("a")
    world.settle()
    figures = world.core.metrics()
    assert dict(figures)["record-send-total"] == 1
    assert "no-such-metric" not in figures
    listed = figures.all()
    assert len(listed) == len(figures) + len(figures.nodes[1]) + len(figures.topics["flights"])
    told = {(metric.group, metric.name): metric for metric in listed}
    assert told["producer-node-metrics", "request-total"].tags == {"client-id": "", "node-id": "node-1"}
    assert told["producer-topic-metrics", "byte-total"].tags == {"client-id": "", "topic": "flights"}
    assert "producer-topic-metrics:record-send-total:{client-id=, topic=flights} : 1.000" in str(figures)


@pytest.mark.parametrize("rows", GROUPS.values(), ids=GROUPS)
def test_no_name_is_given_twice(rows):
    names = [row.name for row in rows]
    assert len(names) == len(set(names))


def test_a_share_of_time_is_between_0_and_1_second_per_second():
    ratios = {row.name: row.scale for row in CLIENT_ROWS if row.name.endswith("-ratio")}
    assert ratios == dict.fromkeys(("bufferpool-wait-ratio", "io-wait-ratio", "io-ratio"), 1e-9)
