"""In the wrong place: a record stands in another topic or partition than it was sent to, or than its key asks for.

Promise: a partition that the sender chose is taken; otherwise the default partitioner takes murmur2 of the key modulo
the number of partitions, as Java's `BuiltInPartitioner` does, so that every client puts a key into the same partition.
The hash is written out here from its definition, on purpose without the producer's.

Not observable: keys hashed while a topic was given more partitions, and partitioners of one's own (`hashed_key` None).
"""

from __future__ import annotations

from ottla.audit.chronicles.case import Case
from ottla.audit.chronicles.chronicle import SentRecord
from ottla.audit.findings import EVIDENCE_MAX, MISPLACED, Finding, Findings
from ottla.ledger.schema import NO_PARTITION

_MASK = 0xFFFFFFFF
_SEED, _FACTOR = 0x9747B28C, 0x5BD1E995


def check_placement(case: Case, evidence_max: int = EVIDENCE_MAX) -> Finding:
    """Records sent to another partition than was asked for, and records read where they were not sent."""
    found = Findings(MISPLACED, evidence_max)
    hashes: dict[bytes, int] = {}
    for sent in case.chronicle.sent:
        if sent.partition == NO_PARTITION:
            continue
        wanted, why = sent.chosen_partition, "was chosen by its sender"
        topic = case.topics.get(sent.topic)
        if wanted < 0 and sent.hashed_key is not None and topic is not None:
            digest = hashes.get(sent.hashed_key)
            if digest is None:
                digest = hashes[sent.hashed_key] = murmur2(sent.hashed_key) & 0x7FFFFFFF
            wanted, why = digest % topic.partitions, "its key asks for"
        if wanted >= 0 and wanted != sent.partition:
            found.add(
                f"record {sent.number} was sent to partition {sent.partition} of {sent.topic}; {wanted} {why}",
                place=(sent.topic, sent.partition),
                number=sent.number,
                at_us=sent.sent_us,
            )
    for place, shown in case.readings.shown():
        sent_as = case.sent.get(shown.record.number)
        if sent_as is not None and not any((each.topic, each.partition) == place for each in sent_as):
            _add_stray(found, place, shown.record.offset, sent_as[0], shown.first.ended_us)
    return found.finding()


def _add_stray(found: Findings, place: tuple[str, int], offset: int, sent: SentRecord, at_us: int) -> None:
    found.add(
        f"record {sent.number} was sent to {sent.topic}-{sent.partition} and stands in {place[0]}-{place[1]} at offset "
        f"{offset}",
        place=place,
        number=sent.number,
        offsets=(offset,),
        at_us=at_us,
    )


def murmur2(key: bytes) -> int:
    """Austin Appleby's MurmurHash2 of 32 bits with Kafka's seed, unsigned."""
    state = (_SEED ^ len(key)) & _MASK
    words, rest = divmod(len(key), 4)
    for index in range(words):
        word = int.from_bytes(key[4 * index : 4 * index + 4], "little") * _FACTOR & _MASK
        word ^= word >> 24
        state = state * _FACTOR & _MASK ^ word * _FACTOR & _MASK
    if rest:
        state ^= int.from_bytes(key[4 * words :], "little")
        state = state * _FACTOR & _MASK
    state ^= state >> 13
    state = state * _FACTOR & _MASK
    return state ^ state >> 15
