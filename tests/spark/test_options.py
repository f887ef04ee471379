from __future__ import annotations

import logging

import pytest

from ottla.errors import ConfigError
from ottla.spark.limits import Limit
from ottla.spark.option_table import COLUMNS, OPTIONS
from ottla.spark.options import read_columns, read_options

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}


def test_two_options_are_enough_for_a_batch() -> None:
    options = read_options(NEEDED)
    assert options.bootstrap_servers == "localhost:9092"
    assert (options.topics, options.assigned, options.pattern) == (("flights",), None, None)
    assert (options.start.word, options.end.word) == ("earliest", "latest")
    assert options.columns == COLUMNS
    assert options.fail_on_data_loss
    assert options.settings == {}


def test_a_stream_begins_with_what_comes_unless_told_otherwise() -> None:
    assert read_options(NEEDED, streaming=True).start.word == "latest"
    assert read_options(NEEDED | {"startingOffsets": "Earliest"}, streaming=True).start.word == "earliest"
    each = read_options(NEEDED | {"startingOffsets": '{"flights": {"0": -1, "1": -2, "2": 7}}'}, streaming=True)
    assert each.start.offsets == {"flights": {0: -1, 1: -2, 2: 7}}


def test_names_and_words_are_taken_in_any_case() -> None:
    options = read_options(
        {
            "KAFKA.bootstrap.servers": "a:1,b:2",
            "SUBSCRIBE": " x , y,x,",
            "includeHEADERS": "True",
            "startingOffsets": "Earliest",
            "minpartitions": "6",
            "MaxRecordsPerPartition": "100",
            "failOnDataLoss": "FALSE",
            "columns": "VALUE,timestamptype,Headers",
        }
    )
    assert options.topics == ("x", "y")
    assert options.columns == ("value", "timestampType", "headers")
    assert (options.min_partitions, options.max_records_per_partition) == (6, 100)
    assert not options.fail_on_data_loss


def test_kafka_settings_go_to_the_connection_and_those_of_group_members_nowhere() -> None:
    options = read_options(
        NEEDED
        | {
            "kafka.client.id": "me",
            "kafka.isolation.level": "read_committed",
            "kafka.group.id": "g",
            "kafka.max.poll.records": "5",
            "groupIdPrefix": "p",
            "fetchOffset.numRetries": "3",
        }
    )
    assert options.settings == {"client.id": "me", "isolation.level": "read_committed"}
    assert options.group_id == "g"


def test_offsets_are_read_from_json() -> None:
    options = read_options(
        NEEDED
        | {"startingOffsets": '{"flights": {"0": 5, "1": -2}}', "endingOffsets": '{"flights": {"0": 9, "1": -1}}'}
    )
    assert options.start == Limit("startingOffsets", offsets={"flights": {0: 5, 1: -2}})
    assert options.end == Limit("endingOffsets", offsets={"flights": {0: 9, 1: -1}})


def test_a_time_comes_before_times_and_times_before_offsets() -> None:
    times = {
        "startingOffsetsByTimestamp": '{"flights": {"0": 17}}',
        "endingOffsetsByTimestamp": '{"flights": {"0": 8}}',
    }
    offsets = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    options = read_options(NEEDED | offsets | times)
    assert options.start == Limit("startingOffsetsByTimestamp", times_ms={"flights": {0: 17}})
    assert options.end == Limit("endingOffsetsByTimestamp", times_ms={"flights": {0: 8}}, or_end=True)
    strategy = {"startingTimestamp": "5", "endingTimestamp": " 6 ", "startingOffsetsByTimestampStrategy": "latest"}
    options = read_options(NEEDED | offsets | times | strategy)
    assert options.start == Limit("startingTimestamp", time_ms=5, or_end=True)
    assert options.end == Limit("endingTimestamp", time_ms=6, or_end=True)


def test_partitions_are_assigned_by_json() -> None:
    options = read_options({"kafka.bootstrap.servers": "a:1", "assign": '{"x": [2, 0, 2], "y": [1], "z": []}'})
    assert options.assigned == {"x": (0, 2), "y": (1,)}


def test_a_pattern_is_a_regular_expression() -> None:
    options = read_options({"kafka.bootstrap.servers": "a:1", "subscribePattern": " flights-[0-9]+ "})
    assert options.pattern is not None
    assert options.pattern.pattern == "flights-[0-9]+"


def test_a_stream_is_bounded_by_its_options() -> None:
    options = read_options(
        NEEDED | {"maxOffsetsPerTrigger": "1000", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "90s"},
        streaming=True,
    )
    assert (options.max_offsets_per_trigger, options.min_offsets_per_trigger) == (1000, 10)
    assert options.max_trigger_delay_ms == 90_000


@pytest.mark.parametrize(
    ("text", "size"), [("500", 500), ("3B", 3), ("2k", 2048), ("1 MB", 1 << 20), ("4g", 4 << 30), ("1T", 1 << 40)]
)
def test_sizes_are_spelled_as_spark_spells_them(text: str, size: int) -> None:
    assert read_options(NEEDED | {"maxBytesPerTrigger": text}, streaming=True).max_bytes_per_trigger == size


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("500", 500), ("500ms", 500), ("15m", 900_000), ("2 min", 120_000), ("1H", 3_600_000)]
)
def test_times_are_spelled_as_spark_spells_them(text: str, delay_ms: int) -> None:
    assert read_options(NEEDED | {"maxTriggerDelay": text}, streaming=True).max_trigger_delay_ms == delay_ms


def test_columns_can_be_chosen() -> None:
    assert read_options(NEEDED | {"columns": "value, OFFSET,value"}).columns == ("value", "offset")
    assert read_columns(NEEDED | {"columns": "value", "maxOffsetsPerTrigger": "5"}) == ("value",)


def test_what_bounds_micro_batches_is_ignored_by_a_batch_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "ottla.spark"):
        assert read_options(NEEDED | {"maxOffsetsPerTrigger": "5"}).max_offsets_per_trigger is None
    assert "maxOffsetsPerTrigger has no effect in a batch query" in caplog.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is ' ': it must be host:port"),
        ({"kafka.group.id": " "}, "kafka.group.id is ' ': it must be the name of a consumer group"),
        ({"subscribe": " , "}, "subscribe is ' , ': it must be topic names, with commas"),
        ({"assign": '{"x": [0]}'}, "exactly one of the options"),
        ({"subscribePattern": "f.*"}, "not with subscribe, subscribePattern together"),
        ({"subscribePattern": "f("}, "subscribePattern is 'f(' (missing ), unterminated subpattern"),
        # What Java takes for an intersection, Python reads as two characters and a bracket.
        ({"subscribePattern": "[a-z&&[^b]]"}, "subscribePattern is '[a-z&&[^b]]' (Possible set intersection"),
        ({"subscribePattern": " "}, "subscribePattern is ' ': it must be a regular expression"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"topic": "x"}, "'topic' is an option of the ottla sink, not of the source: leave it out"),
        ({"zzz": "1"}, "'zzz' is not an option of the ottla source: use kafka.bootstrap.servers"),
        ({"startingOffsets": "latest"}, "startingOffsets is 'latest': it must be earliest or JSON"),
        ({"endingOffsets": "earliest"}, "endingOffsets is 'earliest': it must be latest or JSON"),
        ({"startingOffsets": "{nonsense"}, "startingOffsets is '{nonsense', which is not JSON"),
        ({"startingOffsets": '{"x": 5}'}, "startingOffsets gives 5 for x"),
        ({"startingOffsets": '{"x": {"0": -1}}'}, "an offset from 0 on, or -2 for earliest"),
        ({"endingOffsets": '{"x": {"0": -2}}'}, "an offset from 0 on, or -1 for latest"),
        ({"endingOffsets": '{"x": {"0": true}}'}, "gives offset True"),
        ({"endingOffsets": '{"x": {"zero": 1}}'}, "partition 'zero'"),
        ({"endingOffsets": '{"x": {"0": 1.5}}'}, "gives offset 1.5"),
        (
            {"startingTimestamp": "-5"},
            "startingTimestamp is '-5': it must be a whole number of milliseconds since 1970",
        ),
        ({"startingTimestamp": "1_000"}, "startingTimestamp is '1_000'"),
        ({"endingTimestamp": "noon"}, "endingTimestamp is 'noon'"),
        ({"startingOffsetsByTimestamp": '{"x": {"0": -2}}'}, "startingOffsetsByTimestamp gives time -2"),
        ({"endingOffsetsByTimestamp": "17"}, "endingOffsetsByTimestamp is '17': it must be JSON"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "Strategy is 'guess': it must be error or latest"),
        ({"includeHeaders": "yes"}, "includeHeaders is 'yes': it must be true or false"),
        ({"failOnDataLoss": ""}, "failOnDataLoss is '': it must be true or false"),
        ({"minPartitions": "-1"}, "minPartitions is '-1': it must be a whole number from 1 on"),
        ({"minPartitions": "0"}, "minPartitions is '0'"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition is 'many'"),
        ({"maxOffsetsPerTrigger": "1e6"}, "maxOffsetsPerTrigger is '1e6': it must be a whole number from 1 on"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger is '0': it must be a whole number of bytes from 1 on"),
        ({"maxBytesPerTrigger": "1.5g"}, "maxBytesPerTrigger is '1.5g'"),
        ({"maxBytesPerTrigger": "5x"}, "maxBytesPerTrigger is '5x'"),
        ({"maxBytesPerTrigger": "8388608t"}, "maxBytesPerTrigger is '8388608t'"),
        ({"kafkaConsumer.pollTimeoutMs": "2m"}, "kafkaConsumer.pollTimeoutMs is '2m'"),
        ({"columns": "value,headers"}, "add the option includeHeaders=true"),
        ({"columns": "values"}, "columns names 'values': it may name key, value"),
        ({"columns": ","}, "columns is ',' and names no column"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "kafka.auto.offset.reset cannot be used with the ottla source: use st",
        ),
        ({"kafka.value.deserializer": "x"}, "or the option value.format"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_can(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_options(NEEDED | change)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"endingOffsets": "latest"},
            "endingOffsets cannot be used in a streaming query: a streaming query has no end",
        ),
        ({"endingTimestamp": "5"}, "endingTimestamp cannot be used in a streaming query"),
        ({"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp cannot be used in a streaming query"),
        ({"startingOffsets": "now"}, "startingOffsets is 'now': it must be earliest, latest or JSON"),
        ({"startingOffsets": '{"x": {"0": -3}}'}, "an offset from 0 on, or -2 for earliest, or -1 for latest"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon': it must be a time such as 15m"),
        ({"maxTriggerDelay": "5 weeks"}, "maxTriggerDelay is '5 weeks'"),
        (
            {"minOffsetsPerTrigger": "11", "maxOffsetsPerTrigger": "10"},
            "minOffsetsPerTrigger (11) is higher than maxOffsetsPerTrigger (10)",
        ),
    ],
)
def test_what_a_stream_cannot_use_is_named_with_what_it_can(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_options(NEEDED | change, streaming=True)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["[]", '{"x": 0}', '{"x": [-1]}', '{"x": ["0"]}', '{"x": [true]}', '{"x": []}', "x"])
def test_a_wrong_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="assign") as refused:
        read_options({"kafka.bootstrap.servers": "a:1", "assign": text})
    assert "JSON {topic: [partition, ...]}" in str(refused.value)


def test_a_cluster_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing: give it as host:port"):
        read_options({"subscribe": "flights"})


def test_nothing_to_read_is_said_with_the_three_ways_to_say_it() -> None:
    with pytest.raises(ConfigError, match=r"subscribePattern.*none of them is given"):
        read_options({"kafka.bootstrap.servers": "a:1"})


def test_a_password_among_the_options_is_not_shown() -> None:
    options = read_options(NEEDED | {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "lovelace-0815"})
    assert options.settings["sasl.password"] == "lovelace-0815"
    assert "lovelace" not in repr(options)


def test_every_option_of_the_table_says_what_it_takes() -> None:
    assert len({row.name.lower() for row in OPTIONS}) == len(OPTIONS)
    assert all(row.takes and row.what.endswith(".") for row in OPTIONS)


def test_an_option_of_the_source_with_kafkas_prefix_is_told():
    with pytest.raises(ConfigError, match=r"The option kafka\.subscribe is no setting of the Kafka client"):
        read_options({"kafka.bootstrap_servers": "127.0.0.1:9092", "kafka.subscribe": "x"})
