"""An exchange or a remark as a line of text, and bytes as tcpdump -X shows them.

Time, connection, latency and API stand in columns; what follows is said in words, so that an ordinary line fits 120
columns: `acks all orders-0 3 records 1,234 B producer 7/0 seq 40 offset 1200`. A producer is its id and epoch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from ottla.printable import printable
from ottla.tap.exchange import Exchange, Outcome, PartitionPart, Remark, Way

# More partitions than these are counted; --json has all.
_PARTS_SHOWN = 8
_BYTES_A_LINE = 16
_OFFSET_IS_ASKED = ("Fetch",)


def exchange_line(exchange: Exchange, parts: Sequence[PartitionPart] | None = None) -> str:
    """The exchange; only these `parts` of it, where given."""
    api = "?" if exchange.api is None else f"{exchange.api} v{exchange.version}"
    words = [*_whose(exchange), *_parts(exchange, exchange.partitions if parts is None else parts), *_result(exchange)]
    columns = (clock(exchange.time_us), f"{exchange.connection:>4}", f"{_latency(exchange):>10}", f"{api:<18}")
    return printable(" ".join((*columns, *words)).rstrip())


def remark_line(remark: Remark) -> str:
    """The remark."""
    way = "" if remark.way is Way.TO_BROKER else ", from the broker"
    return printable(f"{clock(remark.time_us)} {remark.connection:>4} {'-':>10} ({remark.what}{way})")


def connection_line(entry: Exchange | Remark) -> str:
    """Client and broker of the connection of this entry."""
    name = f" ({entry.client_id})" if isinstance(entry, Exchange) and entry.client_id else ""
    what = f"connection from {entry.client}{name} to {entry.broker}"
    return printable(f"{clock(entry.time_us)} {entry.connection:>4} {'-':>10} {what}")


def clock(time_us: int) -> str:
    """The time of day, UTC, as tcpdump shows it; the number itself where no calendar reaches."""
    try:
        return f"{datetime.fromtimestamp(time_us // 1_000_000, UTC):%H:%M:%S}.{time_us % 1_000_000:06}"
    except (OverflowError, OSError, ValueError):
        return str(time_us)


def hex_lines(title: str, data: bytes) -> Iterator[str]:
    """The bytes, sixteen a line: where they begin, in hexadecimal digits, and as ASCII."""
    yield f"    {title}, {len(data):,} bytes:"
    for begin in range(0, len(data), _BYTES_A_LINE):
        part = data[begin : begin + _BYTES_A_LINE]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        yield f"    0x{begin:06x}  {part.hex(' ', -2):<39}  {text}"


def _latency(exchange: Exchange) -> str:
    latency_us = exchange.latency_us
    return "-" if latency_us is None else f"{latency_us / 1_000:,.3f}ms"


def _whose(exchange: Exchange) -> Iterator[str]:
    if exchange.transactional_id is not None:
        yield f"txn {exchange.transactional_id}"
    if exchange.group_id is not None:
        yield f"group {exchange.group_id}"
    if exchange.producer_id is not None:
        yield f"producer {exchange.producer_id}/{_or_dash(exchange.producer_epoch)}"
    if exchange.committed is not None:
        yield "commit" if exchange.committed else "abort"
    if exchange.acks is not None:
        yield f"acks {'all' if exchange.acks == -1 else exchange.acks}"


def _parts(exchange: Exchange, parts: Sequence[PartitionPart]) -> Iterator[str]:
    # What went wrong is not to be among those that are only counted.
    ordered = sorted(parts, key=lambda part: part.error is None)
    shown = [" ".join(_part(exchange, part)) for part in ordered[:_PARTS_SHOWN]]
    if len(ordered) > _PARTS_SHOWN:
        shown.append(f"and {len(ordered) - _PARTS_SHOWN:,} more")
    if shown:
        yield "; ".join(shown)


def _part(exchange: Exchange, part: PartitionPart) -> Iterator[str]:
    topic = part.topic if part.topic is not None else f"topic id {part.topic_id or '-'}"
    yield topic if part.partition is None else f"{topic}-{part.partition}"
    if exchange.api in _OFFSET_IS_ASKED and part.offset is not None:
        yield f"from {part.offset}"
    count = part.record_count
    if count is not None and (count or part.record_bytes):
        yield f"{count:,} record{'s' * (count != 1)} {part.record_bytes:,} B"
    if part.unread_bytes:
        yield f"({part.unread_bytes:,} B of no whole batch)"
    yield from _first_batch(exchange, part)
    if exchange.api not in _OFFSET_IS_ASKED and part.offset is not None:
        yield f"offset {part.offset}"
    if part.high_watermark is not None:
        yield f"hw {part.high_watermark}"
    if part.error is not None:
        yield part.error


def _first_batch(exchange: Exchange, part: PartitionPart) -> Iterator[str]:
    """What a produced batch says; of fetched ones there are many, and only damage counts."""
    if part.batches and exchange.api == "Produce":
        batch = part.batches[0]
        if batch.producer_id != -1:
            yield f"producer {batch.producer_id}/{batch.producer_epoch} seq {batch.base_sequence}"
    if any(batch.is_intact is False for batch in part.batches):
        yield "CRC WRONG"


def _result(exchange: Exchange) -> Iterator[str]:
    if exchange.error is not None:
        yield exchange.error
    if exchange.outcome is Outcome.UNANSWERED:
        yield "NO ANSWER"
    elif exchange.outcome is Outcome.UNASKED:
        yield f"answer {exchange.correlation_id} of {exchange.response_bytes or 0:,} bytes, whose request was not seen"
    if exchange.unread is not None:
        yield f"({exchange.unread})"


def _or_dash(number: int | None) -> str:
    return "-" if number is None else str(number)
