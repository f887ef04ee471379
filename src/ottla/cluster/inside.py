"""State of the brokers' process as plain values: log files, their synced bytes, producer state, connections.

Each result is of one moment: it is made in the brokers' own thread, and no broker runs meanwhile.
"""

from __future__ import annotations

import sys
from fcntl import ioctl
from termios import FIONREAD
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ottla.errors import OttlaError
from ottla.protocol.apis import REQUESTS

if TYPE_CHECKING:
    from ottla.broker.client_telemetry import ClientInstance

# A partition may have thousands of producers; those that sent last are returned.
_PRODUCERS_MAX = 50


def described_log(log: Any, write_back: Any, known: dict[str, tuple[int, int]]) -> dict[str, Any]:
    """One replica's log; after a power cut now it would end at `synced_offset` or later.

    `known` is kept between two calls for the same broker: {path: (synced bytes, the offset there)}.
    """
    files = [
        {
            "path": each.path,
            "base_offset": each.base_offset,
            "bytes": each.size,
            "synced_bytes": write_back.synced_bytes(each.path, each.size),
        }
        for each in log.segments
    ]
    return {
        "log_start_offset": log.log_start_offset,
        "log_end_offset": log.log_end_offset,
        "synced_offset": _synced_offset(log, files, known),
        "files": files,
        "producers": _producers(log),
    }


def described_connection(client: Any) -> dict[str, Any]:
    """The client of a connection, and the connection's requests."""
    known = client._client
    return {
        "listener": client.listener,
        "address": client.peer,
        "user": known.user,
        "client_id": client.client_id,
        "software_name": known.software_name,
        "software_version": known.software_version,
        "producer_id": known.producer_id if known.producer_id >= 0 else None,
        "request": _request_name(client.stages.api_key) if client._busy else None,
        "requests_in_flight": int(client._busy) + client.queued,
        "unread_bytes": _unread_bytes(client._socket.fileno()),
    }


def described_clients(instances: list[tuple[int, ClientInstance]]) -> list[dict[str, Any]]:
    """The metrics that clients have pushed, as `Cluster.client_metrics` returns them.

    A client may push to one broker now and to another one later: its last push counts.
    """
    heard: dict[bytes, list[tuple[int, ClientInstance]]] = {}
    for broker, instance in instances:
        heard.setdefault(instance.id, []).append((broker, instance))
    found = []
    for of_one in heard.values():
        with_data = [each for each in of_one if each[1].data]
        if not with_data:
            continue
        broker, last = max(with_data, key=lambda each: each[1].taken_us)
        found.append(
            {
                "broker": broker,
                "client_instance_id": str(UUID(bytes=last.id)),
                "client_id": last.client_id,
                "software_name": last.software_name,
                "software_version": last.software_version,
                "is_terminated": max(of_one, key=lambda each: each[1].heard_us)[1].is_terminating,
                "pushes": sum(instance.pushes for _, instance in of_one),
                "resource": last.resource,
                "metrics": last.metrics,
            }
        )
    return found


def described_producers(core: Any, most: int) -> list[dict[str, Any]]:
    """The producers that sent last to the partitions that this broker leads, each with its last batches."""
    rows = [
        {"topic": topic, "partition": partition, **each}
        for topic, replicas in core.topics.items()
        for partition, replica in replicas.items()
        if replica.is_leader and replica.log is not None and replica.log.producers._entries
        for each in _producers(replica.log)
    ]
    rows.sort(key=lambda row: row["last_timestamp_ms"], reverse=True)
    return rows[:most]


def _request_name(api_key: int) -> str | None:
    kind = REQUESTS.get(api_key)
    return None if kind is None else kind.__name__.removesuffix("Request")


def _unread_bytes(descriptor: int) -> int:
    """How many bytes have arrived on a socket and were not read yet."""
    return int.from_bytes(ioctl(descriptor, FIONREAD, bytes(4)), sys.byteorder)


def _synced_offset(log: Any, files: list[dict[str, Any]], known: dict[str, tuple[int, int]]) -> int:
    """The log's end, or the first offset of the first batch that is not synced as a whole."""
    end: int = log.log_end_offset
    for segment, file in zip(log.segments, files, strict=True):
        synced = file["synced_bytes"]
        if synced >= segment.size:
            continue
        found = known.get(segment.path)
        if found is not None and found[0] == synced and segment.base_offset <= found[1] <= end:
            return found[1]
        first, last = segment.base_offset, segment.next_offset if synced else segment.base_offset
        try:
            while first < last:
                middle = (first + last + 1) // 2
                if segment.position_of(middle) <= synced:
                    first = middle
                else:
                    last = middle - 1
        except (OttlaError, OSError):
            pass
        known[segment.path] = synced, int(max(first, log.log_start_offset))
        return known[segment.path][1]
    return end


def _producers(log: Any) -> list[dict[str, Any]]:
    """The producers of a log; their last batches are [first sequence, last sequence, base offset]."""
    rows = sorted(log.producers.entries(), key=lambda row: row.timestamp_ms, reverse=True)
    entries = log.producers._entries
    return [
        {
            "producer_id": row.producer_id,
            "epoch": row.producer_epoch,
            "last_sequence": row.last_sequence,
            "last_timestamp_ms": row.timestamp_ms,
            "transaction_offset": row.current_txn_first_offset if row.current_txn_first_offset >= 0 else None,
            "batches": [list(batch[:3]) for batch in entries[row.producer_id].batches],
        }
        for row in rows[:_PRODUCERS_MAX]
    ]
