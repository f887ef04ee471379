"""The settings of a producer's metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.connection.setting import INT32_MAX, INT64_MAX, Setting, refuse_coroutine, shown
from ottla.errors import ConfigError


def _read_reporters(value: Any) -> tuple[Any, ...]:
    """One function or several; `ConfigError` for anything that cannot be called."""
    reporters = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    for reporter in reporters:
        if not callable(reporter) or isinstance(reporter, type):
            raise ConfigError(
                f"metric.reporters={shown(reporter)} is not a function; give one or several that take the producer's "
                "Metrics, such as metric_reporters=print. Class names, as Java has them, mean nothing here."
            )
        refuse_coroutine("metric.reporters", reporter)
    return reporters


METRIC_SETTINGS: tuple[Setting, ...] = (
    Setting(
        "metrics.sample.window.ms",
        int,
        30_000,
        "How long a sample is; rates, averages and maxima are those of the last samples. Also how often "
        "metric.reporters are called, and what limits the producer is looked at for the log.",
        lowest=1,
        highest=INT64_MAX,
        group="Metrics",
    ),
    Setting(
        "metrics.num.samples",
        int,
        2,
        "How many samples are kept beside the one under way.",
        lowest=1,
        highest=INT32_MAX,
        group="Metrics",
    ),
    Setting(
        "metrics.recording.level",
        str,
        "INFO",
        "Which metrics are recorded. All of a producer's are INFO, here and in Java, so every level records the same.",
        allowed=("INFO", "DEBUG", "TRACE"),
        group="Metrics",
    ),
    Setting(
        "metric.reporters",
        list,
        None,
        "Functions that get the producer's metrics every metrics.sample.window.ms and when it closes, on a thread of "
        "their own; what they raise is logged. Java takes class names.",
        group="Metrics",
        takes="Callable[[Metrics], object] | Sequence[Callable[[Metrics], object]]",
        reads=_read_reporters,
    ),
    Setting(
        "enable.metrics.push",
        bool,
        True,
        "Push the producer's metrics to brokers that ask for them, which those do that have a plugin for it.",
        kip=714,
        group="Metrics",
    ),
)
