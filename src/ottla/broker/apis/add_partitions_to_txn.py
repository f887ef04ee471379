"""AddPartitionsToTxn, versions 0 to 5: adds partitions to a transaction, at its coordinator.

Versions 0 to 3 come from producers (transaction version 1): one transaction. From version 4 on brokers ask for many
(KIP-890): to verify that partitions are in a transaction (`verify_only`; those that are not: TRANSACTION_ABORTABLE),
or, from version 5 on, to add them for producers of transaction version 2. Partitions that do not exist get
UNKNOWN_TOPIC_OR_PARTITION, and those asked for beside them OPERATION_NOT_ATTEMPTED. Another producer's epoch:
PRODUCER_FENCED (before version 2 INVALID_PRODUCER_EPOCH).
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.broker.transactions.transaction import Place, check_verifiable
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

_MANY_FROM_VERSION = 4
_FENCED_FROM_VERSION = 2
_CLIENT_VERSION_2_FROM_VERSION = 5
Codes = dict[Place, int]
# Transactional id -> the partitions of its transaction, and these by place.
Inside = dict[str, tuple[tuple[Place, ...], dict[Place, None]]]


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Answer when every transaction named has been dealt with."""
    message: AddPartitionsToTxnRequest = request.message
    many = request.version >= _MANY_FROM_VERSION
    asked = message.transactions
    if not many:
        one = AddPartitionsToTxnTransaction(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=message.v3_and_below_topics,
        )
        asked = [one]
    codes: list[Codes | None] = [None] * len(asked)
    missing = len(asked)

    def done(number: int, found: Codes, later_us: int) -> None:
        nonlocal missing
        missing -= codes[number] is None
        codes[number] = found
        if not missing:
            broker.answer(request, _response(asked, codes, many), later_us)

    inside: Inside = {}
    if not asked:
        broker.answer(request, AddPartitionsToTxnResponse(), now_us)
    for number, transaction in enumerate(asked):
        _one(broker, request, transaction, inside, lambda found, later_us, n=number: done(n, found, later_us), now_us)  # type: ignore[misc]


def _one(
    broker: BrokerPort,
    request: Request,
    asked: AddPartitionsToTxnTransaction,
    inside: Inside,
    done: Callable[[Codes, int], None],
    now_us: int,
) -> None:
    places = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    missing = [place for place in places if not _exists(broker, place)]
    if missing:
        codes: Codes = dict.fromkeys(places, int(ErrorCode.OPERATION_NOT_ATTEMPTED))
        done(codes | dict.fromkeys(missing, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)), now_us)
        return

    def all_of_them(error_code: int, later_us: int) -> None:
        if error_code == ErrorCode.PRODUCER_FENCED and request.version < _FENCED_FROM_VERSION:
            error_code = ErrorCode.INVALID_PRODUCER_EPOCH
        done(dict.fromkeys(places, error_code), later_us)

    producer = (asked.producer_id, asked.producer_epoch)
    client_version = 2 if request.version >= _CLIENT_VERSION_2_FROM_VERSION else 0
    try:
        if asked.verify_only:
            done(_verified(broker, asked.transactional_id, producer, places, inside, now_us), now_us)
        else:
            broker.transactions.add(asked.transactional_id, producer, places, client_version, all_of_them, now_us)
    except Refused as refusal:
        all_of_them(refusal.error_code, now_us)


def _verified(
    broker: BrokerPort,
    transactional_id: str,
    producer: tuple[int, int],
    places: list[Place],
    inside: Inside,
    now_us: int,
) -> Codes:
    transaction = broker.transactions.known(transactional_id, now_us)
    check_verifiable(transaction, *producer)
    partitions = transaction.data.partitions
    found = inside.get(transactional_id)
    if found is None or found[0] is not partitions:
        found = inside[transactional_id] = (partitions, dict.fromkeys(partitions))
    return {place: 0 if place in found[1] else int(ErrorCode.TRANSACTION_ABORTABLE) for place in places}


def _exists(broker: BrokerPort, place: Place) -> bool:
    topic = broker.image.topics.get(place[0])
    return topic is not None and 0 <= place[1] < len(topic.partitions)


def _response(
    asked: list[AddPartitionsToTxnTransaction], codes: list[Codes | None], many: bool
) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(
            transactional_id=transaction.transactional_id,
            topic_results=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=(found or {})[topic.name, index]
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in transaction.topics
            ],
        )
        for transaction, found in zip(asked, codes, strict=True)
    ]
    if many:
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
