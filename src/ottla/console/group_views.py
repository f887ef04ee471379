"""Groups with their lag as JSON.

A partition whose end or whose committed offset is not known has no lag. The lag of a group, or of a topic in it, is the
sum of those that are known, and `lag_unknown` says how many partitions it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.client.group_admin import CLASSIC, CONSUMER, ListedGroup
from ottla.client.partition_offsets import Place, Wanted, partition_offsets
from ottla.console.kafka import Kafka
from ottla.reader.position import EARLIEST, LATEST

# With more groups than these the list has no lag: their offsets would be tens of thousands of numbers.
_LAGS_MAX = 500
_WITHOUT_MEMBERS = ("", "Empty", "Dead")

Committed = Mapping[Place, int]


def groups(kafka: Kafka) -> dict[str, Any]:
    """All groups, with the lag of each: None where it has committed nothing; `lags_untold` says why some have none."""
    seen = kafka.groups.listed()
    offsets: dict[str, dict[Place, int]] = {}
    if is_few := len(seen.groups) <= _LAGS_MAX:
        offsets = kafka.groups.offsets({each.group_id: each.coordinator_id for each in seen.groups})
    partitions = _partitions(kafka, {place for of_group in offsets.values() for place in of_group})
    places = {each.group_id: _read_by(each, offsets.get(each.group_id, {}), partitions) for each in seen.groups}
    uncommitted = {place for each, of_group in places.items() for place in of_group - offsets.get(each, {}).keys()}
    lags = _Lags(kafka, {place for of_group in places.values() for place in of_group}, uncommitted, partitions)
    untold = None
    if not is_few:
        untold = (
            f"with more than {_LAGS_MAX} groups the list has no lags, and there are {len(seen.groups)}: "
            "each group's own view has its lag"
        )
    elif lacking := sum(each.group_id not in offsets and _has_offsets(each) for each in seen.groups):
        untold = f"lags that are not known, because a coordinator did not tell what is committed: {lacking}"
    return {
        "untold": seen.untold,
        "lags_untold": untold,
        "groups": [
            {
                "id": each.group_id,
                "protocol": each.protocol,
                "protocol_type": each.protocol_type,
                "state": each.state,
                "coordinator": each.coordinator_id,
                **_sum(lags.of(offsets.get(each.group_id, {}), places[each.group_id]).values()),
            }
            for each in seen.groups
        ],
    }


def group(kafka: Kafka, group_id: str) -> dict[str, Any]:
    """One group: its members, and per partition what is committed, what there is and which member reads it."""
    found = kafka.groups.describe(group_id)
    told = kafka.groups.offsets({group_id: found.coordinator_id}).get(group_id)
    committed = told or {}
    reads = {place: member for member in found.members for place in member.assigned}
    places = sorted(committed.keys() | reads.keys())
    known = _Lags(kafka, set(places), set(places) - committed.keys(), _partitions(kafka, set(places)))
    lags = known.of(committed, places)
    topics: dict[str, list[dict[str, Any]]] = {}
    for place in places:
        member = reads.get(place)
        topics.setdefault(place[0], []).append(
            {
                "partition": place[1],
                "committed": committed.get(place),
                "end": known.ends.get(place),
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
        "offsets_untold": None if told is not None else "the coordinator did not tell what the group has committed",
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
                **_sum(lags[name, part["partition"]] for part in parts if (name, part["partition"]) in lags),
                "partitions": parts,
            }
            for name, parts in topics.items()
        ],
    }


def lag_told(row: Mapping[str, Any], nothing: str = "-") -> str:
    """A `lag` with its `lag_unknown`, for people."""
    if row["lag"] is None:
        return nothing
    return f"{'at least ' if row['lag_unknown'] else ''}{row['lag']:,}"


def _has_offsets(listed: ListedGroup) -> bool:
    """Share groups have none that a consumer group has."""
    return listed.protocol in ("", CLASSIC, CONSUMER)


def _partitions(kafka: Kafka, places: set[Place]) -> dict[str, set[int]]:
    """{topic: its partitions} of all topics."""
    for is_fresh in (False, True):
        topics = kafka.metadata(fresh=is_fresh).topics
        found = {each.name: {part.partition_index for part in each.partitions} for each in topics}
        # A topic may be younger than what is known of it.
        if all(partition in found.get(topic, ()) for topic, partition in places):
            break
    return found


def _read_by(listed: ListedGroup, committed: Committed, partitions: Mapping[str, set[int]]) -> set[Place]:
    """What a group reads: where it has committed offsets; while it has members, the whole topics."""
    if listed.protocol_type != "consumer" or listed.state in _WITHOUT_MEMBERS:
        return set(committed)
    topics = {topic for topic, _ in committed}
    return {*committed, *((topic, number) for topic in topics for number in partitions.get(topic, ()))}


class _Lags:
    """Where partitions end, and with that the lags of groups in them."""

    def __init__(
        self,
        kafka: Kafka,
        places: set[Place],
        uncommitted: set[Place],
        partitions: Mapping[str, set[int]],
    ) -> None:
        self._partitions = partitions
        leaders = {place: leader for place, leader in kafka.leaders().items() if place in places}
        self._begins: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        if leaders:
            # Of a partition without any record the lag is 0, even where nothing is committed.
            wanted = [Wanted(LATEST), *([Wanted(EARLIEST)] if uncommitted else [])]
            self.ends, *begins = partition_offsets(kafka.driver, leaders, *wanted)
            self._begins = begins[0] if begins else {}

    def of(self, committed: Committed, places: Iterable[Place]) -> dict[Place, int | None]:
        """A group's lag by partition, None where it is not known; partitions that were deleted are left out."""
        return {
            (topic, partition): self._lag(committed, (topic, partition))
            for topic, partition in places
            if partition in self._partitions.get(topic, ())
        }

    def _lag(self, committed: Committed, place: Place) -> int | None:
        end = self.ends.get(place)
        if end is None:
            return None
        if place in committed:
            return max(end - committed[place], 0)
        return 0 if self._begins.get(place) == end else None


def _sum(lags: Iterable[int | None]) -> dict[str, int | None]:
    every = list(lags)
    known = [each for each in every if each is not None]
    return {"lag": sum(known) if known else None, "lag_unknown": len(every) - len(known)}
