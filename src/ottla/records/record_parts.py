"""Checks the parts of a record that a caller gives, and turns them into bytes (compiled).

This is the slow path: values and keys that are bytes do not come here. For a part that cannot be sent, RecordError
names the part, what was given and what is allowed.
"""

from __future__ import annotations

from operator import index

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cython.cimports.cpython.unicode import PyUnicode_AsUTF8AndSize
from cython.cimports.libc.stdint import int32_t, int64_t
from cython.cimports.ottla.async_functions import is_async
from cython.cimports.ottla.records.wire import put_varint, zigzag

from ottla.errors import RecordError


@cython.ccall
def checked_topic(topic: object) -> object:
    """Raise RecordError for what cannot be the name of a topic."""
    if not isinstance(topic, str) or not topic:
        raise RecordError(f"A topic is a non-empty str, not {topic!r:.60}.")
    return None


@cython.ccall
def text_or_bytes(what: str, given: object) -> object:
    """Return a str or bytes object with the same content; RecordError for what is neither text nor bytes."""
    if isinstance(given, str):
        return given
    try:
        view = memoryview(given)
        if _is_data(given, view):
            return bytes(view)
    except TypeError:
        pass
    except (ValueError, BufferError) as error:  # a memoryview that was released, a file's memory that was closed
        raise RecordError(f"A record's {what} cannot be read: {error}.") from error
    serializer = f", or give the producer a {what}_serializer" if what in ("key", "value") else ""
    raise RecordError(
        f"A record's {what} is bytes, str or None, not {type(given).__name__}: {given!r:.60}. Serialize it first, "
        f"for example with json.dumps{serializer}."
    )


@cython.cfunc
def _is_data(given: object, view: object) -> bool:
    """Whether these bytes can be meant as data: not those of a single number or date of numpy, nor addresses."""
    if not view.ndim and hasattr(given, "__float__"):
        return False
    if getattr(given, "shape", None) == () and hasattr(given, "dtype"):
        return False
    # Names of fields are between colons. O is a Python object, of which the buffer has the address.
    kinds: list = view.format.split(":")
    return "O" not in "".join(kinds[::2])


@cython.cfunc
def data_of(text_or_bytes: object, size: cython.pointer(cython.Py_ssize_t)) -> cython.p_const_char:
    if PyBytes_Check(text_or_bytes):
        size[0] = PyBytes_GET_SIZE(text_or_bytes)
        return PyBytes_AS_STRING(text_or_bytes)
    try:
        return PyUnicode_AsUTF8AndSize(text_or_bytes, size)
    except UnicodeEncodeError as error:
        raise RecordError(f"The text {text_or_bytes!r:.60} cannot be sent as UTF-8: {error.reason}.") from error


@cython.cfunc
def checked_callback(on_delivery: object) -> object:
    """Raise RecordError for what cannot be called, or is `async def`: it would not run, as nothing awaits it."""
    if not callable(on_delivery):
        raise RecordError(f"on_delivery is called with the Delivery; {on_delivery!r:.60} cannot be called.")
    if is_async(on_delivery):
        raise RecordError(
            f"on_delivery is an async function, which nobody would await: {on_delivery!r:.60}; give a plain one, "
            "which may start a task."
        )
    return None


@cython.cfunc
@cython.exceptval(-1)
def checked_timestamp(timestamp_ms: object) -> int64_t:
    """Return a timestamp, also from a number of numpy; may run other Python code."""
    try:
        number = timestamp_ms if isinstance(timestamp_ms, int) else index(timestamp_ms)
    except TypeError:
        number = None
    if number is not None and not isinstance(number, bool) and 0 <= number < 1 << 63:
        return number
    raise RecordError(f"A timestamp_ms is an int from 0 on, in milliseconds since 1970, not {timestamp_ms!r:.60}.")


@cython.cfunc
@cython.exceptval(-1)
def checked_partition(topic: object, partition: object, count: int32_t) -> int32_t:
    if isinstance(partition, int) and not isinstance(partition, bool) and 0 <= partition < count:
        return partition
    raise _no_partition(topic, partition, count)


@cython.cfunc
def whole_number(topic: object, partition: object, count: int32_t) -> object:
    """Return the int that another object, such as a number of numpy, stands for; may run other Python code."""
    try:
        return index(partition)
    except TypeError:
        raise _no_partition(topic, partition, count) from None


@cython.cfunc
def _no_partition(topic: object, partition: object, count: int32_t) -> object:
    return RecordError(f"Topic {topic} has partitions 0 to {count - 1}, not {partition!r:.60}.")


@cython.cfunc
def _number(value: cython.Py_ssize_t) -> bytes:
    """A zigzag varint as bytes."""
    room = cython.declare(cython.char[10])
    end: cython.p_char = put_varint(room, zigzag(value))
    return room[: end - room]


@cython.ccall
def header_pairs(headers: object) -> list:
    """Return the names and values of a record's headers; RecordError for what is no list of pairs."""
    pairs: list = []
    try:
        for pair in headers:
            name, value = pair
            # A text of two letters can be unpacked, too: {"id": b"7"} would become i=d.
            if isinstance(pair, (str, bytes)):
                raise TypeError
            pairs.append((name, value))
        return pairs
    except (TypeError, ValueError):
        of_dict = " Give list(headers.items())." if isinstance(headers, dict) else ""
        raise RecordError(
            f"Headers are a list of (str, bytes or str or None) pairs, not {headers!r:.60}.{of_dict}"
        ) from None


@cython.cfunc
def encode_headers(headers: object) -> bytes:
    """Return the end of a record: how many headers there are, and each one's name and value."""
    pairs: list = header_pairs(headers)
    pieces: list = [_number(len(pairs))]
    for name, value in pairs:
        if not isinstance(name, str):
            raise RecordError(f"A header's name is a str, not {type(name).__name__}: {name!r:.60}.")
        content = _encoded("header name", name)
        pieces += (_number(len(content)), content)
        if value is None:
            pieces.append(_number(-1))
        else:
            content = _encoded("header value", value)
            pieces += (_number(len(content)), content)
    return b"".join(pieces)


@cython.cfunc
def _encoded(what: str, given: object) -> bytes:
    if not isinstance(given, bytes):
        given = text_or_bytes(what, given)
    size: cython.Py_ssize_t = 0
    at: cython.p_const_char = data_of(given, cython.address(size))
    return at[:size]
