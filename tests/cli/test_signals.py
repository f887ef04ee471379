"""What becomes of a command that is interrupted, whatever its libraries make of that."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from ottla.cli.signals import Ended, ending_in_order
from ottla.errors import OttlaError


@contextmanager
def failing_over_an_interruption() -> Iterator[None]:
    """As PySpark's own blocks do, whose last words to Java fail where its answer before was cut off."""
    try:
        yield
    finally:
        try:
            raise ConnectionError("Answer from Java side is empty")
        except ConnectionError as error:
            raise OttlaError("Spark's Java process does not answer") from error


def test_error_over_ctrl_c_is_an_interruption_all_the_same() -> None:
    with pytest.raises(KeyboardInterrupt), ending_in_order(), failing_over_an_interruption():
        raise KeyboardInterrupt


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_error_over_a_signal_to_end_is_an_end_all_the_same(number: signal.Signals) -> None:
    with pytest.raises(Ended) as ended, ending_in_order(), failing_over_an_interruption():
        os.kill(os.getpid(), number)
    assert ended.value.status == 128 + number


def test_error_of_its_own_stays_one() -> None:
    with pytest.raises(OttlaError, match="does not answer"), ending_in_order(), failing_over_an_interruption():
        pass


def test_error_after_an_interruption_was_dealt_with_stays_one() -> None:
    def deal_with_it() -> None:
        with suppress(KeyboardInterrupt):
            raise KeyboardInterrupt
        with failing_over_an_interruption():
            pass

    with pytest.raises(OttlaError, match="does not answer"), ending_in_order():
        deal_with_it()
