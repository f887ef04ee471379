"""When one request of a connection went from stage to stage, measured in the broker's process.

A request waits in the queue behind others of its connection, and behind what the broker is at. The broker handles it at
once (local) or lets it wait for replicas, for records or for a fault (remote). Its answer is written as bytes and sent.
"""

from __future__ import annotations

from collections.abc import Callable


class RequestStages:
    """The times of the request that is under way on one connection; `api_key` is -1 where none is."""

    __slots__ = ("_answered_us", "_arrived_us", "_handled_us", "_handling_us", "_now_us", "_sending_us", "api_key")

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self.api_key = -1
        self._arrived_us = self._handling_us = self._handled_us = self._answered_us = self._sending_us = 0

    def begin(self, api_key: int, arrived_us: int) -> None:
        """A request that arrived then is handed over to the broker."""
        self.api_key = api_key
        self._arrived_us = arrived_us
        self._handling_us = self._handled_us = self._answered_us = self._sending_us = 0

    def handling(self) -> None:
        """The broker begins to handle it."""
        self._handling_us = self._now_us()

    def handled(self) -> None:
        """The broker has done all that it can do now."""
        if self._handling_us and not self._handled_us:
            self._handled_us = self._now_us()

    def answered(self) -> None:
        """The broker gave its answer."""
        self._answered_us = self._now_us()

    def sending(self) -> None:
        """The first byte of the answer goes out, if it has any."""
        self._sending_us = self._now_us()

    def end(self) -> tuple[int, ...]:
        """The answer has left: how long each stage took, in microseconds, in the order of `broker.metrics.STAGES`."""
        self.api_key = -1
        answered_us = self._answered_us
        handling_us = self._handling_us or answered_us
        # Answered within the handling where that is not over yet.
        handled_us = min(self._handled_us or answered_us, answered_us)
        sending_us = self._sending_us
        return (
            handling_us - self._arrived_us,
            handled_us - handling_us,
            answered_us - handled_us,
            sending_us - answered_us,
            self._now_us() - sending_us,
        )
