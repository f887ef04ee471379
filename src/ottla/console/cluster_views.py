"""Brokers, topics and partitions as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.config_admin import ConfigDescription
from ottla.client.log_dirs import LogDirDescription, describe_log_dirs
from ottla.client.partition_offsets import Wanted, partition_offsets
from ottla.console.kafka import Kafka
from ottla.errors import OttlaError, UserMistake
from ottla.reader.position import EARLIEST, LATEST

_SIZES_MS = 5_000
HIDDEN = "[hidden]"


def brokers(kafka: Kafka) -> dict[str, Any]:
    """The cluster's id and its brokers: where they are, what they lead, how much they store."""
    metadata = kafka.metadata(fresh=True)
    leads: dict[int, int] = {}
    holds: dict[int, int] = {}
    for topic in metadata.topics:
        for part in topic.partitions:
            leads[part.leader_id] = leads.get(part.leader_id, 0) + 1
            for replica in part.replica_nodes:
                holds[replica] = holds.get(replica, 0) + 1
    folders, untold = _log_dirs(kafka, [broker.node_id for broker in metadata.brokers])
    return {
        "cluster_id": metadata.cluster_id,
        "controller_id": metadata.controller_id if metadata.controller_id >= 0 else None,
        "sizes_untold": untold,
        "brokers": [
            {
                "id": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "leads": leads.get(broker.node_id, 0),
                "replicas": holds.get(broker.node_id, 0),
                **_stored(folders.get(broker.node_id)),
            }
            for broker in sorted(metadata.brokers, key=lambda each: each.node_id)
        ],
        # Replicas are assigned to them, and they are not there.
        "missing": sorted(set(holds) - {broker.node_id for broker in metadata.brokers}),
    }


def _log_dirs(kafka: Kafka, broker_ids: list[int]) -> tuple[dict[int, tuple[LogDirDescription, ...]], str | None]:
    """The folders of logs by broker, and why some are missing: a user may have no right to see them."""
    try:
        told, error = describe_log_dirs(kafka.driver, dict.fromkeys(broker_ids), _SIZES_MS)
    except OttlaError as error:
        return {}, str(error)
    return told, None if error is None else str(error)


def _stored(folders: tuple[LogDirDescription, ...] | None) -> dict[str, Any]:
    if folders is None:
        return {"bytes": None, "log_dirs": []}
    return {
        "bytes": sum(each.size_bytes for folder in folders for each in folder.replicas),
        "log_dirs": [
            {
                "path": folder.path,
                "error": folder.error,
                "total_bytes": folder.total_bytes,
                "usable_bytes": folder.usable_bytes,
            }
            for folder in folders
        ],
    }


def topics(kafka: Kafka) -> dict[str, Any]:
    """All topics, a short row each."""
    return {
        "topics": [
            {
                "name": topic.name,
                "internal": topic.is_internal,
                "partitions": len(topic.partitions),
                "replication": max((len(part.replica_nodes) for part in topic.partitions), default=0),
                "under_replicated": sum(len(part.isr_nodes) < len(part.replica_nodes) for part in topic.partitions),
                "leaderless": sum(part.leader_id < 0 for part in topic.partitions),
            }
            for topic in sorted(kafka.metadata().topics, key=lambda each: each.name)
            if not topic.error_code
        ]
    }


def topic_sizes(kafka: Kafka) -> dict[str, Any]:
    """{topic: its offsets in use, its bytes with all replicas}; what is not known is left out."""
    leaders = kafka.leaders()
    begins, ends = partition_offsets(kafka.driver, leaders, Wanted(EARLIEST), Wanted(LATEST))
    offsets: dict[str, int] = {}
    for place, end in ends.items():
        if place in begins:
            offsets[place[0]] = offsets.get(place[0], 0) + end - begins[place]
    folders, untold = _log_dirs(kafka, [broker.node_id for broker in kafka.metadata().brokers])
    sizes: dict[str, int] = {}
    for each in (each for of_broker in folders.values() for folder in of_broker for each in folder.replicas):
        sizes[each.topic] = sizes.get(each.topic, 0) + each.size_bytes
    return {"offsets": offsets, "bytes": sizes, "sizes_untold": untold}


def topic(kafka: Kafka, name: str) -> dict[str, Any]:
    """One topic with its partitions; an offset or a size that is not known now is None."""
    found = kafka.topic(name)
    leaders = kafka.leaders(name)
    begins, ends, stable, log_ends = partition_offsets(
        kafka.driver,
        leaders,
        Wanted(EARLIEST),
        Wanted(LATEST),
        Wanted(LATEST, read_committed=True),
        Wanted(LATEST, of_log=True),
    )
    sizes, untold = _replica_sizes(kafka, name, found)
    partitions = []
    for part in sorted(found.partitions, key=lambda each: each.partition_index):
        place = name, part.partition_index
        partitions.append(
            {
                "partition": part.partition_index,
                "leader": part.leader_id if part.leader_id >= 0 else None,
                "leader_epoch": part.leader_epoch,
                "replicas": list(part.replica_nodes),
                "isr": list(part.isr_nodes),
                "log_start_offset": begins.get(place),
                "high_watermark": ends.get(place),
                "last_stable_offset": stable.get(place),
                "log_end_offset": log_ends.get(place),
                "bytes": sizes.get(part.partition_index, {}).get(part.leader_id),
            }
        )
    return {
        "name": name,
        "id": found.topic_id.hex(),
        "internal": found.is_internal,
        "sizes_untold": untold,
        "partitions": partitions,
    }


def _replica_sizes(kafka: Kafka, name: str, found: Any) -> tuple[dict[int, dict[int, int]], str | None]:
    """{partition: {broker id: bytes}}, asked of the brokers that have a replica."""
    wanted: dict[int, dict[str, list[int]]] = {}
    alive = {broker.node_id for broker in kafka.metadata().brokers}
    for part in found.partitions:
        for broker_id in alive.intersection(part.replica_nodes):
            wanted.setdefault(broker_id, {}).setdefault(name, []).append(part.partition_index)
    try:
        told, error = describe_log_dirs(kafka.driver, wanted, _SIZES_MS)
    except OttlaError as error:
        return {}, str(error)
    sizes: dict[int, dict[int, int]] = {}
    for broker_id, folders in told.items():
        for each in (each for folder in folders for each in folder.replicas if not each.is_future):
            sizes.setdefault(each.partition, {})[broker_id] = each.size_bytes
    return sizes, None if error is None else str(error)


def topic_configs(kafka: Kafka, name: str) -> dict[str, Any]:
    """A topic's settings."""
    return {"configs": configs_of(kafka.admin.describe_configs(topic=name))}


def broker_configs(kafka: Kafka, broker_id: int) -> dict[str, Any]:
    """A broker's settings; UserMistake where there is no such broker (any more)."""
    known = sorted(each.node_id for each in kafka.metadata(fresh=True).brokers)
    if broker_id not in known:
        raise UserMistake(f"there is no broker {broker_id} now: there are {', '.join(map(str, known)) or 'none'}")
    return {"configs": configs_of(kafka.admin.describe_configs(broker_id=broker_id))}


def configs_of(found: Mapping[str, ConfigDescription]) -> list[dict[str, Any]]:
    """Settings by name, without what is sensitive."""
    return [
        {
            "name": each.name,
            # Of a sensitive setting brokers do not give the value, only its source.
            "value": HIDDEN if each.is_sensitive and each.source != "default" else each.value,
            "source": each.source,
            "read_only": each.read_only,
        }
        for _, each in sorted(found.items())
    ]
