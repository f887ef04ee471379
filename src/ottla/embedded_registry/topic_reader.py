"""What is committed to the topic of schemas, read from its first record on and for ever, in a thread of its own.

An error of a broker is not told to anybody: it is logged, and reading goes on where it was. Where the log is shorter
than what was read of it (an unclean election, a topic that was deleted and made anew), it is read from its beginning.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ottla.client.reader import Reader
from ottla.errors import ClosedError, KafkaError, LogTruncated, OttlaError
from ottla.reader.events import Fetched
from ottla.records.plain import decode_batches

logger = logging.getLogger("ottla.registry")

_PAUSE_S = 0.2
_PAUSE_MAX_S = 5.0

# Offset, key, value.
Read = tuple[int, bytes | None, bytes | None]


class TopicReader:
    """`took(records)` is called in the reader's thread with what was read, in the order of the log.

    `lost()` is called before it where the log is read again from its beginning: what was read may not hold any more.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        settings: Mapping[str, Any],
        took: Callable[[list[Read]], None],
        lost: Callable[[], None],
    ) -> None:
        self._servers, self._topic, self._settings = servers, topic, settings
        self._took, self._lost = took, lost
        self._next_offset = 0
        self._progress = threading.Condition()
        self._is_closing = threading.Event()
        self._reader: Reader | None = None
        self._thread = threading.Thread(target=self._run, name="ottla-registry-reader", daemon=True)
        self._thread.start()

    def await_offset(self, offset: int, patience_s: float) -> bool:
        """Whether all up to this offset has been read within that time."""
        with self._progress:
            self._progress.wait_for(lambda: self._next_offset > offset or self._is_closing.is_set(), patience_s)
            # False if the reader was closed meanwhile: the caller must not decide by a part of the log.
            return self._next_offset > offset

    def close(self) -> None:
        """Stop reading."""
        self._is_closing.set()
        with self._progress:
            self._progress.notify_all()
        reader = self._reader
        if reader is not None:
            reader.close()
        self._thread.join()

    def _run(self) -> None:
        pause_s = _PAUSE_S
        while not self._is_closing.is_set():
            before = self._next_offset
            try:
                self._read_on()
            except ClosedError:
                return
            except OttlaError as error:
                if self._is_closing.is_set():
                    return
                logger.warning("the topic of schemas %s cannot be read for now: %s", self._topic, error)
                if isinstance(error, LogTruncated) or _is_out_of_range(error):
                    logger.error("the topic of schemas %s has lost records: it is read again", self._topic)
                    self._next_offset = before = 0
                    self._lost()
            pause_s = _PAUSE_S if self._next_offset > before else min(2 * pause_s, _PAUSE_MAX_S)
            self._is_closing.wait(pause_s)

    def _read_on(self) -> None:
        start: Any = self._next_offset or "earliest"
        with Reader(
            self._servers,
            assignments={(self._topic, 0): (start, None)},
            isolation_level="read_committed",
            **self._settings,
        ) as reader:
            self._reader = reader
            if self._is_closing.is_set():
                return
            committed = _Committed()
            for fetched in reader.iter_raw():
                records = [read for read in committed.records(fetched) if read[0] >= self._next_offset]
                if records:
                    self._took(records)
                with self._progress:
                    self._next_offset = max(self._next_offset, committed.next_offset)
                    self._progress.notify_all()


def _is_out_of_range(error: OttlaError) -> bool:
    return isinstance(error, KafkaError) and error.name == "OFFSET_OUT_OF_RANGE"


class _Committed:
    """Leaves out what aborted transactions have written."""

    def __init__(self) -> None:
        self._aborted: dict[int, None] = {}
        self.next_offset = 0

    def records(self, fetched: Fetched) -> Iterator[Read]:
        begun = sorted((first_offset, producer_id) for producer_id, first_offset in fetched.aborted_transactions)
        for header, records in decode_batches(fetched.records):
            self.next_offset = header.last_offset + 1
            while begun and begun[0][0] <= header.last_offset:
                self._aborted[begun.pop(0)[1]] = None
            if header.is_control:
                self._aborted.pop(header.producer_id, None)
            elif not (header.is_transactional and header.producer_id in self._aborted):
                for record in records:
                    yield record.offset, record.key, record.value
