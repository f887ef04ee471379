"""What a topic holds, decoded by the plain twin of the compiled code; markers of transactions are left out."""

from __future__ import annotations

from typing import Any

import ottla
from ottla.records.plain import Record, decode_batches


def stored_records(cluster: ottla.Cluster, topic: str, **settings: Any) -> dict[int, list[Record]]:
    """The records of each partition that has any, in the order of their offsets; `settings` are the reader's."""
    found: dict[int, list[Record]] = {}
    with ottla.Reader(cluster.bootstrap_servers, topic, **settings) as reader:
        for fetched in reader.iter_raw():
            for header, records in decode_batches(fetched.records):
                if not header.is_control:
                    found.setdefault(fetched.partition, []).extend(records)
    return found


def stored(cluster: ottla.Cluster, topic: str, **settings: Any) -> list[bytes]:
    """All values, by partition and offset; an absent one is empty."""
    records = stored_records(cluster, topic, **settings)
    return [bytes(record.value or b"") for partition in sorted(records) for record in records[partition]]
