"""Why a connection could not be opened, or was lost: a kind, by which cores decide, and a clause for a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class LossKind(IntEnum):
    """What is wrong with an address, or with a connection to it."""

    FAILED = 0
    """Anything else: the machine cannot be reached, or nothing came in time. The next try may succeed."""
    CLOSED = 1
    """The other side ended the connection."""
    REFUSED = 2
    """Nothing listens at the address."""
    UNRESOLVABLE = 3
    """The host name has no IP address."""
    NOT_KAFKA = 4
    """What answered does not speak the Kafka protocol."""
    CLOSED_EARLY = 5
    """The other side ended the connection after its first answers; it may want SASL."""
    CLOSED_IN_TLS_HANDSHAKE = 6
    """The other side ended the connection during the TLS handshake; it may not speak TLS."""
    TLS_FAILED = 7
    """The TLS handshake failed: one side does not trust the other's certificate, or speaks other versions."""
    SASL_FAILED = 8
    """Authentication by SASL failed."""


_UNAUTHENTICATED = (LossKind.TLS_FAILED, LossKind.SASL_FAILED)
_LASTING = (LossKind.UNRESOLVABLE, LossKind.NOT_KAFKA, *_UNAUTHENTICATED)


@dataclass(slots=True, frozen=True)
class Loss:
    """One reason; `detail` is a clause for a person: "connection refused", "closed by the broker"."""

    kind: LossKind
    detail: str

    @property
    def is_unauthenticated(self) -> bool:
        """Whether TLS or SASL failed."""
        return self.kind in _UNAUTHENTICATED

    @property
    def is_lasting(self) -> bool:
        """Whether trying again does not help."""
        return self.kind in _LASTING


class Lost(Exception):
    """What a driver raises in its own code: the connection cannot be used any more; `loss` says why."""

    def __init__(self, loss: Loss) -> None:
        super().__init__(loss.detail)
        self.loss = loss


REFUSED = Loss(LossKind.REFUSED, "connection refused")
CLOSED_BY_BROKER = Loss(LossKind.CLOSED, "closed by the broker")
CLOSED_IN_TLS_HANDSHAKE = Loss(
    LossKind.CLOSED_IN_TLS_HANDSHAKE,
    "the connection ended within the TLS handshake; is it a listener without TLS (then set security.protocol "
    "without SSL)?",
)


def failed(detail: str) -> Loss:
    """A loss that may not happen again at the next attempt."""
    return Loss(LossKind.FAILED, detail)


def not_kafka(detail: str = "") -> Loss:
    """What answered is no Kafka broker; `detail` is added to the clause that says so."""
    return Loss(LossKind.NOT_KAFKA, f"answered with something that is not the Kafka protocol{detail}")


def tls_failed(detail: str) -> Loss:
    """The TLS handshake failed; `detail` is added to the clause that says so."""
    return Loss(LossKind.TLS_FAILED, f"the TLS handshake failed{detail}")


def sasl_failed(detail: str) -> Loss:
    """Authentication by SASL failed, for this reason."""
    return Loss(LossKind.SASL_FAILED, f"authentication failed: {detail}")
