"""A broker's outputs for its driver, and its open requests to the controller and to other brokers.

Outputs leave in the order they were put in. Each request has a number, and its answer goes to the callback of that
number; an answer to an earlier start of this broker is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.events import AskController, AskPeer

# Called with the answer, None where the receiver could not be reached, and the time.
Answered = Callable[[Any, int], None]


class Outbox:
    """The outputs of one broker, and its open requests by their numbers."""

    __slots__ = ("_controller_asked", "_number", "_outputs", "_peers_asked")

    def __init__(self, broker_epoch: int) -> None:
        self._outputs: list[Any] = []
        self._controller_asked: dict[int, Answered] = {}
        self._peers_asked: dict[int, Answered] = {}
        # No number of an earlier start of this broker is used again: answers to that start may still come.
        self._number = broker_epoch << 40

    def put(self, output: Any) -> None:
        """Have the driver do something."""
        self._outputs.append(output)

    def take(self) -> list[Any]:
        """What has been put in since the last call, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs

    def next_number(self) -> int:
        """A number not given before; they grow."""
        self._number += 1
        return self._number

    def ask_controller(self, message: Any, answered: Answered) -> None:
        """Call `answered(answer, now)` with the controller's answer; None: it cannot be reached."""
        token = self.next_number()
        self._controller_asked[token] = answered
        self._outputs.append(AskController(token, message))

    def ask_peer(self, broker_id: int, message: Any, answered: Answered) -> None:
        """Call `answered(answer, now)` with that broker's answer; None: it cannot be reached."""
        token = self.next_number()
        self._peers_asked[token] = answered
        self._outputs.append(AskPeer(broker_id, token, message))

    def controller_answered(self, token: int, answer: Any, now_us: int) -> None:
        """Call the callback of this request; an answer to an earlier start of this broker is dropped."""
        answered = self._controller_asked.pop(token, None)
        if answered is not None:
            answered(answer, now_us)

    def peer_answered(self, token: int, answer: Any, now_us: int) -> bool:
        """Call the callback of this request; False where it was not sent by `ask_peer`."""
        answered = self._peers_asked.pop(token, None)
        if answered is None:
            return False
        answered(answer, now_us)
        return True
