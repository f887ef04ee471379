"""What `ottla produce` does with what it was given: lines or rows, sent and waited for."""

from __future__ import annotations

import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.output import counted
from ottla.cli.progress import Counter
from ottla.cli.signals import Ended
from ottla.errors import DeliveryError, RecordError, UserMistake

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.cli.sent_ledger import SentLedger
    from ottla.cli.value_schema import ValueSchema
    from ottla.client.producer import Producer

# How long brokers may still acknowledge what was sent before an interruption.
_LAST_ANSWERS_S = 2
_ROWS_AT_A_TIME = 50_000
# Shorter pauses are made up for by the next ones.
_PAUSE_S = 0.002

Headers = Sequence[tuple[str, bytes]]
Lines = Iterable[tuple[bytes | None, bytes]]


class Sent(NamedTuple):
    """How many records were sent, the error of those that are not known to be stored, and what interrupted it."""

    records: int
    error: DeliveryError | None
    interruption: Ended | None = None


class Sending(NamedTuple):
    """Where records go and what goes with them."""

    producer: Producer
    topic: str
    headers: Headers
    schema: ValueSchema | None
    ledger: SentLedger | None
    counter: Counter


class Given(ABC):
    """What is to be sent; `total` records, None where that is not known."""

    total: int | None

    def settings(self, schema: ValueSchema | None, *, has_ledger: bool) -> dict[str, Any]:
        """Those of a producer that are needed for it."""
        return {}

    @abstractmethod
    def send(self, to: Sending) -> None:
        """Send it all."""


class GivenLines(Given):
    """(key, value) of each record; UserMistake names the one that cannot be sent."""

    def __init__(self, lines: Lines, total: int | None) -> None:
        self._lines = lines
        self._kept: _Kept | None = None
        self.total = total

    def settings(self, schema: ValueSchema | None, *, has_ledger: bool) -> dict[str, Any]:
        """What makes values of lines; a ledger wants to know what it made."""
        if schema is None:
            return {}
        serializer = schema.serializer()
        if has_ledger:
            kept = _KeptSerializer if schema.id_in == "prefix" else _KeptSerializerWithHeader
            self._kept = serializer = kept(serializer)
        return {"value_serializer": serializer}

    def send(self, to: Sending) -> None:
        """One record after the other."""
        producer, topic, headers, _, ledger, counter = to
        # Asked before the first line is typed: whether a broker answers, and has the topic.
        producer.partitions_for(topic)
        for key, line in self._lines:
            try:
                if ledger is None:
                    producer.send(topic, line, key, headers=headers)
                else:
                    delivery = producer.send(topic, line, key, headers=[*headers, ledger.header()])
                    ledger.add(delivery, key, line if self._kept is None else self._kept.last)
            except RecordError as error:
                count = counter.count
                told = f"line {count + 1}: {str(error).removesuffix('.')}. The lines before it ({count}) were sent."
                raise UserMistake(told) from error
            counter.count += 1


class GivenRows(Given):
    """The rows of a table; `key` names a column, "" none."""

    def __init__(self, table: pa.Table, key: str) -> None:
        self._table = table
        self._key = key
        self.total = table.num_rows

    def send(self, to: Sending) -> None:
        """Pieces of the table, encoded here: a ledger needs what is stored."""
        ledger = to.ledger
        for piece, schemas_header in self._records(to):
            count = piece.num_rows
            keys, values = piece.column("key") if self._key else None, piece.column("value")
            headers = (*to.headers, *schemas_header)
            if headers or ledger is not None:
                numbers = None if ledger is None else ledger.numbers(count)
                piece = piece.append_column("headers", _header_column(headers, count, numbers))
            try:
                delivery = to.producer.send_table(to.topic, piece)
            except BaseException as error:
                # Some of the rows may have been sent.
                sent = getattr(error, "table", None)
                if ledger is not None and sent is not None:
                    ledger.add_table(sent, keys, values)
                raise
            to.counter.count += count
            if ledger is not None:
                ledger.add_table(delivery, keys, values)

    def _records(self, to: Sending) -> Iterator[tuple[pa.Table, Headers]]:
        """The rows as they will be stored, some at a time: a column `value`, and `key` where there is one.

        Beside them the header that names their schema, where one does.
        """
        import pyarrow as pa

        from ottla.client.schema_columns import SchemaChoice
        from ottla.client.table_columns import value_columns
        from ottla.records.arrow_data import chunks

        choice = SchemaChoice() if to.schema is None else to.schema.choice(to.topic)
        value_format = "json" if to.schema is None else to.schema.format
        pieces, make, made = value_columns(self._table, None, to.topic, value_format, choice, None)
        for chunk in pieces:
            batch: Any = pa.record_batch(chunk)
            for begin in range(0, batch.num_rows, _ROWS_AT_A_TIME):
                piece = batch.slice(begin, _ROWS_AT_A_TIME)
                (rows,) = chunks(piece)
                keys = {"key": _key_column(rows, piece, self._key)} if self._key else {}
                # The same one in each row.
                named = [] if made is None else piece.column(made)[0].as_py()
                yield (
                    pa.table({**keys, "value": pa.array(make(rows))}),
                    [(each["key"], each["value"]) for each in named],
                )


def read_rows(path: str, file_format: str | None, key: str | None, schema: ValueSchema | None) -> GivenRows:
    """The rows of a file, or of standard input; UserMistake for what cannot be read.

    Texts stay texts where they become JSON. Where Avro makes a schema of the columns, times are times.
    """
    from ottla.inputs.given import given_rows
    from ottla.inputs.source import open_source
    from ottla.inputs.table import read_source

    with given_rows(path, file_format) as place:
        source = open_source(place, key, needs_key=False)
        is_derived = schema is None or (schema.format == "avro" and schema.schema is None)
        return GivenRows(read_source(source, keeps_times=schema is None, keeps_zeros=is_derived), source.key)


def typed_bytes(argument: str) -> bytes:
    """Text as UTF-8; what is none of the locale's characters is the very bytes that were typed."""
    return argument.encode("utf-8", "surrogateescape")


def cut_lines(lines: Iterable[bytes], separator: str | None) -> Lines:
    """(key, value) of each line; the key is None where no separator stands in it."""
    cut = None if separator is None else typed_bytes(separator)
    for line in lines:
        value = line.rstrip(b"\r\n")
        if cut is not None and cut in value:
            key, value = value.split(cut, 1)
            yield key, value
        else:
            yield None, value


def paced(records: Lines, per_second: int | None) -> Lines:
    """The same records, so many a second at most."""
    began = time.monotonic()
    for number, record in enumerate(records):
        if per_second is not None:
            ahead_s = began + number / per_second - time.monotonic()
            if ahead_s > _PAUSE_S:
                time.sleep(ahead_s)
        yield record


def send_all(
    given: Given,
    topic: str,
    bootstrap_servers: str,
    settings: dict[str, Any],
    *,
    headers: Headers,
    schema: ValueSchema | None,
    ledger: Path | None,
) -> Sent:
    """Send and wait for the acknowledgements, not for long after an interruption; reports what was not delivered."""
    from ottla.client.producer import Producer

    # A user who types lines sees them; a bar would be drawn over them.
    is_typed = given.total is None and sys.stdin.isatty()
    settings = {**settings, **given.settings(schema, has_ledger=ledger is not None)}
    with (
        _ledger(ledger, topic, settings) as book,
        Counter(f"send to {topic}", "records", given.total, is_shown=not is_typed) as counter,
        Producer(bootstrap_servers, **settings) as producer,
    ):
        counter.ask = lambda: int(producer.metrics()["ottla-record-acked-total"])
        try:
            given.send(Sending(producer, topic, headers, schema, book, counter))
            # Here already: most of the waiting is done in it.
            return Sent(counter.count, _close(producer, None, book))
        except (KeyboardInterrupt, Ended) as interruption:
            number = interruption.number if isinstance(interruption, Ended) else signal.SIGINT
            error = _close(producer, _LAST_ANSWERS_S, book)
            # It may have come between a record and its count.
            told = (error.failed + error.unknown) if error is not None else 0
            return Sent(counter.ask() + told, error, Ended(number, _undelivered(error)))


def _ledger(path: Path | None, topic: str, settings: dict[str, Any]) -> Any:
    if path is None:
        return nullcontext()
    from ottla.cli.sent_ledger import SentLedger

    return SentLedger(path, topic, settings)


def _close(producer: Producer, timeout_s: float | None, ledger: SentLedger | None) -> DeliveryError | None:
    error = None
    try:
        producer.close(timeout_s)
    except DeliveryError as raised:
        error = raised
    # A ledger has looked at some outcomes before, and knows of all.
    return error if ledger is None else ledger.finish()


def _undelivered(error: DeliveryError | None) -> str:
    counts = {} if error is None else {"not stored": error.failed, "not known to be stored": error.unknown}
    return ", ".join(f"{counted(count, 'record')} {what}" for what, count in counts.items() if count)


class _Kept:
    """A serializer that keeps what it made last."""

    def __init__(self, serializer: Any) -> None:
        self._of_values = serializer.of_part("value")
        self.last: bytes | None = None


class _KeptSerializer(_Kept):
    """One whose schema is named in front of the value."""

    _encode: Callable[[bytes], bytes] | None = None

    def serialize(self, topic: str, line: bytes) -> bytes:
        """Of one topic alone."""
        if self._encode is None:
            encode, prefix = self._of_values.for_topic(topic)
            self._encode = lambda line: encode(line, prefix)
        self.last = made = self._encode(line)
        return made


class _KeptSerializerWithHeader(_Kept):
    """One whose schema is named by a header."""

    def serialize_with_headers(self, topic: str, line: bytes, headers: list[tuple[str, bytes]]) -> bytes:
        """The value; its schema's header is added to `headers`."""
        made: bytes = self._of_values.serialize_with_headers(topic, line, headers)
        self.last = made
        return made


def _key_column(rows: Any, piece: Any, key: str) -> Any:
    """The keys as they will be stored."""
    import pyarrow as pa

    from ottla.schemas.key_texts import key_texts

    column = piece.column(key)
    kind = column.type
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind)
    texts: Any = None if is_text else key_texts(rows, key)
    return column if is_text else pa.array(texts)


def _header_column(headers: Headers, count: int, numbers: Any) -> Any:
    """The headers of every row, and behind them the row's number where there are `numbers`."""
    import pyarrow as pa

    from ottla.ledger.schema import SEQUENCE_HEADER
    from ottla.registry.columns import headers_type

    kind = headers_type()
    same = [{"key": name, "value": value} for name, value in headers]
    if numbers is None:
        return pa.array([same] * count, kind)
    each = [[*same, {"key": SEQUENCE_HEADER, "value": number}] for number in numbers]
    return pa.array(each, kind)
