"""What `send` may lack, and how it is asked for: a topic's partitions, and memory. Who waits for it waits elsewhere.

Each question returns a function that says whether there is an answer, good or bad; then a check raises what is bad.
`thread_waits.py` has threads wait between the two, `coroutine_waits.py` coroutines.
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
    """What is asked of one producer's I/O thread."""

    def __init__(self, driver: ProducerDriver) -> None:
        self._driver = driver

    def lasting_error(self) -> LastingError:
        """Where one wait for a topic keeps what it saw of the bootstrap addresses."""
        return LastingError(self._driver.loop.addresses)

    def topic(self, topic: str, lasting: LastingError) -> Callable[[], bool]:
        """Have the topic looked up."""
        driver = self._driver
        driver.loop.post(TopicWanted(topic))
        return lambda: driver.cannot_go_on() or driver.topics.is_answered(topic) or lasting.seen()

    def check_topic(self, topic: str, lasting: LastingError) -> None:
        """Raise what keeps the topic from being known; nothing when it is."""
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
        """The memory that the appender has asked for already, whose turn comes by itself."""
        return lambda: not call.is_waiting or self._driver.cannot_go_on()

    def buffer_full(self) -> BufferFull:
        """The error of whoever has waited for memory in vain, which is counted."""
        self._driver.spent.add("buffer_exhausted")
        settings = self._driver.settings
        return BufferFull(
            f"buffer.memory ({settings.buffer_memory} bytes) stayed full for max.block.ms ({settings.max_block_ms} "
            "ms): the brokers take records more slowly than they are sent; slow down, or raise buffer_memory"
        )
