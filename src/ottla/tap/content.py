"""What a decoded request and its answer say of topics, partitions, producers and errors, whichever API they are of.

Messages are walked by the names that Kafka's descriptors give to fields: a struct with `topic` or `topic_id`, or one
that is called after a topic and has a `name`, is about a topic, and what is inside it about that topic's partitions. So
an API that is added to the protocol is read without a line here. What a class has of such fields is found out once.

Request and answer are read into the same `Content`: what they say of a partition becomes one part.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

from ottla.protocol.error_codes import error_name
from ottla.protocol.message import ZERO_UUID, Message
from ottla.records.batch_header import (
    CODECS,
    CRC_BEGIN,
    BatchHeader,
    CorruptBatch,
    check_crc,
    read_header,
)
from ottla.tap.exchange import Batch, PartitionPart

_PARTITION_FIELDS = ("partition_index", "partition", "index", "partition_id")
_PARTITION_LISTS = ("partitions", "partition_indexes")
_ERROR_FIELDS = ("error_code", "partition_error_code")
# In the order in which they count; a base offset of -1 in an answer says that nothing was appended.
_OFFSET_FIELDS = ("base_offset", "fetch_offset", "committed_offset", "offset", "end_offset", "low_watermark")
_PARTITION_NUMBERS = ("high_watermark", "last_stable_offset", "log_start_offset")
_IDENTITY_FIELDS = ("transactional_id", "group_id", "producer_id", "producer_epoch", "acks", "committed")
# As Kafka calls the fields of AddPartitionsToTxn that older versions have.
_OLD_PREFIX = "v3_and_below_"
# As WriteTxnMarkers calls what EndTxn calls `committed`.
_COMMITTED = "transaction_result"
# Partitions that a Fetch no longer asks for.
_PASSED_OVER = "forgotten_topics_data"
# Answers in which the broker gives a producer its identity; elsewhere answers speak of other producers, too.
_IDENTIFYING_ANSWERS = ("InitProducerIdResponse", "EndTxnResponse")
# Answers that describe partitions: one row for each topic is enough, unless a partition has an error.
_DESCRIBING_ANSWERS = ("MetadataResponse", "DescribeTopicPartitionsResponse")
_TOPIC_RESOURCE = 2
_GROUP_KEY, _TRANSACTION_KEY = 0, 1


class _Shape(NamedTuple):
    """What the fields of a class of messages mean here."""

    topic_field: str | None
    has_topic_id: bool
    partition_field: str | None
    error_field: str | None
    offset_field: str | None
    numbers: tuple[str, ...]
    identity: tuple[tuple[str, str], ...]
    has_records: bool
    # All fields that may hold further structs.
    others: tuple[str, ...]


@cache
def _shape(kind: Any) -> _Shape:
    names: tuple[str, ...] = kind.__slots__
    is_topic = "topic" in names or "topic_id" in names or ("Topic" in kind.__name__ and "value" not in names)
    topic_field = next((name for name in ("topic", "name") if is_topic and name in names), None)
    # Cursors say where a list goes on, and are about no partition.
    is_cursor = "topic_name" in names
    identity = [(name, "committed" if name == _COMMITTED else name.removeprefix(_OLD_PREFIX)) for name in names]
    return _Shape(
        topic_field=topic_field,
        has_topic_id="topic_id" in names,
        partition_field=None if is_cursor else next((name for name in _PARTITION_FIELDS if name in names), None),
        error_field=next((name for name in _ERROR_FIELDS if name in names), None),
        offset_field=next((name for name in _OFFSET_FIELDS if name in names), None),
        numbers=tuple(name for name in _PARTITION_NUMBERS if name in names),
        identity=tuple(pair for pair in identity if pair[1] in _IDENTITY_FIELDS),
        has_records="records" in names,
        others=tuple(name for name in names if name not in (topic_field, _PASSED_OVER, *_IDENTITY_FIELDS)),
    )


class _Part:
    """One partition while it is read; see PartitionPart."""

    def __init__(self, topic: str | None, topic_id: bytes | None, partition: int | None) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.values: dict[str, Any] = {}

    def finished(self, topic_names: dict[bytes, str]) -> PartitionPart:
        topic_id = self.topic_id
        topic = self.topic if topic_id is None else self.topic or topic_names.get(topic_id)
        text = None if topic_id is None else uuid_text(topic_id)
        return PartitionPart(topic=topic, topic_id=text, partition=self.partition, **self.values)


class Content:
    """What a request, and later its answer, say; topic ids that answers name are added to `topic_names`."""

    def __init__(self, topic_names: dict[bytes, str], *, hashes: bool) -> None:
        self.identity: dict[str, Any] = {}
        self.error: str | None = None
        self.error_message: str | None = None
        self._topic_names = topic_names
        self._hashes = hashes
        self._parts: dict[tuple[str | None, bytes | None, int | None], _Part] = {}
        self._is_answer = False
        self._takes_identity = True
        self._describes = False

    def read(self, message: Message) -> None:
        """Take in a request or its answer."""
        name = type(message).__name__
        self._is_answer = name.endswith("Response")
        self._takes_identity = not self._is_answer or name in _IDENTIFYING_ANSWERS
        self._describes = name in _DESCRIBING_ANSWERS
        if name == "FindCoordinatorRequest":
            self._read_coordinator_key(message)
        self._walk(message, None, None)

    def partitions(self) -> tuple[PartitionPart, ...]:
        """All parts, in the order in which they were named."""
        parts = list(dict.fromkeys(self._parts.values()))
        told = {(part.topic, part.topic_id) for part in parts if part.partition is not None}
        return tuple(
            part.finished(self._topic_names)
            for part in parts
            # A topic whose partitions are told needs no row of its own, unless it has something to say.
            if part.partition is not None or part.values or (part.topic, part.topic_id) not in told
        )

    def _walk(self, message: Message, topic: str | None, topic_id: bytes | None) -> None:
        kind: Any = type(message)
        shape = _shape(kind)
        part: _Part | None = None
        is_about_topic = shape.topic_field is not None or shape.has_topic_id
        if is_about_topic:
            topic, topic_id = self._topic_of(message, shape)
        if shape.partition_field is not None:
            number = getattr(message, shape.partition_field)
            if self._describes and not getattr(message, shape.error_field or "", 0):
                return
            part = self._part(topic, topic_id, number)
            self._read_partition(part, message, shape)
        elif is_about_topic:
            part = self._part(topic, topic_id, None)
        elif getattr(message, "resource_type", None) == _TOPIC_RESOURCE:
            part = self._part(getattr(message, "resource_name", None), None, None)
        self._read_error(part, message, shape)
        if shape.partition_field is not None:
            return
        if self._takes_identity:
            for field, name in shape.identity:
                self._identify(name, getattr(message, field))
        for field in shape.others:
            self._walk_field(field, getattr(message, field), topic, topic_id, is_about_topic)

    def _walk_field(
        self, field: str, value: Any, topic: str | None, topic_id: bytes | None, is_about_topic: bool
    ) -> None:
        if isinstance(value, Message):
            self._walk(value, topic, topic_id)
        elif isinstance(value, list) and value:
            if isinstance(value[0], Message):
                for each in value:
                    self._walk(each, topic, topic_id)
            elif is_about_topic and field in _PARTITION_LISTS:
                for number in value:
                    self._part(topic, topic_id, number)
            elif field == "topic_names":
                for name in value:
                    self._part(name, None, None)

    def _topic_of(self, message: Any, shape: _Shape) -> tuple[str | None, bytes | None]:
        topic = getattr(message, shape.topic_field) or None if shape.topic_field else None
        topic_id = message.topic_id if shape.has_topic_id and message.topic_id != ZERO_UUID else None
        if topic_id is not None:
            topic_id = bytes(topic_id)
            if topic is not None:
                self._topic_names[topic_id] = topic
        return topic, topic_id

    def _part(self, topic: str | None, topic_id: bytes | None, partition: int | None) -> _Part:
        """The part of this partition; it knows the topic's name and id once either message had them."""
        for key in ((topic, None, partition), (None, topic_id, partition)):
            found = self._parts.get(key) if key[:2] != (None, None) else None
            if found is not None:
                found.topic = found.topic or topic
                found.topic_id = found.topic_id or topic_id
                break
        else:
            found = _Part(topic, topic_id, partition)
        if topic is not None:
            self._parts.setdefault((topic, None, partition), found)
        else:
            self._parts.setdefault((None, topic_id, partition), found)
        return found

    def _read_partition(self, part: _Part, message: Any, shape: _Shape) -> None:
        if shape.offset_field is not None:
            offset = getattr(message, shape.offset_field)
            if offset != -1:
                part.values["offset"] = offset
        for name in shape.numbers:
            number = getattr(message, name)
            # What a version lacks, and what a broker does not know, is -1 in most fields, and the greatest in one.
            if 0 <= number < (1 << 63) - 1:
                part.values[name] = number
        if shape.has_records and message.records is not None:
            self._read_records(part, message.records)

    def _read_records(self, part: _Part, records: Any) -> None:
        position, batches = 0, []
        for header in _headers(records):
            batches.append(_batch(records, header, self._hashes))
            position = header.position + header.size_bytes
        part.values["record_bytes"] = len(records)
        part.values["unread_bytes"] = len(records) - position
        part.values["batches"] = tuple(batches)

    def _read_error(self, part: _Part | None, message: Any, shape: _Shape) -> None:
        code = getattr(message, shape.error_field) if shape.error_field else 0
        if not code:
            return
        words = getattr(message, "error_message", None)
        if part is not None:
            part.values["error"] = error_name(code)
            if words:
                part.values["error_message"] = words
        elif self.error is None:
            self.error, self.error_message = error_name(code), words

    def _identify(self, name: str, value: Any) -> None:
        is_told = value is not None and value != "" and (name == "acks" or value != -1)
        if is_told and (name not in self.identity or self._is_answer):
            self.identity[name] = value

    def _read_coordinator_key(self, message: Any) -> None:
        name = {_GROUP_KEY: "group_id", _TRANSACTION_KEY: "transactional_id"}.get(message.key_type)
        keys = message.coordinator_keys or [message.key]
        if name is not None and keys[0]:
            self.identity[name] = keys[0]


def uuid_text(uuid: bytes) -> str:
    """A topic id as Kafka's tools show it."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def _headers(records: Any) -> Iterator[BatchHeader]:
    """The headers of whole batches up to the first that is none."""
    position = 0
    while position < len(records):
        try:
            header = read_header(records, position)
        except CorruptBatch:
            return
        if header.size_bytes > len(records) - position:
            return
        yield header
        position += header.size_bytes


def _batch(records: Any, header: BatchHeader, hashes: bool) -> Batch:
    position = header.position
    is_intact = digest = None
    if hashes:
        end = position + header.size_bytes
        digest = sha256(memoryview(records)[position + CRC_BEGIN : end]).hexdigest()
        try:
            check_crc(records, header)
            is_intact = True
        except CorruptBatch:
            is_intact = False
    codec = header.attributes & 0x07
    return Batch(
        base_offset=header.base_offset,
        record_count=header.record_count,
        size_bytes=header.size_bytes,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        codec=CODECS[codec] if codec < len(CODECS) else str(codec),
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        crc=header.crc,
        base_timestamp_ms=header.base_timestamp,
        max_timestamp_ms=header.max_timestamp,
        is_intact=is_intact,
        sha256=digest,
    )
