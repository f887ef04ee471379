"""Samples: what counts lately, what is forgotten, and how much time a rate refers to."""

from __future__ import annotations

from math import isclose

from ottla.connection.sampled import NOTHING, Meter, SampleClock, Window

S = 1_000_000


class Doors(Meter):
    SUMS = ("opened", "people")
    PEAKS = ("people_max",)
    __slots__ = SUMS + PEAKS

    opened: int
    people: int
    people_max: int

    def open(self, people: int) -> None:
        self.opened += 1
        self.people += people
        self.people_max = max(self.people_max, people)


class Day:
    """One meter and a clock of 30 s and two samples, driven by hand."""

    def __init__(self, window_ms: int = 30_000, sample_count: int = 2) -> None:
        self.clock = SampleClock(window_ms, sample_count)
        self.doors = Doors()
        self.now_us = 0
        self.at(0)

    def at(self, seconds: float) -> Day:
        self.now_us = int(seconds * S)
        if self.now_us >= self.clock.due_us:
            self.clock.advance([self.doors], self.now_us)
        self.clock.last_us = self.now_us
        return self

    def open(self, people: int) -> None:
        self.doors.open(people)

    def read(self, seconds: float | None = None) -> Window:
        """Look without anything happening."""
        return self.doors.read(self.clock, self.now_us if seconds is None else int(seconds * S))


def test_a_first_second_is_not_taken_for_the_pace_of_a_minute():
    day = Day()
    day.at(1).open(people=62)
    # The window that is missing counts as an empty one: 62 in 1 + 30 s.
    assert isclose(day.read().rates["people"], 2)
    assert day.read().totals == {"opened": 1, "people": 62}


def test_a_rate_refers_to_the_oldest_sample_that_is_kept():
    day = Day()
    for second in range(0, 100, 10):
        day.at(second).open(people=10)
    # Samples from 0, 30, 60 and 90; two beside the one under way are kept, so the one from 30 on.
    assert day.read(95).recent == {"opened": 7, "people": 70}
    assert isclose(day.read(95).rates["people"], 70 / (95 - 30))
    assert day.read(95).totals["people"] == 100


def test_a_peak_is_forgotten_with_its_sample():
    day = Day()
    day.at(1).open(people=500)
    day.at(31).open(people=5)
    day.at(61).open(people=7)
    assert day.read(62).peaks["people_max"] == 7 or day.read(62).peaks["people_max"] == 500
    assert day.read(60.9).peaks["people_max"] == 500
    day.at(92).open(people=3)
    assert day.read().peaks["people_max"] == 7


def test_what_happened_before_a_long_rest_does_not_count():
    day = Day()
    day.at(5).open(people=100)
    assert day.read(64.9).recent["people"] == 100
    assert day.read(65.1).recent["people"] == 0
    assert day.read(65.1).peaks["people_max"] == NOTHING
    assert day.read(65.1).rates["people"] == 0
    day.at(300).open(people=3)
    assert day.read().recent == {"opened": 1, "people": 3}
    assert day.read().totals["people"] == 103


def test_one_sample_is_enough():
    day = Day(window_ms=1000, sample_count=1)
    for tenth in range(40):
        day.at(tenth / 10).open(people=1)
    assert 1 <= day.read().recent["people"] <= 20


def test_samples_do_not_pile_up():
    day = Day(window_ms=1, sample_count=3)
    for millisecond in range(1000):
        day.at(millisecond / 1000).open(people=1)
    assert len(day.doors._samples) == 4


def test_a_meter_that_comes_later_begins_when_it_comes():
    clock = SampleClock(1000, 2)
    clock.advance([], 0)
    late = Doors(10 * S)
    clock.last_us = 10 * S
    late.open(people=30)
    assert isclose(late.read(clock, 10 * S + S // 2).rates["people"], 30 / 1.5)


def test_two_meters_add_up():
    day, other = Day(), Doors(0)
    day.at(1).open(people=10)
    other.open(people=20)
    window = day.read()
    window.add(other.read(day.clock, day.now_us))
    assert window.totals == {"opened": 2, "people": 30}
    assert isclose(window.rates["people"], 30 / 31)
    assert window.peaks["people_max"] == 20


def test_totals_outlive_a_change_of_meters():
    day, successor = Day(), Doors(0)
    day.at(1).open(people=10)
    successor.open(people=1)
    successor.absorb(day.doors)
    window = successor.read(day.clock, S)
    assert window.totals == {"opened": 2, "people": 11}
    assert window.recent == {"opened": 1, "people": 1}
