"""Error codes against kio's table of them, and the sentences made of them."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from ottla.errors import ProducerFenced
from ottla.protocol.error_codes import FATAL, ErrorCode, error_name, is_retriable, kafka_error

CODES = {name: code for name, code in vars(ErrorCode).items() if name.isupper()}


def test_codes_names_and_retriability_are_kafkas() -> None:
    assert {code.name.upper(): (code.value, code.retriable) for code in KioErrorCode} == {
        name: (code, is_retriable(code)) for name, code in CODES.items()
    }


def test_every_code_has_a_meaning() -> None:
    meanings = {str(kafka_error(code)).partition(": ")[2] for code in CODES.values()}
    assert len(meanings) == len(CODES)
    assert not any("does not know" in meaning and "version" in meaning for meaning in meanings)


def test_an_error_says_what_it_is_where_and_whether_to_try_again() -> None:
    error = kafka_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "flights-2")
    assert (error.code, error.name, error.retriable) == (6, "NOT_LEADER_OR_FOLLOWER", True)
    assert str(error) == "NOT_LEADER_OR_FOLLOWER: the broker does not lead this partition (any more) (flights-2)"


def test_a_code_from_the_future_is_an_error_too() -> None:
    error = kafka_error(9999)
    assert (error.name, error.retriable, error_name(9999)) == ("ERROR_9999", False, "ERROR_9999")


def test_where_and_when_it_happened_is_told_in_words_and_as_attributes() -> None:
    error = kafka_error(
        ErrorCode.NOT_ENOUGH_REPLICAS,
        "told by the broker",
        topic="flights",
        partition=2,
        broker_id=1,
        attempts=3,
        age_ms=1204,
    )
    assert (error.topic, error.partition, error.broker_id, error.attempts, error.age_ms) == ("flights", 2, 1, 3, 1204)
    assert str(error).endswith(" (flights-2, broker 1, 3 attempts, 1204 ms old: told by the broker)")
    plain = kafka_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic="flights")
    assert str(plain).endswith(" (topic 'flights')")
    assert plain.partition is plain.broker_id is plain.attempts is plain.age_ms is None


def test_every_code_is_retriable_abortable_or_fatal() -> None:
    for code in CODES.values():
        error = kafka_error(code)
        assert (error.retriable, error.abortable, error.fatal).count(True) == 1, error
        assert error.fatal == (code in FATAL)
        assert error.retriable == is_retriable(code)


def test_what_a_code_alone_does_not_tell_the_caller_may() -> None:
    assert kafka_error(ErrorCode.INVALID_PRODUCER_EPOCH).abortable
    assert kafka_error(ErrorCode.INVALID_PRODUCER_EPOCH, fatal=True).fatal
    assert not kafka_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, fatal=False).fatal
    assert not kafka_error(ErrorCode.REQUEST_TIMED_OUT, fatal=True).retriable


def test_a_fenced_producer_has_a_class_of_its_own() -> None:
    assert type(kafka_error(ErrorCode.PRODUCER_FENCED)) is ProducerFenced
