"""What `Producer` and `AsyncProducer` share: how they are made, their metrics, their `repr`.

Each of them says how its users wait and which of the appender's methods its `send` is; here the parts are put together.
`send` becomes an attribute of the instance (`own_send.py`), so that callers call compiled code directly.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from ottla.addresses import addresses_of
from ottla.client.channel import SocketBuffers
from ottla.client.client_ids import client_id_of
from ottla.client.lifetime import OfOneProcess
from ottla.client.own_send import SendsOfProducers, begin_to_send
from ottla.client.producer_driver import ProducerDriver
from ottla.client.sending import sending
from ottla.client.table_sender import TableSender
from ottla.connection.setting import named_in_help
from ottla.errors import ConfigError, ProducerFenced
from ottla.foreign_names import ProducerNames, servers_come_first
from ottla.producer.settings import ProducerSettings
from ottla.producer.settings_table import PRODUCER_SETTINGS

if TYPE_CHECKING:
    from ottla.client.coroutine_waits import CoroutineWaits
    from ottla.client.producer_settings_keywords import ProducerSettingsKeywords
    from ottla.client.thread_waits import ThreadWaits
    from ottla.client.transaction_verbs import TransactionVerbs
    from ottla.producer.diagnosis import Diagnosis
    from ottla.producer.figures import Metrics
    from ottla.producer.transaction_states import TransactionIdentity
    from ottla.records.append import Appender

# A text is sent as UTF-8, as keys and values are.
Headers = Sequence[tuple[str, bytes | bytearray | memoryview | str | None]]
Waits = TypeVar("Waits", "ThreadWaits", "CoroutineWaits")


class ProducerBase(OfOneProcess, ProducerNames, Generic[Waits], metaclass=SendsOfProducers):
    """A producer without its calls; a subclass sets `_waits_class` and `_appending`, and may override `_later`."""

    _waits_class: type[Waits]
    # The same for both; tests set another one.
    _driver_class = ProducerDriver

    @servers_come_first
    @named_in_help(PRODUCER_SETTINGS)
    def __init__(self, bootstrap_servers: str | Sequence[str], **settings: Unpack[ProducerSettingsKeywords]) -> None:
        self._begin({"bootstrap_servers": bootstrap_servers, **settings})

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """A producer from Kafka's dotted names: `{"bootstrap.servers": "localhost:9092", "linger.ms": 5}`."""
        if not isinstance(config, Mapping):
            raise ConfigError(
                f"from_config takes a dict of settings, such as {{'bootstrap.servers': 'localhost:9092'}}, not "
                f"{type(config).__name__}."
            )
        producer = cls.__new__(cls)
        producer._begin(dict(config))
        return producer

    def _begin(self, given: dict[str, Any]) -> None:
        self._settings = settings = ProducerSettings(given)
        connection = settings.connection
        connection.client_id = client_id_of("producer", connection.client_id, settings.transactional_id)
        rng = Random()
        self._waits: Waits = self._waits_class()
        self._driver = driver = self._driver_class(settings, rng, SocketBuffers.of(connection, given), self._waits)
        self._tables = TableSender(driver, rng, given)
        self._send = sending(self._appending(driver.appender), settings, driver.interceptors, self._later())
        begin_to_send(self)
        # The I/O thread has no reference to the producer. When that is dropped without close, what was sent is
        # delivered, and the thread ends. Before the thread starts: Ctrl+C may come at any moment after that.
        self._abandon: Any = weakref.finalize(self, driver.abandon)
        self._abandon.atexit = False
        driver.start()

    @staticmethod
    def _appending(appender: Appender) -> Callable[..., Any]:
        """The appender's method that `send` is."""
        raise NotImplementedError

    def _later(self) -> Callable[..., Any] | None:
        """What `Intake` calls instead of asking a registry within `send`; None where `send` itself asks and waits."""
        return None

    @property
    def _transactions(self) -> TransactionVerbs:
        return self._driver.transactions

    def _prepared(self) -> TransactionIdentity:
        """The identity of the transaction that was prepared."""
        identity = self._driver.core.transaction_identity
        assert identity is not None
        return identity

    def metrics(self) -> Metrics:
        """The producer's metrics at this moment, under the names of Kafka's producer metrics.

        `metrics()["record-send-rate"]` is the producer's, `metrics().nodes[1]["request-latency-avg"]` a broker's,
        `metrics().topics["flights"]["byte-rate"]` a topic's; `all()` lists everything with group and tags. Rates,
        averages and maxima are those of the last `metrics.num.samples` times `metrics.sample.window.ms`.
        The page "Metrics" of the documentation says what each name means.
        """
        return self._driver.metrics()

    def diagnosis(self) -> Diagnosis:
        """What limits this producer now, by its own metrics, and which setting to try.

        `str()` of it is a sentence; `findings` are the parts, the heaviest first, each with `limit`, `sentence`,
        `evidence`, `setting` and `value`. Without findings nothing in the producer limits it, or too little was sent
        lately to know (`is_certain` is False then). It covers the same time as averages in `metrics`.
        The page "What limits a producer" of the documentation says what each finding means.
        """
        return self._driver.diagnosis()

    def __repr__(self) -> str:
        """Its name, brokers and state, without asking a broker."""
        kind = type(self).__name__
        if not hasattr(self, "_abandon"):
            return f"<{kind} that was not made>"  # its settings were refused, and a traceback shows it
        settings = self._settings
        addresses = addresses_of(settings.connection.bootstrap_servers)
        told = [*_standing(self._driver), f"client.id {settings.connection.client_id}"]
        identity = self._driver.core.transaction_identity
        if identity is not None:
            told.append(f"transactional.id {identity.transactional_id}")
        return f"<{kind} for {addresses}: {', '.join(told)}, {settings.promise()}>"


def _standing(driver: ProducerDriver) -> list[str]:
    """Whether it can send, and how many records have no outcome yet."""
    if driver.gate.has_forked:
        return ["belongs to the parent process"]
    refusal = driver.core.transaction_refusal
    standing = ""
    gate = driver.gate
    if gate.crash is not None:
        standing = "crashed"
    elif refusal is not None and refusal.fatal:
        standing = "fenced" if isinstance(refusal, ProducerFenced) else "unusable"
    if driver.has_ended and gate.crash is None:
        return [f"{standing} and closed" if standing else "closed"]
    count = driver.appender.records_appended - driver.records_settled
    return [
        standing or ("closing" if gate.is_closed else "open"),
        f"{count} record{'' if count == 1 else 's'} buffered",
    ]
