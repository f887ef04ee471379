"""A topic that is to be audited: where it begins and ends, and what kind it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.errors import KafkaError, OttlaError, UserMistake
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from ottla.audit.ledgers.spark import Bounds
    from ottla.client.admin import Admin


@dataclass(slots=True, frozen=True)
class TopicSeen:
    """A topic as it was before it was read: its id, which one made anew does not share, and each partition's offsets.

    `bounds`: {partition: (first offset, end offset)}, the end exclusive.
    """

    name: str
    topic_id: bytes
    bounds: dict[int, tuple[int, int]]
    is_compacted: bool

    @property
    def offsets(self) -> int:
        """How many offsets there are."""
        return sum(end - begin for begin, end in self.bounds.values())


def look_at_topic(bootstrap_servers: str, topic: str, settings: dict[str, Any]) -> TopicSeen:
    """What there is to audit; UserMistake where there is no such topic."""
    from ottla.client.admin import Admin

    with Admin(bootstrap_servers, **settings) as admin:
        try:
            topic_id = admin.describe(topic).topic_id
            begins, ends = admin.begin_offsets(topic), admin.end_offsets(topic)
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise UserMistake(
                f"There is no topic {topic} at {bootstrap_servers}: the name is another one, or the topic was deleted "
                "after the ledger was written, and all its records with it."
            ) from None
        bounds = {partition: (begins[partition], end) for partition, end in ends.items()}
        return TopicSeen(topic, topic_id, bounds, _is_compacted(admin, topic))


def check_still_there(bootstrap_servers: str, seen: TopicSeen, settings: dict[str, Any]) -> None:
    """OttlaError where the topic was deleted, or deleted and made anew, since it was looked at."""
    from ottla.client.admin import Admin

    with Admin(bootstrap_servers, **settings) as admin:
        try:
            topic_id = admin.describe(seen.name).topic_id
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise OttlaError(
                f"The topic {seen.name} was deleted while it was read: what was read of it proves nothing."
            ) from None
    if topic_id != seen.topic_id:
        raise OttlaError(
            f"The topic {seen.name} was deleted and made anew while it was read: what was read of it proves nothing."
        )


def bounds_of(bootstrap_servers: str, topics: Iterable[str], settings: Mapping[str, Any] | None = None) -> Bounds:
    """The first and the end offset of every partition; `settings` are of a reader, as keywords."""
    from ottla.client.admin import Admin

    names = list(topics)
    with Admin(bootstrap_servers, **(settings or {})) as admin:
        begins = {topic: admin.begin_offsets(topic) for topic in names}
        ends = {topic: admin.end_offsets(topic) for topic in names}
    return {topic: {n: (begins[topic][n], end) for n, end in ends[topic].items()} for topic in names}


def _is_compacted(admin: Admin, topic: str) -> bool:
    try:
        policy = admin.describe_configs(topic=topic)["cleanup.policy"].value
    except (KafkaError, KeyError):
        return False  # It may not be asked: what compaction has taken counts as lost then.
    return "compact" in (policy or "").split(",")
