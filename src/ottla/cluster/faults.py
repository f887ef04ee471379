"""`cluster.faults`: let something go wrong on purpose, and see whether it did.

One verb per fault. Each returns a `Fault`, which is in force at once and until `heal()`, or to the end of its `with`
block. Counting is over the requests that match, of the whole cluster; a retry is one more request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from ottla.errors import OttlaError
from ottla.faults.rule import FaultRule


class Fault:
    """A fault in force; a context manager that heals it at the end."""

    def __init__(self, ask: Callable[..., Any], rule: FaultRule) -> None:
        self.rule = rule
        self._ask = ask
        self._last: dict[str, int] | None = None
        self._fault_id: int = ask("add_fault", rule=rule.to_dict())

    @property
    def fired(self) -> int:
        """How many requests it has struck; still known after the cluster was closed."""
        return self._counts()["fired"]

    @property
    def matched(self) -> int:
        """How many requests it was about while it was in force, struck or not."""
        return self._counts()["matched"]

    def heal(self) -> None:
        """End the fault; its counts stay readable. Healing twice is allowed."""
        if self._last is None:
            self._last = self._ask("heal_fault", fault_id=self._fault_id)

    def remember_counts(self) -> None:
        """Read the counts for the last time."""
        self._last = self._counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.heal()

    def _counts(self) -> dict[str, int]:
        if self._last is not None:
            return self._last
        counts: dict[str, int] = self._ask("count_fault", fault_id=self._fault_id)
        return counts


class Faults:
    """The faults of one cluster.

    All verbs take `topic` and `partition` (None: any) and either `nth` (the n-th matching request only, from 1) or
    `every` (each k-th) with `times` (at most that often); with none of these every matching request is struck.
    `api` names the kind of request. Errors: ConfigError.
    """

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask
        self._made: list[Fault] = []

    def lose_ack(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        times: int | None = None,
        api: str = "Produce",
    ) -> Fault:
        """Append the records, then cut the connection instead of answering."""
        return self._make("lose_ack", topic, partition, nth, every, times, api=api)

    def lose_request(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        times: int | None = None,
        api: str = "Produce",
    ) -> Fault:
        """Throw the request away before anything is appended, and cut the connection."""
        return self._make("lose_request", topic, partition, nth, every, times, api=api)

    def refuse(
        self,
        *,
        error: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        times: int | None = None,
    ) -> Fault:
        """Append nothing and answer with this error code (NOT_ENOUGH_REPLICAS where it is None)."""
        return self._make("refuse", topic, partition, nth, every, times, error=error)

    def refuse_after_append(
        self,
        *,
        error: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        times: int | None = None,
    ) -> Fault:
        """Append the records and answer with this error code all the same (NOT_ENOUGH_REPLICAS_AFTER_APPEND)."""
        return self._make("refuse_after_append", topic, partition, nth, every, times, error=error)

    def delay_ack(
        self,
        *,
        delay_ms: int,
        topic: str | None = None,
        partition: int | None = None,
        nth: int | None = None,
        every: int | None = None,
        times: int | None = None,
        api: str = "Produce",
    ) -> Fault:
        """Append the records and answer `delay_ms` late."""
        return self._make("delay_ack", topic, partition, nth, every, times, api=api, delay_ms=delay_ms)

    def remember_counts(self) -> None:
        """Read the counts of all faults for the last time, as far as the cluster still tells them."""
        for fault in self._made:
            try:
                fault.remember_counts()
            except OttlaError:
                return
        self._made.clear()

    def _make(
        self,
        kind: str,
        topic: str | None,
        partition: int | None,
        nth: int | None,
        every: int | None,
        times: int | None,
        **more: Any,
    ) -> Fault:
        rule = FaultRule(kind, topic=topic, partition=partition, nth=nth, every=every, times=times, **more)
        fault = Fault(self._ask, rule)
        self._made.append(fault)
        return fault
