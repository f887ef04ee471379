"""Connections that forward the requests of another one: a proxy, or a translated address, captured on both sides.

The same requests pass on both connections, with the same bytes: on the second one while they wait for their answers on
the first one. Only the client's connection counts. The one to the broker is left out: otherwise each batch would seem
to be sent twice and stored once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ottla.tap.exchange import Exchange, Outcome

# A request with acks=0, or without an answer, is forwarded within this time.
_CARRIED_ON_US = 4_000_000
# Some packets of either side may not have been captured.
_SHARE = 0.9


def relayed_connections(exchanges: Sequence[Exchange]) -> set[int]:
    """Connections whose requests were seen before, on the client's connection to the proxy."""
    before: dict[tuple[object, ...], list[Exchange]] = {}
    requests: Counter[int] = Counter()
    same: Counter[tuple[int, int]] = Counter()
    with_batches: set[tuple[int, int]] = set()
    asked = [each for each in exchanges if each.request_us is not None]
    for exchange in sorted(asked, key=lambda each: each.time_us):
        requests[exchange.connection] += 1
        batches = tuple(batch.sha256 for part in exchange.partitions for batch in part.batches)
        is_produce = exchange.api == "Produce"
        key = (
            exchange.api,
            exchange.version,
            exchange.correlation_id,
            exchange.client_id,
            exchange.request_bytes,
            batches if is_produce else (),
        )
        seen = before.setdefault(key, [])
        pairs = {(exchange.connection, each.connection) for each in seen if _waits(each, exchange)}
        same.update(pairs)
        if is_produce and batches:
            with_batches |= pairs
        # Few connections of one client are at the same number at once.
        seen[:] = [*(each for each in seen if _waits(each, exchange)), exchange]
    return {
        connection
        for connection, other in with_batches
        if connection != other and same[connection, other] >= _SHARE * requests[connection]
    }


def _waits(earlier: Exchange, later: Exchange) -> bool:
    """Whether the earlier request may still be on its way when the later one is seen."""
    if earlier.outcome is Outcome.ANSWERED and earlier.response_us is not None:
        return later.time_us <= earlier.response_us
    end_us = earlier.time_us + _CARRIED_ON_US
    return later.time_us <= (end_us if earlier.end_us is None else min(end_us, earlier.end_us))
