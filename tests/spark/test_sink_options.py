"""The sink's options: each is taken as Spark's own sink takes it, or refused by name with what is allowed."""

from __future__ import annotations

import pickle

import pytest

from ottla.errors import ConfigError
from ottla.spark.exactly_once import sink_settings
from ottla.spark.sink_options import read_sink_options

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def read(*, streaming: bool = False, **options: str):
    return read_sink_options(
        SERVERS | {name.replace("__", "."): value for name, value in options.items()}, streaming=streaming
    )


def test_names_are_taken_in_any_case_and_settings_go_to_the_producer():
    options = read(TOPIC="orders", includeHeaders="TRUE", kafka__linger__ms="5", kafka__compression__type="zstd")
    assert options.topic == "orders"
    assert options.settings == {"linger.ms": "5", "compression.type": "zstd"}
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("streaming", "given", "exactly_once", "sink_id"),
    [
        (True, {"sink__id": "s"}, True, "s"),
        (True, {"checkpointlocation": "/data/checkpoints/orders/"}, True, "/data/checkpoints/orders"),
        (True, {"checkpointlocation": "file:///data/c"}, True, "/data/c"),
        (True, {"checkpointlocation": "file:/data/c"}, True, "/data/c"),
        (True, {"checkpointlocation": "/data//b/../c/."}, True, "/data/c"),
        (True, {"checkpointlocation": "s3a://data/c/"}, True, "s3a://data/c"),
        (True, {"checkpointlocation": "/data/c", "sink__id": "s"}, True, "s"),
        (True, {"delivery": "at-least-once"}, False, None),
        (False, {}, False, None),
        (False, {"write__id": "w"}, True, "w"),
        (False, {"sink__id": "s"}, True, "s"),
        (False, {"sink__id": "s", "write__id": "w"}, True, "s"),
        (False, {"write__id": "w", "delivery": "at-least-once"}, False, None),
    ],
)
def test_delivery_is_exactly_once_wherever_a_repetition_can_be_told(streaming, given, exactly_once, sink_id):
    options = read(streaming=streaming, **given)
    assert (options.exactly_once, options.sink_id) == (exactly_once, sink_id)


def test_a_long_checkpoint_location_makes_a_short_name_of_its_own():
    names = {read(streaming=True, checkpointlocation=f"/{'deep/' * 80}{n}").sink_id for n in (1, 2)}
    assert len(names) == 2
    assert all(name and len(name.encode()) <= 200 for name in names)


@pytest.mark.parametrize(
    ("streaming", "given", "told"),
    [
        (True, {}, r"sink\.id.*same on every start"),
        (False, {"delivery": "exactly-once"}, r"write\.id"),
        (True, {"sink__id": " "}, r"sink\.id is empty"),
        (True, {"sink__id": "s", "sink__control__topic": " "}, r"sink\.control\.topic is empty"),
        (True, {"sink__id": "s", "sink__control__topic": "a/b"}, r"sink\.control\.topic is 'a/b'.* letters, digits"),
        (True, {"sink__id": "s", "sink__control__topic": "t" * 242}, r"sink\.control\.topic is 't+'.* 241 at most"),
        (
            True,
            {"sink__id": "s", "sink__margin__ms": "1 s"},
            r"sink\.margin\.ms is '1 s'.*whole number of milli",
        ),
        (True, {"sink__id": "s", "sink__margin__ms": "-1"}, r"sink\.margin\.ms is '-1'.*less than kafka\.transaction"),
        (True, {"sink__id": "s", "sink__margin__ms": "14999"}, r"sink\.margin\.ms is '14999'.* 15000 or more"),
        (True, {"write__id": "w", "sink__id": "s"}, r"write\.id is for batch"),
        (False, {"write__id": "a\nb"}, r"option write\.id is 'a\\nb'.*printable"),
        (False, {"write__id": "w" * 201}, r"option write\.id is 'w+'.*200 bytes at most"),
        (True, {"sink__id": "a\tb"}, r"option sink\.id is 'a\\tb'.*printable"),
        (False, {"delivery": "at-most-once"}, "at-most-once.*exactly-once or at-least-once"),
        (False, {"topic": ""}, "topic is empty"),
        (False, {"topic": "__ottla_sink"}, "topic is '__ottla_sink', where sinks keep their decisions: name another"),
        (
            True,
            {"sink__id": "s", "topic": " __ottla_sink_markers"},
            "topic is '__ottla_sink_markers', where sinks keep",
        ),
        (True, {"sink__id": "s", "topic": "c", "sink__control__topic": "c"}, "topic is 'c', where sinks keep"),
        (False, {"topik": "a"}, "'topik'.*did you mean topic"),
        (False, {"path": "/tmp"}, "'path' is not an option"),
        (False, {"sasl__mechanism": "PLAIN"}, r"'sasl\.mechanism' is not .* give it as kafka\.sasl\.mechanism"),
        (False, {"compression__type": "zstd"}, r"give it as kafka\.compression\.type"),
        (True, {"sink__id": "s", "kafka__retries": "0"}, r"kafka\.retries is 0.*leave it out"),
        (False, {"checkpointlocation": "/c"}, r"checkpointLocation is for streaming queries: .* give write\.id"),
        (False, {"queryname": "q"}, "queryName is for streaming queries: leave it out"),
        (False, {"startingoffsets": "earliest"}, "'startingOffsets' is an option of the ottla source, .* leave it out"),
        (False, {"includeheaders": "yes"}, "includeHeaders.*'yes'.*true or false"),
        (True, {"sink__id": "s", "asyncprogresstrackingenabled": "true"}, "Asynchronous progress tracking"),
        (False, {"kafka__key__serializer": "x"}, r"kafka\.key\.serializer"),
        (False, {"kafka__transactional__id": "x"}, r"kafka\.transactional\.id.*sink\.id"),
        (False, {"kafka__linger__msx": "5"}, "begin with kafka.: linger.msx.*did you mean linger.ms"),
        (False, {"kafka__linger__ms": "soon"}, "begin with kafka.: linger.ms='soon'.*whole number from 0"),
        (False, {"kafka__acks": "2"}, "acks"),
        (True, {"sink__id": "s", "kafka__acks": "1"}, r"kafka\.acks is '1'.*must be all.*delivery=at-least-once"),
        (
            True,
            {"sink__id": "s", "kafka__enable__idempotence": "false"},
            r"kafka\.enable\.idempotence is 'false'.*must be true.*delivery=at-least-once",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_what_is_allowed(streaming, given, told):
    with pytest.raises(ConfigError, match=told):
        read(streaming=streaming, **given)


def test_a_margin_goes_to_the_sink_and_must_be_less_than_the_timeout():
    given = {"sink__id": "s", "kafka__transaction__timeout__ms": "60000"}
    assert sink_settings(read(streaming=True, sink__margin__ms=" 20000 ", **given)).margin == 20_000
    assert sink_settings(read(streaming=True, **given)).margin == 15_000
    told = r"sink\.margin\.ms=60000 must be less than kafka\.transaction\.timeout\.ms \(60000\)"
    with pytest.raises(ConfigError, match=told):
        sink_settings(read(streaming=True, sink__margin__ms="60000", **given))


@pytest.mark.parametrize("word", ["two\nlines", "\x1b[31m", "x" * 2_000_000])
def test_a_write_id_beside_a_sink_id_must_be_one_that_can_be_shown(word):
    with pytest.raises(
        ConfigError, match=r"The option write\.id is .*: it must be printable characters, 200"
    ) as caught:
        read(sink__id="s", write__id=word)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("text", "value"), [(None, None), ("TRUE", True), ("false", False)])
def test_whether_rows_must_be_the_same_is_not_decided_where_nobody_says(text, value):
    given = {} if text is None else {"sink__same__rows": text}
    assert sink_settings(read(sink__id="s", write__id="1", **given)).same_rows is value


def test_what_exactly_once_sets_itself_may_be_given_as_it_is():
    options = read(streaming=True, sink__id="s", kafka__acks="all", kafka__enable__idempotence="true")
    assert options.settings == {}


def test_async_progress_tracking_may_be_switched_off():
    assert read(streaming=True, sink__id="s", asyncprogresstrackingenabled="false").exactly_once


def test_the_servers_are_needed():
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        read_sink_options({"topic": "t"}, streaming=False)


def test_secrets_are_in_no_repr_and_no_error():
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'
    given = {
        "kafka__sasl__jaas__config": jaas,
        "kafka__sasl__mechanism": "PLAIN",
        "kafka__security__protocol": "SASL_PLAINTEXT",
    }
    assert "s3cret" not in repr(read(**given))
    with pytest.raises(ConfigError) as caught:
        read(**given, kafka__acks="3")
    assert "s3cret" not in str(caught.value)


def test_a_table_of_sparks_catalog_has_no_options() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing.*no options for a table of its cat"):
        read_sink_options({}, streaming=False)


def test_settings_may_have_underscores_as_for_the_client():
    options = read(write__id="w", kafka__linger_ms="5", kafka__transaction_timeout_ms="70000")
    assert options.settings == {"linger.ms": "5", "transaction.timeout.ms": "70000"}
    for name in ("value_serializer", "transactional_id", "interceptor_classes"):
        with pytest.raises(ConfigError, match=f"The option kafka.{name.replace('_', '.')} cannot be set"):
            read(**{f"kafka__{name}": "x"})
    with pytest.raises(ConfigError, match=r"linger\.ms is given twice, as kafka\.linger_ms and as kafka\.linger\.ms"):
        read(kafka__linger_ms="1", kafka__linger__ms="2")


@pytest.mark.parametrize("name", ["kafka.sink.id", "kafka.topic", "kafka.write.id", "kafka.checkpointLocation"])
def test_an_option_of_the_sink_with_kafkas_prefix_is_told(name):
    with pytest.raises(ConfigError, match=f"{name} is no setting of the Kafka client: give it without kafka"):
        read(**{name.replace(".", "__"): "x"})
