"""Interceptors: the user's objects that get each record, batch and outcome; their exceptions are only logged.

An interceptor has one or more of these methods:

    on_send(record)   a ProducerRecord, before serializers and partitioner, on the thread that sends; what it returns
                      is sent instead (None: the record as it is). Called for `send`, not for the rows of a table.
    on_batch(batch)   a BatchSeen that is closed and will be sent, by `send` or `send_table`; on the I/O thread.
    on_ack(batch)     the same batch, or a part of it if it had to be split, with its outcome; on the I/O thread,
                      before deliveries and callbacks. A record that `send` refused after `on_send` comes as a batch
                      of one, partition -1 where none was given, on the sender's thread.
    close()           the producer has ended; on the I/O thread.

Unlike Java's onAcknowledgement, `on_ack` is called once for a batch: its records have consecutive offsets and the same
outcome, and a call for each record would cost more than sending it.

Invariants: an exception of an interceptor is counted, logged once for each interceptor, method and type, and changes
nothing else: the next one gets the same record. Records and batches are tuples, so none is half changed. A slow
interceptor takes its caller's time: the sender's, or the I/O thread's.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ottla.errors import OttlaError

if TYPE_CHECKING:
    from ottla.records.delivery import SealedBatch

_log = logging.getLogger("ottla.producer")


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`; `record._replace(value=...)` makes a changed one."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None


class BatchSeen(NamedTuple):
    """A record batch that will be sent, or one with its outcome.

    `size_bytes` is what is sent. The records have offsets from `base_offset` on; it is -1 where they are not known to
    be stored, and with acks=0. `error` says why a batch failed (certainly not stored) or is unknown.
    """

    topic: str
    partition: int
    record_count: int
    size_bytes: int
    outcome: Literal["pending", "acked", "failed", "unknown"]
    base_offset: int = -1
    error: BaseException | None = None


class Interceptors:
    """A producer's interceptors in their order; `errors` counts what they raised."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self.errors = 0
        self._of = {
            method: tuple(each for each in interceptors if callable(getattr(each, method, None)))
            for method in ("on_send", "on_batch", "on_ack", "close")
        }
        self._logged: set[tuple[int, str, type[BaseException]]] = set()

    # ---- what the intake calls, on the thread that sends --------------------------------------------------------

    def on_send(self, parts: tuple[Any, ...]) -> tuple[Any, ...]:
        """The record after all interceptors; Ctrl+C (KeyboardInterrupt) is raised to the sender."""
        record = ProducerRecord(*parts)
        for interceptor in self._of["on_send"]:
            try:
                changed = interceptor.on_send(record)
                if changed is not None and not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send returns a ProducerRecord or None, not {type(changed).__name__}")
            except Exception as error:
                self._note(interceptor, "on_send", error)
            else:
                record = record if changed is None else changed
        return tuple(record)

    def refused(self, parts: tuple[Any, ...], error: BaseException) -> None:
        """A record did not get into a batch after `on_send`; Ctrl+C is raised to the sender here, too."""
        if self._of["on_ack"]:
            partition = parts[4] if isinstance(parts[4], int) else -1
            seen = BatchSeen(parts[0], partition, 1, 0, "failed", -1, error)
            self._tell("on_ack", seen, harmless=Exception)

    def watched(self, parts: tuple[Any, ...], sent: Any) -> Any:
        """What `send` is to return: a coroutine is wrapped, because it may still refuse the record."""
        return self._watch(parts, sent) if hasattr(sent, "cr_await") else sent

    async def _watch(self, parts: tuple[Any, ...], sent: Awaitable[Any]) -> Any:
        try:
            return await sent
        except BaseException as error:
            self.refused(parts, error)
            raise

    # ---- what the driver calls, on the I/O thread ---------------------------------------------------------------

    def on_batch(self, batches: Sequence[SealedBatch]) -> None:
        """These batches are closed and will be sent."""
        if self._of["on_batch"]:
            for batch in batches:
                seen = BatchSeen(batch.topic, batch.partition, batch.record_count, batch.size_bytes, "pending")
                self._tell("on_batch", seen)

    def on_ack(
        self,
        batch: SealedBatch,
        outcome: Literal["acked", "failed", "unknown"],
        base_offset: int = -1,
        error: OttlaError | None = None,
    ) -> None:
        """This batch has an outcome."""
        if self._of["on_ack"]:
            size = batch.size_bytes
            seen = BatchSeen(batch.topic, batch.partition, batch.record_count, size, outcome, base_offset, error)
            self._tell("on_ack", seen)

    def close(self) -> None:
        """The producer has ended."""
        self._tell("close")

    def _tell(self, method: str, *seen: BatchSeen, harmless: type[BaseException] = BaseException) -> None:
        for interceptor in self._of[method]:
            try:
                getattr(interceptor, method)(*seen)
            except harmless as error:
                self._note(interceptor, method, error)

    def _note(self, interceptor: Any, method: str, error: BaseException) -> None:
        self.errors += 1
        kind = id(interceptor), method, type(error)
        if kind not in self._logged:
            self._logged.add(kind)
            _log.error(
                "%s of the interceptor %s raised; nothing else is affected, and more of this kind is only counted",
                method,
                type(interceptor).__qualname__,
                exc_info=error,
            )
