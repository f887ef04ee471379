"""What a tour has shown, in sentences that are made of its figures.

No sentence assumes how a comparison ends. Two figures that differ by less than `ALIKE` are called about the same: in a
run of seconds on a busy machine that much is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.producer.diagnosis import Limit
from ottla.showcase.tour_knobs import BATCH, COMPRESSION, LATENCY, QUEUE, RECORDS_PER_S, REQUESTS, Measured, Turned

ALIKE = 1.25
_UNITS = {BATCH: " bytes", LATENCY: " ms", QUEUE: " ms"}
_NOUNS = {
    RECORDS_PER_S: "records/s",
    BATCH: "batch size",
    LATENCY: "time",
    REQUESTS: "number of requests",
}


def learned(turned: Sequence[Turned]) -> list[str]:
    """A sentence or two for each knob, and what the advice of its diagnosis brought."""
    said = []
    for each in turned:
        tell = _TELLERS.get(each.knob.name)
        if tell is not None:
            said.append(f"{each.knob.name}: {tell(each.rows)}")
        said += _advice_taken(each)
    return said


def ratio(before: float, after: float) -> float | None:
    """How many times as large one figure is; None where the two are about the same, or nothing can be said."""
    if before <= 0 or after <= 0:
        return None
    times = after / before
    return None if 1 / ALIKE < times < ALIKE else times


def ratio_words(before: float, after: float) -> str:
    """The same in a word or two: "2.3 times", "1/12", "alike"."""
    times = ratio(before, after)
    if times is None:
        return "alike"
    return f"{_short(times)} times" if times > 1 else f"1/{_short(1 / times)}"


def shown(name: str, value: float | None, *, has_unit: bool = True) -> str:
    """A figure with its unit; a dash where there is none."""
    if value is None:
        return "–"
    if name == COMPRESSION:
        return f"{value:.2f}"
    text = f"{value:,.0f}" if value >= 100 or name in (RECORDS_PER_S, REQUESTS) else f"{value:,.1f}"
    return text + _UNITS.get(name, "") if has_unit else text


def both(name: str, before: Measured, after: Measured) -> str:
    """One figure of two rows: "1,980 → 15,642 bytes"."""
    return f"{shown(name, before.figures[name], has_unit=False)} → {shown(name, after.figures[name])}"


def figure(row: Measured, name: str) -> float:
    """A figure, 0 where there is none."""
    value = row.figures[name]
    return 0.0 if value is None else value


def _short(times: float) -> str:
    return f"{times:,.0f}" if times >= 10 else f"{times:.1f}"


def _compared(name: str, before: Measured, after: Measured) -> str:
    """ "2.3 times the records/s (1,283,641 → 2,958,735)", "about the same time (1.1 → 1.2 ms)"."""
    times = ratio(figure(before, name), figure(after, name))
    noun = _NOUNS[name]
    if times is None:
        told = f"about the same {noun}"
    elif times > 1:
        told = f"{_short(times)} times the {noun}"
    else:
        told = f"1/{_short(1 / times)} of the {noun}"
    return f"{told} ({both(name, before, after)})"


def _fastest(rows: Sequence[Measured]) -> str:
    """Which row sent most, where one did notably more than the first."""
    first, best = rows[0], max(rows, key=lambda row: figure(row, RECORDS_PER_S))
    if (ratio(figure(first, RECORDS_PER_S), figure(best, RECORDS_PER_S)) or 1) <= 1:
        return (
            f"nothing sent notably more records/s than {first.row.name} "
            f"({shown(RECORDS_PER_S, figure(first, RECORDS_PER_S))})"
        )
    return f"{best.row.name} sent most, {_compared(RECORDS_PER_S, first, best)} of {first.row.name}"


def _of_batch_size(rows: Sequence[Measured]) -> str:
    small, large = (choose(rows, key=lambda row: figure(row, BATCH)) for choose in (min, max))
    return (
        f"{_fastest(rows)}. With the smallest batches and with the largest ones ({both(BATCH, small, large)} on "
        f"average) the producer made {both(REQUESTS, small, large)} requests, which took {both(LATENCY, small, large)} "
        "each."
    )


def _of_linger(rows: Sequence[Measured]) -> str:
    short, long = (choose(rows, key=lambda row: row.row.settings["linger.ms"]) for choose in (min, max))
    return (
        f"at the same pace, {long.row.name} instead of {short.row.name} had {_compared(BATCH, short, long)} and "
        f"{_compared(REQUESTS, short, long)}. Batches waited {both(QUEUE, short, long)} for their request."
    )


def _of_compression(rows: Sequence[Measured]) -> str:
    smallest = min(rows, key=lambda row: figure(row, COMPRESSION))
    told = (
        f"{smallest.row.name} made batches smallest, {shown(COMPRESSION, smallest.figures[COMPRESSION])} of their "
        f"size; {_fastest(rows)}."
    )
    levels = [row for row in rows if "compression.zstd.level" in row.row.settings]
    if len(levels) == 2:
        low, high = levels
        told += (
            f" {high.row.name} instead of {low.row.name} made batches {both(COMPRESSION, low, high)} of their size and "
            f"sent {_compared(RECORDS_PER_S, low, high)}."
        )
    return told


def _of_partitioner(rows: Sequence[Measured]) -> str:
    first, *others = rows
    told = [f"{row.row.name} had {_compared(BATCH, first, row)}" for row in others]
    return f"at the same pace, instead of {first.row.name}, {'; '.join(told)}."


def _of_acks(rows: Sequence[Measured]) -> str:
    by_acks = {row.row.settings["acks"]: row for row in rows}
    told = []
    if "all" in by_acks and "1" in by_acks:
        took = _compared(LATENCY, by_acks["1"], by_acks["all"])
        told.append(f"with acks=all instead of acks=1 a request took {took}.")
    if "0" in by_acks and by_acks["0"].figures[LATENCY] is None:
        told.append("With acks=0 no broker answers: there is no latency, and nobody is told what was lost.")
    return " ".join(told)


_TELLERS: dict[str, Callable[[Sequence[Measured]], str]] = {
    "batch.size": _of_batch_size,
    "linger.ms": _of_linger,
    "compression.type": _of_compression,
    "partitioner.class": _of_partitioner,
    "acks": _of_acks,
}


def _advice_taken(turned: Turned) -> list[str]:
    """Where another row has the settings that the first row's diagnosis advises: their effect."""
    first, *others = turned.rows
    said = []
    for finding in first.diagnosis.findings:
        # At a pace that the application sets, nothing can be sent faster; a linger saves requests.
        name = REQUESTS if finding.limit is Limit.SMALL_BATCHES else RECORDS_PER_S
        for row in others:
            if finding.setting is not None and dict(row.row.settings) == {finding.setting: finding.value}:
                said.append(
                    f"diagnosis said of {first.row.name}: {finding.limit.value}; try "
                    f"{finding.setting}={finding.value}. That row had {_compared(name, first, row)}."
                )
    return said
