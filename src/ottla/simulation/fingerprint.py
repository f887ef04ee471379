"""A run's fingerprint: a hash of the messages that crossed the network, and of their effects.

The trace has every message's time, kind, sender and receiver. The effects are: outcomes of records and transactions,
what readers read, and what the replicas store. Compressed bytes are left out, because they depend on the version of a
codec library; records are hashed uncompressed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ottla.audit.chronicles.chronicle import BatchSeen, Chronicle, RecordSeen


def fingerprint(trace_hash: str, chronicle: Chronicle) -> str:
    """The hash of a run, in hexadecimal; `trace_hash` is that of its messages."""
    whole = hashlib.sha256(trace_hash.encode())
    for line in _facts(chronicle):
        whole.update(line.encode())
    return whole.hexdigest()


def _facts(chronicle: Chronicle) -> Iterator[str]:
    for sent in chronicle.sent:
        yield (
            f"{sent.number} {sent.topic} {sent.partition} {sent.key_crc} {sent.value_crc} {sent.headers_crc} "
            f"{sent.sent_us} {sent.outcome} {sent.offset} {sent.told_us} {sent.error}\n"
        )
    for each in chronicle.transactions:
        yield f"{each.number} {each.outcome} {each.began_us} {each.ended_us} {each.offsets}\n"
    for read in chronicle.reads:
        place = f"{read.topic} {read.partition} {read.start} {read.end}"
        yield f"{read.reader} {place} {read.error} {_told(read.records)}\n"
    # Most replicas have the same bytes.
    kept: dict[int, str] = {}
    for replica in chronicle.replicas or ():
        yield f"{replica.broker_id} {replica.topic} {replica.partition} {replica.high_watermark}\n"
        if replica.bytes_crc not in kept:
            kept[replica.bytes_crc] = "".join(_kept(replica.batches))
        yield kept[replica.bytes_crc]


def _kept(batches: list[BatchSeen]) -> Iterator[str]:
    for batch in batches:
        yield (
            f"{batch.base_offset} {batch.leader_epoch} {batch.producer_id} {batch.producer_epoch} "
            f"{batch.base_sequence} {batch.commits} {_told(batch.records)}\n"
        )


def _told(records: list[RecordSeen]) -> str:
    return " ".join(
        f"{each.offset}:{each.number}:{each.key_crc}:{each.value_crc}:{each.headers_crc}" for each in records
    )
