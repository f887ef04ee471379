"""Looks at one topic of a Kafka that is not ottla's own: by reading, which is all that can be done there.

Which broker leads, which replicas have what, how far each broker has committed: none of it is seen, and all of it stays
None in the chronicle, so that its checkers say so instead of passing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.audit.chronicles.case import UNCOMMITTED
from ottla.audit.chronicles.chronicle import ProducerPromise, TopicPromise
from ottla.client.admin import Admin
from ottla.client.reader import Reader
from ottla.evidence.reads import Place
from ottla.evidence.times import RunClock
from ottla.evidence.witness import TopicWitness
from ottla.patience import comes_within

_PATIENCE_S = 30.0
# When nothing more has come for so long, and no transaction is open, a topic is at rest.
_QUIET_S = 0.5


class ForeignWitness(TopicWitness):
    """Of one topic at `bootstrap_servers`; `settings` are of its readers, as keywords."""

    def __init__(
        self,
        bootstrap_servers: str,
        settings: Mapping[str, Any],
        promise: TopicPromise,
        producer: ProducerPromise,
        clock: RunClock,
    ) -> None:
        self._begin(promise, producer, clock)
        self._read_from = bootstrap_servers
        self._reader_settings = settings
        seen = self.chronicle
        seen.watermarks = seen.leaderships = seen.commits = seen.broker_ends = None

    def look(self) -> None:
        """Does nothing: during a run there is nothing to see here."""

    def settle(self) -> None:
        """Wait until nothing more arrives and no transaction is open; else it is stuck."""
        last: dict[Place, int] = {}

        def is_calm() -> bool:
            nonlocal last
            before, last = last, self._shown("read_committed")
            return before == last == self._shown(UNCOMMITTED)

        if not comes_within(_PATIENCE_S, is_calm, look_again_s=_QUIET_S):
            self.chronicle.stuck.append(
                f"{self.promise.topic} has an open transaction, or records still come, {_PATIENCE_S:.0f} s after the "
                "last record was sent"
            )

    def take_stock(self) -> None:
        """Wait until the topic is at rest, and read the part that is judged record by record once more."""
        self.chronicle.healed_us = self.clock.now_us
        self.settle()
        self.read_part("final", is_final=True)
        self.chronicle.ended_us = self.clock.now_us

    def _shown(self, level: str) -> dict[Place, int]:
        with Admin(self._read_from, **{**self._reader_settings, "isolation_level": level}) as admin:
            ends = admin.end_offsets(self.promise.topic)
        return {(self.promise.topic, partition): end for partition, end in ends.items()}

    def _end_of_part(self, place: Place) -> tuple[int, int]:
        end = self._shown(UNCOMMITTED)[place]
        with Reader(
            self._read_from, assignments={place: (0, end)}, isolation_level=UNCOMMITTED, **self._reader_settings
        ) as reader:
            pieces = (fetched.records for fetched in reader.iter_raw(patience_s=_PATIENCE_S))
            return self._end_within(pieces, end)
