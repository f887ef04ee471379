"""From options to partitions and offsets, by asking the brokers: the planning of batches and of streams.

What cannot be read is refused here, before any task runs: topics and partitions that do not exist or may not be read,
settings that cannot be used, offsets that are gone, times later than all records.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.client.offset_lookup import OffsetLookup
from ottla.errors import TOPIC_NAMES, ConfigError, KafkaError, OttlaError, UserMistake
from ottla.sink.settings import SINK_TOPICS
from ottla.spark.filters import begin_at, narrow_ranges, oldest_ms
from ottla.spark.limits import EARLIEST_OFFSET, LATEST_OFFSET, Limit
from ottla.spark.offset_ranges import OffsetRange, Place, check_named, place_limit, plan_ranges, split_ranges, time_of
from ottla.spark.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_log = logging.getLogger("ottla.spark")

_REFUSED_TOPICS = {
    "UNKNOWN_TOPIC_OR_PARTITION": "does not exist: check its name, or create it first",
    "INVALID_TOPIC_EXCEPTION": f"is no name of a topic: allowed are {TOPIC_NAMES}",
    "TOPIC_AUTHORIZATION_FAILED": "this user may not read: have it granted DESCRIBE and READ on the topic",
}


class PartitionsToRead:
    """The partitions that a query's options mean, by what the cluster has; keeps its connections until closed."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        try:
            self.lookup = OffsetLookup(options.bootstrap_servers, **options.settings)  # type: ignore[arg-type]
        except ConfigError as error:
            raise ConfigError(f"Among the options that begin with kafka.: {error}") from None
        self._places: tuple[Place, ...] = ()
        self._topic_ids: dict[str, bytes] = {}
        self.made_anew: dict[str, None] = {}
        """Topics that were deleted and made anew, as far as this process has seen it; their owner removes them."""
        self._asked_at: float | None = None

    def find(self, max_age_s: float = 0.0) -> tuple[Place, ...]:
        """(topic, partition) in order, as the cluster had them at most `max_age_s` ago."""
        max_age_s = min(max_age_s, self.lookup.metadata_max_age_s)
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= max_age_s:
            try:
                self._places = self._ask()
                if self._asked_at is None:
                    self._look_closer()
            except KafkaError as error:
                raise explained(error, self._option) from None
            self._asked_at = now
        return self._places

    @property
    def _option(self) -> str:
        """The one that says what to read."""
        if self._options.pattern is not None:
            return "subscribePattern"
        return "assign" if self._options.assigned is not None else "subscribe"

    def _look_closer(self) -> None:
        """Check rights before any task runs: KafkaError for topics this user may not read; warn if it sees no topic."""
        self.lookup.check_readable(sorted({topic for topic, _ in self._places}))
        if self._options.pattern is not None and not self._places:
            _log.warning(
                "no topic matches the option subscribePattern (%s); topics on which this user has no DESCRIBE are not "
                "seen",
                self._options.pattern.pattern,
            )

    def close(self) -> None:
        """Close the connections."""
        self.lookup.close()

    def _ask(self) -> tuple[Place, ...]:
        options, lookup = self._options, self.lookup
        if options.pattern is not None:
            # Not the sink's topics: a stream that also writes would find new records in them for ever.
            topics = [name for name in lookup.topics() if options.pattern.search(name) and name not in SINK_TOPICS]
            found = lookup.known_partitions(topics)
        elif options.assigned is not None:
            found = lookup.partitions(sorted(options.assigned))
            for topic, partitions in options.assigned.items():
                for partition in partitions:
                    if partition not in found[topic]:
                        raise UserMistake(
                            f"The option assign names partition {partition} of {topic}, which has {len(found[topic])} "
                            "partitions, counted from 0."
                        )
            found = options.assigned
        else:
            found = lookup.partitions(options.topics or ())
        self._watch(found)
        return tuple((topic, partition) for topic in sorted(found) for partition in sorted(found[topic]))

    def _watch(self, topics: Iterable[str]) -> None:
        """Note topics that were deleted and made anew; offsets do not show it if the new topic has as many records."""
        for topic in topics:
            now = self.lookup.topic_ids[topic]
            if self._topic_ids.setdefault(topic, now) != now:
                self._topic_ids[topic] = now
                self.made_anew[topic] = None

    def are_the_same(self) -> bool:
        """Whether no topic was deleted and made anew since `find`.

        Offsets are requested by the topic's name, so those requested since `find` may be those of a new topic.
        """
        known = dict(self._topic_ids)
        self.find()
        return all(self._topic_ids[topic] == topic_id for topic, topic_id in known.items())

    def identified(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The ranges, marked as planned together, with their topics' ids: a task reads no other topic of that name."""
        plan, none = os.urandom(8).hex(), bytes(16)
        ids = {topic: topic_id for topic, topic_id in self._topic_ids.items() if topic_id != none}
        return [replace(span, topic_id=ids.get(span.topic, b""), plan=plan) for span in ranges]


def explained(error: KafkaError, option: str) -> OttlaError:
    """What a broker says of a topic as a sentence about the option that names it."""
    why = _REFUSED_TOPICS.get(error.name)
    if why is None:
        return error
    return UserMistake(f"The option {option} names topic {error.topic!r}, which {why}.", topic=error.topic)


def plan_batch(options: SourceOptions, filters: Sequence[Filter] = ()) -> list[OffsetRange]:
    """The ranges that a batch reads; ranges of which no record can pass the filters are left out."""
    partitions = PartitionsToRead(options)
    try:
        places = partitions.find()
        starts, ends = resolve_limits([options.start, options.end], options, partitions.lookup, places)
        ranges = narrow_ranges(plan_ranges(starts, ends), filters)
        since_ms = oldest_ms(filters)
        if since_ms is not None and ranges:
            asked = {(span.topic, span.partition): since_ms for span in ranges}
            (youngest,) = partitions.lookup.offsets_of([asked])
            ranges = begin_at(ranges, youngest)
        ranges = partitions.identified(ranges)
    finally:
        partitions.close()
    return split_ranges(ranges, options.min_partitions, options.max_records_per_partition)


def resolve_limits(
    limits: Sequence[Limit], options: SourceOptions, lookup: OffsetLookup, places: Sequence[Place]
) -> list[dict[Place, int]]:
    """The offsets that these limits mean in each partition, all asked at the same time."""
    wanted: list[Mapping[Place, int]] = [dict.fromkeys(places, EARLIEST_OFFSET), dict.fromkeys(places, LATEST_OFFSET)]
    for limit in limits:
        if limit.named is not None:
            check_named(limit, places)
        by_time = limit.time_ms is not None or limit.times_ms is not None
        wanted.append({place: time_of(limit, place) for place in places} if by_time else {})
    first, end, *times = lookup.offsets_of(wanted)
    return [
        place_limit(limit, places, first, end, found, fail_on_data_loss=options.fail_on_data_loss)
        for limit, found in zip(limits, times, strict=True)
    ]
