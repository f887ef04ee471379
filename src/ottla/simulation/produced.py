"""Notes when the Produce requests of a run were sent and answered; used if brokers take time for them.

Requests with acks=0 have no answer and are left out.
"""

from __future__ import annotations

from ottla.audit.chronicles.chronicle import ProduceSeen
from ottla.host.crossing import Crossing
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.simulation.states import error_codes


class ProduceRequests:
    """The Produce requests of one run; `seen` is in the order of sending."""

    def __init__(self, owners: dict[int, str]) -> None:
        self.seen: list[ProduceSeen] = []
        # Client number -> producer; the network fills it as clients are made.
        self._owners = owners
        self._unanswered: dict[tuple[str, str, int], ProduceSeen] = {}

    def hear(self, crossing: Crossing) -> None:
        """Note a message if it is a Produce request or its answer."""
        kind = type(crossing.message)
        if kind is ProduceRequest and crossing.message.acks:
            producer = self._owners.get(int(crossing.sender.removeprefix("client-")), "")
            broker_id = int(crossing.receiver.removeprefix("broker-"))
            request = ProduceSeen(producer, broker_id, crossing.at_us, crossing.arrives_us)
            self.seen.append(request)
            self._unanswered[crossing.sender, crossing.receiver, crossing.number] = request
        elif kind is ProduceResponse:
            answered = self._unanswered.pop((crossing.receiver, crossing.sender, crossing.number), None)
            if answered is not None:
                answered.answered_us = crossing.at_us
                answered.is_refused = any(error_codes(crossing.message))
