"""Two threads at the worst moment: one changes what the other one has just read.

A driver for tests (`Between`) calls a function of another thread whenever the I/O thread reads certain attributes. So
each order of the two threads is certain to happen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.producer import Producer
from ottla.client.producer_driver import ProducerDriver


class Between(ProducerDriver):
    """Has `comes` called once, on the I/O thread, before one of `READ` is read there for the next time."""

    READ = ("_close_deadline_us", "_flushes_asked", "_flushes_seen")
    comes: Callable[[], object] | None = None
    before = ""


def _noticed(name: str) -> property:
    def read(driver: Between) -> Any:
        comes = driver.comes
        if comes is not None and driver.before == name and driver.loop.is_own_thread():
            driver.comes = None
            comes()
        return driver.__dict__[name]

    def write(driver: Between, value: Any) -> None:
        driver.__dict__[name] = value

    return property(read, write)


for _name in Between.READ:
    setattr(Between, _name, _noticed(_name))


class Watched(Producer):
    """A producer whose driver is `Between`."""

    _driver_class = Between


@pytest.fixture
def producer(closed_port: str) -> Watched:
    return Watched(bootstrap_servers=closed_port)


@pytest.mark.parametrize("before", Between.READ)
def test_a_producer_that_is_closed_while_the_io_thread_takes_batches_ends(producer: Watched, before: str) -> None:
    driver: Any = producer._driver
    closes = threading.Event()

    def close() -> None:
        driver.begin_to_close(5)
        closes.set()

    driver.before, driver.comes = before, close
    driver.loop.wake()
    assert closes.wait(30)
    # Who closes waits for this; nothing else wakes the I/O thread.
    assert driver.waits.wait_for(lambda: driver.has_ended, 60)
    producer.close(5)


@pytest.mark.parametrize("before", Between.READ[1:])
def test_a_flush_that_begins_while_the_io_thread_takes_batches_ends(producer: Watched, before: str) -> None:
    driver: Any = producer._driver
    flush_numbers: list[int] = []
    asked = threading.Event()

    def flush() -> None:
        flush_numbers.append(driver.ask_for_flush())
        asked.set()

    driver.before, driver.comes = before, flush
    driver.loop.wake()
    assert asked.wait(30)
    assert driver.waits.wait_for(lambda: driver.is_flushed(flush_numbers[0]), 30)
    producer.close(5)
