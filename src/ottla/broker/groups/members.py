"""The parts of a classic group: its states and what may follow each, and its members."""

from __future__ import annotations

from enum import Enum

from ottla.broker.request import Request
from ottla.protocol.messages.join_group import JoinGroupRequest


class GroupState(Enum):
    """The states, under their names in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREPARING, _COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE
# State -> the states that may follow.
TRANSITIONS: dict[GroupState, tuple[GroupState, ...]] = {
    GroupState.EMPTY: (_PREPARING, GroupState.DEAD),
    _PREPARING: (_COMPLETING, GroupState.EMPTY, GroupState.DEAD),
    _COMPLETING: (GroupState.STABLE, _PREPARING, GroupState.DEAD),
    GroupState.STABLE: (_PREPARING, GroupState.DEAD),
    GroupState.DEAD: (),
}


class Member:
    """One member; `join` and `sync` are requests that wait for the others, None while there is none."""

    __slots__ = (
        "assignment",
        "client_id",
        "instance_id",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_us",
        "session_deadline_us",
        "session_timeout_us",
        "sync",
    )

    def __init__(self, member_id: str, instance_id: str | None, client_id: str) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.session_timeout_us = 0
        self.rebalance_timeout_us = 0
        self.session_deadline_us: int | None = None
        self.protocols: dict[str, bytes] = {}
        self.assignment = b""
        self.join: Request | None = None
        self.sync: Request | None = None

    def update(self, message: JoinGroupRequest) -> None:
        """Take timeouts and protocols of a join."""
        rebalance_ms = message.rebalance_timeout_ms
        self.session_timeout_us = message.session_timeout_ms * 1000
        self.rebalance_timeout_us = (rebalance_ms if rebalance_ms >= 0 else message.session_timeout_ms) * 1000
        self.protocols = protocols_of(message)

    def heard(self, now_us: int) -> None:
        """It is alive; its session does not end while its own request waits for the other members."""
        waits = self.join is not None or self.sync is not None
        self.session_deadline_us = None if waits else now_us + self.session_timeout_us


def protocols_of(message: JoinGroupRequest) -> dict[str, bytes]:
    """The protocols a member can take part in, best first, with its metadata for each."""
    return {each.name: bytes(each.metadata) for each in message.protocols}
