"""The outputs of a passage: what its driver must do, and what has happened."""

from __future__ import annotations

from typing import Any


class ToUpstream:
    """Send these pieces of bytes to the upstream broker."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces


class ToClient:
    """Send these pieces of bytes to the client."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces


class CloseClient:
    """Close the client's connection once all that was sent before has left. `is_mistake`: worth a warning."""

    __slots__ = ("is_mistake", "reason")

    def __init__(self, reason: str, *, is_mistake: bool = False) -> None:
        self.reason = reason
        self.is_mistake = is_mistake


class CloseUpstream:
    """Close the upstream connection once all that was sent before has left: nothing is waited for there any more."""

    __slots__ = ()


class FaultFired:
    """A fault has fired for a request."""

    __slots__ = ("api", "client_id", "fault_id", "partitions")

    def __init__(self, fault_id: int, api: str, client_id: str | None, partitions: tuple[tuple[str, int], ...]) -> None:
        self.fault_id = fault_id
        self.api = api
        self.client_id = client_id
        self.partitions = partitions


class Unseen:
    """Something about a request cannot be seen, so that a fault may have missed it; `what` says it in a sentence."""

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what


Output = ToUpstream | ToClient | CloseClient | CloseUpstream | FaultFired | Unseen
