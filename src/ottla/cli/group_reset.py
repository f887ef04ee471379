"""What `ottla groups reset` makes of a group's offsets: planned first, and committed only if that is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.where import Where, check_partitions
from ottla.errors import KafkaError, UserMistake
from ottla.protocol.error_codes import ErrorCode
from ottla.reader.position import timestamp_ms

if TYPE_CHECKING:
    from ottla.client.group_admin import GroupAdmin
    from ottla.client.offset_lookup import OffsetLookup
    from ottla.client.partition_offsets import Place

_EARLIEST, _LATEST = -2, -1


class Planned(NamedTuple):
    """One partition: the offset that the group has committed (None: none), and the one that it is to have."""

    place: Place
    committed: int | None
    new: int
    first: int
    end: int


def plan_reset(
    groups: GroupAdmin, lookup: OffsetLookup, group_id: str, topics: Sequence[str], partitions: Sequence[int], to: Where
) -> list[Planned]:
    """Where the group would go on in each partition, within what there is; UserMistake where it cannot be moved.

    `topics`: none for all that the group has committed offsets of; `partitions`: none for all, else those of one topic.
    """
    committed = _committed(groups, group_id, is_named=bool(topics))
    if topics:
        known = lookup.partitions(topics)
        for topic in topics:
            check_partitions(topic, partitions, known[topic])
        places = [(topic, each) for topic in topics for each in partitions or known[topic]]
    else:
        places = list(committed)
        if not places:
            raise UserMistake(f"group {group_id!r} has committed no offsets: give --topic")
    places = sorted(set(places))
    asked = [dict.fromkeys(places, _EARLIEST), dict.fromkeys(places, _LATEST)]
    if isinstance(to, datetime):
        asked.append(dict.fromkeys(places, timestamp_ms(to)))
    firsts, ends, *at_time = lookup.offsets_of(asked)
    planned = []
    for place in places:
        first, end = firsts[place], ends[place]
        wanted = at_time[0][place] if at_time else {"earliest": first, "latest": end}.get(str(to), to)
        # No record has that timestamp or a later one.
        new = end if wanted == _LATEST else max(first, min(int(str(wanted)), end))
        planned.append(Planned(place, committed.get(place), new, first, end))
    return planned


def _committed(groups: GroupAdmin, group_id: str, *, is_named: bool) -> dict[Place, int]:
    """What the group has committed; a group that there is not has nothing, where topics are named for it."""
    try:
        found = groups.describe(group_id)
    except KafkaError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND and is_named:
            return {}
        raise
    if found.members:
        count = len(found.members)
        raise UserMistake(
            f"group {group_id!r} has {count} member{'s' * (count != 1)} ({found.state}), which would go on from their "
            "own offsets: stop them first"
        )
    return groups.offsets({group_id: found.coordinator_id}).get(group_id, {})
