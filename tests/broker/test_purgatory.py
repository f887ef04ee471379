"""What waits expires at its deadline, once, and not at all where it was taken out."""

from __future__ import annotations

from ottla.broker.purgatory import GRANULARITY_US, Purgatory


class Waiting:
    def __init__(self, name: str, expired: list[str]) -> None:
        self.bucket, self.name, self.expired = 0, name, expired

    def expire(self, now_us: int) -> None:
        self.expired.append(self.name)


def test_operations_expire_in_order_of_their_deadlines() -> None:
    purgatory, expired = Purgatory(), []
    for name, deadline_us in (("c", 30_000), ("a", 10_000), ("b", 10_000)):
        purgatory.add(Waiting(name, expired), deadline_us)
    assert purgatory.deadline_us() == 10_000
    purgatory.expire(9_999)
    assert expired == []
    purgatory.expire(10_000)
    assert expired == ["a", "b"]
    assert purgatory.deadline_us() == 30_000
    purgatory.expire(1_000_000)
    assert expired == ["a", "b", "c"]
    assert purgatory.deadline_us() is None


def test_deadlines_are_rounded_up_never_down() -> None:
    purgatory, expired = Purgatory(), []
    purgatory.add(Waiting("a", expired), 10_001)
    purgatory.expire(10_001)
    assert expired == []
    assert purgatory.deadline_us() == 10_000 + GRANULARITY_US


def test_removed_operations_leave_nothing_behind() -> None:
    purgatory, expired = Purgatory(), []
    waiting = [Waiting(str(n), expired) for n in range(100)]
    for number, operation in enumerate(waiting):
        purgatory.add(operation, 30_000_000 + number * 1_000)
    for operation in waiting:
        purgatory.remove(operation)
        purgatory.remove(operation)
    assert purgatory.deadline_us() is None
    purgatory.expire(1 << 60)
    assert expired == []
