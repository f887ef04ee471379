"""A broker's decisions: requests in, answers out, logs kept through the storage port; no sockets, no clock, no threads.

How a driver runs it: `receive` an event, then carry out `outputs()` in order; `deadline_us()` says when to call
`tick`. Requests of one connection are handled one at a time in the order they came: what arrives while an answer is
owed waits inside the core (`queued` counts it, so that a driver can stop reading from the socket). After `HangUp`
whatever else had arrived on that connection is dropped; the driver reports every ended connection, also those it
closed on `HangUp`, with `ConnectionLost`. Connection ids are used once.

Peers: `AskPeer` reaches the other broker as a `RequestReceived` on a connection of its own, with the highest version
of `ottla.broker.apis.VERSIONS`; what that broker answers comes back as `PeerAnswered`. Records of a request are
patched in place (base offset and leader epoch) where their memory is writable and passed on to followers by
reference, so a driver must hand over memory that nobody writes to again.

Invariants: nothing is acknowledged that was not appended; a partition's log is read by consumers below its high
watermark only; an OSError of the storage becomes KAFKA_STORAGE_ERROR for that partition and harms no other.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.broker.settings import BrokerSettings
from ottla.broker.storage import Storage
from ottla.faults.plan import FaultPlan


class BrokerCore:
    """One broker: `storage` is its own folder, `faults` (shared by the brokers of a cluster) strikes its requests.

    Logs are opened and recovered when the first `ImagePublished` names them; until then no partition is known.
    """

    def __init__(
        self,
        broker_id: int,
        storage: Storage,
        settings: BrokerSettings,
        rng: Random,
        faults: FaultPlan | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.storage = storage
        self.settings = settings
        self.rng = rng
        self.faults = faults if faults is not None else FaultPlan()

    def receive(self, event: Any, now_us: int) -> None:
        """Take a RequestReceived, ConnectionLost, PeerAnswered, ControllerAnswered or ImagePublished."""
        raise NotImplementedError

    def outputs(self) -> list[Any]:
        """What must now be done, in order: Respond, HangUp, AskPeer, AskController; each is handed out once."""
        raise NotImplementedError

    def deadline_us(self) -> int | None:
        """When `tick` is due at the latest; None while nothing waits."""
        raise NotImplementedError

    def tick(self, now_us: int) -> None:
        """Answer what has waited long enough."""
        raise NotImplementedError

    def queued(self, connection_id: int) -> int:
        """Requests of this connection that wait for their turn (the one being handled not counted)."""
        raise NotImplementedError

    def close(self) -> None:
        """Close all logs in order and leave a mark, so that the next start need not check every byte."""
        raise NotImplementedError
