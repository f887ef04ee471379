"""A message on its way from one machine to another, for traces and captures."""

from __future__ import annotations

from typing import Any

# As a time of arrival: the message waits until a silence ends, or is lost.
NEVER = -1


class Crossing:
    """One message: a request, an answer, an image, or the end of a connection ("hang up").

    `sender` and `receiver` are "client-3", "broker-0" or "controller"; `number` pairs an answer with its request.
    `message` is the receiver's copy, None for "hang up" and for an answer that was lost or never given.
    """

    __slots__ = ("arrives_us", "at_us", "message", "number", "receiver", "sender", "what")

    def __init__(
        self, at_us: int, what: str, sender: str, receiver: str, number: int, message: Any, arrives_us: int
    ) -> None:
        self.at_us = at_us
        self.what = what
        self.sender = sender
        self.receiver = receiver
        self.number = number
        self.message = message
        self.arrives_us = arrives_us
