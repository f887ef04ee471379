"""What the ledger of a side says of a record that was sent more than once, and what it calls an error."""

from __future__ import annotations

import pytest

from ottla.errors import BufferFull, DeliveryFailed, KafkaError, TransactionError
from ottla.trial.ledger import SideLedger, error_name


def ledger(records: int = 1) -> SideLedger:
    made = SideLedger()
    for number in range(records):
        made.hand_over(number, 0, b"k", b"v")
    return made


def test_a_record_is_unknown_until_it_is_told() -> None:
    assert ledger().outcome == ["unknown"]


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        (("failed",), "failed"),
        (("unknown",), "unknown"),
        (("failed", "acked"), "acked"),
        (("unknown", "acked"), "acked"),
        (("acked", "failed"), "acked"),
        (("acked", "unknown"), "acked"),
        # What was sent first may be stored, whatever became of what was sent later.
        (("unknown", "failed"), "unknown"),
        (("failed", "unknown"), "unknown"),
    ],
)
def test_a_record_that_was_sent_again_is_what_all_its_sendings_came_to(told: tuple[str, ...], outcome: str) -> None:
    made = ledger()
    for word in told:
        made.hand_over(0, 0, b"k", b"v")
        if word == "acked":
            made.tell_acked(0, 0, 7)
        else:
            getattr(made, f"tell_{word}")(0)
    assert made.outcome == [outcome]
    assert made.offset == [7 if outcome == "acked" else -1]


def test_errors_have_the_names_of_their_causes() -> None:
    refused = KafkaError(19, "NOT_ENOUGH_REPLICAS", "too few", attempts=6)
    aborted = TransactionError("it cannot be committed")
    aborted.__cause__ = refused
    assert error_name(refused) == "NOT_ENOUGH_REPLICAS"
    assert error_name(DeliveryFailed("not stored", failed=1, first=refused)) == "NOT_ENOUGH_REPLICAS"
    assert error_name(aborted) == "NOT_ENOUGH_REPLICAS"
    assert error_name(BufferFull("full")) == "BufferFull"


def test_errors_and_attempts_are_counted() -> None:
    made = ledger()
    refused = KafkaError(19, "NOT_ENOUGH_REPLICAS", "too few", attempts=6)
    for _ in range(2):
        made.count_error(DeliveryFailed("not stored", failed=1, first=refused))
    made.count_error(BufferFull("full"))
    assert made.errors == {"NOT_ENOUGH_REPLICAS": 2, "BufferFull": 1}
    assert made.attempts == {6: 2}
