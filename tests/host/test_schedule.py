"""The order in which things happen to the brokers of one cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.cluster.loop_schedule import LoopSchedule
from ottla.host.schedule import Schedule
from ottla.sockets.event_loop import EventLoop


def test_actions_run_by_their_times_and_those_of_one_time_as_they_were_asked_for() -> None:
    schedule, ran = Schedule(100), list[str]()
    schedule.at(130, ran.append, "third")
    schedule.at(120, ran.append, "first")
    schedule.at(120, ran.append, "second")
    schedule.at(50, ran.append, "at once, as its time has passed")
    while schedule.next_us() is not None:
        schedule.run_next()
    assert ran == ["at once, as its time has passed", "first", "second", "third"]
    assert schedule.now_us == 130


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), max_size=30))
def test_what_is_asked_for_while_actions_run_keeps_the_same_order(asked: list[tuple[int, int]]) -> None:
    """Each action asks for others at its own time or later: by time, and of one time as asked for."""
    schedule, ran, numbers = Schedule(), list[tuple[int, int]](), iter(range(1_000))

    def act(known: tuple[int, int, int]) -> None:
        due_us, number, more = known
        assert schedule.now_us == due_us
        ran.append((due_us, number))
        if more:
            ask(due_us + more - 1, more - 1)

    def ask(due_us: int, more: int) -> None:
        schedule.at(due_us, act, (due_us, next(numbers), more))

    for due_us, more in asked:
        ask(due_us, more)
    while schedule.next_us() is not None:
        schedule.run_next()
    assert ran == sorted(ran)
    assert len(ran) >= len(asked)


def test_a_posted_action_never_runs_within_another_one() -> None:
    loop, ran = EventLoop(), list[str]()
    schedule = LoopSchedule(loop)

    def first() -> None:
        schedule.post(ran.append, "second")
        ran.append("first")

    schedule.post(first)
    assert ran == ["first", "second"]
    loop.close()


def test_actions_without_end_leave_the_sockets_their_time() -> None:
    loop = EventLoop()
    schedule = LoopSchedule(loop)
    ran = 0

    def act() -> None:
        nonlocal ran
        ran += 1
        schedule.after(0, act)

    schedule.post(act)
    loop.call_soon(loop.stop)
    loop.run_forever()
    assert 0 < ran < 10_000
    loop.close()


def test_an_action_that_raises_keeps_no_other_one_from_running() -> None:
    loop, ran = EventLoop(), list[str]()
    schedule = LoopSchedule(loop)

    def fail() -> None:
        schedule.at(0, ran.append, "behind it")
        raise ValueError

    loop.call_soon(schedule.post, fail)
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    assert ran == ["behind it"]
    loop.close()
