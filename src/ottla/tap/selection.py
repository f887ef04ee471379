"""Which exchanges the user wants to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.errors import UserMistake
from ottla.nearest import nearest_name
from ottla.tap.api_names import API_NAMES
from ottla.tap.exchange import Exchange, Outcome, PartitionPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What an exchange must be, all of it; None and empty ask for nothing.

    `errors`: it has an error code, was not answered, or carries a batch whose CRC is wrong.
    `slower_than_us`: its answer took longer, or never came.
    """

    apis: frozenset[str] = frozenset()
    topic: str | None = None
    partition: int | None = None
    client_id: str | None = None
    errors: bool = False
    slower_than_us: int | None = None

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == Selection()

    def wants(self, exchange: Exchange) -> bool:
        """Whether the exchange is one of them."""
        if self.apis and exchange.api not in self.apis:
            return False
        if self.client_id is not None and exchange.client_id != self.client_id:
            return False
        if (self.topic is not None or self.partition is not None) and not self.parts(exchange):
            return False
        if self.errors and not has_failed(exchange):
            return False
        return self.slower_than_us is None or _is_slower(exchange, self.slower_than_us)

    def parts(self, exchange: Exchange) -> tuple[PartitionPart, ...]:
        """What the exchange says of the topic and the partition that are wanted."""
        return tuple(
            part
            for part in exchange.partitions
            if self.topic in (None, part.topic, part.topic_id) and self.partition in (None, part.partition)
        )


def parse_apis(names: Sequence[str]) -> frozenset[str]:
    """The names of APIs as Kafka spells them; UserMistake for one that no API has."""
    known = {name.lower(): name for name in API_NAMES.values()}
    found = []
    for name in names:
        if name.lower() not in known:
            near = nearest_name(name, API_NAMES.values())
            hint = f"did you mean {near}?" if near else "give one such as Produce, Fetch or Metadata"
            raise UserMistake(f"--api {name} is no API of Kafka: {hint}")
        found.append(known[name.lower()])
    return frozenset(found)


def has_failed(exchange: Exchange) -> bool:
    """Whether something about the exchange went wrong, as far as it was seen."""
    is_damaged = any(batch.is_intact is False for part in exchange.partitions for batch in part.batches)
    return bool(exchange.errors) or is_damaged or exchange.outcome is Outcome.UNANSWERED


def _is_slower(exchange: Exchange, limit_us: int) -> bool:
    latency_us = exchange.latency_us
    return exchange.outcome is Outcome.UNANSWERED if latency_us is None else latency_us > limit_us
