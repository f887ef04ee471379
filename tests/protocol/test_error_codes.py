"""Error codes against kio's table of them, and the sentences made of them."""

from __future__ import annotations

from kio.schema.errors import ErrorCode as KioErrorCode

from ottla.protocol.error_codes import ErrorCode, error_name, is_retriable, kafka_error

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
