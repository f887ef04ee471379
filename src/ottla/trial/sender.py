"""Who sends a side's records: our own producer in this process, or a client in a process of its own.

A runner hands records over one by one, flushes, and closes. What became of each record is told into the side's ledger;
what is not told there is unknown. A sender that cannot go on raises ClientEnded, once; `close` is called all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from ottla.client.producer import Producer
from ottla.errors import BufferFull, ConfigError, DeliveryError, DeliveryUnknown, OttlaError
from ottla.trial.ledger import SideLedger

_PATIENCE_S = 30.0


class ClientEnded(Exception):
    """The client takes no more records. Why is in `Sender.troubles`."""


@dataclass(slots=True, frozen=True)
class SendingOrder:
    """What a sender has to do: where the records go, and under which settings.

    `settings` are all of them, under Kafka's names with dots. `required` are the names that the side itself gives: the
    others are the trial's own, and a client may be without them.
    """

    bootstrap_servers: str
    topic: str
    settings: Mapping[str, Any]
    required: frozenset[str]
    side: str

    @property
    def delivery_timeout_s(self) -> float:
        """Until when a record has an outcome."""
        return float(self.settings.get("delivery.timeout.ms", 30_000)) / 1000

    @property
    def is_answered(self) -> bool:
        """Whether brokers tell what became of a record (False for acks=0)."""
        return str(self.settings.get("acks", "all")) != "0"

    def shown(self, name: str) -> str:
        """A setting as Kafka's files have it: name=value."""
        value = self.settings[name]
        return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


Opening = Callable[[SendingOrder, SideLedger], "Sender"]
"""Starts a client for one side."""


class Sender(Protocol):
    """Sends the records of one side and tells its ledger what became of them.

    `client`: its name and version. `impossible`: why this client cannot send as the side wants it; None if it can.
    `without`: those of the trial's own settings that it does not have. `troubles`: why what it told is not whole.
    `takes_records`: whether it is possible and has not ended.
    """

    @property
    def client(self) -> str: ...

    @property
    def impossible(self) -> str | None: ...

    @property
    def without(self) -> tuple[str, ...]: ...

    @property
    def troubles(self) -> tuple[str, ...]: ...

    @property
    def takes_records(self) -> bool: ...

    def hand_over(
        self, number: int, partition: int, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        """Send the record of this number, which the ledger knows."""

    def flush(self) -> None:
        """Wait until all records that were handed over have an outcome."""

    def close(self) -> None:
        """Wait for all outcomes and end; after this everything is told that ever will be."""


class OwnSender:
    """ottla's producer."""

    impossible: str | None = None
    without: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()
    takes_records = True

    def __init__(self, order: SendingOrder, ledger: SideLedger) -> None:
        self._topic = order.topic
        self._ledger = ledger
        self._deliveries: dict[int, Any] = {}
        settings: dict[str, Any] = {name.replace(".", "_"): value for name, value in order.settings.items()}
        try:
            self._producer = Producer(order.bootstrap_servers, **settings)
        except TypeError as error:
            raise ConfigError(f"the producer of side {order.side!r}: {error}") from None

    @property
    def client(self) -> str:
        """Its name and version."""
        try:
            return f"ottla {version('ottla')}"
        except PackageNotFoundError:  # a source tree that was never installed
            return "ottla"

    def hand_over(
        self, number: int, partition: int, key: bytes, value: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        """Send it; one for which there is no room has failed."""
        try:
            delivery = self._producer.send(self._topic, value, key, headers=list(headers), partition=partition)
        except BufferFull as error:
            self._ledger.tell_failed(number, partition, str(error))
        else:
            self._deliveries[number] = delivery

    def flush(self) -> None:
        """Wait for all outcomes."""
        # What was not delivered is told by its own delivery.
        with suppress(DeliveryError):
            self._producer.flush()

    def close(self) -> None:
        """Close the producer and tell all outcomes."""
        with suppress(OttlaError):
            self._producer.close()
        for number, delivery in self._deliveries.items():
            self._tell(number, delivery)

    def _tell(self, number: int, delivery: Any) -> None:
        error = delivery.exception(_PATIENCE_S)
        if error is None:
            metadata = delivery.result(0)
            if metadata.offset >= 0:
                self._ledger.tell_acked(number, metadata.partition, metadata.offset)
            else:
                self._ledger.tell_unknown(number, metadata.partition, "acks=0: nobody was asked")
        elif isinstance(error, DeliveryUnknown):
            self._ledger.tell_unknown(number, delivery.partition, str(error))
        else:
            self._ledger.tell_failed(number, delivery.partition, str(error))
