"""What `Producer` and `AsyncProducer` are alike in: how they begin, how records get in, their figures and their name.

A front names its driver's class and which of the appender's methods its `send` is; here the parts are put together.
`send` becomes an attribute of the instance, so that between the caller and compiled code nothing interpreted is left.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from ottla.client.channel import SocketBuffers
from ottla.client.client_ids import client_id_of
from ottla.client.lifetime import OfOneProcess
from ottla.client.producer_driver import ProducerDriver
from ottla.client.sending import sending
from ottla.client.table_sender import TableSender
from ottla.errors import ConfigError, OttlaError
from ottla.producer.settings import ProducerSettings

if TYPE_CHECKING:
    from ottla.client.producer_settings_keywords import ProducerSettingsKeywords
    from ottla.client.transaction_verbs import TransactionVerbs
    from ottla.producer.figures import Metrics
    from ottla.producer.transaction_states import TransactionIdentity
    from ottla.records.append import Appender

_log = logging.getLogger("ottla.producer")

Headers = Sequence[tuple[str, bytes | None]]
Driver = TypeVar("Driver", bound=ProducerDriver)


class ProducerFront(OfOneProcess, Generic[Driver]):
    """The front of a driver; `_driver_class` and `_appending` are what tells one front from another."""

    _driver_class: type[Driver]

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
        self._driver = driver = self._driver_class(settings, rng, SocketBuffers.of(connection, given))
        self._tables = TableSender(driver, rng, given)
        self.send = sending(self._appending(driver.appender), settings, driver.interceptors)
        driver.start()
        # The thread must not keep the producer alive: dropped without close, it delivers what was sent and ends.
        self._abandon = weakref.finalize(self, driver.abandon)
        self._abandon.atexit = False

    @staticmethod
    def _appending(appender: Appender) -> Callable[..., Any]:
        """The appender's method that `send` is."""
        raise NotImplementedError

    @property
    def _transactions(self) -> TransactionVerbs:
        return self._driver.transactions

    def _prepared(self) -> TransactionIdentity:
        """Who may end the transaction that was prepared."""
        identity = self._driver.core.transaction_identity
        assert identity is not None
        return identity

    def metrics(self) -> Metrics:
        """The producer's figures at this moment, under the names of Kafka's producer metrics.

        `metrics()["record-send-rate"]` is the producer's, `metrics().nodes[1]["request-latency-avg"]` a broker's,
        `metrics().topics["flights"]["byte-rate"]` a topic's; `all()` lists everything with group and tags. Rates,
        averages and maxima are those of the last `metrics.num.samples` times `metrics.sample.window.ms`.
        docs/metrics.md says what each name means.
        """
        return self._driver.metrics()

    def __repr__(self) -> str:
        addresses = ",".join(f"{host}:{port}" for host, port in self._settings.connection.bootstrap_servers)
        return f"<{type(self).__name__} for {addresses}: {self._settings.promise()}>"


def log_closing(error: BaseException, closing: OttlaError) -> None:
    """Tell of a close that failed after a block had raised, whose error is the one to hear of."""
    _log.error("closing the producer after %s: %s", type(error).__name__, closing)
