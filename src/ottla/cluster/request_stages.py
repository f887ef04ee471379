"""How long one request of a connection was in each stage, measured in the broker's process.

A request first waits in the queue, behind others of its connection and what the broker handles. The broker then
handles it (local), and lets it wait for replicas, records or a fault if it must (remote). Then the answer is encoded,
and sent.
"""

from __future__ import annotations

from collections.abc import Callable


class RequestStages:
    """The times of a connection's current request; `api_key` is -1 if there is none."""

    __slots__ = ("_answered_us", "_arrived_us", "_handled_us", "_handling_us", "_now_us", "_sending_us", "api_key")

    def __init__(self, now_us: Callable[[], int]) -> None:
        self._now_us = now_us
        self.api_key = -1
        self._arrived_us = self._handling_us = self._handled_us = self._answered_us = self._sending_us = 0

    def begin(self, api_key: int, arrived_us: int) -> None:
        """A request that arrived at `arrived_us` is handed over to the broker."""
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
        """The answer is encoded; sending it begins."""
        self._sending_us = self._now_us()

    def end(self) -> tuple[int, ...]:
        """The answer was sent; return the microseconds of each stage, in the order of `broker.metrics.STAGES`."""
        self.api_key = -1
        answered_us = self._answered_us
        handling_us = self._handling_us or answered_us
        # If the answer came while the broker still handled the request, handling ends with the answer.
        handled_us = min(self._handled_us or answered_us, answered_us)
        sending_us = self._sending_us
        return (
            handling_us - self._arrived_us,
            handled_us - handling_us,
            answered_us - handled_us,
            sending_us - answered_us,
            self._now_us() - sending_us,
        )
