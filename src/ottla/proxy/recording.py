"""What passes a proxy, written into a capture that `ottla tap` shows.

Recorded is what clients see: requests as they sent them, answers as they got them, addresses rewritten. A request whose
answer a fault has lost is unanswered there. In place of records it has their hashes; their bytes are kept only where
that was asked for, and those of SASL never.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ottla.tap.capture import CaptureWriter
from ottla.tap.conversation import Conversation
from ottla.tap.exchange import Entry

logger = logging.getLogger("ottla.proxy")

_LENGTH_BYTES = 4


class Recording:
    """A new capture; UserMistake where the file is there already. `payloads`: keep the bytes of frames, too."""

    def __init__(self, path: Path, *, payloads: bool, topic_names: dict[bytes, str], **about: Any) -> None:
        self._path = path
        self._payloads = payloads
        self._topic_names = topic_names
        self._writer: CaptureWriter | None = CaptureWriter(path, **about)
        self.clock = SteadyClock(lambda: time.time_ns() // 1000)

    def of(self, number: int, client: str, broker: str) -> RecordedConnection:
        """The recorder of one connection."""
        talk = Conversation(number, client, broker, payloads=self._payloads, topic_names=self._topic_names)
        return RecordedConnection(self, talk)

    def write(self, entries: list[Entry]) -> None:
        """Append these; where the disk does not take them, the recording ends and the proxy goes on."""
        if self._writer is None:
            return
        try:
            for entry in entries:
                self._writer.write(entry)
        except OSError as error:
            logger.warning("nothing more is recorded in %s: %s", self._path, error.strerror or error)
            self.close()

    def close(self) -> None:
        """Close the file. Closing twice is allowed."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


class SteadyClock:
    """Microseconds since 1970, which never go back: where the machine's clock was set back, they go on from there."""

    def __init__(self, machine_us: Callable[[], int]) -> None:
        self._machine_us = machine_us
        self._ahead_us = 0
        self._last_us = 0

    def now_us(self) -> int:
        """The time now."""
        now_us = self._machine_us() + self._ahead_us
        if now_us < self._last_us:
            self._ahead_us += self._last_us - now_us
            now_us = self._last_us
        self._last_us = now_us
        return now_us


class RecordedConnection:
    """One connection of a recording."""

    def __init__(self, recording: Recording, talk: Conversation) -> None:
        self._recording = recording
        self._talk = talk
        self._is_over = False

    def request(self, frame: memoryview) -> None:
        """A frame came from the client."""
        self._recording.write(self._talk.take_request(frame, self._recording.clock.now_us()))

    def answer(self, pieces: list[Any]) -> None:
        """These pieces, length first, leave for the client."""
        frame = pieces[1] if len(pieces) == 2 and len(pieces[0]) == _LENGTH_BYTES else b"".join(pieces)[_LENGTH_BYTES:]
        self._recording.write(self._talk.take_response(memoryview(frame), self._recording.clock.now_us()))

    def end(self) -> None:
        """The connection is over. Ending twice is allowed."""
        if not self._is_over:
            self._is_over = True
            self._recording.write(self._talk.end(self._recording.clock.now_us()))
