"""TxnOffsetCommit, versions 0 to 5: offsets of a group that count when the producer's transaction is committed.

Before they are stored the transaction's coordinator is asked: whether the group's partition of `__consumer_offsets` is
in the transaction (AddOffsetsToTxn came before), or, from version 5 on (KIP-890), to add it. While the producer's
transaction is open in that partition, the coordinator need not be asked; if it has ended before the answer came, the
offsets are refused. From version 3 on the request names the group's member (KIP-447): a wrong generation is
ILLEGAL_GENERATION, an unknown member is UNKNOWN_MEMBER_ID, and in a consumer group (KIP-848) an epoch in which it did
not own the partitions is STALE_MEMBER_EPOCH. A request without a member is not checked. Answered when the offsets are
replicated; OffsetFetch returns them after the marker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.broker.apis.offset_commit import offset_fault, topic_partitions
from ottla.broker.apis.port import BrokerPort
from ottla.broker.groups.offsets import CommittedOffset
from ottla.broker.internal_topics import partition_of_key
from ottla.broker.log.producer_state import ProducerStates
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.broker.transactions.verification import First, Question, Verified
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_ABORTABLE_FROM_VERSION = 4
_ADDED_FROM_VERSION = 5
_NO_SEQUENCE = -1
Place = tuple[str, int]
Answer = Callable[[int, int], None]


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Check the offsets and the member, ask the transaction's coordinator, then store."""
    message: TxnOffsetCommitRequest = request.message
    offsets: dict[Place, CommittedOffset] = {}
    errors: dict[Place, int] = {}
    for topic in message.topics:
        for asked in topic.partitions:
            place = (topic.name, asked.partition_index)
            metadata = asked.committed_metadata or ""
            error_code = offset_fault(broker, place, metadata)
            if error_code:
                errors[place] = error_code
            else:
                offset, epoch = asked.committed_offset, asked.committed_leader_epoch
                offsets[place] = CommittedOffset(offset, epoch, metadata, broker.wall_ms(now_us))

    def answer(error_code: int, later_us: int) -> None:
        broker.answer(request, _response(message, errors, error_code), later_us)

    def answered(verified: Mapping[Place, Verified], later_us: int) -> None:
        found = verified[home]
        error_code = _group_error(found.error_code, request.version)
        if error_code:
            answer(error_code, later_us)
        else:
            _store(broker, message, offsets, found.guard, answer, later_us)

    refused = _refusal(broker, message, offsets, now_us)
    topic_image = broker.image.topics.get(OFFSETS_TOPIC)
    if refused or not offsets or topic_image is None:
        answer(refused, now_us)
        return
    adds = request.version >= _ADDED_FROM_VERSION
    trusted = not adds and not broker.settings.transaction_partition_verification_enable
    if trusted or _is_open(broker, message):
        _store(broker, message, offsets, None, answer, now_us)
        return
    home = OFFSETS_TOPIC, partition_of_key(message.group_id, len(topic_image.partitions))

    def firsts() -> list[First]:
        return [First(home, _producer(message), _NO_SEQUENCE, _producers(broker, message))]

    Question(
        broker.verification,
        message.transactional_id,
        firsts(),
        adds=adds,
        answered=answered,
        look_again=firsts,
        now_us=now_us,
    ).ask(now_us)


def _producer(message: TxnOffsetCommitRequest) -> tuple[int, int]:
    return message.producer_id, message.producer_epoch


def _producers(broker: BrokerPort, message: TxnOffsetCommitRequest) -> ProducerStates | None:
    """The producers of the partition that keeps the group's offsets; None where that is not here."""
    partition = broker.groups.home_of(message.group_id)
    return None if partition is None or partition.log is None else partition.log.producers


def _is_open(broker: BrokerPort, message: TxnOffsetCommitRequest) -> bool:
    producers = _producers(broker, message)
    return producers is not None and producers.has_open_transaction(*_producer(message))


def _is_verified(broker: BrokerPort, message: TxnOffsetCommitRequest, guard: int) -> bool:
    producers = _producers(broker, message)
    return _is_open(broker, message) or (producers is not None and producers.is_verified(message.producer_id, guard))


def _refusal(
    broker: BrokerPort, message: TxnOffsetCommitRequest, offsets: Mapping[Place, CommittedOffset], now_us: int
) -> int:
    """The error code that keeps this member from committing; 0 for none."""
    try:
        group = broker.groups.find(message.group_id, now_us)
        if group is None:
            return ErrorCode.ILLEGAL_GENERATION if message.generation_id >= 0 else 0
        member = message.member_id, message.group_instance_id, message.generation_id
        group.check_transactional_commit(member, topic_partitions(broker, offsets))
    except Refused as refusal:
        return refusal.error_code
    return 0


def _store(
    broker: BrokerPort,
    message: TxnOffsetCommitRequest,
    offsets: dict[Place, CommittedOffset],
    guard: int | None,
    answer: Answer,
    now_us: int,
) -> None:
    """Store them, unless the transaction verified under this guard has ended meanwhile; None: not verified."""
    refused = _refusal(broker, message, offsets, now_us)  # The group may have gone on meanwhile.
    if not refused and guard is not None and not _is_verified(broker, message, guard):
        refused = int(ErrorCode.INVALID_TXN_STATE)
    if refused:
        answer(refused, now_us)
        return
    try:
        group = broker.groups.find_or_make(message.group_id, now_us)
        broker.groups.commit_in_transaction(group, offsets, _producer(message), answer, now_us)
    except Refused as refusal:
        answer(refusal.error_code, now_us)


def _group_error(error_code: int, version: int) -> int:
    """The transaction coordinator's error as clients of a group expect it."""
    if error_code == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error_code == ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_FROM_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if error_code in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE):
        # The transaction's coordinator is meant, not the group's: the client must not look for the latter again.
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error_code


def _response(message: TxnOffsetCommitRequest, errors: dict[Place, int], error_code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=asked.partition_index,
                        error_code=errors.get((topic.name, asked.partition_index), error_code),
                    )
                    for asked in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
