"""How long clients must wait that send, or read, more than their quotas allow (KIP-13, KIP-219, KIP-546).

A quota is for an entity: a user, a client id, both, or all users or client ids without a quota of their own. Of those
that match a client, the most specific one holds, in Kafka's order. A quota for a user is shared by all clients of that
user.

Bytes are counted in `quota.window.num` windows of `quota.window.size.seconds`, as in Kafka. A client beyond its quota
waits until its bytes, divided by the time including this wait, are within it.

Invariants: bytes without a quota are not counted; when many clients are known, those without recent bytes are
forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from ottla.broker.events import QuotaEntity
from ottla.broker.settings import BrokerSettings

PRODUCED, CONSUMED = "producer_byte_rate", "consumer_byte_rate"
USER, CLIENT_ID, IP = "user", "client-id", "ip"
# The name of those that have no quota of their own.
DEFAULT = None
# As many milliseconds as an answer can say.
_WAIT_MS_MAX = (1 << 31) - 1
# How many clients are kept before those without recent bytes are forgotten.
_CLIENTS_MAX = 10_000


class ByteRate:
    """How many bytes went through in the last windows."""

    __slots__ = ("_samples", "_window_us", "_windows")

    def __init__(self, windows: int, window_us: int) -> None:
        self._windows = windows
        self._window_us = window_us
        # [when a window began, bytes in it]
        self._samples: deque[list[int]] = deque()

    def add(self, size: int, limit: float, now_us: int) -> int:
        """Count these bytes; the milliseconds to wait where there are more than `limit` a second."""
        samples, window_us = self._samples, self._window_us
        while samples and samples[0][0] <= now_us - self._windows * window_us:
            samples.popleft()
        if not samples or now_us - samples[-1][0] >= window_us:
            samples.append([now_us, 0])
        samples[-1][1] += size
        elapsed_us = now_us - samples[0][0]
        # A rate is that of nearly all windows, even where counting has only begun.
        elapsed_us += max(0, self._windows - 1 - elapsed_us // window_us) * window_us
        elapsed_us = max(elapsed_us, window_us)
        allowed = limit * elapsed_us / 1_000_000
        total = sum(count for _, count in samples)
        return 0 if total <= allowed else min(round((total - allowed) / limit * 1000), _WAIT_MS_MAX)

    def is_over(self, now_us: int) -> bool:
        """Whether there were no bytes in any of the windows that count."""
        return not self._samples or self._samples[-1][0] <= now_us - self._windows * self._window_us


class ClientQuotas:
    """The quotas of a cluster, and how far one broker's clients have used them."""

    def __init__(self, settings: BrokerSettings) -> None:
        self._windows = settings.quota_window_num
        self._window_us = settings.quota_window_size_seconds * 1_000_000
        self._limits: dict[QuotaEntity, dict[str, float]] = {}
        # (key, user, client id) -> whose bytes are counted together, and their limit
        self._found: dict[tuple[str, str, str], tuple[QuotaEntity, float] | None] = {}
        self._rates: dict[tuple[str, QuotaEntity], ByteRate] = {}
        self._rates_max = _CLIENTS_MAX

    def take(self, limits: dict[QuotaEntity, dict[str, float]]) -> None:
        """These are the quotas from now on."""
        if limits is not self._limits:
            self._limits = limits
            self._found.clear()

    def used(self, key: str, user: str, client_id: str, size: int, now_us: int) -> int:
        """So many bytes went through for a client: the milliseconds it has to wait."""
        client = key, user, client_id
        if client not in self._found:
            if len(self._found) >= _CLIENTS_MAX:
                self._found.clear()
            self._found[client] = self._find(*client)
        found = self._found[client]
        if found is None:
            return 0
        entity, limit = found
        rate = self._rates.get((key, entity))
        if rate is None:
            if len(self._rates) >= self._rates_max:
                self._forget(now_us)
            rate = self._rates[key, entity] = ByteRate(self._windows, self._window_us)
        return rate.add(size, limit, now_us)

    def _forget(self, now_us: int) -> None:
        """Forget whose bytes do not count any more."""
        self._rates = {key: rate for key, rate in self._rates.items() if not rate.is_over(now_us)}
        self._rates_max = max(_CLIENTS_MAX, 2 * len(self._rates))

    def _find(self, key: str, user: str, client_id: str) -> tuple[QuotaEntity, float] | None:
        for entity, shared_by in _candidates(user, client_id):
            limit = self._limits.get(entity, {}).get(key)
            if limit is not None:
                return shared_by, limit
        return None


def _candidates(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, QuotaEntity]]:
    """(entity, whose bytes are counted together), the most specific one first."""
    one_client: QuotaEntity = ((CLIENT_ID, client_id),)
    for name in (user, DEFAULT):
        for of_client in (client_id, DEFAULT):
            yield ((CLIENT_ID, of_client), (USER, name)), (*one_client, (USER, user))
        yield ((USER, name),), ((USER, user),)
    for of_client in (client_id, DEFAULT):
        yield ((CLIENT_ID, of_client),), one_client
