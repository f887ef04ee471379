"""Faults of clients' connections: how they are drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ottla.faults.fault import Fault

if TYPE_CHECKING:
    from ottla.faults.site import Drawing, Span

_LASTS_US = 2_000_000


class ClientFault(Fault):
    """Something is wrong between a broker and its clients, or one of them."""

    broker_id: int | None
    client_id: str | None

    @property
    def waits(self) -> bool:
        """It fires for what comes while it is in force."""
        return True

    @classmethod
    def draw(cls, drawing: Drawing, span: Span) -> Self | None:
        """For one client, or for all, and a broker to which it sends something."""
        chance = drawing.chance
        client = chance.choice([None, *drawing.producers, *drawing.readers])
        if client in drawing.readers:
            if not drawing.await_requests(span, "Fetch", None, 1):
                return None
            span.lasts_us = max(span.lasts_us, _LASTS_US)
            topic = next(each for each in drawing.topics if each.name == drawing.readers[client])
            leaders = [drawing.timetable.leader(topic.name, number) for number in range(topic.partitions)]
        else:
            sending = drawing.await_sending(span, client)
            leaders = list(drawing.brokers) if sending is None else [drawing.timetable.leader_of(sending, chance)]
        up = drawing.up(span.at_us, "pause")
        affected = [each for each in leaders if each in up]
        return cls(broker_id=chance.choice(affected), client_id=client) if affected else None
