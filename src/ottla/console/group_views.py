"""Groups with their lag as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.partition_offsets import Place, Wanted, partition_offsets
from ottla.console.kafka import Kafka
from ottla.reader.position import LATEST

# With more groups than these the list has no lag: their offsets would be tens of thousands of numbers.
_LAGS_MAX = 500


def groups(kafka: Kafka) -> dict[str, Any]:
    """All groups, with the lag of each: the sum over its partitions, None where it has committed nothing."""
    seen = kafka.groups.listed()
    offsets: dict[str, dict[Place, int]] = {}
    if len(seen.groups) <= _LAGS_MAX:
        offsets = kafka.groups.offsets({each.group_id: each.coordinator_id for each in seen.groups})
    ends = _ends(kafka, {place for of_group in offsets.values() for place in of_group})
    return {
        "untold": seen.untold,
        "groups": [
            {
                "id": each.group_id,
                "protocol": each.protocol,
                "protocol_type": each.protocol_type,
                "state": each.state,
                "coordinator": each.coordinator_id,
                "lag": _sum(_lags(offsets.get(each.group_id, {}), ends).values()),
            }
            for each in seen.groups
        ],
    }


def group(kafka: Kafka, group_id: str) -> dict[str, Any]:
    """One group: its members, and per partition what is committed, what there is and which member reads it."""
    found = kafka.groups.describe(group_id)
    committed = kafka.groups.offsets({group_id: found.coordinator_id}).get(group_id, {})
    reads = {place: member for member in found.members for place in member.assigned}
    places = sorted(committed.keys() | reads.keys())
    ends = _ends(kafka, set(places))
    lags = _lags(committed, ends)
    topics: dict[str, list[dict[str, Any]]] = {}
    for place in places:
        member = reads.get(place)
        topics.setdefault(place[0], []).append(
            {
                "partition": place[1],
                "committed": committed.get(place),
                "end": ends.get(place),
                "lag": lags.get(place),
                "member": None if member is None else member.member_id,
                "client_id": None if member is None else member.client_id,
            }
        )
    return {
        "id": found.group_id,
        "protocol": found.protocol,
        "state": found.state,
        "assignor": found.assignor,
        "epoch": found.epoch,
        "coordinator": found.coordinator_id,
        "members": [
            {
                "id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "epoch": each.epoch,
                "partitions": len(each.assigned),
            }
            for each in found.members
        ],
        "topics": [
            {
                "topic": name,
                "lag": _sum([part["lag"] for part in parts]),
                "partitions": parts,
            }
            for name, parts in topics.items()
        ],
    }


def _ends(kafka: Kafka, places: set[Place]) -> dict[Place, int]:
    """Where these partitions end; those that were deleted, or have no leader now, are left out."""
    if not places <= kafka.leaders().keys():
        # A topic may be younger than what is known of it.
        kafka.metadata(fresh=True)
    leaders = {place: leader for place, leader in kafka.leaders().items() if place in places}
    return partition_offsets(kafka.driver, leaders, Wanted(LATEST))[0] if leaders else {}


def _lags(committed: Mapping[Place, int], ends: Mapping[Place, int]) -> dict[Place, int]:
    return {place: max(ends[place] - offset, 0) for place, offset in committed.items() if place in ends}


def _sum(lags: Iterable[int | None]) -> int | None:
    known = [each for each in lags if each is not None]
    return sum(known) if known else None
