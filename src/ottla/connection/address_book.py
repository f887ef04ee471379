"""Why the addresses that one client tries cannot be used, and the errors that say so.

There is one `AddressBook` for each client. Its core notes there each connection that is lost or becomes ready, and
alone calls `have_refused_for`. Any thread may call the other methods that return something: they look at a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.addresses import address_of
from ottla.connection.loss import Loss, LossKind
from ottla.errors import AuthenticationError, NotKafka, OttlaError, Unreachable

Address = tuple[str, int]


class AddressBook:
    """Why each address could not be used when it was last tried; addresses that can be used are not in it."""

    __slots__ = ("_bootstrap", "_losses", "_refusing_since_us", "answered")

    def __init__(self, bootstrap_servers: Sequence[Address]) -> None:
        self._bootstrap = dict.fromkeys(bootstrap_servers)
        self._losses: dict[Address, Loss] = {}
        # Address -> since when every attempt to connect was refused.
        self._refusing_since_us: dict[Address, int] = {}
        # Whether a broker has ever answered a request other than the handshake and SASL.
        self.answered = False

    def lost(self, host: str, port: int, loss: Loss, now_us: int) -> None:
        """Note that a connection to this address could not be opened, or was lost."""
        address = host, port
        # The loss that happened last comes last.
        self._losses.pop(address, None)
        self._losses[address] = loss
        if loss.kind is LossKind.REFUSED:
            self._refusing_since_us.setdefault(address, now_us)
        else:
            self._refusing_since_us.pop(address, None)

    def ready(self, host: str, port: int) -> None:
        """Note that a connection to this address can be used."""
        self._losses.pop((host, port), None)
        self._refusing_since_us.pop((host, port), None)

    def loss(self, host: str, port: int) -> Loss | None:
        """Return why this address could not be used when it was last tried."""
        return self._losses.get((host, port))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is wrong with any address, as far as is known."""
        return not self._losses

    def all_refused(self) -> bool:
        """Tell whether every bootstrap address refused when it was last tried."""
        return self._all_are(LossKind.REFUSED)

    def all_closed_early(self) -> bool:
        """Tell whether no broker has ever answered, and every bootstrap address closed the last connection early."""
        return not self.answered and self._all_are(LossKind.CLOSED_EARLY)

    def _all_are(self, kind: LossKind) -> bool:
        losses = dict(self._losses)
        return all(address in losses and losses[address].kind is kind for address in self._bootstrap)

    def have_refused_for(self, patience_us: int, now_us: int) -> bool:
        """Tell whether no broker has ever answered, and every bootstrap address has refused for this long."""
        since = self._refusing_since_us
        if self.answered or len(since) < len(self._bootstrap):
            return False
        return max(since.values()) + patience_us <= now_us

    def lasting_error(self) -> OttlaError | None:
        """Return an error where no broker has ever answered and every bootstrap address has a lasting loss."""
        if self.answered:
            return None
        losses = dict(self._losses)
        if all(address in losses and losses[address].is_lasting for address in self._bootstrap):
            # Of the same copy: meanwhile the I/O thread may have found an address that can be used.
            return self._error(losses)
        return None

    def error(self, waited_ms: int | None = None) -> OttlaError:
        """Return why no broker can be used, with what happened at each address.

        AuthenticationError where TLS or SASL failed at one of them. NotKafka where no broker ever answered, all
        bootstrap addresses were tried, and something that does not speak Kafka is at one of them. Else Unreachable.
        """
        return self._error(dict(self._losses), waited_ms)

    def _error(self, losses: dict[Address, Loss], waited_ms: int | None = None) -> OttlaError:
        addresses = [*self._bootstrap, *(address for address in losses if address not in self._bootstrap)]
        where = ", ".join(_told(address, losses.get(address)) for address in addresses)
        if any(loss.is_unauthenticated for loss in losses.values()):
            return AuthenticationError(f"no broker can be used: {where}")
        all_tried = all(address in losses for address in self._bootstrap)
        if not self.answered and all_tried and any(loss.kind is LossKind.NOT_KAFKA for loss in losses.values()):
            return NotKafka(f"no Kafka broker at {where}; bootstrap_servers must name Kafka listeners")
        within = "" if waited_ms is None else f" within {waited_ms} ms"
        return Unreachable(
            f"no Kafka broker could be reached{within} at {where}; "
            "check that the brokers are running and that the address is right"
        )

    def error_after(self, waited_ms: int) -> OttlaError:
        """Return `error` with the time that was waited; where all addresses refused, the time is left out."""
        return self.error(None if self.all_refused() else waited_ms)


class LastingError:
    """The first lasting error that one wait has seen; it stays, whatever the next attempt to connect shows."""

    def __init__(self, addresses: AddressBook) -> None:
        self._addresses = addresses
        self.error: OttlaError | None = None

    def seen(self) -> bool:
        """Whether there is such an error now, or was one before; `error` is it then."""
        if self.error is None:
            self.error = self._addresses.lasting_error()
        return self.error is not None


def _told(address: Address, loss: Loss | None) -> str:
    return f"{address_of(*address)} ({'no answer yet' if loss is None else loss.detail})"
