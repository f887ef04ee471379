"""What is done to a record before it is appended, for who asked for it: interceptors, then serializers (compiled).

A producer without either has the appender's own `send`; one with them has `Intake.send`, which calls it in the end.
The order is Java's: interceptors see objects, serializers turn them into bytes, and the partitioner, behind this,
sees bytes. All of it happens on the sender's thread before `send` returns, so what becomes of an object afterwards
changes nothing that was sent.

Invariant: None is never serialized; it stays no key, or a tombstone.
"""

from __future__ import annotations

import cython
from cython.cimports.cpython.bytes import PyBytes_Check

from ottla.errors import OttlaError, RecordError


@cython.final
@cython.cclass
class Serialization:
    """One serializer, `setting` being `key.serializer` or `value.serializer`.

    It is a function of the object, or has a method `serialize(topic, object)`; either returns bytes, text (sent as
    UTF-8) or None. `name` is what errors call it, unless it has one of its own.
    """

    name = cython.declare(str, visibility="readonly")
    _setting = cython.declare(str)
    _function = cython.declare(object)
    _takes_topic = cython.declare(cython.bint)

    def __init__(self, setting: str, serializer: object, name: object = None) -> None:
        self._setting = setting
        method = getattr(serializer, "serialize", None)
        self._takes_topic = method is not None
        self._function = serializer if method is None else method
        named = type(serializer) if method is not None or not hasattr(serializer, "__qualname__") else serializer
        self.name = named.__qualname__ if name is None else name

    @cython.cfunc
    def serialize(self, topic: object, given: object) -> object:
        try:
            made = self._function(topic, given) if self._takes_topic else self._function(given)
        except OttlaError:
            raise
        except Exception as error:
            raise RecordError(
                f"{self._setting} {self.name} cannot take {_described(given)}, given for a record to {topic!r}: "
                f"{type(error).__name__}: {str(error)[:200]}"
            ) from error
        if PyBytes_Check(made) or made is None or isinstance(made, (str, bytearray, memoryview)):
            return made
        raise RecordError(
            f"{self._setting} {self.name} made {_described(made)} of {_described(given)} for a record to {topic!r}; "
            "it has to return bytes, str or None."
        )


@cython.cfunc
def _described(given: object) -> str:
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


@cython.final
@cython.cclass
class Intake:
    """`send` for a producer with interceptors or serializers; `append` is the appender's own, or its `send_async`.

    The serializers are `Serialization`s. `interceptors` has `on_send`, which takes and returns (topic, value, key,
    headers, partition, timestamp_ms), and `refused(parts, error)` and `watched(parts, sent)`, which hear what comes of
    appending that.
    """

    _append = cython.declare(object)
    _key_serializer = cython.declare(Serialization)
    _value_serializer = cython.declare(Serialization)
    _interceptors = cython.declare(object)

    def __init__(
        self,
        append: object,
        *,
        key_serializer: object = None,
        value_serializer: object = None,
        interceptors: object = None,
    ) -> None:
        self._append = append
        self._interceptors = interceptors
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer

    def send(
        self,
        topic: object,
        value: object = None,
        key: object = None,
        *,
        headers: object = None,
        partition: object = None,
        timestamp_ms: object = None,
        on_delivery: object = None,
    ) -> object:
        """As `Appender.send` (or `send_async`), with any objects as value and key that the serializers take."""
        if self._interceptors is None:
            return self._serialized(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        parts: tuple = self._interceptors.on_send((topic, value, key, headers, partition, timestamp_ms))
        topic, value, key, headers, partition, timestamp_ms = parts
        try:
            sent = self._serialized(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        except Exception as error:
            self._interceptors.refused(parts, error)
            raise
        return self._interceptors.watched(parts, sent)

    @cython.cfunc
    def _serialized(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        on_delivery: object,
    ) -> object:
        if key is not None and self._key_serializer is not None:
            key = self._key_serializer.serialize(topic, key)
        if value is not None and self._value_serializer is not None:
            value = self._value_serializer.serialize(topic, value)
        return self._append(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )
