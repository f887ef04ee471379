"""Leaders and replicas in sync, decided and stored: brokers come and go, AlterPartition, ElectLeaders, rebalance.

`elections` decides for one partition. This file finds the partitions concerned, checks the requests of leaders and
users, and makes one new image for all that one event changes.

AlterPartition (KIP-497): a leader proposes which replicas are in sync. The proposal must have the newest leader epoch
and partition epoch. Brokers that it names must be alive, with the same broker epoch as in their Fetch (KIP-903): one
that was started again meanwhile may have lost its log, and does not count as in sync.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.broker.controller import elections
from ottla.broker.controller.elections import NO_LEADER
from ottla.broker.controller.moves import completed
from ottla.broker.controller.state import ControllerState
from ottla.broker.events import ClusterImage, MoveLeader, PartitionImage, TopicImage
from ottla.broker.refused import not_written
from ottla.broker.settings import BrokerSettings
from ottla.broker.topic_settings import TopicSettings
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    RequestPartitionData,
    ResponsePartitionData,
    ResponseTopicData,
)

if TYPE_CHECKING:
    from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

# Logged beside the brokers' own messages; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")

PREFERRED, UNCLEAN = 0, 1
_IMBALANCE_PERCENT = 10  # leader.imbalance.per.broker.percentage, Kafka's default
_NAMED = 5  # how many partitions a warning names

Change = Callable[[TopicImage, PartitionImage], PartitionImage]


class Leadership:
    """Elects leaders and decides which replicas are in sync; `alive` and `epoch_of` take broker ids."""

    def __init__(
        self,
        state: ControllerState,
        settings: BrokerSettings,
        alive: Callable[[int], bool],
        epoch_of: Callable[[int], int],
        publish: Callable[[ClusterImage], None],
    ) -> None:
        self._state = state
        self._settings = settings
        self._alive = alive
        self._epoch_of = epoch_of
        self._publish = publish

    def restart(self, *, clean: bool, lost: Sequence[int], lacking: Mapping[int, Container[str]]) -> None:
        """All brokers were started anew, those in `lost` with other folders: leaders begin a new epoch; OSError.

        `lacking`: by broker, the folders of the logs that lack records which were committed, where that is known.
        """
        dropped: dict[int, list[str]] = {}
        changes: dict[str, dict[int, PartitionImage]] = {}
        for topic in self._state.image.topics.values():
            unclean = self.may_be_unclean(topic)
            for index, each in enumerate(topic.partitions):
                folder = f"{topic.name}-{index}"
                behind = [one for one in each.isr if one not in lost and folder in lacking.get(one, ())]
                after = elections.restarted(
                    each, self._alive, clean=clean, unclean_election=unclean, lost=lost, lacking=behind
                )
                changes.setdefault(topic.name, {})[index] = completed(after, self._alive)
                for one in behind:
                    if one not in after.isr and after.leader not in behind:
                        dropped.setdefault(one, []).append(folder)
        if changes:
            self._state.change_partitions(changes)
        for broker_id, folders in dropped.items():
            more = f" and {len(folders) - _NAMED} more" if len(folders) > _NAMED else ""
            logger.warning(
                "broker %d lacks committed records of %s%s: it is not in the ISR of these partitions until it has "
                "copied the records",
                broker_id,
                ", ".join(folders[:_NAMED]),
                more,
            )

    def leave(self, broker_id: int, *, has_lost: bool = False) -> None:
        """Take a broker that is gone, or about to go, out of leadership and of the replicas in sync; OSError.

        `has_lost`: it has another folder than before.
        """
        self._change(
            lambda topic, each: elections.without(
                each, broker_id, self._alive, unclean=self.may_be_unclean(topic), has_lost=has_lost
            )
        )

    def fill_vacancies(self) -> None:
        """A broker is alive again: elect leaders where there are none, as far as that is allowed; OSError."""
        self._change(
            lambda topic, each: (
                each
                if each.leader != NO_LEADER
                else elections.led(each, each.isr, self._alive, unclean=self.may_be_unclean(topic))
            )
        )

    def rebalance(self) -> None:
        """Give brokers back the partitions they are the first replica of, where too many are led by others; OSError."""
        preferred_of: dict[int, int] = {}
        strayed: dict[int, int] = {}
        for topic in self._state.image.topics.values():
            for each in topic.partitions:
                first = each.replicas[0]
                preferred_of[first] = preferred_of.get(first, 0) + 1
                strayed[first] = strayed.get(first, 0) + (each.leader != first)
        due = {b: None for b, count in preferred_of.items() if strayed[b] * 100 > count * _IMBALANCE_PERCENT}
        if due:
            self._change(lambda _, each: elections.preferred(each, self._alive) if each.replicas[0] in due else each)

    # Requests of leaders and users.

    def alter(self, message: AlterPartitionRequest) -> AlterPartitionResponse:
        """Take the replicas in sync that leaders propose; each partition succeeds or fails by itself."""
        leader_id = message.broker_id
        if message.broker_epoch != self._epoch_of(leader_id):
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        changes: dict[str, dict[int, PartitionImage]] = {}
        answers = []
        for asked in message.topics:
            topic = self._state.topic_with(asked.topic_id)
            results = []
            for data in asked.partitions:
                result = ResponsePartitionData(partition_index=data.partition_index)
                results.append(result)
                if topic is None or not 0 <= data.partition_index < len(topic.partitions):
                    missing = ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    result.error_code = missing
                    continue
                partition = topic.partitions[data.partition_index]
                result.error_code = self._fault(leader_id, partition, data)
                if not result.error_code:
                    isr = tuple(each.broker_id for each in data.new_isr_with_epochs)
                    ordered = tuple(each for each in partition.replicas if each in isr)
                    after = completed(elections.changed(partition, partition.leader, ordered), self._alive)
                    if after is not partition:
                        changes.setdefault(topic.name, {})[data.partition_index] = after
                    _tell(result, after)
            answers.append(ResponseTopicData(topic_id=asked.topic_id, partitions=results))
        try:
            self._store(changes)
        except OSError:
            return AlterPartitionResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return AlterPartitionResponse(topics=answers)

    def elect(self, message: ElectLeadersRequest) -> ElectLeadersResponse:
        """Elect the preferred leaders, or any living replica (unclean), of some or of all partitions."""
        from ottla.protocol.messages.elect_leaders import ElectLeadersResponse, PartitionResult, ReplicaElectionResult

        image = self._state.image
        everything = message.topic_partitions is None
        wanted: list[tuple[str, list[int]]]
        if message.topic_partitions is None:
            wanted = [(topic.name, list(range(len(topic.partitions)))) for topic in image.topics.values()]
        else:
            wanted = [(asked.topic, asked.partitions) for asked in message.topic_partitions]
        changes: dict[str, dict[int, PartitionImage]] = {}
        results = []
        for name, indexes in wanted:
            topic = image.topics.get(name)
            told = []
            for index in indexes:
                detail: str | None
                if topic is None or not 0 <= index < len(topic.partitions):
                    code, detail = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {name}-{index}"
                else:
                    partition = topic.partitions[index]
                    after = completed(self._elected(partition, message.election_type), self._alive)
                    code, detail = self._why_not(partition, after, message.election_type)
                    if after is not partition:
                        changes.setdefault(name, {})[index] = after
                # Asked for all, Kafka leaves out those that need none.
                if not everything or code != ErrorCode.ELECTION_NOT_NEEDED:
                    told.append(PartitionResult(partition_id=index, error_code=code, error_message=detail))
            if told or not everything:
                results.append(ReplicaElectionResult(topic=name, partition_result=told))
        try:
            self._store(changes)
        except OSError:
            return ElectLeadersResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        return ElectLeadersResponse(replica_election_results=results)

    def move(self, order: MoveLeader) -> int | str:
        """Let another replica in sync lead; returns its id, or why there is none."""
        topic = self._state.image.topics.get(order.topic)
        if topic is None or not 0 <= order.partition < len(topic.partitions):
            return f"there is no {order.topic}-{order.partition}."
        partition = topic.partitions[order.partition]
        others = [each for each in partition.isr if each != partition.leader and self._alive(each)]
        if order.broker_id == partition.leader:
            return partition.leader
        if not others or order.broker_id not in (None, *others):
            wanted = "no other replica" if order.broker_id is None else f"broker {order.broker_id} is not"
            return (
                f"{order.topic}-{order.partition} cannot be led by another: {wanted} in sync and alive; "
                f"in sync are {list(partition.isr)}."
            )
        leader = others[0] if order.broker_id is None else order.broker_id
        try:
            self._store({order.topic: {order.partition: elections.changed(partition, leader, partition.isr)}})
        except OSError as error:
            return f"{not_written(error)}."
        return leader

    def _elected(self, partition: PartitionImage, kind: int) -> PartitionImage:
        if kind == PREFERRED:
            return elections.preferred(partition, self._alive)
        if partition.leader != NO_LEADER:
            return partition
        return elections.led(partition, partition.isr, self._alive, unclean=True)

    def _why_not(self, before: PartitionImage, after: PartitionImage, kind: int) -> tuple[int, str | None]:
        if after is not before:
            return 0, None
        if kind == PREFERRED and before.leader != before.replicas[0]:
            detail = f"the preferred leader, broker {before.replicas[0]}, is not alive and in sync"
            return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, detail
        if kind == UNCLEAN and before.leader == NO_LEADER:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is alive"
        return ErrorCode.ELECTION_NOT_NEEDED, "the leader is the one an election would choose"

    def _fault(self, leader_id: int, partition: PartitionImage, data: RequestPartitionData) -> int:
        """Why a proposal is not taken; 0 where it is."""
        if data.leader_epoch > partition.leader_epoch:
            return ErrorCode.NOT_CONTROLLER
        if data.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if partition.leader != leader_id:
            return ErrorCode.INVALID_REQUEST
        if data.partition_epoch != partition.partition_epoch:
            newer = data.partition_epoch > partition.partition_epoch
            return ErrorCode.NOT_CONTROLLER if newer else ErrorCode.INVALID_UPDATE_VERSION
        named = {each.broker_id: each.broker_epoch for each in data.new_isr_with_epochs}
        if leader_id not in named or any(each not in partition.replicas for each in named):
            return ErrorCode.INVALID_REQUEST
        for each, epoch in named.items():
            if not self._alive(each) or epoch not in (-1, self._epoch_of(each)):
                return ErrorCode.INELIGIBLE_REPLICA
        return 0

    # All partitions.

    def may_be_unclean(self, topic: TopicImage) -> bool:
        """Whether a replica that is not in sync may lead, where none is in sync."""
        if not topic.configs:
            return self._settings.unclean_leader_election_enable
        return TopicSettings(topic.configs, self._settings).unclean_leader_election_enable

    def _change(self, change: Change) -> None:
        self._store(self._changed(change))

    def _changed(self, change: Change) -> dict[str, dict[int, PartitionImage]]:
        found: dict[str, dict[int, PartitionImage]] = {}
        for topic in self._state.image.topics.values():
            for index, each in enumerate(topic.partitions):
                # A replica that is in sync now may complete a move.
                after = completed(change(topic, each), self._alive)
                if after is not each:
                    found.setdefault(topic.name, {})[index] = after
        return found

    def _store(self, changes: dict[str, dict[int, PartitionImage]]) -> None:
        if changes:
            self._publish(self._state.change_partitions(changes))


def _tell(result: ResponsePartitionData, partition: PartitionImage) -> None:
    result.leader_id = partition.leader
    result.leader_epoch = partition.leader_epoch
    result.isr = list(partition.isr)
    result.partition_epoch = partition.partition_epoch
