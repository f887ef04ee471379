"""A client that sends a side's records in place of ottla's producer, and what it has to do.

A side hands records over one by one, flushes, and closes. The sender notes the outcome of each record in the side's
ledger; a record without one is unknown. A sender that cannot go on raises ClientEnded, once; `close` is called all the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.connection.security_settings import SECURITY_SETTINGS
from ottla.trial.ledger import SideLedger

_SECRETS = frozenset(row.name for row in SECURITY_SETTINGS if row.secret)


class ClientEnded(Exception):
    """The client takes no more records. Why is in `Sender.problems`."""


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
        """Whether brokers acknowledge records (False for acks=0)."""
        return str(self.settings.get("acks", "all")) != "0"

    def shown(self, name: str) -> str:
        """A setting as Kafka's files have it: name=value; a secret one by its name alone."""
        if name in _SECRETS:
            return name
        value = self.settings[name]
        return f"{name}={str(value).lower() if isinstance(value, bool) else value}"


Opening = Callable[[SendingOrder, SideLedger], "Sender"]
"""Starts a client for one side."""


class Sender(Protocol):
    """Sends the records of one side and tells its ledger what became of them.

    `client`: its name and version. `impossible`: why this client cannot send as the side wants it; None if it can.
    `without`: those of the trial's own settings that it does not have. `problems`: why what it told is not whole.
    `takes_records`: whether it is possible and has not ended.
    """

    @property
    def client(self) -> str: ...

    @property
    def impossible(self) -> str | None: ...

    @property
    def without(self) -> tuple[str, ...]: ...

    @property
    def problems(self) -> tuple[str, ...]: ...

    @property
    def takes_records(self) -> bool: ...

    def hand_over(
        self, number: int, partition: int | None, key: bytes | None, value: bytes, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        """Send the record of this number, which the ledger knows; to the partition of the client's choice for None."""

    def flush(self) -> None:
        """Wait until all records that were handed over have an outcome."""

    def close(self) -> None:
        """Wait for all outcomes and end; after this no outcome comes any more."""

    def abandon(self) -> None:
        """End at once, and wait for nothing: the trial is over. May be called more than once."""
