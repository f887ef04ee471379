"""The gate before the appender: what shuts it, and what opens it again."""

from __future__ import annotations

import pytest

from ottla.errors import ClosedError, ForkError, OttlaError, TransactionError, TransactionMisuse
from ottla.producer.gate import Gate


class Appender:
    refusal: OttlaError | None = None


def test_an_answer_to_another_call_does_not_open_the_gate_for_a_transaction_that_is_being_ended() -> None:
    # One thread sends offsets, another one commits: the answer about the offsets comes after the commit was asked for.
    appender = Appender()
    gate = Gate(appender, TransactionMisuse("no transaction has begun"))
    gate.transaction_changed(None)
    assert appender.refusal is None
    gate.begin_to_end(2, True)
    gate.answered(1)
    assert "being committed" in str(appender.refusal)
    gate.transaction_changed(None)
    assert "being committed" in str(appender.refusal)
    gate.transaction_changed(TransactionMisuse("the transaction is being committed"))
    gate.answered(2)
    assert isinstance(appender.refusal, TransactionMisuse)


def test_an_end_that_is_refused_leaves_the_transaction_open() -> None:
    appender = Appender()
    gate = Gate(appender)
    gate.begin_to_end(1, None)
    assert "being prepared" in str(appender.refusal)
    gate.answered(1)
    assert appender.refusal is None


def test_fork_crash_and_close_shut_the_gate_for_good() -> None:
    appender = Appender()
    gate = Gate(appender)
    gate.close(ClosedError("closed"))
    gate.transaction_changed(None)
    gate.begin_to_end(1, False)
    gate.answered(1)
    assert isinstance(appender.refusal, ClosedError)
    gate.die(OttlaError("dead"))
    assert str(appender.refusal) == "dead"
    gate.fork(ForkError("forked"))
    assert isinstance(appender.refusal, ForkError)


def test_a_transaction_that_failed_says_so_while_it_is_being_aborted() -> None:
    appender = Appender()
    gate = Gate(appender)
    gate.transaction_changed(TransactionError("it failed"))
    gate.begin_to_end(1, False)
    assert str(appender.refusal) == "it failed"


def test_each_refusal_is_raised_as_a_new_object() -> None:
    gate = Gate(Appender())
    gate.check_usable()
    gate.close(ClosedError("closed"))
    raised = []
    for _ in range(2):
        with pytest.raises(ClosedError, match="closed") as caught:
            gate.check_usable()
        raised.append(caught.value)
    assert raised[0] is not raised[1]
