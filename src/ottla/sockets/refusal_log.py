"""Logs which connections a server closes and why, with few lines even for thousands of them.

The first time, a reason is logged at once as a WARNING. Further connections of the same host to the same listener,
closed for the same reason, are counted, and the count is logged once a minute. Only `_REASONS_MAX` reasons a minute are
kept apart; all others are counted together. So neither the log nor this memory grows with what clients send.
"""

from __future__ import annotations

from logging import Logger

_PAUSE_US = 60_000_000
_REASONS_MAX = 100

# Listener, host, reason; None stands for all others.
_What = tuple[str, str, str] | None


class _Told:
    """When the last line was logged, how many connections were not logged since, and the last of those."""

    __slots__ = ("last", "told_us", "untold")

    def __init__(self, now_us: int) -> None:
        self.told_us = now_us
        self.untold = 0
        self.last = ""


class RefusalLog:
    """Logs the refused connections of one server, under its name ("broker 2")."""

    def __init__(self, logger: Logger, server: str) -> None:
        self._logger = logger
        self._server = server
        # The oldest line first.
        self._told: dict[_What, _Told] = {}

    def refused(self, listener: str, peer: str, reason: str, now_us: int) -> None:
        """The connection of `peer` ("host:port") is closed; `reason` ends the log line."""
        self.tick(now_us)
        what: _What = listener, peer.rpartition(":")[0], reason
        if what not in self._told and len(self._told) >= _REASONS_MAX:
            what = None
        told = self._told.get(what)
        if told is not None:
            told.untold += 1
            told.last = f"{peer} (listener {listener}): {reason}"
            return
        told = self._told[what] = _Told(now_us)
        if what is None:
            told.untold = 1
            told.last = f"{peer} (listener {listener}): {reason}"
            return
        self._logger.warning("%s closes the connection of %s (listener %s): %s", self._server, peer, listener, reason)

    def deadline_us(self) -> int | None:
        """When `tick` has something to do."""
        return next((told.told_us + _PAUSE_US for told in self._told.values()), None)

    def tick(self, now_us: int) -> None:
        """Log how many connections were left out, a minute after the last line about them."""
        due = [what for what, told in self._told.items() if now_us - told.told_us >= _PAUSE_US]
        for what in due:
            told = self._told.pop(what)
            if told.untold:
                self._logger.warning(
                    "%s closed %d more within a minute, the last that of %s", self._server, told.untold, told.last
                )
                self._told[what] = _Told(now_us)
