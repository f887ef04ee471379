"""The tree of errors: every leaf says what can be done, and none loses anything on its way between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

import ottla
from ottla import errors
from ottla.errors import fresh, of_row, renumbered
from ottla.protocol.error_codes import ErrorCode, kafka_error

PUBLIC = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ottla.OttlaError)]
PLAIN = [kind for kind in PUBLIC if not issubclass(kind, ottla.KafkaError)]


def test_every_error_of_the_tree_is_a_public_name() -> None:
    assert {kind.__name__ for kind in PUBLIC} <= set(ottla.__all__)
    assert all(getattr(ottla, kind.__name__) is kind for kind in PUBLIC)


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_every_error_is_retriable_abortable_or_fatal(kind: type[ottla.OttlaError]) -> None:
    error = kind("what happened")
    assert (error.retriable, error.abortable, error.fatal).count(True) == 1


def test_a_lost_delivery_is_what_its_cause_is() -> None:
    cause = kafka_error(ErrorCode.REQUEST_TIMED_OUT, topic="t", partition=1, broker_id=2, attempts=3, age_ms=4)
    error = ottla.DeliveryFailed("not stored", failed=1, first=cause)
    assert error.retriable
    assert not error.abortable
    assert (error.topic, error.partition, error.broker_id, error.attempts, error.age_ms) == ("t", 1, 2, 3, 4)
    over = ottla.DeliveryUnknown("nobody knows", unknown=1, first=ottla.ClosedError("closed"))
    assert over.fatal
    assert over.topic is None


def test_an_error_crosses_processes_with_all_it_says() -> None:
    cause = kafka_error(ErrorCode.PRODUCER_FENCED, "said the broker", topic="t", partition=1, broker_id=2, age_ms=4)
    for error in (cause, ottla.DeliveryFailed("not stored", failed=1, first=cause)):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        theirs, ours = dict(vars(again)), dict(vars(error))
        assert str(theirs.pop("first", "")) == str(ours.pop("first", ""))
        assert theirs == ours


@pytest.mark.parametrize("kind", [ottla.RecordError, ottla.DeserializationError])
def test_the_row_of_an_error_can_be_counted_otherwise(kind: type[ottla.OttlaError]) -> None:
    first = of_row(kind, 7, " cannot be read: 'row 7' is wrong.")
    inside = of_row(kind, 7, ", and not later.", before="Column 'row 7' is null in ")
    assert (str(first), first.row) == ("Row 7 cannot be read: 'row 7' is wrong.", 7)
    assert (str(inside), inside.row) == ("Column 'row 7' is null in row 7, and not later.", 7)
    for again in (pickle.loads(pickle.dumps(inside)), copy.copy(inside), fresh(inside)):
        assert (type(again), str(again), again.row) == (kind, str(inside), 7)
        counted = renumbered(kind, renumbered(kind, again, lambda row: row + 100), lambda row: row * 2)
        assert (type(counted), str(counted)) == (kind, "Column 'row 7' is null in row 214, and not later.")
        assert (counted.row, inside.row) == (214, 7)
    assert str(renumbered(ottla.RecordError, first, lambda row: 8)) == "Row 8 cannot be read: 'row 7' is wrong."


def test_an_error_without_a_row_keeps_its_message() -> None:
    again = renumbered(ottla.RecordError, ottla.UserMistake("Column 'row 7' is missing."), lambda row: row + 1)
    assert (str(again), again.row) == ("Column 'row 7' is missing.", None)
