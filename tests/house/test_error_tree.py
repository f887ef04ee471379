"""The tree of errors: every leaf says what can be done, and none loses anything on its way between processes."""

from __future__ import annotations

import pickle

import pytest

import ottla
from ottla import errors
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
