"""Why no broker answers, as an error with one clear sentence that names the addresses."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.client.io_loop import IoLoop
from ottla.connection.core import REFUSED
from ottla.errors import AuthenticationError, NotKafka, OttlaError, Unreachable


class LastingTrouble:
    """What one wait has seen that waiting cannot mend; once seen it stays, though the next try may begin meanwhile."""

    def __init__(self, loop: IoLoop, addresses: Sequence[tuple[str, int]]) -> None:
        self._loop, self._addresses = loop, addresses
        self.error: OttlaError | None = None

    def seen(self) -> bool:
        """Look, and say whether it was there now or before; `error` holds it then."""
        if self.error is None:
            self.error = lasting_trouble(self._loop, self._addresses)
        return self.error is not None


def lasting_trouble(loop: IoLoop, addresses: Sequence[tuple[str, int]]) -> OttlaError | None:
    """An error when every bootstrap address has shown that waiting will not help, None otherwise."""
    if loop.answered:
        return None
    troubles = dict(loop.troubles)
    if all(address in troubles and troubles[address].is_lasting for address in addresses):
        return unreachable(loop, addresses, None)
    return None


def all_refused(loop: IoLoop, addresses: Sequence[tuple[str, int]]) -> bool:
    """Whether every bootstrap address refused when it was last tried; readers give up early then."""
    troubles = dict(loop.troubles)
    return all(address in troubles and troubles[address].reason == REFUSED for address in addresses)


def unreachable(loop: IoLoop, addresses: Sequence[tuple[str, int]], waited_ms: int | None) -> OttlaError:
    """`AuthenticationError` or `NotKafka` where one of them is why, else `Unreachable`; with what happened where."""
    troubles = dict(loop.troubles)
    seen = [
        str(troubles[address]) if address in troubles else f"{address[0]}:{address[1]} (no answer yet)"
        for address in addresses
    ]
    # Brokers known from earlier metadata.
    seen += [str(trouble) for address, trouble in troubles.items() if address not in addresses]
    where = ", ".join(seen)
    within = "" if waited_ms is None else f" within {waited_ms} ms"
    if any(address in troubles and troubles[address].is_disbelief for address in addresses):
        return AuthenticationError(f"no broker can be used: {where}")
    if any(address in troubles and troubles[address].is_stranger for address in addresses):
        return NotKafka(f"no Kafka broker at {where}; bootstrap_servers must name Kafka listeners")
    return Unreachable(
        f"no Kafka broker could be reached{within} at {where}; "
        "check that the brokers are running and that bootstrap_servers names them"
    )
