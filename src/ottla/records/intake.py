"""What is done to a record before it is appended: interceptors, then serializers (compiled).

A producer without them has the appender's own `send`; one with them has `Intake.send`, which calls that in the end. The
order is Java's: interceptors get objects, serializers turn them into bytes, and the partitioner, which comes after
them, gets bytes. All of it happens in the call of `send`: if an object is changed later, what was sent stays the same.

In an event loop a schema registry is not asked here, because that would block: `later` is given there, which calls
`ask` in a thread first. It is needed once for each topic; for later records only two comparisons are added.

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
    """Makes a payload of an object, by a schema: `Serialization` calls it as a C method."""

    @cython.cfunc
    def encode(self, value: object, prefix: bytes) -> bytes:
        """The payload, with `prefix` in front."""
        raise NotImplementedError

    def __call__(self, value: object, prefix: bytes) -> bytes:
        return self.encode(value, prefix)


@cython.final
@cython.cclass
class Serialization:
    """One serializer; `setting` is `key.serializer` or `value.serializer`.

    It is a function of the object, or has a method `serialize(topic, object)`, or one
    `serialize_with_headers(topic, object, headers)`, which may add (name, value) tuples to that list; or it is a
    `Serializer` of confluent_kafka. Each returns bytes, text (sent as UTF-8) or None. Errors call it `name`; None: the
    name of its class or function.

    ottla's serializers with a schema registry have a method `for_topic(topic)` instead. It is called once for each
    topic, and returns a function of an object and a prefix (such as a `RowEncoder`), and the prefix. Those that write
    headers have `ask(topic)`, which only asks the registry.
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
    # Topic -> what the registry's answer gave for it.
    _topics = cython.declare(dict)
    # The last record's topic, if it has a RowEncoder: most programs send to one topic.
    _last_topic = cython.declare(object)
    _last_encoder = cython.declare(RowEncoder)
    _last_prefix = cython.declare(bytes)

    def __init__(self, setting: str, serializer: object, name: object = None) -> None:
        self._setting = setting
        given = serializer
        # One with a schema registry makes a serializer for keys or for values.
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
        # If it is a serializer of confluent_kafka, that was imported.
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
        # Any other topic gets its error later.
        return isinstance(topic, str) and topic not in self._topics

    @cython.cfunc
    def ask(self, topic: object, given: object) -> object:
        """Return the registry's answer about this topic, for `learn`."""
        try:
            return self._ask(topic) if self._for_topic is None else self._for_topic(topic)
        except OttlaError:
            raise
        except Exception as error:
            raise self._refusal(topic, given, error) from error

    @cython.cfunc
    def learn(self, topic: object, answer: object) -> object:
        """Keep the answer about this topic: `serialize` need not ask any more."""
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
        """Return the payload of an object; `headers` must be a list if `writes_headers`."""
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
        except RecordError as error:
            if self._setting == "value.serializer":
                raise
            told = str(error)
            error.args = (f"The key of a record to {topic!r}: {told[:1].lower()}{told[1:]}",)
            raise
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
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


@cython.final
@cython.cclass
class Intake:
    """`send` for a producer with interceptors or serializers; `append` is the appender's own, or its `send_async`.

    The serializers are `Serialization`s. `interceptors` has `on_send`, which takes and returns (topic, value, key,
    headers, partition, timestamp_ms); after appending, `watched(parts, sent)` or `refused(parts, error)` is called. If
    `later` is given, `later(intake, topic, value, key, ...)` is called where a registry has to be asked, and for all
    records while `is_asking`, which it sets: it calls `ask` and `learn`, and then `go_on`.
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
        """Return the registry's answers that serializers need for such a record; may be called from any thread."""
        of_key: object = None
        of_value: object = None
        if key is not None and self._key_serializer is not None and self._key_serializer.has_to_ask(topic):
            of_key = self._key_serializer.ask(topic, key)
        if value is not None and self._value_serializer is not None and self._value_serializer.has_to_ask(topic):
            of_value = self._value_serializer.ask(topic, value)
        return of_key, of_value

    def learn(self, topic: object, answers: tuple) -> None:
        """Give the serializers the answers that `ask` returned."""
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
            # A new list, which serializers may add to.
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
