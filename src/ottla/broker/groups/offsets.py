"""The records of the internal topic `__consumer_offsets`: committed offsets and groups, in Kafka's own layouts.

A record's key begins with a version, which says what it is: 0 and 1 an offset (group, topic, partition), 2 a group of
the classic protocol (`consumer_records.py` has those of KIP-848). Values are written in version 3, the one Kafka
writes, and read in versions 0 to 3; a null value deletes the key's record. So Apache Kafka's tools read these logs.

    offset key     version int16 | group string | topic string | partition int32
    offset value   version int16 | offset int64 | leader epoch int32 (3+) | metadata string | commit time int64
                   | expiry int64 (1 only)
    group key      version int16 | group string
    group value    version int16 | protocol type string | generation int32 | protocol, leader nullable string
                   | time int64 (2+) | members: id string, instance id nullable string (3+), client id, host string,
                   rebalance timeout int32 (1+), session timeout int32, subscription bytes, assignment bytes

Times are those of the broker's wall clock, in milliseconds since 1970.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from ottla.broker.groups.group import Group
from ottla.broker.groups.members import Member
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.primitives import Decoder

_OFFSET_KEYS = (0, 1)
_GROUP_KEY = 2
_VALUE_VERSION = 3
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_OFFSET_VALUE = Struct(">hqi")


class CommittedOffset(NamedTuple):
    """A group's offset in a partition; `leader_epoch` is -1 where the commit had none."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int


class StoredGroup(NamedTuple):
    """A group as its coordinator stored it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader_id: str | None
    members: list[Member]


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of a committed offset."""
    return _INT16.pack(1) + _string(group_id) + _string(topic) + _INT32.pack(partition)


def offset_value(committed: CommittedOffset) -> bytes:
    """The value of a committed offset."""
    head = _OFFSET_VALUE.pack(_VALUE_VERSION, committed.offset, committed.leader_epoch)
    return head + _string(committed.metadata) + _INT64.pack(committed.committed_ms)


def group_key(group_id: str) -> bytes:
    """The key of a group."""
    return _INT16.pack(_GROUP_KEY) + _string(group_id)


def group_value(group: Group, now_ms: int) -> bytes:
    """The value of a group."""
    parts = [
        _INT16.pack(_VALUE_VERSION),
        _string(group.protocol_type or ""),
        _INT32.pack(group.generation),
        _nullable(group.protocol),
        _nullable(group.leader_id),
        _INT64.pack(now_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members.values():
        parts += [
            _string(member.member_id),
            _nullable(member.instance_id),
            _string(member.client_id),
            _string(""),
            _INT32.pack(member.rebalance_timeout_us // 1000),
            _INT32.pack(member.session_timeout_us // 1000),
            _blob(member.protocols.get(group.protocol or "", b"")),
            _blob(member.assignment),
        ]
    return b"".join(parts)


Entry = tuple[str, tuple[str, int] | None, CommittedOffset | StoredGroup | None]


def read_entry(key: bytes, value: bytes | None) -> Entry | None:
    """(group, (topic, partition) or None for the group itself, the value or None where it was deleted).

    None for records of other kinds; MalformedMessage for those that are not understood.
    """
    decoder = Decoder(key)
    version = decoder.int16()
    if version in _OFFSET_KEYS:
        group_id, place = decoder.string(), (decoder.string(), decoder.int32())
        return group_id, place, None if value is None else _read_offset(Decoder(value))
    if version == _GROUP_KEY:
        return decoder.string(), None, None if value is None else _read_group(Decoder(value))
    return None


def _check_version(decoder: Decoder) -> int:
    version = decoder.int16()
    if not 0 <= version <= _VALUE_VERSION:
        raise MalformedMessage(f"version {version} of a value in {OFFSETS_TOPIC} is not known")
    return version


def _read_offset(decoder: Decoder) -> CommittedOffset:
    version = _check_version(decoder)
    offset = decoder.int64()
    leader_epoch = decoder.int32() if version >= 3 else -1
    return CommittedOffset(offset, leader_epoch, decoder.string(), decoder.int64())


def _read_group(decoder: Decoder) -> StoredGroup:
    version = _check_version(decoder)
    protocol_type, generation = decoder.string(), decoder.int32()
    protocol, leader_id = decoder.nullable_string(), decoder.nullable_string()
    if version >= 2:
        decoder.int64()
    members = [_read_member(decoder, version, protocol or "") for _ in range(decoder.count(16))]
    return StoredGroup(protocol_type, generation, protocol, leader_id, members)


def _read_member(decoder: Decoder, version: int, protocol: str) -> Member:
    member_id = decoder.string()
    instance_id = decoder.nullable_string() if version >= 3 else None
    member = Member(member_id, instance_id, decoder.string())
    decoder.string()
    rebalance_ms = decoder.int32() if version >= 1 else None
    session_ms = decoder.int32()
    member.session_timeout_us = session_ms * 1000
    member.rebalance_timeout_us = (session_ms if rebalance_ms is None else rebalance_ms) * 1000
    member.protocols = {protocol: bytes(decoder.byte_string())}
    member.assignment = bytes(decoder.byte_string())
    return member


def _string(text: str) -> bytes:
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _nullable(text: str | None) -> bytes:
    return _INT16.pack(-1) if text is None else _string(text)


def _blob(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data
