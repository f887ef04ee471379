"""The records of the internal topic `__transaction_state`, in Kafka's own layout, so that its tools read these logs.

A key is `version int16 (0) | transactional id string`. Values are written in version 1 (in version 0 where
transaction.version is below 2) and read in both; a null value deletes the key's record.

    version int16 | producer id int64 | epoch int16 | timeout int32 | state int8
    | nullable array of (topic string, array of partition int32) | last update int64 | start int64
    1+: flexible (KIP-482), with tags 0 previous producer id int64, 1 next producer id int64, 2 client version int16
"""

from __future__ import annotations

from struct import Struct

from ottla.broker.transactions.transaction import NO_EPOCH, NO_PRODUCER, TransactionData, TransactionState
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.primitives import Decoder, Encoder

_KEY_VERSION = 0
_FLEXIBLE_FROM = 1
_STATES = tuple(TransactionState)  # in the order of Kafka's numbers: Empty is 0
_INT16 = Struct(">h")
_INT64 = Struct(">q")
_HEAD = Struct(">hqhib")
_TIMES = Struct(">qq")


def transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    encoder = Encoder(_INT16.pack(_KEY_VERSION))
    encoder.string(transactional_id)
    return bytes(encoder.out)


def read_transaction_key(key: bytes) -> str | None:
    """The transactional id of a key; None for keys of newer kinds. MalformedMessage."""
    decoder = Decoder(key)
    return decoder.string() if decoder.int16() == _KEY_VERSION else None


def transaction_value(data: TransactionData, version: int) -> bytes:
    """The value of a transactional id, in this version of the layout."""
    flexible = version >= _FLEXIBLE_FROM
    state = _STATES.index(data.state)
    encoder = Encoder(_HEAD.pack(version, data.producer_id, data.epoch, data.timeout_ms, state))
    topics: dict[str, list[int]] = {}
    for topic, index in data.partitions:
        topics.setdefault(topic, []).append(index)
    rows = None if data.state is TransactionState.EMPTY else list(topics.items())
    (encoder.nullable_compact_count if flexible else encoder.nullable_count)(rows)
    for topic, indexes in rows or ():
        (encoder.compact_string if flexible else encoder.string)(topic)
        (encoder.compact_count if flexible else encoder.count)(indexes)
        encoder.numbers(indexes, "i")
        if flexible:
            encoder.tagged_fields([])
    encoder.out += _TIMES.pack(data.updated_ms, data.started_ms)
    if flexible:
        fields = (
            (0, data.previous_producer_id, NO_PRODUCER, _INT64),
            (1, data.next_producer_id, NO_PRODUCER, _INT64),
            (2, data.client_version, 0, _INT16),
        )
        encoder.tagged_fields(
            [(tag, Encoder(layout.pack(value))) for tag, value, default, layout in fields if value != default]
        )
    return bytes(encoder.out)


def read_transaction_value(value: bytes) -> TransactionData:
    """What a value says; MalformedMessage."""
    decoder = Decoder(value)
    version, producer_id, epoch, timeout_ms, state = decoder.fixed(_HEAD)
    flexible = version >= _FLEXIBLE_FROM
    if version not in (0, 1) or not 0 <= state < len(_STATES):
        raise MalformedMessage(f"a transaction of version {version} in state {state} is not known")
    partitions: list[tuple[str, int]] = []
    count = decoder.nullable_compact_count(3) if flexible else decoder.nullable_count(6)
    for _ in range(count or 0):
        topic = decoder.compact_string() if flexible else decoder.string()
        size = decoder.compact_count(4) if flexible else decoder.count(4)
        partitions += [(topic, index) for index in decoder.numbers(size, "i", 4)]
        if flexible:
            decoder.skip_tags()
    updated_ms, started_ms = decoder.fixed(_TIMES)
    tags = {0: NO_PRODUCER, 1: NO_PRODUCER, 2: 0}
    if flexible:
        for tag, field in decoder.tagged_fields():
            if tag in tags:
                tags[tag] = field.int16() if tag == 2 else field.int64()
    return TransactionData(
        producer_id=producer_id,
        previous_producer_id=tags[0],
        next_producer_id=tags[1],
        epoch=epoch,
        last_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        state=_STATES[state],
        partitions=tuple(partitions),
        started_ms=started_ms,
        updated_ms=updated_ms,
        client_version=tags[2],
    )
