"""What becomes of a command that is interrupted, whatever its libraries make of that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ottla.cli.signals import Ended, collect_signals, ending_in_order
from ottla.errors import OttlaError

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def usual_handlers() -> Iterator[None]:
    """As a program has them at its start; a Spark session of other tests puts its own in the place of Ctrl+C's."""
    usual = [signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL]
    before = [signal.signal(number, handler) for number, handler in zip(ENDING, usual, strict=True)]
    yield
    for number, handler in zip(ENDING, before, strict=True):
        signal.signal(number, handler)


@contextmanager
def failing_over_an_interruption() -> Iterator[None]:
    """As PySpark's own blocks do, whose last call of Java fails where its answer before was cut off."""
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


def test_end_of_the_program_over_an_interruption_is_an_interruption_all_the_same() -> None:
    """As rich and typer end it where nobody reads what they print on the way out."""

    def print_at_the_end() -> None:
        try:
            raise BrokenPipeError
        except BrokenPipeError:
            sys.exit(1)

    with pytest.raises(KeyboardInterrupt), ending_in_order(), ExitStack() as stack:  # noqa: PT012
        stack.callback(print_at_the_end)
        raise KeyboardInterrupt


@pytest.mark.parametrize("first", ENDING)
@pytest.mark.parametrize("second", ENDING)
def test_second_signal_does_not_interrupt_the_tidying(first: signal.Signals, second: signal.Signals) -> None:
    tidied = False
    with pytest.raises((KeyboardInterrupt, Ended)) as ended, ending_in_order():  # noqa: PT012
        try:
            signal.raise_signal(first)
        finally:
            signal.raise_signal(second)
            tidied = True
    assert tidied
    assert getattr(ended.value, "number", signal.SIGINT) == first


def test_tidying_that_never_ends_is_ended_by_a_third_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ending_in_order():  # noqa: PT012
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", ENDING)
def test_noted_signal_raises_nothing_and_the_next_one_does_not_interrupt_the_tidying(
    first: signal.Signals, second: signal.Signals
) -> None:
    with ending_in_order():
        asked = collect_signals()
        signal.raise_signal(first)
        signal.raise_signal(second)
    assert asked[0] == first


def test_closed_terminal_ends_what_notes_other_signals() -> None:
    with pytest.raises(Ended) as ended, ending_in_order():  # noqa: PT012
        collect_signals()
        signal.raise_signal(signal.SIGHUP)
    assert ended.value.number == signal.SIGHUP


def test_tidying_after_a_noted_signal_that_never_ends_is_ended_by_a_third_ctrl_c() -> None:
    with pytest.raises(KeyboardInterrupt), ending_in_order():  # noqa: PT012
        asked = collect_signals()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert asked == [signal.SIGINT] * 2
        signal.raise_signal(signal.SIGINT)


def test_signals_that_come_together_are_one_end() -> None:
    def come_together() -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {*ENDING})
        try:
            # To this thread, which waits with them; any other one would let them through at once.
            for number in ENDING:
                signal.pthread_kill(threading.get_ident(), number)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    with pytest.raises((KeyboardInterrupt, Ended)), ending_in_order():
        come_together()
    assert not signal.sigpending()


@pytest.mark.parametrize("number", ENDING)
def test_signal_that_comes_in_a_destructor_is_not_lost(number: signal.Signals) -> None:
    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def go_on() -> None:
        Interrupted()
        threading.Event().wait(60)

    with pytest.raises((KeyboardInterrupt, Ended)) as ended, ending_in_order():
        go_on()
    assert getattr(ended.value, "number", signal.SIGINT) == number


IN_MADE_CODE = """
import sys
from ottla import cli

cli._run = lambda _: exec("import signal; signal.raise_signal(signal.SIGINT)")
sys.exit(cli.main())
"""


def test_exit_status_is_told_wherever_ctrl_c_came(tmp_path: Path) -> None:
    """Many libraries run generated code while they are imported, for dataclasses and named tuples."""
    (tmp_path / "program.py").write_text(IN_MADE_CODE)
    ended = subprocess.run(
        [sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (130, "ottla: interrupted\n")


def test_handlers_are_as_before_afterwards() -> None:
    before = [signal.getsignal(number) for number in ENDING]
    with suppress(KeyboardInterrupt), ending_in_order():
        signal.raise_signal(signal.SIGINT)
    assert [signal.getsignal(number) for number in ENDING] == before


def test_ignored_signal_stays_ignored() -> None:
    """As `nohup` starts a program."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_in_order():
            signal.raise_signal(signal.SIGHUP)
            collect_signals()
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
