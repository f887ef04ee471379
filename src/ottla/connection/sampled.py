"""Counters with averages, rates and maxima over a moving window; to count costs one addition.

How it works. A `Meter` has attributes that are added to once per batch or request: its `SUMS` only grow, its `PEAKS`
keep the largest value. Counting does not read the time. Once per `metrics.sample.window.ms` the `SampleClock` begins a
new sample: it notes the sums, and resets the peaks. What was counted lately is then the sums now, less the sums at the
start of the oldest sample that still counts.

The rules are those of Kafka's SampledStat and Rate. `metrics.num.samples` samples are kept beside the one under way. A
sample does not count any more when its last count is that many windows ago. A rate's time runs from the start of the
oldest sample that counts; windows before it that are missing count as empty ones, else the rate in a producer's first
second would be too high. One thing is simpler than in Kafka: the samples of all meters begin together, not each with
the first value of its meter.

Invariants: each attribute is written by one thread (or under a lock of its writers), samples begin on the core's
thread. `read` may be called by any thread meanwhile: the samples are one tuple that is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

# The value of a peak while nothing has been counted.
NOTHING = -1


class Sample:
    """One sample: the sums when it began, when something was last counted in it, and its peaks once it is over."""

    __slots__ = ("last_us", "peaks", "start_us", "sums")

    def __init__(self, start_us: int, last_us: int, sums: tuple[Any, ...], peaks: tuple[Any, ...]) -> None:
        self.start_us = start_us
        self.last_us = last_us
        self.sums = sums
        self.peaks = peaks


class SampleClock:
    """Decides when samples begin and which of them still count.

    The owner sets `last_us`: nothing was counted after it. From `due_us` on, `advance` must be called before anything
    more is counted.
    """

    __slots__ = ("due_us", "last_us", "sample_count", "window_us")

    def __init__(self, window_ms: int, sample_count: int) -> None:
        self.window_us = window_ms * 1000
        self.sample_count = sample_count
        self.last_us = 0
        self.due_us = 0

    def advance(self, meters: Iterable[Meter], now_us: int) -> None:
        """Begin a new sample in each meter."""
        for meter in meters:
            meter.begin_sample(now_us, self.last_us, self.sample_count)
        self.due_us = now_us + self.window_us

    def forgets_until_us(self, now_us: int) -> int:
        """Return a time: samples in which nothing was counted after it do not count any more."""
        return now_us - self.window_us * self.sample_count

    def elapsed_us(self, start_us: int, now_us: int) -> int:
        """Return the time by which a rate divides when the oldest sample that counts began at `start_us`."""
        elapsed_us = now_us - start_us
        missing = self.sample_count - 1 - elapsed_us // self.window_us
        return max(1, elapsed_us + max(0, missing) * self.window_us)


class Meter:
    """Attributes to add to; subclasses name them in `SUMS` and `PEAKS` and declare them."""

    SUMS: ClassVar[tuple[str, ...]] = ()
    PEAKS: ClassVar[tuple[str, ...]] = ()

    __slots__ = ("_samples",)

    def __init__(self, now_us: int | None = None) -> None:
        """Begin at 0; without `now_us` the first sample begins with the clock's first `advance`."""
        for name in self.SUMS:
            setattr(self, name, 0)
        for name in self.PEAKS:
            setattr(self, name, NOTHING)
        self._samples: tuple[Sample, ...] = ()
        if now_us is not None:
            self.begin_sample(now_us, now_us, 0)

    def _sums(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.SUMS])

    def _peaks(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.PEAKS])

    def begin_sample(self, now_us: int, last_us: int, kept: int) -> None:
        """End the sample under way, in which nothing was counted after `last_us`, and begin another one."""
        over = self._samples
        if over:
            begun = over[-1]
            over = (*over[:-1], Sample(begun.start_us, last_us, begun.sums, self._peaks()))[-kept:]
        self._samples = (*over, Sample(now_us, now_us, self._sums(), ()))
        for name in self.PEAKS:
            setattr(self, name, NOTHING)

    def absorb(self, other: Meter) -> None:
        """Add what another meter of this kind has counted in all its life; its samples are not taken over."""
        for name in self.SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self._samples = tuple(
            Sample(s.start_us, s.last_us, tuple(map(sum, zip(s.sums, other._sums(), strict=True))), s.peaks)
            for s in self._samples
        )

    def lately(self, sums: tuple[Any, ...], clock: SampleClock, now_us: int) -> list[Any]:
        """Return what was counted lately, in the order of `SUMS`; `sums` are the sums now."""
        samples = self._samples
        horizon_us = clock.forgets_until_us(now_us)
        if not samples or clock.last_us <= horizon_us:
            return [0] * len(sums)
        oldest = next((sample for sample in samples[:-1] if sample.last_us > horizon_us), samples[-1])
        return [now - then for now, then in zip(sums, oldest.sums, strict=True)]

    def read(self, clock: SampleClock, now_us: int) -> Window:
        """Return what it has counted, in all and lately."""
        # In this order: if a sample begins meanwhile, a peak is read twice and not left out.
        peaks = self._peaks()
        samples = self._samples
        sums = self._sums()
        window = Window()
        window.totals = dict(zip(self.SUMS, sums, strict=True))
        horizon_us = clock.forgets_until_us(now_us)
        if not samples or clock.last_us <= horizon_us:
            window.recent = dict.fromkeys(self.SUMS, 0)
            window.rates = dict.fromkeys(self.SUMS, 0.0)
            window.peaks = dict.fromkeys(self.PEAKS, NOTHING)
            window.seconds = 0.0
            return window
        fresh = [sample for sample in samples[:-1] if sample.last_us > horizon_us]
        oldest = fresh[0] if fresh else samples[-1]
        elapsed_s = clock.elapsed_us(oldest.start_us, now_us) / 1_000_000
        window.seconds = (now_us - oldest.start_us) / 1_000_000
        recent = [now - then for now, then in zip(sums, oldest.sums, strict=True)]
        window.recent = dict(zip(self.SUMS, recent, strict=True))
        window.rates = {name: value / elapsed_s for name, value in window.recent.items()}
        highest = [max(of_all) for of_all in zip(peaks, *(sample.peaks for sample in fresh), strict=True)]
        window.peaks = dict(zip(self.PEAKS, highest, strict=True))
        return window


class Window:
    """What meters counted: `totals` in all; `recent`, `rates` (per second) and `peaks` over the samples that count.

    `seconds` is how much time those samples cover; unlike in rates, missing ones do not count.
    """

    __slots__ = ("peaks", "rates", "recent", "seconds", "totals")

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}
        self.recent: dict[str, float] = {}
        self.rates: dict[str, float] = {}
        self.peaks: dict[str, float] = {}
        self.seconds = 0.0

    def add(self, other: Window) -> None:
        """Add what another meter counted: sums of the same name are added up."""
        for mine, theirs in (
            (self.totals, other.totals),
            (self.recent, other.recent),
            (self.rates, other.rates),
        ):
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0) + value
        self.seconds = max(self.seconds, other.seconds)
        for name, value in other.peaks.items():
            self.peaks[name] = max(self.peaks.get(name, NOTHING), value)
