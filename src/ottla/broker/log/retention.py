"""Which segments of a log are deleted: by age, by size, and because the log begins behind them.

Segments go as a whole and from the beginning, those below the high watermark only. Where all records are to go, the
segment written to is closed and goes, too. As in Kafka a segment is as old as its newest record; if its records have no
timestamps, its age counts from when this broker first had it. Every replica does this for itself.
"""

from __future__ import annotations

from ottla.broker.log.log import Log
from ottla.broker.log.segment import UNKNOWN, Segment

UNLIMITED = -1


def delete_old_segments(log: Log, high_watermark: int, wall_ms: int) -> int:
    """Drop segments from the log's beginning, as the module says; how many that were. OSError."""
    settings = log.settings
    by_age_and_size = "delete" in settings.cleanup_policy
    excess_bytes = log.size_bytes - settings.retention_bytes if settings.retention_bytes != UNLIMITED else UNLIMITED
    count = 0
    for segment in log.segments:
        if segment.born_ms == UNKNOWN:
            segment.born_ms = wall_ms
    _roll_without_times(log, wall_ms)
    for segment in log.segments:
        end = log.log_end_offset if segment is log.active else segment.next_offset
        if end > high_watermark or (segment is log.active and not segment.size):
            break
        excess_bytes -= segment.size
        if end > log.log_start_offset and not (
            by_age_and_size and (excess_bytes >= 0 or _is_expired(segment, settings.retention_ms, wall_ms))
        ):
            break
        count += 1
    if count:
        if count == len(log.segments):
            log.roll()
        log.drop_segments(count)
    return count


def _roll_without_times(log: Log, wall_ms: int) -> None:
    """Close the segment written to once it is known for `segment.ms`, where its records do not say how old they are."""
    segment = log.active
    if segment.size and segment.oldest_timestamp() < 0 and wall_ms - segment.born_ms > log.segment_ms(segment):
        log.roll()
        log.active.born_ms = wall_ms


def _is_expired(segment: Segment, retention_ms: int, wall_ms: int) -> bool:
    if retention_ms == UNLIMITED:
        return False
    newest = segment.max_timestamp
    if newest < 0:
        newest = segment.born_ms
    return wall_ms - newest > retention_ms
