"""Why a connection could not be opened, or was lost: a kind that cores decide by, and a clause for a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class LossKind(IntEnum):
    """What is the matter with an address, or with a connection to it."""

    FAILED = 0
    """Anything else: the machine cannot be reached, or nothing came in time. The next try may succeed."""
    CLOSED = 1
    """The other side ended the connection."""
    REFUSED = 2
    """Nobody listens at the address."""
    UNRESOLVABLE = 3
    """The name has no address."""
    NOT_KAFKA = 4
    """What answered does not speak the Kafka protocol."""
    CLOSED_EARLY = 5
    """The other side ended the connection after its first answers; it may want SASL."""
    CLOSED_IN_TLS_HANDSHAKE = 6
    """The other side ended the connection within the TLS handshake; it may speak no TLS."""
    TLS_FAILED = 7
    """The TLS handshake failed: one side does not trust the other's certificate, or speaks other versions."""
    SASL_FAILED = 8
    """One side did not prove to the other who it is."""


_UNAUTHENTICATED = (LossKind.TLS_FAILED, LossKind.SASL_FAILED)
_LASTING = (LossKind.UNRESOLVABLE, LossKind.NOT_KAFKA, *_UNAUTHENTICATED)


@dataclass(slots=True, frozen=True)
class Loss:
    """One reason; `detail` is a clause for a person: "connection refused", "closed by the broker"."""

    kind: LossKind
    detail: str

    @property
    def is_unauthenticated(self) -> bool:
        """Whether client and broker do not trust each other, by TLS or by SASL."""
        return self.kind in _UNAUTHENTICATED

    @property
    def is_lasting(self) -> bool:
        """Whether trying again does not help."""
        return self.kind in _LASTING


class Lost(Exception):
    """What a driver raises inside: the connection is of no use any more, for the reason in `loss`."""

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
    """A reason that may have gone at the next try."""
    return Loss(LossKind.FAILED, detail)


def not_kafka(detail: str = "") -> Loss:
    """What answered is no Kafka broker; `detail` follows the clause that says so."""
    return Loss(LossKind.NOT_KAFKA, f"answered with something that is not the Kafka protocol{detail}")


def tls_failed(detail: str) -> Loss:
    """The TLS handshake failed; `detail` follows the clause that says so."""
    return Loss(LossKind.TLS_FAILED, f"the TLS handshake failed{detail}")


def sasl_failed(detail: str) -> Loss:
    """Authentication by SASL failed, for this reason."""
    return Loss(LossKind.SASL_FAILED, f"authentication failed: {detail}")
