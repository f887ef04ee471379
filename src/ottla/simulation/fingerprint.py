"""A run's fingerprint: what crossed the network, and what came of it for all who took part.

The trace has every message's time, kind and way; here its contents follow as far as they made a difference: what
senders were told, what transactions came to, what readers were given, and what the replicas keep. Compressed bytes stay
out, for they depend on the version of a codec library; records go in as they were before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ottla.audit.chronicles.chronicle import BatchSeen, Chronicle, RecordSeen


def fingerprint(trace_hash: str, chronicle: Chronicle) -> str:
    """The hash of a run, in hexadecimal; `trace_hash` is of its messages."""
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
    # Replicas mostly hold the same.
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
