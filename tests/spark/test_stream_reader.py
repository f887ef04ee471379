"""The streaming source as Spark drives it, method by method, without a session: planning, limits, growth, losses."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

import ottla
from ottla.errors import Unreachable, UserMistake
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.reader.settings import READER_SETTINGS
from ottla.spark.offset_resolution import explained
from ottla.spark.options import read_options
from ottla.spark.source import OttlaDataSource
from ottla.spark.stream_reader import OttlaStreamReader

Open = Callable[..., OttlaStreamReader]


def send(cluster: ottla.Cluster, topic: str, **counts: int) -> None:
    """`p1=3`: three records to partition 1."""
    with ottla.Producer(cluster.bootstrap_servers) as producer:
        for partition, count in counts.items():
            for number in range(count):
                producer.send(topic, f"{partition}-{number}", partition=int(partition[1:]), timestamp_ms=1000 + number)


def rows(reader: OttlaStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int]]:
    """(partition, offset) of what the tasks of a micro-batch read, each in a worker of its own."""
    found: list[tuple[int, int]] = []
    for partition in reader.partitions(start, end):
        worker = pickle.loads(pickle.dumps(reader))
        for batch in worker.read(pickle.loads(pickle.dumps(partition))):
            assert isinstance(batch, pa.RecordBatch)
            found += zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    return found


def test_a_stream_begins_where_its_options_say(kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open) -> None:
    send(kafka_cluster, kafka_topic, p0=3, p2=5)

    def begin(**options: Any) -> dict[str, int]:
        found: dict[str, int] = stream(subscribe=kafka_topic, **options).initialOffset()[kafka_topic]
        return found

    assert begin() == {"0": 0, "1": 0, "2": 0}
    assert begin(startingOffsets="latest") == {"0": 3, "1": 0, "2": 5}
    each = json.dumps({kafka_topic: {"0": 2, "1": -1, "2": -2}})
    assert begin(startingOffsets=each) == {"0": 2, "1": 0, "2": 0}
    late = {"startingTimestamp": 1002, "startingOffsetsByTimestampStrategy": "latest"}
    assert begin(**late) == {"0": 2, "1": 0, "2": 2}
    times = json.dumps({kafka_topic: {"0": 1001, "1": 5, "2": 1004}})
    assert begin(startingOffsetsByTimestamp=times, startingOffsetsByTimestampStrategy="latest") == {
        "0": 1,
        "1": 0,
        "2": 4,
    }
    with pytest.raises(UserMistake, match=f"records from 1002 ms on, and partition 1 of {kafka_topic} has none"):
        begin(startingTimestamp=1002)


def test_micro_batches_follow_each_other_without_gap_or_repetition(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p0=60, p1=30, p2=1)
    reader = stream(subscribe=kafka_topic, maxOffsetsPerTrigger=30)
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(30)
    start, found, batches = reader.initialOffset(), [], 0
    while (end := reader.latestOffset(start, limit)) != start:
        batch = rows(reader, start, end)
        assert len(batch) <= 31
        found += batch
        start, batches = end, batches + 1
    assert batches >= 3
    assert sorted(found) == [(0, n) for n in range(60)] + [(1, n) for n in range(30)] + [(2, 0)]
    assert reader.reportLatestOffset() == end == {kafka_topic: {"0": 60, "1": 30, "2": 1}}


def test_everything_available_is_taken_whatever_the_options_say(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p0=9)
    reader = stream(subscribe=kafka_topic, maxOffsetsPerTrigger=2)
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())[kafka_topic]["0"] == 9


def test_a_restarted_query_reads_the_same_range_again(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p0=9)
    # As Spark's own source writes it, and as a restarted query is given it: straight to the ranges.
    start, end = {kafka_topic: {"1": 0, "0": 2, "2": 0}}, {kafka_topic: {"2": 0, "1": 0, "0": 5}}
    reader = stream(subscribe=kafka_topic)
    assert rows(reader, start, end) == [(0, 2), (0, 3), (0, 4)]
    assert reader.partitions(end, end) == []
    assert reader.latestOffset(end, ReadAllAvailable()) == {kafka_topic: {"0": 9, "1": 0, "2": 0}}


def test_a_process_that_is_no_spark_worker_keeps_its_garbage_collector_as_it_is(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p0=1)
    reader = stream(subscribe=kafka_topic)
    frozen = gc.get_freeze_count()
    assert rows(reader, {kafka_topic: {"0": 0}}, {kafka_topic: {"0": 1}}) == [(0, 0)]
    assert gc.get_freeze_count() == frozen


def test_tasks_are_as_many_and_as_small_as_asked(kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open) -> None:
    send(kafka_cluster, kafka_topic, p0=40, p1=2)
    reader = stream(subscribe=kafka_topic, minPartitions=4)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert len(reader.partitions(start, end)) >= 4
    small = stream(subscribe=kafka_topic, maxRecordsPerPartition=15)
    assert [span.end - span.start for task in small.partitions(start, end) for span in task.value] == [13, 13, 14, 2]
    assert sorted(rows(small, start, end)) == [(0, n) for n in range(40)] + [(1, 0), (1, 1)]


def test_a_small_batch_is_waited_for_but_not_for_ever(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    patient, hasty = (
        stream(subscribe=kafka_topic, minOffsetsPerTrigger=5, maxTriggerDelay=delay) for delay in ("1h", "0s")
    )
    assert patient.getDefaultReadLimit() == ReadMinRows(5)
    send(kafka_cluster, kafka_topic, p0=1)
    start = patient.initialOffset()
    # As in Spark, the first micro-batch is not waited for.
    end = patient.latestOffset(start, ReadMinRows(5))
    assert end[kafka_topic]["0"] == 1
    assert hasty.latestOffset(start, ReadMinRows(5)) == end
    send(kafka_cluster, kafka_topic, p0=4)
    assert patient.latestOffset(end, ReadMinRows(5)) == end
    assert hasty.latestOffset(end, ReadMinRows(5))[kafka_topic]["0"] == 5
    send(kafka_cluster, kafka_topic, p1=1)
    assert patient.latestOffset(end, ReadMinRows(5))[kafka_topic] == {"0": 5, "1": 1, "2": 0}


def test_available_now_ends_where_the_partitions_ended(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p0=3)
    reader = stream(subscribe=kafka_topic, minOffsetsPerTrigger=100, maxOffsetsPerTrigger=200)
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    send(kafka_cluster, kafka_topic, p0=3)
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_partitions(kafka_topic, 4)
    assert reader.latestOffset(end, limit) == end == {kafka_topic: {"0": 3, "1": 0, "2": 0}}


def test_partitions_and_topics_that_come_later_are_read_from_their_beginning(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    reader = stream(subscribePattern=f"{kafka_topic}(-later)?", startingOffsets="latest")
    start = reader.initialOffset()
    assert start == {kafka_topic: {"0": 0, "1": 0, "2": 0}}
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.create_partitions(kafka_topic, 4)
        admin.create_topics(f"{kafka_topic}-later")
    send(kafka_cluster, kafka_topic, p3=2)
    send(kafka_cluster, f"{kafka_topic}-later", p0=1)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {kafka_topic: {"0": 0, "1": 0, "2": 0, "3": 2}, f"{kafka_topic}-later": {"0": 1}}
    assert sorted(rows(reader, start, end)) == [(0, 0), (3, 0), (3, 1)]
    kafka_cluster.delete_topic(f"{kafka_topic}-later")


def test_a_pattern_that_matches_nothing_waits_and_says_so_once(
    kafka_name: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(subscribePattern=f"{kafka_name}-none")
    assert reader.initialOffset() == {}
    assert reader.latestOffset({}, ReadAllAvailable()) == {}
    assert reader.latestOffset({}, ReadAllAvailable()) == {}
    assert reader.reportLatestOffset() is None
    assert [record.getMessage() for record in caplog.records if record.name == "ottla.spark"] == [
        f"no topic matches the option subscribePattern ({kafka_name}-none); topics on which this user has no DESCRIBE "
        "are not seen"
    ]


def test_offsets_gone_by_retention_fail_the_query_or_are_left_out(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, kafka_topic, p0=9)
    strict, lenient = (stream(subscribe=kafka_topic, failOnDataLoss=fail) for fail in (True, False))
    start = strict.initialOffset()
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.delete_records(kafka_topic, {0: 4})
    end = strict.latestOffset(start, ReadAllAvailable())
    with pytest.raises(UserMistake) as lost:
        strict.partitions(start, end)
    assert f"offsets 0 to 3 of partition 0 of {kafka_topic} are gone" in str(lost.value)
    assert "failOnDataLoss=false" in str(lost.value)
    assert lenient.latestOffset(start, ReadAllAvailable()) == end
    assert rows(lenient, start, end) == [(0, offset) for offset in range(4, 9)]
    assert "going on without them" in caplog.text


def test_offsets_that_go_between_planning_and_reading_fail_the_task_or_are_left_out(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, kafka_topic, p0=9)
    readers = [stream(subscribe=kafka_topic, failOnDataLoss=fail) for fail in (True, False)]
    start = readers[0].initialOffset()
    planned = [reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))[0] for reader in readers]
    with ottla.Admin(kafka_cluster.bootstrap_servers) as admin:
        admin.delete_records(kafka_topic, {0: 6})
    with pytest.raises(UserMistake, match=r"offsets 0 to 5 of partition 0 of .* are gone: it now has offsets 6 to 8"):
        list(readers[0].read(planned[0]))
    assert [batch.column("offset").to_pylist() for batch in readers[1].read(planned[1])] == [[6, 7, 8]]
    kafka_cluster.delete_topic(kafka_topic)
    assert list(readers[1].read(planned[1])) == []
    assert f"partition 0 of {kafka_topic} is gone; offsets 0 to 8 were still to be read" in caplog.text
    kafka_cluster.create_topic(kafka_topic)


def test_a_partition_that_falls_silent_fails_the_task_with_the_place_it_had_come_to(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p1=4)
    reader = stream(subscribe=kafka_topic, **{"kafkaConsumer.pollTimeoutMs": 2000})
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    with (
        kafka_cluster.faults.drop_request(api="Fetch", topic=kafka_topic) as dropped,
        pytest.raises(Unreachable) as silent,
    ):
        list(reader.read(partition))
    assert f"Partition 1 of {kafka_topic} could not be read on from offset 0 to 4" in str(silent.value)
    assert "kafkaConsumer.pollTimeoutMs=2000" in str(silent.value)
    assert dropped.fired


def test_a_task_that_begins_while_all_brokers_are_down_reads_once_they_are_back(
    own_kafka_cluster: ottla.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = own_kafka_cluster
    cluster.create_topic("flights")
    send(cluster, "flights", p0=4)
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": "flights"}
    schema = OttlaDataSource(given).schema()
    assert isinstance(schema, StructType)
    reader = OttlaStreamReader(read_options(given | {"startingOffsets": "earliest"}, streaming=True), schema)
    start = reader.initialOffset()
    (partition,) = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
    reader.stop()
    # Whoever does not say otherwise gives up at once where nobody listens.
    patience = next(row for row in READER_SETTINGS if row.name == "bootstrap.refused.timeout.ms")
    monkeypatch.setattr(patience, "default", 0)
    cluster.kill()
    with ThreadPoolExecutor(1) as pool:
        rows_read = pool.submit(lambda: [batch.num_rows for batch in reader.read(partition)])
        for _ in range(2):
            with ottla.Reader(cluster.bootstrap_servers, "flights") as other, pytest.raises(Unreachable):
                list(other)
        assert not rows_read.done()
        for broker_id in (1, 2, 3):
            cluster.start(broker_id)
        assert rows_read.result(60) == [4]


def test_a_topic_made_anew_is_not_taken_for_the_old_one(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    send(kafka_cluster, kafka_topic, p0=9)
    strict, lenient = (stream(subscribe=kafka_topic, failOnDataLoss=fail) for fail in (True, False))
    start = strict.initialOffset()
    reached = strict.latestOffset(start, ReadAllAvailable())
    kafka_cluster.delete_topic(kafka_topic)
    kafka_cluster.create_topic(kafka_topic, partitions=2)
    send(kafka_cluster, kafka_topic, p0=2)
    end = strict.latestOffset(reached, ReadAllAvailable())
    with pytest.raises(UserMistake) as lost:
        strict.partitions(reached, end)
    assert f"partition 0 of {kafka_topic} ends at offset 2, and 9 was reached before" in str(lost.value)
    assert f"partition 2 of {kafka_topic} is gone" in str(lost.value)
    assert lenient.latestOffset(reached, ReadAllAvailable()) == end == {kafka_topic: {"0": 2, "1": 0}}
    # This reader saw nothing of the old topic, so offsets are all that it can go by.
    assert rows(lenient, reached, end) == []


def test_a_topic_made_anew_is_told_from_the_old_one_where_its_offsets_do_not_tell(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, kafka_topic, p0=3)
    strict, lenient = (stream(subscribe=kafka_topic, failOnDataLoss=fail) for fail in (True, False))
    start = strict.initialOffset()
    reached, _ = (reader.latestOffset(start, ReadAllAvailable()) for reader in (strict, lenient))
    kafka_cluster.delete_topic(kafka_topic)
    kafka_cluster.create_topic(kafka_topic, partitions=3)
    send(kafka_cluster, kafka_topic, p0=9)
    end = strict.latestOffset(reached, ReadAllAvailable())
    with pytest.raises(UserMistake, match=f"topic {kafka_topic} was deleted and made anew"):
        strict.partitions(reached, end)
    assert lenient.latestOffset(reached, ReadAllAvailable()) == end
    assert rows(lenient, reached, end) == [(0, offset) for offset in range(9)]
    assert caplog.text.count("made anew; going on without them") == 1
    send(kafka_cluster, kafka_topic, p0=1)
    assert rows(lenient, end, lenient.latestOffset(end, ReadAllAvailable())) == [(0, 9)]
    assert caplog.text.count("made anew; going on") == 1


def test_a_topic_made_anew_while_its_offsets_are_asked_for_is_not_taken_for_the_old_one(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, kafka_topic, p0=3)
    strict, lenient = (stream(subscribe=kafka_topic, failOnDataLoss=fail) for fail in (True, False))
    start = strict.initialOffset()
    reached, _ = (reader.latestOffset(start, ReadAllAvailable()) for reader in (strict, lenient))
    with ThreadPoolExecutor(2) as pool, kafka_cluster.faults.hold(api="ListOffsets", topic=kafka_topic) as asked:
        ends = [pool.submit(reader.latestOffset, reached, ReadAllAvailable()) for reader in (strict, lenient)]
        # Both have learned the old topic's partitions, and its name is on the way to the leaders.
        asked.await_reached(4)
        kafka_cluster.delete_topic(kafka_topic)
        kafka_cluster.create_topic(kafka_topic, partitions=3)
        send(kafka_cluster, kafka_topic, p0=9)
        asked.release()
        end, lenient_end = (found.result() for found in ends)
    assert end == lenient_end == {kafka_topic: {"0": 9, "1": 0, "2": 0}}
    with pytest.raises(UserMistake, match=f"topic {kafka_topic} was deleted and made anew"):
        strict.partitions(reached, end)
    assert rows(lenient, reached, end) == [(0, offset) for offset in range(9)]
    assert caplog.text.count("made anew; going on without them") == 1


def test_a_topic_made_anew_between_planning_and_reading_is_lost_data(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    send(kafka_cluster, kafka_topic, p0=3)
    readers = [stream(subscribe=kafka_topic, failOnDataLoss=fail) for fail in (True, False)]
    start = readers[0].initialOffset()
    planned = [reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))[0] for reader in readers]
    kafka_cluster.delete_topic(kafka_topic)
    kafka_cluster.create_topic(kafka_topic, partitions=3)
    send(kafka_cluster, kafka_topic, p0=9)
    with pytest.raises(UserMistake, match=f"topic {kafka_topic} was deleted and made anew"):
        list(readers[0].read(planned[0]))
    assert list(readers[1].read(planned[1])) == []
    assert f"topic {kafka_topic} was deleted and made anew" in caplog.text


def test_a_topic_that_is_deleted_since_partitions_were_looked_for_is_lost_data(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open
) -> None:
    other = f"{kafka_topic}-other"
    kafka_cluster.create_topic(other, partitions=1)
    send(kafka_cluster, other, p0=3)
    options = {"subscribePattern": f"{kafka_topic}.*", "kafka.metadata.max.age.ms": 60_000}
    strict, lenient = (stream(failOnDataLoss=fail, **options) for fail in (True, False))
    start = strict.initialOffset()
    for reader in (strict, lenient):
        assert reader.latestOffset(start, ReadAllAvailable())[other] == {"0": 3}
    kafka_cluster.delete_topic(other)
    ends = [reader.latestOffset(start, ReadAllAvailable()) for reader in (strict, lenient)]
    assert ends == [{kafka_topic: {"0": 0, "1": 0, "2": 0}}] * 2
    with pytest.raises(UserMistake, match=f"partition 0 of {other} is gone"):
        strict.partitions(start, ends[0])
    assert lenient.partitions(start, ends[1]) == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "no-such-topic"}, "subscribe names topic 'no-such-topic', which does not exist"),
        ({"subscribe": "not/a/name"}, "subscribe names topic 'not/a/name', which is no name of a topic"),
        ({"assign": '{"%s": [3]}'}, "assign names partition 3 of {topic}, which has 3 partitions"),
        ({"subscribe": "%s", "startingOffsets": '{"%s": {"0": 5}}'}, "names partitions [0] of {topic}, and [0, 1, 2]"),
        (
            {"subscribe": "%s", "kafka.fetch.min.bytes": "few"},
            "begin with kafka.: kafka.fetch.min.bytes='few' is not a whole",
        ),
        ({"subscribe": "%s", "kafka.sasl.mechanism": "GSSAPI"}, "begin with kafka.: "),
    ],
)
def test_what_cannot_be_read_is_said_before_the_first_micro_batch(
    kafka_topic: str, stream: Open, options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(UserMistake) as refused:
        stream(**{name: value.replace("%s", kafka_topic) for name, value in options.items()}).initialOffset()
    assert sentence.replace("{topic}", kafka_topic) in str(refused.value)


def test_a_user_who_may_not_read_the_topic_is_told_which_right_is_missing() -> None:
    refused = kafka_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="flights")
    told = explained(refused, "subscribe")
    assert isinstance(told, UserMistake)
    assert "subscribe names topic 'flights', which this user may not read: have it granted DESCRIBE" in str(told)


def test_only_committed_records_are_read_where_asked_for(
    kafka_cluster: ottla.Cluster, kafka_topic: str, stream: Open, kafka_name: str
) -> None:
    with ottla.Producer(kafka_cluster.bootstrap_servers, transactional_id=kafka_name) as producer:
        for committed in (True, False, True):
            producer.begin_transaction()
            for _ in range(2):
                producer.send(kafka_topic, b"x", partition=0)
            producer.flush()
            producer.commit_transaction() if committed else producer.abort_transaction()
        producer.begin_transaction()
        producer.send(kafka_topic, b"open", partition=0).result()
        ends = {}
        for level in ("read_committed", "read_uncommitted"):
            reader = stream(subscribe=kafka_topic, **{"kafka.isolation.level": level})
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadAllAvailable())
            ends[level] = (end[kafka_topic]["0"], [offset for _, offset in rows(reader, start, end)])
        producer.abort_transaction()
    # Every transaction ends with a marker, which takes an offset.
    assert ends["read_committed"] == (9, [0, 1, 6, 7])
    assert ends["read_uncommitted"] == (10, [0, 1, 3, 4, 6, 7, 9])


def test_what_is_processed_is_committed_to_the_group_and_a_passing_error_stops_nothing(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kafka_name: str, stream: Open, caplog: pytest.LogCaptureFixture
) -> None:
    reader = stream(subscribe=kafka_topic, **{"kafka.group.id": kafka_name})
    # No other micro-batch may follow, and this one's offsets are waited for.
    reader.prepareForTriggerAvailableNow()
    reader.commit({kafka_topic: {"0": 5, "2": 1}})
    consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": kafka_name})
    places = [TopicPartition(kafka_topic, partition) for partition in range(3)]
    assert [found.offset for found in consumer.committed(places, timeout=120)] == [5, -1001, 1]
    consumer.close()
    reader = stream(subscribe=kafka_topic, **{"kafka.group.id": kafka_name})
    reader.commit({f"{kafka_topic}-gone": {"0": 0}})
    assert "the next micro-batch commits again" in caplog.text


def test_a_group_that_others_are_members_of_is_refused_with_what_to_do(
    kafka_cluster: ottla.Cluster, kafka_topic: str, kafka_name: str, stream: Open
) -> None:
    member = Consumer({"bootstrap.servers": kafka_cluster.bootstrap_servers, "group.id": kafka_name})
    joined: list[Any] = []
    member.subscribe([kafka_topic], on_assign=lambda _, partitions: joined.append(partitions))
    try:
        while not joined:
            member.poll(0.2)
        reader = stream(subscribe=kafka_topic, **{"kafka.group.id": kafka_name})
        reader.prepareForTriggerAvailableNow()
        with pytest.raises(UserMistake) as refused:
            reader.commit({kafka_topic: {"0": 5}})
    finally:
        member.close()
    assert f"kafka.group.id is '{kafka_name}'" in str(refused.value)
    assert "UNKNOWN_MEMBER_ID" in str(refused.value)
    assert "Take a group that has no members" in str(refused.value)
