"""Consumer groups of both protocols, as their coordinators describe them: states, members, committed offsets.

Groups of other types (share, streams) are listed, and not described.

A group's coordinator is the broker that lists it. A group that moves to another broker meanwhile may be missing from a
list. Groups of the classic protocol are described by DescribeGroups, those of the protocol of KIP-848 by
ConsumerGroupDescribe; brokers before Kafka 3.8 have only the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct, error
from typing import Any

from ottla.client.admin_driver import AdminDriver, left_out, unanswered
from ottla.client.group_coordinator import find_group_coordinator
from ottla.client.partition_offsets import Place
from ottla.connection.request import ANY_NODE, Answer
from ottla.errors import OttlaError, UserMistake
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.reader.settings import ReaderSettings

CLASSIC, CONSUMER = "classic", "consumer"
_REACH_MS, _ANSWER_MS = 1_000, 10_000
_I16, _I32 = Struct(">h"), Struct(">i")


@dataclass(slots=True, frozen=True)
class ListedGroup:
    """A group as its coordinator lists it. `protocol` is "classic" or "consumer" (KIP-848), "" from old brokers.

    `state` is Kafka's word ("Stable", "Empty"); `protocol_type` is "consumer" for groups of consumers.
    """

    group_id: str
    protocol: str
    protocol_type: str
    state: str
    coordinator_id: int


@dataclass(slots=True, frozen=True)
class GroupMember:
    """One member; `assigned` are the (topic, partition)s it has, `epoch` is None in the classic protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int | None
    assigned: tuple[Place, ...]


@dataclass(slots=True, frozen=True)
class GroupDescription:
    """A group with its members; `epoch` is None in the classic protocol, `assignor` names the assignment strategy."""

    group_id: str
    protocol: str
    state: str
    assignor: str
    epoch: int | None
    coordinator_id: int
    members: tuple[GroupMember, ...]


@dataclass(slots=True)
class GroupsSeen:
    """`groups`, sorted by id, and why some brokers listed none: {broker id: error}."""

    groups: list[ListedGroup] = field(default_factory=list)
    untold: dict[int, str] = field(default_factory=dict)


class GroupAdmin:
    """Calls about groups; raises KafkaError for what a broker refuses, Unreachable."""

    def __init__(self, driver: AdminDriver, settings: ReaderSettings) -> None:
        self._driver = driver
        self._settings = settings

    def listed(self) -> GroupsSeen:
        """All groups of all brokers, sorted by id; those of a broker that does not answer are missing."""
        brokers = self._driver.ask(MetadataRequest(topics=[], allow_auto_topic_creation=False), ANY_NODE).message
        ids = sorted(broker.node_id for broker in brokers.brokers)
        seen = GroupsSeen()
        for broker_id, answer in zip(ids, self._ask_all([(ListGroupsRequest(), each) for each in ids]), strict=True):
            error = _error_in(answer, "ListGroups", broker_id, getattr(answer and answer.message, "error_code", 0))
            if answer is None or error is not None:
                seen.untold[broker_id] = str(error)
                continue
            seen.groups += [
                ListedGroup(each.group_id, each.group_type.lower(), each.protocol_type, each.group_state, broker_id)
                for each in answer.message.groups
            ]
        seen.groups.sort(key=lambda each: each.group_id)
        return seen

    def describe(self, group_id: str) -> GroupDescription:
        """One group; KafkaError (GROUP_ID_NOT_FOUND) where there is none of this id."""
        found: list[GroupDescription] = []

        def attempt() -> OttlaError | None:
            node_id, error = find_group_coordinator(self._driver, group_id)
            if error is not None:
                return error
            description, error = self._described(group_id, node_id)
            found[:] = [description] if description is not None else []
            return error

        self._driver.until_well(attempt)
        return found[0]

    def delete(self, group_ids: Sequence[str]) -> None:
        """Delete groups with their committed offsets; KafkaError (NON_EMPTY_GROUP) where one has members.

        One after the other: groups before the one that could not be deleted are deleted.
        """
        for group_id in group_ids:

            def attempt(group_id: str = group_id) -> OttlaError | None:
                node_id, error = find_group_coordinator(self._driver, group_id)
                if error is not None:
                    return error
                (answer,) = self._ask_all([(DeleteGroupsRequest(groups_names=[group_id]), node_id)])
                if answer is None or answer.message is None:
                    return _error_in(answer, "DeleteGroups", node_id, 0)
                told = _part_of(group_id, answer.message.results)
                if told is None:
                    return left_out(f"group {group_id!r}", answer)
                code = told.error_code
                return kafka_error(code, f"group {group_id!r}", broker_id=node_id) if code else None

            self._driver.until_well(attempt)

    def offsets(self, coordinators: Mapping[str, int]) -> dict[str, dict[Place, int]]:
        """{group: {(topic, partition): committed offset}} of these groups, {group: id of its coordinator}.

        A group whose coordinator does not answer is left out.
        """
        by_node: dict[int, list[str]] = {}
        for group_id, node_id in coordinators.items():
            by_node.setdefault(node_id, []).append(group_id)
        asked = [(_offsets_of(groups), node_id) for node_id, groups in by_node.items()]
        found: dict[str, dict[Place, int]] = {}
        answers = self._driver.ask_all(asked, _ANSWER_MS, reach_ms=_REACH_MS, may_be_unsendable=True)
        for (_, node_id), answer in zip(asked, answers, strict=True):
            if answer is not None and answer.message is not None:
                found.update(_committed(answer.message.groups))
            elif answer is not None and answer.unsendable:
                # Before Kafka 3.0 a request asks for one group.
                for group_id in by_node[node_id]:
                    found.update(self._offsets_by_one(group_id, node_id))
        return found

    def _offsets_by_one(self, group_id: str, node_id: int) -> dict[str, dict[Place, int]]:
        (answer,) = self._ask_all([(OffsetFetchRequest(group_id=group_id, topics=None), node_id)])
        if answer is None or answer.message is None or answer.message.error_code:
            return {}
        return {group_id: _places(answer.message.topics)}

    def _described(self, group_id: str, node_id: int) -> tuple[GroupDescription | None, OttlaError | None]:
        (answer,) = self._ask_all([(ConsumerGroupDescribeRequest(group_ids=[group_id]), node_id)])
        if answer is not None and answer.message is not None:
            told = _part_of(group_id, answer.message.groups)
            if told is None:
                return None, left_out(f"group {group_id!r}", answer)
            if not told.error_code:
                return _of_consumers(told, node_id), None
            if told.error_code != ErrorCode.GROUP_ID_NOT_FOUND and told.error_code != ErrorCode.UNSUPPORTED_VERSION:
                return None, kafka_error(told.error_code, f"group {group_id!r}", broker_id=node_id)
        (answer,) = self._ask_all([(DescribeGroupsRequest(groups=[group_id]), node_id)])
        error = _error_in(answer, "DescribeGroups", node_id, 0)
        if answer is None or error is not None:
            return None, error
        told = _part_of(group_id, answer.message.groups)
        if told is None:
            return None, left_out(f"group {group_id!r}", answer)
        code = told.error_code
        if not code and told.group_state == "Dead":
            code = ErrorCode.GROUP_ID_NOT_FOUND
        if code == ErrorCode.GROUP_ID_NOT_FOUND and (error := self._of_another_type(group_id, node_id)) is not None:
            return None, error
        if code:
            return None, kafka_error(code, f"group {group_id!r}", broker_id=node_id)
        return _of_classic(told, node_id), None

    def _of_another_type(self, group_id: str, node_id: int) -> OttlaError | None:
        """The error for a group that is listed, and neither a classic nor a consumer group; None where it is not."""
        (answer,) = self._ask_all([(ListGroupsRequest(), node_id)])
        listed = None if answer is None or answer.message is None else _part_of(group_id, answer.message.groups)
        kind = "" if listed is None else listed.group_type.lower()
        if kind in ("", CLASSIC, CONSUMER):
            return None
        return UserMistake(
            f"group {group_id!r} is a {kind} group: such a group is listed, but cannot be described here; "
            f"kafka-{kind}-groups.sh --describe shows it"
        )

    def _ask_all(self, questions: Sequence[tuple[Any, int]]) -> list[Answer | None]:
        return self._driver.ask_all(questions, _ANSWER_MS, reach_ms=_REACH_MS)


def _error_in(answer: Answer | None, what: str, broker_id: int, code: int) -> OttlaError | None:
    if answer is None or answer.message is None:
        return unanswered(what, answer, broker_id)
    return kafka_error(code, what, broker_id=broker_id) if code else None


def _part_of(group_id: str, parts: Iterable[Any]) -> Any:
    """An answer's part about this group; None where there is none."""
    return next((each for each in parts if each.group_id == group_id), None)


def _offsets_of(groups: Iterable[str]) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups])


def _committed(groups: Iterable[Any]) -> dict[str, dict[Place, int]]:
    return {each.group_id: _places(each.topics) for each in groups if not each.error_code}


def _places(topics: Iterable[Any]) -> dict[Place, int]:
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in topics
        for each in topic.partitions
        if not each.error_code and each.committed_offset >= 0
    }


def _of_consumers(told: Any, node_id: int) -> GroupDescription:
    members = tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            each.member_epoch,
            tuple((part.topic_name, number) for part in each.assignment.topic_partitions for number in part.partitions)
            if each.assignment is not None
            else (),
        )
        for each in told.members
    )
    return GroupDescription(
        told.group_id, CONSUMER, told.group_state, told.assignor_name, told.group_epoch, node_id, members
    )


def _of_classic(told: Any, node_id: int) -> GroupDescription:
    members = tuple(
        GroupMember(
            each.member_id,
            getattr(each, "group_instance_id", None),
            each.client_id,
            each.client_host,
            None,
            read_assignment(bytes(each.member_assignment)) if told.protocol_type == "consumer" else (),
        )
        for each in told.members
    )
    return GroupDescription(told.group_id, CLASSIC, told.group_state, told.protocol_data, None, node_id, members)


def read_assignment(stored: bytes) -> tuple[Place, ...]:
    """The (topic, partition)s in a member's assignment (ConsumerProtocolAssignment); () where it is none."""
    try:
        (count,) = _I32.unpack_from(stored, 2)
        at, places = 6, []
        for _ in range(count):
            (length,) = _I16.unpack_from(stored, at)
            topic = stored[at + 2 : at + 2 + length].decode()
            (partitions,) = _I32.unpack_from(stored, at + 2 + length)
            at += 6 + length
            places += [(topic, _I32.unpack_from(stored, at + 4 * number)[0]) for number in range(partitions)]
            at += 4 * partitions
    except (error, UnicodeDecodeError):
        return ()
    return tuple(places)
