"""Logs what limits a producer: each finding once when it appears, and once when it is gone.

The producer's I/O thread calls `look` whenever a sample of the metrics is over (`metrics.sample.window.ms`), and at no
other time: an idle producer logs nothing, and neither does one that has just begun. A finding counts as gone after
`LOOKS_WITHOUT` calls in a row without it: figures near a threshold would otherwise be logged again and again.
"""

from __future__ import annotations

import logging

from ottla.producer.diagnosis import Diagnosis, Limit

_log = logging.getLogger("ottla.producer")

LOOKS_WITHOUT = 2


class DiagnosisLog:
    """The findings logged for one producer."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        # {finding that was logged and is not gone: how many looks in a row it was missing}
        self._told: dict[Limit, int] = {}

    def look(self, diagnosis: Diagnosis) -> None:
        """Log new findings and those that are gone; do nothing where there are too few figures."""
        if not diagnosis.is_certain:
            return
        found = {finding.limit: finding for finding in diagnosis.findings}
        for limit, finding in found.items():
            if limit not in self._told:
                _log.info("%s: %s", self._client_id, finding.sentence)
            self._told[limit] = 0
        for limit in [each for each in self._told if each not in found]:
            self._told[limit] += 1
            if self._told[limit] >= LOOKS_WITHOUT:
                del self._told[limit]
                _log.info("%s: no longer: %s", self._client_id, limit.value)
