"""A group of Kafka's classic protocol, at its coordinator: members, generations, rebalances.

Life of a generation: a member joins, leaves or falls silent, so the group is PREPARING_REBALANCE until all members have
joined again or the longest rebalance timeout is over; COMPLETING_REBALANCE until the leader has sent the assignment;
then STABLE. Requests to join or sync wait for the other members: the group keeps them and hands out their answers
through `take_answers`. A group that was EMPTY waits `group.initial.rebalance.delay.ms` for more members instead.

Members with a `group.instance.id` (static ones, KIP-345) come back under a new member id without a rebalance if the
group is STABLE and keeps its protocol, and are removed only when their session ends. New members of JoinGroup version 4
and later first get their id and join with it (KIP-394), so that a join that is sent twice makes one member.

Invariants: the state changes as `TRANSITIONS` allows; generations only grow; every request that was accepted gets one
answer; members are kept in the order they joined, so the first one leads when the leader is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker.groups.deadlines import Deadlines
from ottla.broker.groups.members import TRANSITIONS, GroupState, Member, protocols_of
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_SKIP_ASSIGNMENT_FROM_VERSION = 9
_KNOWN_MEMBERS_ONLY_FROM_VERSION = 4
_PREPARING, _COMPLETING = GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE


class Group:
    """One group; `new_member_id(prefix)` gives an id that no member has.

    `changed` is set when there is something new that must be stored for a later coordinator.
    """

    group_type = "classic"

    def __init__(self, group_id: str, initial_delay_us: int, new_member_id: Callable[[str], str]) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.changed = False
        self._static: dict[str, str] = {}
        # Ids that were given, and whose member has not joined with them yet -> until when it may.
        self._promised: dict[str, int] = {}
        self._initial_delay_us = initial_delay_us
        # During a group's initial delay: (when waiting ends at the latest, whether a member has joined lately).
        self._filling: tuple[int, bool] | None = None
        self._rebalance_deadline_us = 0
        self._sync_deadline_us = 0
        self._new_member_id = new_member_id
        self._answers: list[tuple[Request, Any]] = []
        self._deadlines = Deadlines(self._deadline_of)

    @property
    def is_empty(self) -> bool:
        """Whether it is EMPTY."""
        return self.state is GroupState.EMPTY

    # Requests.

    def join(self, request: Request, now_us: int) -> None:
        """JoinGroup; Refused."""
        message: JoinGroupRequest = request.message
        if self.state is GroupState.DEAD:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._suits(message):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id, instance_id = message.member_id, message.group_instance_id
        if not member_id:
            self._join_as_new(request, now_us)
            return
        if instance_id is None and self._promised.pop(member_id, None) is not None:
            self._add(Member(member_id, None, request.client_id or ""), request, now_us)
            return
        member = self.member(member_id, instance_id)
        if self.state is GroupState.EMPTY:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        same = member.protocols == protocols_of(message)
        if same and (self.state is _COMPLETING or (self.state is GroupState.STABLE and member_id != self.leader_id)):
            member.update(message)
            self._heard(member, now_us)
            self._answers.append((request, self._joined(member)))
            return
        self._await_join(member, request)
        self._rebalance(now_us)

    def sync(self, request: Request, now_us: int) -> None:
        """SyncGroup; Refused."""
        message: SyncGroupRequest = request.message
        member = self.member(message.member_id, message.group_instance_id)
        self._check_generation(message.generation_id)
        for asked, chosen in ((message.protocol_type, self.protocol_type), (message.protocol_name, self.protocol)):
            if asked is not None and chosen is not None and asked != chosen:
                raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is _PREPARING:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        if self.state is GroupState.STABLE:
            self._heard(member, now_us)
            self._answers.append((request, self._synced(member)))
            return
        if member.sync is not None:
            self._answers.append((member.sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
        member.sync = request
        self._heard(member, now_us)
        if message.member_id == self.leader_id:
            assigned = {each.member_id: bytes(each.assignment) for each in message.assignments}
            self._become(GroupState.STABLE)
            self.changed = True
            for each in self.members.values():
                each.assignment = assigned.get(each.member_id, b"")
                if each.sync is not None:
                    self._answers.append((each.sync, self._synced(each)))
                    each.sync = None
                self._heard(each, now_us)

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int, now_us: int) -> None:
        """Heartbeat; Refused."""
        member = self.member(member_id, instance_id)
        self._check_generation(generation)
        self._heard(member, now_us)
        if self.state is _PREPARING:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, member_id: str, instance_id: str | None, now_us: int) -> None:
        """LeaveGroup of one member; Refused. A static member may be named by its instance id alone."""
        if instance_id is not None and not member_id:
            member_id = self._static.get(instance_id, "")
        elif self._promised.pop(member_id, None) is not None:
            self._maybe_complete_join(now_us)
            return
        self._remove(self.member(member_id, instance_id), now_us)

    def check_commit(self, member_id: str, instance_id: str | None, generation: int, now_us: int) -> None:
        """Refused where these offsets may not be committed. Without a generation: only while the group is empty."""
        if self.state is GroupState.DEAD:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation < 0 and self.state is GroupState.EMPTY:
            return
        if generation < 0 and not member_id and instance_id is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self.member(member_id, instance_id)
        self._check_generation(generation)
        if self.state is _COMPLETING:
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
        self._heard(member, now_us)

    def check_transactional_commit(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Refused where a transaction may not commit offsets. A request without a member is not checked (KIP-447)."""
        if self.state is GroupState.DEAD:
            raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation >= 0 or member_id or instance_id is not None:
            self.member(member_id, instance_id)
            self._check_generation(generation)

    def member(self, member_id: str, instance_id: str | None) -> Member:
        """The member; Refused where it is unknown, or another one has taken its instance id."""
        if instance_id is not None:
            holder = self._static.get(instance_id)
            if holder is None:
                raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
            if holder != member_id:
                raise Refused(ErrorCode.FENCED_INSTANCE_ID)
        found = self.members.get(member_id)
        if found is None:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return found

    # Around the requests.

    def take_answers(self) -> list[tuple[Request, Any]]:
        """Requests and what to answer; each is handed out once."""
        answers, self._answers = self._answers, []
        return answers

    def deadline_us(self) -> int | None:
        """When `time_passed` is due at the latest."""
        first_us = self._deadlines.first_us()
        if self.state is _PREPARING:
            own_us = self._rebalance_deadline_us
        elif self.state is _COMPLETING:
            own_us = self._sync_deadline_us
        else:
            return first_us
        return own_us if first_us is None else min(first_us, own_us)

    def time_passed(self, now_us: int) -> None:
        """Remove members whose session is over, and end a rebalance whose time is up."""
        for member_id in self._deadlines.take_due(now_us):
            member = self.members.get(member_id)
            if member is not None:
                self._remove(member, now_us)
            else:
                self._promised.pop(member_id, None)
        if self.state is _COMPLETING and self._sync_deadline_us <= now_us:
            for member in [each for each in self.members.values() if each.sync is None]:
                self._remove(member, now_us)
        if self.state is _PREPARING:
            if self._rebalance_deadline_us <= now_us:
                self._waited_long_enough(now_us)
            else:
                self._maybe_complete_join(now_us)

    def restore(self, members: Sequence[Member], now_us: int) -> None:
        """Take over members that an earlier coordinator stored; their sessions begin anew."""
        self.members = {member.member_id: member for member in members}
        self._static = {m.instance_id: m.member_id for m in members if m.instance_id is not None}
        self.state = GroupState.STABLE if members else GroupState.EMPTY
        for member in members:
            self._heard(member, now_us)

    def end(self, error_code: int) -> None:
        """The group is deleted, or coordinated elsewhere: requests that wait get this error."""
        self._become(GroupState.DEAD)
        for member in self.members.values():
            self._refuse_waiting(member, error_code)
        self.members, self._static, self._promised = {}, {}, {}

    # Members.

    def _join_as_new(self, request: Request, now_us: int) -> None:
        message = request.message
        instance_id = message.group_instance_id
        member_id = self._new_member_id(instance_id if instance_id is not None else request.client_id or "")
        if instance_id is None and request.version >= _KNOWN_MEMBERS_ONLY_FROM_VERSION:
            until_us = self._promised[member_id] = now_us + message.session_timeout_ms * 1000
            self._deadlines.note(member_id, until_us)
            raise Refused(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
        if instance_id is not None and instance_id in self._static:
            self._come_back(instance_id, member_id, request, now_us)
        else:
            self._add(Member(member_id, instance_id, request.client_id or ""), request, now_us)

    def _add(self, member: Member, request: Request, now_us: int) -> None:
        if not self.members:
            self.protocol_type = request.message.protocol_type
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        if self._filling is not None:
            self._filling = (self._filling[0], True)
        self._await_join(member, request)
        self._rebalance(now_us)

    def _come_back(self, instance_id: str, member_id: str, request: Request, now_us: int) -> None:
        """A static member was started again: it takes the place of the one it was."""
        member = self.members.pop(self._static[instance_id])
        self._refuse_waiting(member, ErrorCode.FENCED_INSTANCE_ID)
        former_id, member.member_id = member.member_id, member_id
        self.members[member_id] = member
        self._static[instance_id] = member_id
        led = self.leader_id == former_id
        if led:
            self.leader_id = member_id
        member.update(request.message)
        if self.state is not GroupState.STABLE or self._vote() != self.protocol:
            self._await_join(member, request)
            self._rebalance(now_us)
            return
        self._heard(member, now_us)
        self.changed = True
        answer = self._joined(member)
        if led and request.version >= _SKIP_ASSIGNMENT_FROM_VERSION:
            answer.skip_assignment = True
        elif led:
            # An answer that does not name it as leader keeps it from computing an assignment.
            answer.leader, answer.members = former_id, []
        self._answers.append((request, answer))

    def _heard(self, member: Member, now_us: int) -> None:
        member.heard(now_us)
        if member.session_deadline_us is not None:
            self._deadlines.note(member.member_id, member.session_deadline_us)

    def _deadline_of(self, member_id: str) -> int | None:
        """When a member's session ends, or a given id is not valid any more."""
        member = self.members.get(member_id)
        return member.session_deadline_us if member is not None else self._promised.get(member_id)

    def _await_join(self, member: Member, request: Request) -> None:
        self._refuse_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.update(request.message)
        member.join = request
        member.session_deadline_us = None

    def _refuse_waiting(self, member: Member, error_code: int) -> None:
        """Answer this member's waiting requests with this error."""
        if member.join is not None:
            response = JoinGroupResponse(error_code=error_code, member_id=member.member_id)
            self._answers.append((member.join, response))
        if member.sync is not None:
            self._answers.append((member.sync, SyncGroupResponse(error_code=error_code)))
        member.join = member.sync = None

    def _remove(self, member: Member, now_us: int) -> None:
        self._refuse_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID)
        del self.members[member.member_id]
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self._rebalance(now_us)

    # Rebalances.

    def _suits(self, message: JoinGroupRequest) -> bool:
        offered = protocols_of(message)
        others = [m for m in self.members.values() if m.member_id != message.member_id]
        if not others:
            return bool(message.protocol_type and offered)
        if message.protocol_type != self.protocol_type:
            return False
        return any(all(name in each.protocols for each in others) for name in offered)

    def _vote(self) -> str:
        """The protocol that most members prefer, of those that all know."""
        members = list(self.members.values())
        votes = {name: 0 for name in members[0].protocols if all(name in each.protocols for each in members)}
        for member in members:
            votes[next(name for name in member.protocols if name in votes)] += 1
        return max(votes, key=lambda name: votes[name])

    def _rebalance(self, now_us: int) -> None:
        if self.state is not _PREPARING:
            longest_us = max((each.rebalance_timeout_us for each in self.members.values()), default=0)
            wait_us = longest_us
            if self.state is GroupState.EMPTY:
                wait_us = min(self._initial_delay_us, longest_us)
                self._filling = (now_us + longest_us, False)
            for member in self.members.values():
                if member.sync is not None:
                    self._answers.append((member.sync, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
                    member.sync = None
                    self._heard(member, now_us)
            self._become(_PREPARING)
            self._rebalance_deadline_us = now_us + wait_us
        self._maybe_complete_join(now_us)

    def _maybe_complete_join(self, now_us: int) -> None:
        if self.state is not _PREPARING:
            return
        if self._filling is not None and self.members:
            if self._rebalance_deadline_us <= now_us:
                self._complete_join(now_us)
        elif not self._promised and all(each.join is not None for each in self.members.values()):
            self._complete_join(now_us)

    def _waited_long_enough(self, now_us: int) -> None:
        if self._filling is not None and self._filling[1] and now_us < self._filling[0]:
            self._rebalance_deadline_us = min(now_us + self._initial_delay_us, self._filling[0])
            self._filling = (self._filling[0], False)
            return
        self._complete_join(now_us)

    def _complete_join(self, now_us: int) -> None:
        self._filling = None
        self.members = {
            m.member_id: m for m in self.members.values() if m.join is not None or m.instance_id is not None
        }
        joined = [each for each in self.members.values() if each.join is not None]
        if self.members and not joined:
            # Static members only, and none has joined again yet: wait on; those whose sessions end are removed.
            self._rebalance_deadline_us = now_us + max(each.rebalance_timeout_us for each in self.members.values())
            return
        self.generation += 1
        if not joined:
            self._become(GroupState.EMPTY)
            self.protocol = self.leader_id = None
            self.changed = True
            return
        if all(each.member_id != self.leader_id for each in joined):
            self.leader_id = joined[0].member_id
        self.protocol = self._vote()
        self._become(_COMPLETING)
        self._sync_deadline_us = now_us + max(each.rebalance_timeout_us for each in self.members.values())
        for member in joined:
            if member.join is not None:
                self._answers.append((member.join, self._joined(member)))
            member.join = None
            self._heard(member, now_us)

    def _become(self, state: GroupState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise AssertionError(f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}")
        self.state = state

    def _check_generation(self, generation: int) -> None:
        if generation != self.generation:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)

    # Answers.

    def _joined(self, member: Member) -> JoinGroupResponse:
        """The answer to a join; the leader's lists all members and their metadata."""
        protocol = self.protocol or ""
        told = self.members.values() if member.member_id == self.leader_id else ()
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=protocol,
            leader=self.leader_id or "",
            member_id=member.member_id,
            members=[
                JoinGroupResponseMember(
                    member_id=each.member_id,
                    group_instance_id=each.instance_id,
                    metadata=each.protocols.get(protocol, b""),
                )
                for each in told
            ],
        )

    def _synced(self, member: Member) -> SyncGroupResponse:
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )
