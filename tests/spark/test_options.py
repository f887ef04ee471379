from __future__ import annotations

import pytest

from ottla.errors import ConfigError
from ottla.spark.options import COLUMNS, read_options

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}


def test_two_options_are_enough() -> None:
    options = read_options(NEEDED)
    assert options.bootstrap_servers == "localhost:9092"
    assert options.topics == ("flights",)
    assert (options.starting, options.ending) == ("earliest", "latest")
    assert options.columns == COLUMNS
    assert options.settings == {}


def test_names_and_words_are_taken_in_any_case() -> None:
    options = read_options(
        {
            "KAFKA.bootstrap.servers": "a:1,b:2",
            "SUBSCRIBE": " x , y,x,",
            "includeHEADERS": "True",
            "startingOffsets": "Earliest",
            "minpartitions": "6",
            "failOnDataLoss": "FALSE",
        }
    )
    assert options.topics == ("x", "y")
    assert options.columns[-1] == "headers"
    assert options.min_partitions == 6
    assert not options.fail_on_data_loss


def test_kafka_settings_go_to_the_connection_and_consumer_groups_nowhere() -> None:
    options = read_options(
        NEEDED
        | {"kafka.client.id": "me", "kafka.group.id": "g", "groupIdPrefix": "p", "kafkaConsumer.pollTimeoutMs": "5"}
    )
    assert options.settings == {"client.id": "me"}


def test_offsets_are_read_from_json() -> None:
    options = read_options(
        NEEDED
        | {"startingOffsets": '{"flights": {"0": 5, "1": -2}}', "endingOffsets": '{"flights": {"0": 9, "1": -1}}'}
    )
    assert options.starting == {"flights": {0: 5, 1: -2}}
    assert options.ending == {"flights": {0: 9, 1: -1}}


def test_partitions_are_assigned_by_json() -> None:
    options = read_options({"kafka.bootstrap.servers": "a:1", "assign": '{"x": [2, 0, 2], "y": [1]}'})
    assert options.topics == ("x", "y")
    assert options.assigned == {"x": (0, 2), "y": (1,)}


def test_columns_can_be_chosen() -> None:
    assert read_options(NEEDED | {"columns": "value, OFFSET,value"}).columns == ("value", "offset")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
        ({"subscribe": " , "}, "subscribe names no topic"),
        ({"assign": '{"x": [0]}'}, "one of the options"),
        ({"subscribePattern": "f.*"}, "subscribePattern is not supported by ottla yet: use assign, columns"),
        ({"startingTimestamp": "5"}, "startingTimestamp is not supported"),
        ({"startingOfsets": "earliest"}, "did you mean startingOffsets"),
        ({"zzz": "1"}, "'zzz' is not an option of the ottla source: use assign"),
        ({"startingOffsets": "latest"}, "startingOffsets is 'latest': for a batch it must be \"earliest\" or JSON"),
        ({"endingOffsets": "earliest"}, "endingOffsets is 'earliest'"),
        ({"startingOffsets": "{nonsense"}, "startingOffsets is not JSON"),
        ({"startingOffsets": '{"x": 5}'}, "startingOffsets gives 5 for x"),
        ({"startingOffsets": '{"x": {"0": -1}}'}, "an offset from 0, or -2 for earliest"),
        ({"endingOffsets": '{"x": {"0": -2}}'}, "an offset from 0, or -1 for latest"),
        ({"endingOffsets": '{"x": {"0": true}}'}, "gives offset True"),
        ({"endingOffsets": '{"x": {"zero": 1}}'}, "partition 'zero'"),
        ({"includeHeaders": "yes"}, "must be true or false"),
        ({"minPartitions": "-1"}, "must be a whole number"),
        ({"columns": "value,headers"}, "add the option includeHeaders=true"),
        ({"columns": "values"}, "columns names 'values': it may name key, value"),
        ({"columns": ","}, "columns names no column"),
    ],
)
def test_what_cannot_be_used_is_named_with_what_can(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_options(NEEDED | change)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["[]", '{"x": 0}', '{"x": [-1]}', '{"x": ["0"]}', '{"x": []}', "x"])
def test_a_wrong_assignment_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="assign"):
        read_options({"kafka.bootstrap.servers": "a:1", "assign": text})


def test_a_password_among_the_options_is_not_shown() -> None:
    options = read_options(NEEDED | {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.password": "lovelace-0815"})
    assert options.settings["sasl.password"] == "lovelace-0815"
    assert "lovelace" not in repr(options)
