"""Logs which addresses cannot be used, and which can be used again, under `ottla.client`.

The first failure of an address is logged at once as a WARNING; later ones are counted, and logged once a minute at
most. The first answer after a WARNING is logged as an INFO. The end of an idle connection is no failure.
"""

from __future__ import annotations

import logging

from ottla.addresses import address_of

_log = logging.getLogger("ottla.client")

_PAUSE_US = 60_000_000

Address = tuple[str, int]


class _Told:
    """One address: its failures, and when the last warning was."""

    __slots__ = ("failures", "missed_since_us", "untold", "warned_us")

    def __init__(self, now_us: int) -> None:
        self.warned_us = now_us - _PAUSE_US
        # Failures since the last warning; and since the first warning after which the address could not be used.
        self.untold = 0
        self.failures = 0
        self.missed_since_us = now_us


class ConnectionLog:
    """Logs one client's connections; for one thread at a time."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._told: dict[Address, _Told] = {}
        # Addresses with a warning that cannot be used again yet.
        self._missed: dict[Address, _Told] = {}

    def lost(self, host: str, port: int, reason: str, now_us: int) -> None:
        """A connection could not be opened, or was lost; `reason` ends the log line."""
        address = host, port
        told = self._told.get(address)
        if told is None:
            told = self._told[address] = _Told(now_us)
        told.untold += 1
        told.failures += 1
        if now_us - told.warned_us < _PAUSE_US:
            return
        times = f" ({told.untold} failures since the last warning)" if told.untold > 1 else ""
        if address not in self._missed:
            self._missed[address] = told
            told.missed_since_us = now_us
            told.failures = 1
        told.warned_us = now_us
        told.untold = 0
        _log.warning("%s: %s cannot be used: %s%s", self._client_id, address_of(host, port), reason, times)

    def is_missed(self, host: str, port: int) -> bool:
        """Whether there was a warning for the address, and no INFO since."""
        return (host, port) in self._missed

    def back(self, host: str, port: int, now_us: int) -> None:
        """A broker answers there."""
        told = self._missed.pop((host, port), None)
        if told is None:
            return
        after_s = round((now_us - told.missed_since_us) / 1_000_000, 1)
        failures = f"{told.failures} failures" if told.failures > 1 else "1 failure"
        _log.info(
            "%s: %s can be used again, after %s s and %s", self._client_id, address_of(host, port), after_s, failures
        )
