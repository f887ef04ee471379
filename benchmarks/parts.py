"""A benchmark in parts: those that `--only` asks for run one after the other, their figures shown as they come.

A figure that must reach something carries `ok`; `missed_targets` finds those that did not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import comb
from typing import Any, TypeVar

_Subject = TypeVar("_Subject")
_FIGURE_COLUMNS = 58
# A twentieth, half of it on either side.
_BEYOND = 0.025


def chosen(benchmark: str, parts: Mapping[str, object], only: str | None) -> list[str]:
    """The parts asked for, all where nothing is; SystemExit for one that there is not."""
    wanted = only.split(",") if only else list(parts)
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        raise SystemExit(f"{benchmark} has no part {unknown[0]!r}; there are {', '.join(parts)}")
    return wanted


def chosen_clients(benchmark: str, there: Sequence[str], asked: str | None) -> list[str]:
    """The clients that were asked for, all where none is; SystemExit for one that there is not."""
    names = asked.split(",") if asked else list(there)
    unknown = [name for name in names if name not in there]
    if unknown:
        raise SystemExit(f"{benchmark} has no client {unknown[0]!r}; there are {', '.join(there)}")
    return names


def run_parts(
    parts: Mapping[str, Callable[[_Subject], dict[str, Any]]], wanted: Sequence[str], subject: _Subject
) -> dict[str, Any]:
    """{part: its figures} of those wanted, each called with `subject`."""
    results: dict[str, Any] = {}
    for name in wanted:
        print(f"\n-- {name}")
        results[name] = parts[name](subject)
        for figure, value in results[name].items():
            print(f"{figure:{_FIGURE_COLUMNS}} {_text(value)}")
    return results


def interval_of_median(values: Sequence[float], digits: int) -> dict[str, list[float]]:
    """The two of `values` between which the median of all possible ones lies with 95 % confidence; {} below six values.

    Ranks of the sign test: no shape of the distribution is assumed.
    """
    count, ranked = len(values), sorted(values)
    beyond, rank = 0.5**count, 0
    # `rank` values are left out at either end, as long as the median lies beyond those with less than 2.5 %.
    while beyond < _BEYOND:
        rank += 1
        beyond += comb(count, rank) * 0.5**count
    return {"within": [round(ranked[rank - 1], digits), round(ranked[count - rank], digits)]} if rank else {}


def missed_targets(figures: Mapping[str, Any], name: str) -> list[str]:
    """A line for each target (a dict with `ok`) that was not reached: where it stands in `figures`, and what it has."""
    missed = []
    if figures.get("ok") is False:
        told = {figure: value for figure, value in figures.items() if figure != "ok" and not isinstance(value, dict)}
        missed.append(f"{name}: {_text(told)}")
    for figure, value in figures.items():
        if isinstance(value, dict):
            missed += missed_targets(value, f"{name} {figure}")
    return missed


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name}={_text(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
