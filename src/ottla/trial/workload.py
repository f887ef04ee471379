"""The records of a scenario: the same for every side and every client."""

from __future__ import annotations

import random
from typing import NamedTuple

from ottla.ledger.schema import SEQUENCE_HEADER, pack_sequence
from ottla.trial.scenario import Scenario

_KEYS = 20
_SEED = 4711
_SHIFTS = 1_024


class WorkRecord(NamedTuple):
    """A record and the partition it is for, None where the producer chooses it; its number is in a header."""

    number: int
    partition: int | None
    key: bytes | None
    value: bytes

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """What tells the audit which record it is."""
        return [(SEQUENCE_HEADER, pack_sequence(self.number))]


class Workload:
    """Gives each record by its number."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        # Values are cut from this. It is random, so that no result depends on how well values compress.
        self._noise = random.Random(_SEED).randbytes(scenario.value_bytes + _SHIFTS)

    def record(self, number: int) -> WorkRecord:
        """The record of this number, from 0."""
        text, shift = b"%d:" % number, number % _SHIFTS
        value = text + self._noise[shift : shift + max(0, self._scenario.value_bytes - len(text))]
        if self._scenario.chooses_partition:
            return WorkRecord(number, None, None, value)
        return WorkRecord(number, number % self._scenario.partitions, b"key-%d" % (number % _KEYS), value)
