"""Texts for why a payload cannot be decoded, or a row encoded."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from ottla.errors import RecordError, of_row
from ottla.nearest import nearest_name
from ottla.schemas.avro.schema import AvroType
from ottla.schemas.mistaken import advice

_REASONS: Final = (
    "",
    "the payload ends too early",
    "a number is longer than ten bytes",
    "a number does not fit 32 bits",
    "a boolean is neither 0 nor 1",
    "a text is not UTF-8",
    "a length is negative",
    "the enum has no symbol of that number",
    "the symbol {symbol!r} is not in the reader's enum, which has no default",
    "the union has no branch of that number",
    "there cannot be as many items in the bytes that are left",
    "a block is not as long as it says",
    "there are too many items or fields that take no bytes",
    "a decimal has more digits than its type",
    "values are nested too deep",
    "",
    "bytes are left behind the value: it was perhaps written with another schema",
    "there are fewer bytes than the prefix has",
    "its first byte is not 0: it has no schema id",
    "a time of day is not between 0 and 24 hours",
)
_MESSAGE: Final = 15


def told(reason: int, path: str, message: str, at: int, size: int, symbol: str = "") -> str:
    """The text of a `Reason` (building.pxd), with field and byte; `symbol` is an enum's, `message` a step's."""
    place = f"field '{path}': " if path else ""
    if reason == _MESSAGE:
        return message[:1].lower() + message[1:]
    return f"{place}{_REASONS[reason].format(symbol=symbol)} (at byte {at} of {size})"


# By the numbers of `Unfit` in writing.pxd.
_UNFIT: Final = (
    "",
    "is null, which the type {} does not take",
    "is a number beyond what the type {} holds",
    "is more exact than the type {}, and would be rounded: round it first",
    "has another number of bytes than the type {}",
    "is {symbol}, none of the symbols of the type {}",
    "has more digits than the type {}",
    "has more than one member that is not null; the type {} holds one",
    "is not laid out as Arrow says, for the type {}",
)


def unfit_value(reason: int, row: int, path: str, type_: AvroType, symbol: str) -> RecordError:
    """Why a row cannot be encoded; `symbol` is a text that an enum does not have."""
    place = f"the value of '{path}'" if path else "the value"
    digits = f" ({type_.precision} digits)" if type_.logical == "decimal" else ""
    size = f" ({type_.size} bytes)" if type_.kind == "fixed" and not digits else ""
    told = _UNFIT[reason].format(type_.shown + digits + size, symbol=f"{symbol!r:.80}")
    return of_row(RecordError, row, f" cannot be encoded: {place} {told}.")


def not_of_type(value: object, path: str, kind: str) -> str:
    """Why one object cannot be encoded as a type."""
    place = f"The value of '{path}'" if path else "The value"
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    told = f"{place} is {shown} ({type(value).__name__}), which is not of its type, {kind}."
    return f"{told}{advice(value, is_whole=not path)}"


def no_field(name: str, known: Collection[str]) -> str:
    """What the user can do about a column without a field."""
    meant = nearest_name(name, known)
    return "leave it out" if meant is None else f"rename it to {meant!r}, or leave it out"
