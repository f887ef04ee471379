"""Python's objects for Avro's logical types (dates, times, decimals, UUIDs) <-> Avro's numbers, bytes and texts.

Values that Python's objects cannot hold stay numbers: nanoseconds, and times outside of datetime's range. Each function
of `TO_AVRO` takes an object and the type, and returns a number, bytes or text. ValueError or TypeError, with a text for
the user, means that the type cannot hold the object. Other objects are returned unchanged; so numbers are allowed, too.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact
from numbers import Integral
from typing import Any, Final
from uuid import UUID

from ottla.schemas.avro.schema import TIMES_OF_DAY, AvroType
from ottla.schemas.mistaken import is_missing

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_UTC_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()
_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EXACT: Final = Context(prec=200, traps=[Inexact])

_HOW_TO_GIVE_A_ZONE: Final = "(in JSON a Z at the end, in Python replace(tzinfo=datetime.UTC))"


def _to_date(given: Any, type_: AvroType) -> Any:
    if isinstance(given, datetime.datetime) or not isinstance(given, datetime.date):
        return given
    return given.toordinal() - _EPOCH_DAY


def _to_time(given: Any, type_: AvroType) -> Any:
    if isinstance(given, Integral) and not 0 <= int(given) < TIMES_OF_DAY[type_.logical]:
        raise ValueError(f"is {given}, and a time of day is from 0 to {TIMES_OF_DAY[type_.logical] - 1}")
    if not isinstance(given, datetime.time):
        return given
    if given.tzinfo is not None:
        raise ValueError("has a time zone, which the type has not: take it away (replace(tzinfo=None))")
    micros = ((given.hour * 60 + given.minute) * 60 + given.second) * 1_000_000 + given.microsecond
    return _scaled(micros, type_)


def _to_timestamp(given: Any, type_: AvroType) -> Any:
    if not isinstance(given, datetime.datetime):
        return given
    _refuse_nat(given)
    if given.tzinfo is None:
        raise ValueError(f"has no time zone, and the type is an instant: give it one {_HOW_TO_GIVE_A_ZONE}")
    return _scaled((given - _UTC_EPOCH) // _MICROSECOND, type_, given)


def _to_local_timestamp(given: Any, type_: AvroType) -> Any:
    if not isinstance(given, datetime.datetime):
        return given
    _refuse_nat(given)
    if given.tzinfo is not None:
        raise ValueError("has a time zone, which the type has not: take it away (replace(tzinfo=None))")
    return _scaled((given - _EPOCH) // _MICROSECOND, type_, given)


def _refuse_nat(given: datetime.datetime) -> None:
    # To Python, pandas.NaT is a datetime.
    if is_missing(given):
        raise ValueError("is NaT: give None where there is no value")


def _scaled(micros: int, type_: AvroType, given: Any = None) -> int:
    # A pandas.Timestamp is a datetime that has nanoseconds, too, which `micros` leaves out.
    nanos = getattr(given, "nanosecond", 0)
    if type_.logical.endswith("nanos"):
        return micros * 1000 + nanos
    unit = "microseconds" if type_.logical.endswith("micros") else "milliseconds"
    if nanos or (unit == "milliseconds" and micros % 1000):
        raise ValueError(f"is more exact than {unit}, and would be rounded: round it first")
    return micros if unit == "microseconds" else micros // 1000


def _to_decimal(given: Any, type_: AvroType) -> Any:
    if isinstance(given, int) and not isinstance(given, bool):
        given = Decimal(given)
    if not isinstance(given, Decimal):
        return given
    if not given.is_finite():
        raise ValueError("is not a finite number")
    try:
        unscaled = int(given.scaleb(type_.scale, _EXACT).to_integral_exact(context=_EXACT))
    except Inexact:
        raise ValueError(f"has more than {type_.scale} digits behind the point, and would be rounded") from None
    if abs(unscaled) >= 10**type_.precision:
        raise ValueError(f"has more than {type_.precision} digits")
    size = type_.size or (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return unscaled.to_bytes(size, "big", signed=True)


def _to_uuid(given: Any, type_: AvroType) -> Any:
    if not isinstance(given, UUID):
        return given
    return given.bytes if type_.kind == "fixed" else str(given)


TO_AVRO: Final[Mapping[str, Callable[[Any, AvroType], Any]]] = {
    "date": _to_date,
    "time-millis": _to_time,
    "time-micros": _to_time,
    "timestamp-millis": _to_timestamp,
    "timestamp-micros": _to_timestamp,
    "timestamp-nanos": _to_timestamp,
    "local-timestamp-millis": _to_local_timestamp,
    "local-timestamp-micros": _to_local_timestamp,
    "local-timestamp-nanos": _to_local_timestamp,
    "decimal": _to_decimal,
    "uuid": _to_uuid,
}


def _date(number: int) -> Any:
    ordinal = number + _EPOCH_DAY
    return datetime.date.fromordinal(ordinal) if 1 <= ordinal <= datetime.date.max.toordinal() else number


def _time(micros: int) -> datetime.time:
    seconds, micros = divmod(micros, 1_000_000)
    return datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micros)


def _since(epoch: datetime.datetime, micros: int) -> Any:
    try:
        return epoch + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return None


def _or_number(made: Any, number: int) -> Any:
    return number if made is None else made


# By the Arrow format of the type's column.
FROM_AVRO: Final[Mapping[str, Callable[[int], Any]]] = {
    "tdD": _date,
    "ttm": lambda number: _time(number * 1000),
    "ttu": _time,
    "tsm:UTC": lambda number: _or_number(_since(_UTC_EPOCH, number * 1000), number),
    "tsu:UTC": lambda number: _or_number(_since(_UTC_EPOCH, number), number),
    "tsm:": lambda number: _or_number(_since(_EPOCH, number * 1000), number),
    "tsu:": lambda number: _or_number(_since(_EPOCH, number), number),
}


def decimal_of(data: bytes, scale: int) -> Decimal:
    """The decimal of a big-endian number in two's complement."""
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)
