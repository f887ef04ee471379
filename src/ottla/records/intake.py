"""What is done to a record before it is appended, for who asked for it: interceptors, then serializers (compiled).

A producer without either has the appender's own `send`; one with them has `Intake.send`, which calls it in the end.
The order is Java's: interceptors see objects, serializers turn them into bytes, and the partitioner, behind this,
sees bytes. All of it happens on the sender's thread before `send` returns, so what becomes of an object afterwards
changes nothing that was sent.

In an event loop nothing here asks a registry: `later` is given there, which has `ask` called in a thread first. That is
once for each topic; a record whose topic is known costs two comparisons more.

Invariant: None is never serialized; it stays no key, or a tombstone.
"""

from __future__ import annotations

import sys

import cython
from cython.cimports.cpython.bytes import PyBytes_Check
from cython.cimports.ottla.records.record_parts import header_pairs

from ottla.errors import OttlaError, RecordError


@cython.cclass
class RowEncoder:
    """What makes a payload of an object, by a schema: `Serialization` calls it without a call of Python."""

    @cython.cfunc
    def encode(self, value: object, prefix: bytes) -> bytes:
        """The payload, with `prefix` in front."""
        raise NotImplementedError

    def __call__(self, value: object, prefix: bytes) -> bytes:
        return self.encode(value, prefix)


@cython.final
@cython.cclass
class Serialization:
    """One serializer, `setting` being `key.serializer` or `value.serializer`.

    It is a function of the object, or has a method `serialize(topic, object)`, or one
    `serialize_with_headers(topic, object, headers)`, which may add (name, value) tuples to that list; or it is a
    `Serializer` of confluent_kafka. Each returns bytes, text (sent as UTF-8) or None. `name` is what errors call it,
    unless it has one of its own.

    Ours with a schema registry have a method `for_topic(topic)` instead, which gives a function of an object and a
    prefix (a `RowEncoder` is one), and the prefix: it is asked once for each topic. Those that write headers have
    `ask(topic)`, which does no more than ask the registry.
    """

    name = cython.declare(str, visibility="readonly")
    writes_headers = cython.declare(cython.bint, visibility="readonly")
    _setting = cython.declare(str)
    _function = cython.declare(object)
    _takes_topic = cython.declare(cython.bint)
    _context = cython.declare(object)
    _field = cython.declare(object)
    _for_topic = cython.declare(object)
    _ask = cython.declare(object)
    # What each topic that was asked about has.
    _topics = cython.declare(dict)
    # The topic that was asked about last, where it has a RowEncoder: most programs send to one.
    _last_topic = cython.declare(object)
    _last_encoder = cython.declare(RowEncoder)
    _last_prefix = cython.declare(bytes)

    def __init__(self, setting: str, serializer: object, name: object = None) -> None:
        self._setting = setting
        given = serializer
        # One with a schema registry asks for the part of the record that it is for.
        if hasattr(serializer, "of_part"):
            serializer = serializer.of_part(setting.partition(".")[0])
        self._for_topic = getattr(serializer, "for_topic", None)
        self._ask = getattr(serializer, "ask", None) if hasattr(given, "of_part") else None
        self._topics = {}
        method = getattr(serializer, "serialize_with_headers", None)
        self.writes_headers = method is not None
        if method is None:
            method = getattr(serializer, "serialize", None)
        self._takes_topic = method is not None
        self._function = serializer if method is None else method
        # Who has one of its serializers has imported it.
        confluent = sys.modules.get("confluent_kafka.serialization")
        if confluent is not None and isinstance(serializer, confluent.Serializer):
            self._context = confluent.SerializationContext
            self._field = confluent.MessageField(setting.partition(".")[0])
            self._function = serializer
            self.writes_headers = True
        named = type(given) if method is not None or not hasattr(given, "__qualname__") else given
        self.name = named.__qualname__ if name is None else name

    @cython.cfunc
    def has_to_ask(self, topic: object) -> cython.bint:
        """Whether `serialize` would ask a registry."""
        if self._last_encoder is not None and topic is self._last_topic:
            return False
        if self._for_topic is None and self._ask is None:
            return False
        # Anything else is refused by who serializes.
        return isinstance(topic, str) and topic not in self._topics

    @cython.cfunc
    def ask(self, topic: object, given: object) -> object:
        """What the registry says of this topic, for `learn`."""
        try:
            return self._ask(topic) if self._for_topic is None else self._for_topic(topic)
        except OttlaError:
            raise
        except Exception as error:
            raise self._refusal(topic, given, error) from error

    @cython.cfunc
    def learn(self, topic: object, answer: object) -> object:
        """Have `serialize` not ask for this topic any more."""
        self._topics[topic] = answer

    @cython.cfunc
    def _refusal(self, topic: object, given: object, error: object) -> object:
        try:
            words = str(error)[:200]
        except Exception:
            words = "an error that cannot be printed"
        return RecordError(
            f"{self._setting} {self.name} cannot take {_described(given)}, given for a record to {topic!r}: "
            f"{type(error).__name__}: {words}"
        )

    @cython.cfunc
    def serialize(self, topic: object, given: object, headers: object) -> object:
        """`headers` is a list where `writes_headers`."""
        try:
            if self._last_encoder is not None and topic is self._last_topic:
                return self._last_encoder.encode(given, self._last_prefix)
            if self._for_topic is not None:
                known: tuple = self._topics.get(topic)
                if known is None:
                    known = self._topics[topic] = self._for_topic(topic)
                if isinstance(known[0], RowEncoder):
                    self._last_topic, self._last_encoder, self._last_prefix = topic, known[0], known[1]
                made = known[0](given, known[1])
            elif self._context is not None:
                made = self._function(given, self._context(topic, self._field, headers))
            elif self.writes_headers:
                made = self._function(topic, given, headers)
            elif self._takes_topic:
                made = self._function(topic, given)
            else:
                made = self._function(given)
        except OttlaError:
            raise
        except Exception as error:
            raise self._refusal(topic, given, error) from error
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
    appending that. `later(intake, topic, value, key, ...)` is called where a registry has to be asked, if it is given,
    and for all records while `is_asking`, which it sets: it calls `ask` and `learn` first, and `go_on` then.
    """

    is_asking = cython.declare(cython.bint, visibility="public")

    _append = cython.declare(object)
    _key_serializer = cython.declare(Serialization)
    _value_serializer = cython.declare(Serialization)
    _interceptors = cython.declare(object)
    _writes_headers = cython.declare(cython.bint)
    _later = cython.declare(object)

    def __init__(
        self,
        append: object,
        *,
        key_serializer: object = None,
        value_serializer: object = None,
        interceptors: object = None,
        later: object = None,
    ) -> None:
        self._append = append
        self._later = later
        self.is_asking = False
        self._interceptors = interceptors
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._writes_headers = (self._key_serializer is not None and self._key_serializer.writes_headers) or (
            self._value_serializer is not None and self._value_serializer.writes_headers
        )

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

    def has_to_ask(self, topic: object, value: object, key: object) -> cython.bint:
        """Whether a serializer would ask a registry before such a record."""
        return self._has_to_ask(topic, value, key)

    def ask(self, topic: object, value: object, key: object) -> tuple:
        """What a registry says that serializers have to know before such a record; may be called from any thread."""
        of_key: object = None
        of_value: object = None
        if key is not None and self._key_serializer is not None and self._key_serializer.has_to_ask(topic):
            of_key = self._key_serializer.ask(topic, key)
        if value is not None and self._value_serializer is not None and self._value_serializer.has_to_ask(topic):
            of_value = self._value_serializer.ask(topic, value)
        return of_key, of_value

    def learn(self, topic: object, answers: tuple) -> None:
        """Have serializers know what `ask` has given."""
        if answers[0] is not None:
            self._key_serializer.learn(topic, answers[0])
        if answers[1] is not None:
            self._value_serializer.learn(topic, answers[1])

    def go_on(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        on_delivery: object,
    ) -> object:
        """Serialize and append a record that `later` was called for; interceptors have seen it."""
        return self._appended(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    @cython.cfunc
    def _has_to_ask(self, topic: object, value: object, key: object) -> cython.bint:
        if value is not None and self._value_serializer is not None and self._value_serializer.has_to_ask(topic):
            return True
        return key is not None and self._key_serializer is not None and self._key_serializer.has_to_ask(topic)

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
        if self._later is not None and (self.is_asking or self._has_to_ask(topic, value, key)):
            return self._later(self, topic, value, key, headers, partition, timestamp_ms, on_delivery)
        return self._appended(topic, value, key, headers, partition, timestamp_ms, on_delivery)

    @cython.cfunc
    @cython.inline
    def _appended(
        self,
        topic: object,
        value: object,
        key: object,
        headers: object,
        partition: object,
        timestamp_ms: object,
        on_delivery: object,
    ) -> object:
        if self._writes_headers:
            # A list of its own, which serializers may add to.
            headers = [] if headers is None else header_pairs(headers)
        if key is not None and self._key_serializer is not None:
            key = self._key_serializer.serialize(topic, key, headers)
        if value is not None and self._value_serializer is not None:
            value = self._value_serializer.serialize(topic, value, headers)
        if key is None and headers is None and partition is None and timestamp_ms is None and on_delivery is None:
            return self._append(topic, value)
        return self._append(
            topic,
            value,
            key,
            headers=headers,
            partition=partition,
            timestamp_ms=timestamp_ms,
            on_delivery=on_delivery,
        )
