"""What `send` may have to wait for: a topic's partitions, and memory. The waiting itself is elsewhere.

`topic` and `memory` return a function that says whether the wait is over, by success or an error; `check_topic` raises
the error. Between the two, threads wait in `thread_waits.py`, coroutines in `coroutine_waits.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.connection.address_book import LastingError
from ottla.errors import BufferFull, fresh
from ottla.producer.events import TopicWanted
from ottla.records.memory import BlockedCall

if TYPE_CHECKING:
    from ottla.client.producer_driver import ProducerDriver


class Wants:
    """What users wait for of one producer's I/O thread."""

    def __init__(self, driver: ProducerDriver) -> None:
        self._driver = driver

    def lasting_error(self) -> LastingError:
        """Keeps the lasting error of the bootstrap addresses that one wait for a topic has seen."""
        return LastingError(self._driver.loop.addresses)

    def topic(self, topic: str, lasting: LastingError) -> Callable[[], bool]:
        """Look the topic up; return the function that says whether the wait is over."""
        driver = self._driver
        driver.loop.post(TopicWanted(topic))
        return lambda: driver.cannot_go_on() or driver.topics.is_answered(topic) or lasting.seen()

    def check_topic(self, topic: str, lasting: LastingError) -> None:
        """Raise why the topic's partitions are not known; nothing when they are."""
        driver = self._driver
        if driver.topics.partition_count(topic):
            return
        driver.gate.check_usable()
        max_block_ms = driver.settings.max_block_ms
        refusal = driver.topics.refusal(topic, max_block_ms)
        if refusal is not None:
            raise refusal
        if lasting.error is not None:
            raise fresh(lasting.error)
        raise driver.loop.addresses.error(max_block_ms)

    def memory(self, call: BlockedCall) -> Callable[[], bool]:
        """The function that says whether the call has its memory: the appender has put it into the queue already."""
        return lambda: not call.is_waiting or self._driver.cannot_go_on()

    def buffer_full(self) -> BufferFull:
        """The error of a call that got no memory in time; counts it."""
        self._driver.spent.add("buffer_exhausted")
        settings = self._driver.settings
        return BufferFull(
            f"buffer.memory ({settings.buffer_memory} bytes) stayed full for max.block.ms ({settings.max_block_ms} "
            "ms): the brokers take records more slowly than they are sent; slow down, or raise buffer_memory"
        )
