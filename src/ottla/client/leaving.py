"""Long waits of `flush` and `close`, and how a producer is closed after an interruption.

When a wait has had no answer for `QUIET_S`, it logs once what it waits for, and goes on. After an interruption (Ctrl+C,
in an event loop a cancellation) `close` waits at most `LAST_ANSWERS_S`, and logs that after `QUIET_INTERRUPTED_S`. The
next interruption ends that wait, too. After any other error, `close` waits for the records as long as usual.

No record is lost silently: if closing raises, that is logged, and added as a note to the error that ended the block,
which stays the one that is raised.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.addresses import addresses_of
from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.client.producer import Producer
    from ottla.client.producer_driver import ProducerDriver
    from ottla.client.thread_waits import ThreadWaits

_log = logging.getLogger("ottla.producer")

# After how long without an answer a wait is logged.
QUIET_S = 2.0
# The same after an interruption: almost at once, but nothing is logged if brokers answer until then.
QUIET_INTERRUPTED_S = 0.2
# How long brokers may still acknowledge what was sent before an interruption.
LAST_ANSWERS_S = 5.0

AT_EXIT = "the process ends"
INTERRUPTED = "interrupted"
CANCELLED = "cancelled"
_WAYS_OUT = {AT_EXIT: "; press Ctrl+C to give them up", INTERRUPTED: "; press Ctrl+C again to give them up"}


class LongWaits:
    """The long waits of one producer; `cause` is why they are cut short (interrupted, cancelled, at exit), else ""."""

    def __init__(self, waits: ThreadWaits, driver: ProducerDriver) -> None:
        self._waits = waits
        self._driver = driver
        self.cause = ""
        # Set where aborting was given up after an interruption: then `close` does not wait at all.
        self.is_given_up = False

    def wait(self, done: Callable[[], bool], timeout_s: float | None, verb: str, grace_s: float = 0) -> bool:
        """Wait until `done()`, and log a long wait; False after `timeout_s` and `grace_s`."""
        until_s = None if timeout_s is None else self._now_s() + timeout_s
        look = Look(self._driver, self.cause, verb, timeout_s)
        while not look.has_told:
            if until_s is not None and until_s - self._now_s() <= look.pause_s:
                break
            if self._waits.wait_for(done, look.pause_s):
                return True
            look.again()
        return self._waits.wait_for(done, None if until_s is None else until_s + grace_s - self._now_s())

    def _now_s(self) -> float:
        return self._driver.clock.now_us() / 1_000_000

    def close_at_exit(self, timeout_s: float) -> None:
        """Close when the process ends: as `ThreadWaits.close`, but an interruption ends the wait."""
        self.cause = AT_EXIT
        try:
            self._waits.close(timeout_s)
        except KeyboardInterrupt:
            self._waits.close(0)


class Look:
    """One wait, checked again and again: it is logged when no record was settled between two checks."""

    def __init__(self, driver: ProducerDriver, cause: str, verb: str, timeout_s: float | None) -> None:
        self._driver, self._cause, self._verb, self._timeout_s = driver, cause, verb, timeout_s
        self.pause_s = QUIET_INTERRUPTED_S if cause in (INTERRUPTED, CANCELLED) else QUIET_S
        self.has_told = False
        self._settled = driver.records_settled

    def again(self) -> None:
        """Log the wait, unless records were settled since the last look."""
        settled = self._driver.records_settled
        # A wait that is cut short is logged in any case.
        if settled == self._settled or self._cause:
            self.has_told = True
            _log.warning("%s", self._told())
        self._settled = settled

    def _told(self) -> str:
        settings = self._driver.settings
        count = self._driver.appender.records_appended - self._settled
        what = f"{count} record{'' if count == 1 else 's'}" if count > 0 else "the last answers"
        addresses = addresses_of(settings.connection.bootstrap_servers)
        where = f"for {what} {'to' if count > 0 else 'of'} {addresses}"
        if self._cause:
            return f"{self._cause}: waiting up to {self._timeout_s:g} s {where}{_WAYS_OUT.get(self._cause, '')}"
        goes_on = f"{self._verb}() has had no answer for {self.pause_s:g} s and keeps waiting"
        if self._timeout_s is not None:
            return f"{goes_on}, up to {self._timeout_s:g} s in all, {where}"
        given_up = f"delivery.timeout.ms ({settings.delivery_timeout_ms} ms)"
        return f"{goes_on} {where}; each is given up after {given_up}" if count > 0 else f"{goes_on} {where}"


# ---- blocks that end ------------------------------------------------------------------------------------------------


def leave(producer: Producer, error: BaseException | None) -> None:
    """Close a producer whose block has ended, by `error` or without one."""
    if isinstance(error, KeyboardInterrupt):
        _hurry(producer, error)
        return
    try:
        producer.close()
    except KeyboardInterrupt as interruption:
        _hurry(producer, interruption)
        raise
    except OttlaError as closing:
        if error is None:
            raise
        tell_of_closing(error, closing)


def _hurry(producer: Producer, interruption: BaseException) -> None:
    waits = producer._waits.long
    waits.cause = INTERRUPTED
    try:
        try:
            producer.close(0 if waits.is_given_up else LAST_ANSWERS_S)
        except KeyboardInterrupt:
            producer.close(0)
    except (OttlaError, TimeoutError) as closing:
        tell_of_closing(interruption, closing)


def abort_interrupted(producer: Producer, interruption: BaseException) -> None:
    """Abort the transaction of an interrupted block, and wait for the answer, `LAST_ANSWERS_S` at most.

    Raises OttlaError as `abort_transaction` does. If no answer comes, that is logged and noted on `interruption`.
    """
    driver = producer._driver
    verbs = driver.transactions
    try:
        for call in verbs.end(False):
            has_ended = verbs.has_ended(call)
            if not producer._waits.wait_for(has_ended, QUIET_INTERRUPTED_S):
                tell_of_aborting(INTERRUPTED, "; press Ctrl+C again to leave")
                producer._waits.wait_for(has_ended, LAST_ANSWERS_S)
            if not has_ended():
                break
            verbs.hear(call)
        else:
            return
    except KeyboardInterrupt:
        pass
    leave_to_coordinator(driver, interruption)


def tell_of_aborting(cause: str, way_out: str = "") -> None:
    """Log that an interrupted block waits until its transaction is aborted."""
    _log.warning("%s: waiting up to %g s for the transaction to be aborted%s", cause, LAST_ANSWERS_S, way_out)


def leave_to_coordinator(driver: ProducerDriver, interruption: BaseException) -> None:
    """Wait no longer; log and note that the coordinator will abort the transaction."""
    driver.waits.long.is_given_up = True
    tell(
        interruption,
        "the transaction may still be open; none of its records will be committed, and its coordinator aborts it "
        f"after transaction.timeout.ms ({driver.settings.transaction_timeout_ms} ms) at the latest",
    )


def tell_of_commit(interruption: BaseException) -> None:
    """Log and note that a commit was interrupted."""
    tell(interruption, "interrupted while the transaction was being committed: it is not known whether it is committed")


def tell_of_closing(error: BaseException, closing: Exception) -> None:
    """Log and note that closing failed, too; `error`, which ended the block, stays the one that is raised."""
    tell(error, f"closing the producer after {type(error).__name__}: {closing}")


def tell(error: BaseException, what: str) -> None:
    """Log this, and add it as a note to the error that ended the block."""
    _log.error("%s", what)
    error.add_note(what)
