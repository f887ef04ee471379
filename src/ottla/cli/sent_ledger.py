"""The ledger that `ottla produce --ledger` writes for `ottla audit`: each record, its number, and what became of it.

Records are written down once their outcome is known, in the order in which they were sent, so that only what is on its
way is kept in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from ottla.audit.promises import claimed
from ottla.cli.options import DEFAULT_BOOTSTRAP
from ottla.errors import DeliveryError, DeliveryUnknown, UserMistake
from ottla.ledger import schema
from ottla.ledger.checksum import crc_column, record_crc
from ottla.ledger.writer import LedgerWriter
from ottla.producer.settings import ProducerSettings
from ottla.whole_file import check_path

if TYPE_CHECKING:
    from ottla.client.table_delivery import TableDelivery
    from ottla.records.delivery import Delivery

_CHUNK = 10_000
_ENDING = ".parquet"


class SentLedger:
    """What was sent to one topic; `with` finishes the file, whatever ends the block."""

    def __init__(self, path: Path, topic: str, settings: Mapping[str, Any]) -> None:
        if path.suffix.lower() != _ENDING:
            raise UserMistake(f"--ledger writes Parquet: give a name that ends with {_ENDING}, not {path}")
        check_path(path, what="the ledger", option="--ledger")
        checked = ProducerSettings({"bootstrap_servers": DEFAULT_BOOTSTRAP, **settings})
        self._is_answered = checked.acks != 0
        promise = claimed(acks=checked.acks, idempotent=checked.idempotent)
        self._writer = LedgerWriter(path, run_id=uuid4().hex, guarantee=promise.guarantee, topic=topic)
        self._count = 0
        self._open: deque[tuple[Delivery, int, int]] = deque()
        self._open_tables: deque[tuple[TableDelivery, Any, Any]] = deque()
        self._failed = self._unknown = 0
        self._first = ""

    def header(self) -> tuple[str, bytes]:
        """What the next record carries: its number."""
        return schema.SEQUENCE_HEADER, schema.pack_sequence(self._count)

    def add(self, delivery: Delivery, key: bytes | None, value: bytes | None) -> None:
        """A record that was sent with `header`."""
        self._count += 1
        self._open.append((delivery, record_crc(key), record_crc(value)))
        if len(self._open) >= 2 * _CHUNK and self._open[_CHUNK][0].done():
            self._write_records(_CHUNK)

    def numbers(self, count: int) -> list[bytes]:
        """What so many rows carry next."""
        return [schema.pack_sequence(self._count + row) for row in range(count)]

    def add_table(self, delivery: TableDelivery, keys: Any, values: Any) -> None:
        """Rows that were sent with `numbers`; keys is None where they have none."""
        crcs = crc_column(values)
        self._count += delivery.rows_read
        self._open_tables.append((delivery, [schema.NO_CRC] * len(crcs) if keys is None else crc_column(keys), crcs))
        while len(self._open_tables) > 1 and self._open_tables[0][0].done():
            self._write_table(*self._open_tables.popleft())

    def finish(self) -> DeliveryError | None:
        """Write down the rest, for the producer is closed; an error where records are not known to be stored."""
        while self._open:
            self._write_records(_CHUNK)
        while self._open_tables:
            self._write_table(*self._open_tables.popleft())
        self._writer.close()
        left = self._failed + self._unknown
        if not left:
            return None
        were = "record was" if left == 1 else "records were"
        said = f"{left:,} {were} not delivered; the first cause: {self._first}"
        return DeliveryError(said, failed=self._failed, unknown=self._unknown)

    def _write_records(self, most: int) -> None:
        rows: list[tuple[Any, ...]] = []
        first = self._count - len(self._open)
        while self._open and len(rows) < most:
            delivery, key_crc, value_crc = self._open.popleft()
            error = delivery.exception()
            offset = delivery.result().offset if error is None else schema.NO_OFFSET
            outcome = self._outcome(
                "" if error is None else schema.UNKNOWN if isinstance(error, DeliveryUnknown) else schema.FAILED, error
            )
            told = None if error is None else str(error)
            rows.append((first + len(rows), delivery.partition, key_crc, value_crc, outcome, offset, told))
        names = "sequence", "partition", "key_crc", "value_crc", "outcome", "offset", "error"
        self._writer.add(**dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))

    def _write_table(self, delivery: TableDelivery, key_crcs: Any, value_crcs: Any) -> None:
        told = delivery.result()
        errors = told.column("error").to_pylist()
        first = self._writer.rows
        count = len(errors)
        self._writer.add(
            sequence=list(range(first, first + count)),
            partition=told.column("partition"),
            key_crc=key_crcs[:count],
            value_crc=value_crcs[:count],
            outcome=[self._outcome((error or "").partition(":")[0], error) for error in errors],
            offset=told.column("offset"),
            error=told.column("error"),
        )

    def _outcome(self, word: str, error: object) -> str:
        if word:
            self._first = self._first or str(getattr(error, "first", None) or error)
            self._failed += word == schema.FAILED
            self._unknown += word == schema.UNKNOWN
            return word
        # With acks=0 no broker has said that it was stored.
        return schema.ACKED if self._is_answered else schema.UNKNOWN

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None and not self._count:
            self._writer.discard()
        else:
            self.finish()
