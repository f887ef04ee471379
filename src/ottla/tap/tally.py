"""What was seen in all, for the end of a recording."""

from __future__ import annotations

from ottla.tap.exchange import Entry, Exchange, Outcome, Remark, RemarkKind
from ottla.tap.selection import has_failed

_UNSEEN = (RemarkKind.LOST, RemarkKind.BEGINNING_UNSEEN)


class Tally:
    """Counts entries; `words` says how many there were."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.shown = 0
        self.unanswered = 0
        self.failed = 0
        self.unread = 0
        self.unseen_bytes = 0
        self.has_frames = False
        # Connection -> whether it could be read, and why not.
        self._connections: dict[int, RemarkKind | None] = {}

    def add(self, entry: Entry) -> None:
        """Count an entry."""
        self._connections.setdefault(entry.connection, None)
        if isinstance(entry, Exchange):
            self.exchanges += 1
            self.unanswered += entry.outcome is Outcome.UNANSWERED
            self.failed += has_failed(entry) and entry.outcome is not Outcome.UNANSWERED
            self.unread += entry.unread is not None
            self.unseen_bytes += entry.missing_bytes
            self.has_frames = self.has_frames or entry.request_frame is not None
        else:
            self._add_remark(entry)

    def words(self) -> str:
        """One sentence."""
        parts = [_counted(self.exchanges, "exchange")]
        if self.shown != self.exchanges:
            parts.append(f"{self.shown:,} shown")
        parts.append(f"{self.unanswered:,} unanswered")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.unread:
            parts.append(f"{self.unread:,} not decoded")
        parts.append(_counted(len(self._connections), "connection"))
        for kind, what in ((RemarkKind.TLS, "encrypted"), (RemarkKind.NOT_KAFKA, "not Kafka")):
            count = sum(found is kind for found in self._connections.values())
            if count:
                parts.append(f"{count:,} {what}")
        parts.append(f"{_counted(self.unseen_bytes, 'byte')} unseen")
        return ", ".join(parts)

    def _add_remark(self, remark: Remark) -> None:
        if remark.kind in _UNSEEN:
            self.unseen_bytes += remark.size_bytes
        elif remark.kind in (RemarkKind.TLS, RemarkKind.NOT_KAFKA):
            self._connections[remark.connection] = remark.kind


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
