"""The records of consumer groups (KIP-848) in `__consumer_offsets`, in Kafka's own layouts.

Each part of a group has a record of its own; its key begins with a version that says which part it is. Keys are of
the older kind (lengths in two bytes), values of the flexible one, and of version 0; a null value deletes the key's
record. So Apache Kafka's tools read these logs.

    3 the group           group                   epoch int32 | tag 0: hash of the topics' metadata int64
    5 a member            group, member           instance, rack nullable string | client id, host string
                                                  | topic names | pattern nullable string
                                                  | rebalance timeout int32 | assignor nullable string
    6 the target's epoch  group                   assignment epoch int32
    7 a member's target   group, member           topics: id, partitions
    8 what a member owns  group, member           epoch, previous epoch int32 | state int8 | topics assigned
                                                  | topics to give up; each: id, partitions, tag 0: assignment epochs

Kafka also keeps (16) which topics a pattern has matched. Here each coordinator finds that out for itself.
"""

from __future__ import annotations

from struct import Struct

from ottla.broker.groups.assignors import TopicPartition
from ottla.broker.groups.consumer_group import ConsumerGroup, Part
from ottla.broker.groups.consumer_member import ConsumerMember, MemberState
from ottla.broker.internal_topics import Pair
from ottla.broker.topic_names import OFFSETS_TOPIC
from ottla.protocol.errors import MalformedMessage
from ottla.protocol.primitives import Decoder, Encoder

_PARTS = {3: Part.GROUP, 5: Part.MEMBER, 6: Part.TARGET_EPOCH, 7: Part.TARGET, 8: Part.CURRENT}
_KEY_VERSIONS = {part: version for version, part in _PARTS.items()}
_OF_MEMBERS = (Part.MEMBER, Part.TARGET, Part.CURRENT)
_INT8 = Struct(">b")
_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")


def unsaved_pairs(group: ConsumerGroup) -> list[Pair]:
    """A record for every part of the group that has changed; a null value for parts of members that are gone."""
    return [(_key(group.group_id, *part), _value(group, *part)) for part in group.unsaved]


def deletion_pairs(group: ConsumerGroup) -> list[Pair]:
    """Records that delete a group without members."""
    return [(_key(group.group_id, part, ""), None) for part in (Part.TARGET_EPOCH, Part.GROUP)]


def part_of_key(key: bytes) -> tuple[str, Part, str] | None:
    """(group, part, member or "") of a key; None for keys of other records. MalformedMessage."""
    decoder = Decoder(key)
    part = _PARTS.get(decoder.int16())
    if part is None:
        return None
    return decoder.string(), part, decoder.string() if part in _OF_MEMBERS else ""


def take_record(group: ConsumerGroup, part: Part, member_id: str, value: bytes | None) -> None:
    """Put what a record says into its group; MalformedMessage. A MEMBER record without a value removes the member."""
    if value is None:
        if part is Part.MEMBER:
            group.members.pop(member_id, None)
        return
    decoder = _decoder(value)
    if part is Part.GROUP:
        group.epoch, group.metadata_hash = decoder.int32(), _tagged_int64(decoder)
    elif part is Part.TARGET_EPOCH:
        group.assignment_epoch = decoder.int32()
    else:
        member = group.members.setdefault(member_id, ConsumerMember(member_id))
        if part is Part.MEMBER:
            _read_member(member, decoder)
        elif part is Part.TARGET:
            member.target = dict.fromkeys(_read_partitions(decoder))
        else:
            member.epoch, member.previous_epoch = decoder.int32(), decoder.int32()
            member.state = _state(decoder.int8())
            member.assigned, member.revoking = _read_partitions(decoder), _read_partitions(decoder)


def _key(group_id: str, part: Part, member_id: str) -> bytes:
    encoder = Encoder(_INT16.pack(_KEY_VERSIONS[part]))
    encoder.string(group_id)
    if part in _OF_MEMBERS:
        encoder.string(member_id)
    return b"".join(encoder.chunks())


def _value(group: ConsumerGroup, part: Part, member_id: str) -> bytes | None:
    encoder = Encoder(_INT16.pack(0))
    if part is Part.GROUP:
        encoder.out += _INT32.pack(group.epoch)
        metadata_hash = Encoder()
        metadata_hash.out += _INT64.pack(group.metadata_hash)
        encoder.tagged_fields([(0, metadata_hash)] if group.metadata_hash else [])
        return b"".join(encoder.chunks())
    if part is Part.TARGET_EPOCH:
        encoder.out += _INT32.pack(group.assignment_epoch)
    else:
        member = group.members.get(member_id)
        if member is None:
            return None
        if part is Part.MEMBER:
            _write_member(encoder, member)
        elif part is Part.TARGET:
            _write_partitions(encoder, dict.fromkeys(member.target, -1))
        else:
            encoder.out += _INT32.pack(member.epoch) + _INT32.pack(member.previous_epoch) + _INT8.pack(member.state)
            _write_partitions(encoder, member.assigned)
            _write_partitions(encoder, member.revoking)
    encoder.tagged_fields([])
    return b"".join(encoder.chunks())


def _write_member(encoder: Encoder, member: ConsumerMember) -> None:
    encoder.nullable_compact_string(member.instance_id)
    encoder.nullable_compact_string(member.rack_id)
    encoder.compact_string(member.client_id)
    encoder.compact_string("")
    encoder.compact_count([*member.topic_names])
    for name in member.topic_names:
        encoder.compact_string(name)
    encoder.nullable_compact_string(member.topic_regex)
    encoder.out += _INT32.pack(member.rebalance_timeout_ms)
    encoder.nullable_compact_string(member.assignor)


def _read_member(member: ConsumerMember, decoder: Decoder) -> None:
    member.instance_id = decoder.nullable_compact_string()
    member.rack_id = decoder.nullable_compact_string()
    member.client_id = decoder.compact_string()
    decoder.compact_string()
    member.topic_names = tuple(decoder.compact_string() for _ in range(decoder.compact_count(1)))
    member.topic_regex = decoder.nullable_compact_string() or ""
    member.rebalance_timeout_ms = decoder.int32()
    member.assignor = decoder.nullable_compact_string()


def _write_partitions(encoder: Encoder, partitions: dict[TopicPartition, int]) -> None:
    """Topic by topic; epochs of -1 are left out."""
    topics: dict[bytes, dict[int, int]] = {}
    for (topic_id, index), epoch in sorted(partitions.items()):
        topics.setdefault(topic_id, {})[index] = epoch
    encoder.compact_count([*topics])
    for topic_id, epochs in topics.items():
        encoder.uuid(topic_id)
        encoder.compact_count([*epochs])
        encoder.numbers([*epochs], "i")
        tags = []
        if any(epoch >= 0 for epoch in epochs.values()):
            told = Encoder()
            told.compact_count([*epochs])
            told.numbers([*epochs.values()], "i")
            tags = [(0, told)]
        encoder.tagged_fields(tags)


def _read_partitions(decoder: Decoder) -> dict[TopicPartition, int]:
    partitions: dict[TopicPartition, int] = {}
    for _ in range(decoder.compact_count(18)):
        topic_id = decoder.uuid()
        indexes = decoder.numbers(decoder.compact_count(4), "i", 4)
        epochs = [0] * len(indexes)
        for tag, field in decoder.tagged_fields():
            if tag == 0:
                epochs = field.numbers(field.compact_count(4), "i", 4)
        partitions.update(((topic_id, index), epoch) for index, epoch in zip(indexes, epochs, strict=False))
    return partitions


def _decoder(value: bytes) -> Decoder:
    decoder = Decoder(value)
    version = decoder.int16()
    if version != 0:
        raise MalformedMessage(f"version {version} of a consumer group's value in {OFFSETS_TOPIC} is not known")
    return decoder


def _state(number: int) -> MemberState:
    try:
        return MemberState(number)
    except ValueError:
        raise MalformedMessage(f"a member's state {number} is not known") from None


def _tagged_int64(decoder: Decoder) -> int:
    fields = (field.int64() for tag, field in decoder.tagged_fields() if tag == 0)
    return next(fields, 0)
