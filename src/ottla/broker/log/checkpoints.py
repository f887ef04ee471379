"""A broker's checkpoint files: text with one offset for each of its logs (Kafka's format, version 0).

    0
    2                 the number of lines that follow
    flights 0 4711    topic, partition, offset
    flights 1 4823

They are written now and then, and without a sync: what a start finds may be older than what was written last. A line
that is too low costs time. With one that is too high, unchecked records would count as checked, or records would be
hidden. So a line is lowered (`retract`) when its log is cut below it, before the log takes records again, and before
another log begins in the same folder.

Invariant: no line on the disk, whatever a power cut leaves of it, says more than its log had when the line was written,
nor more than a cut log had left when it takes records again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.broker.storage import Storage

# What is not known any more must be found again; the driver shows what is logged.
logger = logging.getLogger("ottla.broker")

_VERSION = 0


class Checkpoint:
    """One file; a damaged one counts as empty. `unopened`: the offsets of logs not opened since it was read."""

    __slots__ = ("_content", "_lines", "_name", "_said", "_storage", "unopened")

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._content: bytes | None = None
        # The lines written last, and the highest offsets that a start might find in the file; None: not known.
        self._lines: dict[str, int] = {}
        self._said: dict[str, int] | None = None
        try:
            self._lines = _offsets_in(storage.read_file(name) or b"")
            self._said = dict(self._lines)
        except OSError as error:
            logger.warning("%s cannot be read (%s), and what it says is not known", name, error.strerror or error)
        self.unopened = dict(self._lines)

    def write(self, offsets: Mapping[str, int]) -> None:
        """Write these offsets by log folder, unless the file has them; unopened logs keep their lines. OSError."""
        self._write({**self.unopened, **offsets}, synced=False)

    def retract(self, folder: str, end: int) -> None:
        """Lower a log's line to `end` if the file on the disk may say more, even after a power cut; OSError.

        Lines of folders that are gone are left out then: a new log in such a folder needs no write.
        """
        said = self._said
        if said is not None and said.get(folder, 0) <= end:
            return
        exists = self._storage.exists
        kept = {each: offset for each, offset in self._lines.items() if each != folder and exists(each)}
        before = self._lines.get(folder, 0)
        if end and before:
            kept[folder] = min(before, end)
        self._write(kept, synced=True)

    def _write(self, lines: dict[str, int], *, synced: bool) -> None:
        rows = []
        for folder, offset in lines.items():
            topic, _, partition = folder.rpartition("-")
            rows.append(f"{topic} {partition} {offset}\n")
        content = f"{_VERSION}\n{len(rows)}\n{''.join(rows)}".encode()
        if content == self._content and not synced:
            return
        self._storage.write_file(self._name, content, synced=synced)
        self._content, self._lines = content, lines
        if synced:
            self._said = dict(lines)
        elif self._said is not None:
            # Without a sync, a start may still find the content before this one.
            for folder, offset in lines.items():
                if offset > self._said.get(folder, 0):
                    self._said[folder] = offset


def _offsets_in(content: bytes) -> dict[str, int]:
    """The offsets by log folder; none where the file is missing or damaged."""
    try:
        version, count, *lines = content.decode("ascii").splitlines()
        found = {}
        for line in lines:
            topic, partition, offset = line.split(" ")
            if int(partition) < 0 or int(offset) < 0:
                return {}
            found[f"{topic}-{int(partition)}"] = int(offset)
    except ValueError:
        return {}
    return found if version == str(_VERSION) and count == str(len(lines)) else {}
