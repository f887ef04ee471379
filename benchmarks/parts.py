"""A benchmark in parts: those that `--only` asks for run one after the other, their figures shown as they come.

A figure that must reach something carries `ok`; `missed_bars` finds those that did not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

_Subject = TypeVar("_Subject")
_FIGURE_COLUMNS = 58


def chosen(benchmark: str, parts: Mapping[str, object], only: str | None) -> list[str]:
    """The parts asked for, all where nothing is; SystemExit for one that there is not."""
    wanted = only.split(",") if only else list(parts)
    unknown = [name for name in wanted if name not in parts]
    if unknown:
        raise SystemExit(f"{benchmark} has no part {unknown[0]!r}; there are {', '.join(parts)}")
    return wanted


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


def missed_bars(figures: Mapping[str, Any], name: str) -> list[str]:
    """Each bar (a dict with `ok`) in `figures` that was not reached, a line each: where it stands, and its figures."""
    missed = []
    if figures.get("ok") is False:
        told = {figure: value for figure, value in figures.items() if figure != "ok" and not isinstance(value, dict)}
        missed.append(f"{name}: {_text(told)}")
    for figure, value in figures.items():
        if isinstance(value, dict):
            missed += missed_bars(value, f"{name} {figure}")
    return missed


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "  ".join(f"{name}={_text(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
