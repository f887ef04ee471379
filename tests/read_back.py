"""What a topic holds, decoded by the plain twin of the compiled code."""

from __future__ import annotations

import ottla
from ottla.records.plain import Record, decode_batches


def stored_records(
    cluster: ottla.Cluster, topic: str, isolation_level: str = "read_uncommitted"
) -> dict[int, list[Record]]:
    """The records of each partition that has any, in the order of their offsets.

    Markers of transactions are expected, and left out, only where it is told to read what is committed.
    """
    found: dict[int, list[Record]] = {}
    with ottla.Reader(cluster.bootstrap_servers, topic, isolation_level=isolation_level) as reader:
        for fetched in reader.iter_raw():
            for header, records in decode_batches(fetched.records):
                if header.is_control:
                    assert isolation_level == "read_committed", "a marker where there are no transactions"
                    continue
                found.setdefault(fetched.partition, []).extend(records)
    return found


def stored_in_time(cluster: ottla.Cluster, topic: str) -> list[Record]:
    """All records by their timestamps."""
    found = [record for records in stored_records(cluster, topic).values() for record in records]
    return sorted(found, key=lambda record: record.timestamp_ms)


def stored(cluster: ottla.Cluster, topic: str, isolation_level: str = "read_uncommitted") -> list[bytes]:
    """All values, by partition and offset; TypeError where there is a record without a value."""
    records = stored_records(cluster, topic, isolation_level)
    return [bytes(record.value) for partition in sorted(records) for record in records[partition]]


def stored_count(cluster: ottla.Cluster, topic: str) -> int:
    """How many records there are."""
    return sum(len(records) for records in stored_records(cluster, topic).values())
