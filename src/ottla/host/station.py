"""The requests of one connection, at a broker that takes time for them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ottla.broker.events import RequestReceived
from ottla.host.schedule import Schedule


class Receiver(Protocol):
    """What gets the events: a broker's runner."""

    def deliver(self, event: Any) -> None: ...


class Station:
    """One request is handled at a time, as in Kafka, and takes `service_us(request)`.

    The next one begins when the one before is answered. Broker cores keep this order by themselves; this class adds the
    time. When the connection ends, waiting requests are dropped.
    """

    __slots__ = ("_in_service", "_runner", "_schedule", "_service_us", "_waiting", "handled")

    def __init__(self, schedule: Schedule, runner: Receiver, service_us: Callable[[Any], int]) -> None:
        self._schedule = schedule
        self._runner = runner
        self._service_us = service_us
        self._waiting: deque[Any] = deque()
        # The request that is handled and not answered yet, or None; and whether its time still passes.
        self.handled: Any = None
        self._in_service = False

    def arrive(self, event: Any) -> None:
        """Take in a request, or the end of the connection."""
        if type(event) is not RequestReceived:
            self._waiting.clear()
            if self._in_service:
                self._waiting.append(event)
            else:
                self._runner.deliver(event)
        elif self.handled is not None:
            self._waiting.append(event)
        else:
            self._begin(event)

    def answered(self, correlation_id: int) -> None:
        """Begin the next request when the current one is answered; other correlation ids are ignored."""
        if self.handled is None or self.handled.correlation_id != correlation_id:
            return
        self.handled = None
        if self._waiting:
            # Not within the action in which the broker answers.
            self._schedule.after(0, self._next)

    def _next(self) -> None:
        if self._waiting and self.handled is None:
            self._begin(self._waiting.popleft())

    def _begin(self, request: Any) -> None:
        self.handled = request
        service_us = self._service_us(request)
        if service_us:
            self._in_service = True
            self._schedule.after(service_us, self._hand_over)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        self._in_service = False
        self._runner.deliver(self.handled)
        if self._waiting and type(self._waiting[0]) is not RequestReceived:
            self._runner.deliver(self._waiting.popleft())
