"""How many bytes a record of each partition takes, on average: what the option maxBytesPerTrigger is computed from.

Brokers tell how large a partition's log is on their disks (DescribeLogDirs), and which offsets it holds, but not how
many bytes lie before an offset. So the size is divided by the number of offsets. These are bytes as stored: compressed,
with everything that Kafka stores beside the records. The average is over all that the partition holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from ottla.client.offset_lookup import OffsetLookup
from ottla.errors import KafkaError, UserMistake
from ottla.spark.limits import EARLIEST_OFFSET, LATEST_OFFSET
from ottla.spark.offset_ranges import Place
from ottla.spark.stream_offsets import count_available

# How old an average may be: each look costs a request to each leader, and the broker measures its folders.
_MAX_AGE_S = 10.0


class BytesPerOffset:
    """Looks at the sizes of partitions, and remembers their averages for a while."""

    def __init__(self, lookup: OffsetLookup) -> None:
        self._lookup = lookup
        self._averages: dict[Place, float] = {}
        self._looked_at: float | None = None

    def check(self, places: Iterable[Place]) -> None:
        """Raise UserMistake where brokers do not tell this user the sizes of these partitions."""
        self._sizes(places)

    def most_offsets(self, begin: Mapping[Place, int], latest: Mapping[Place, int], most_bytes: int) -> int:
        """How many of the offsets between these two fill so many bytes, when each partition gives the same part."""
        averages = self._averages_of([place for place, end in latest.items() if end > begin[place]])
        available = sum(average * (latest[place] - begin[place]) for place, average in averages.items())
        count = count_available(begin, latest)
        return count if available <= most_bytes else int(count * most_bytes / available)

    def _averages_of(self, places: list[Place]) -> dict[Place, float]:
        max_age_s = min(_MAX_AGE_S, self._lookup.metadata_max_age_s)
        is_old = self._looked_at is None or time.monotonic() - self._looked_at >= max_age_s
        # A partition that held nothing at the last look has no average yet.
        if is_old or not all(place in self._averages for place in places):
            self._look(places)
        return {place: self._averages.get(place, 0.0) for place in places}

    def _look(self, places: list[Place]) -> None:
        sizes = self._sizes(places)
        # Up to the end of the log, also behind an open transaction: the size is that of the whole log.
        first, end = self._lookup.offsets_of(
            [dict.fromkeys(places, EARLIEST_OFFSET), dict.fromkeys(places, LATEST_OFFSET)], read_committed=False
        )
        self._averages = {
            place: sizes[place] / (end[place] - first[place]) for place in places if end[place] > first[place]
        }
        self._looked_at = time.monotonic()

    def _sizes(self, places: Iterable[Place]) -> dict[Place, int]:
        try:
            return self._lookup.sizes(places)
        except KafkaError as error:
            if error.name not in ("CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION"):
                raise
            raise UserMistake(
                f"The option maxBytesPerTrigger needs the sizes of partitions, and brokers do not tell them: {error}. "
                "Have this user granted DESCRIBE on the cluster, or use maxOffsetsPerTrigger instead."
            ) from None
