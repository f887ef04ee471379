"""The timeline of one side: what its brokers saw, row by row, folded to a readable size, with every anomaly in it.

A row is a moment: a batch arrives at a broker, its answer leaves or is lost, a fault fires, a broker ends, another one
leads, all records of the producer have an outcome. An anomaly is a row of its own after the last row about its record,
and the rows about that record are marked as evidence.

Invariant: whatever is folded, a row that shows an anomaly or is evidence of one stays, and a row says how many are not
shown. There are never more than about `ROWS_MAX` rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ottla.audit.findings import Anomaly
from ottla.cluster.recorder import ANSWERED, BEGINS, BROKER_ENDED, CLIENT_LEFT, DOWN, FIRES, HEALED, HUNG_UP, STARTS
from ottla.trial.outcome import SideOutcome
from ottla.trial.recorded import Exchange, Recorded

REQUEST, ANSWER, NO_ANSWER, FAULT, BROKER, LEADER, FLUSH, FINDING, FOLD = (
    "request",
    "answer",
    "no answer",
    "fault",
    "broker",
    "leader",
    "flush",
    "finding",
    "fold",
)
PRODUCER = "producer"
ROWS_MAX = 500
# Of rows that are folded, so many stay at the beginning and at the end.
_STAY = 4
_TOLD = 4
_ENDS = {
    "kill": "is killed",
    "power_off": "loses its power, and with it all that was not synced",
    "stop": "shuts down",
    "failed_disk": "ends: its disk has failed",
    "corrupt": "ends, and a byte of its log is wrong",
}


@dataclass(slots=True)
class Finding:
    """Anomalies of one kind whose records were in the same requests. `number`: counted within its side."""

    number: int
    kind: str
    partition: int
    anomalies: list[Anomaly]
    exchanges: list[Exchange]

    @property
    def words(self) -> str:
        """What is wrong, of the first of them; and which records it is as wrong with."""
        said = f"{self.kind}: {self.anomalies[0].detail}"
        more = [each.sequence for each in self.anomalies[1:]]
        if len(more) == 1:
            said += f"; so is record {more[0]}"
        elif more:
            said += f"; so are {len(more)} more records, {more[0]} to {more[-1]}"
        return said

    @property
    def evidence(self) -> list[str]:
        """What became of the requests with these records, and which brokers had them, a sentence each."""
        said = [_fate(each) for each in self.exchanges[:_TOLD]]
        if len(self.exchanges) > _TOLD:
            said.append(f"{len(self.exchanges) - _TOLD} more requests had them.")
        return said


@dataclass(slots=True)
class Row:
    """One moment. `at` is where it happened, PRODUCER or "broker 1"; `to`: where an arrow from there leads, or "".

    `exchange`: what it is about, where it is about one; `partition` -1 for what concerns all of them. `order`: which of
    those of the same time comes first. `finding`: the anomalies that it tells.
    """

    at_us: int
    kind: str
    at: str
    to: str
    words: str
    partition: int = -1
    exchange: Exchange | None = None
    order: int = 0
    is_evidence: bool = False
    finding: Finding | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it is about a batch that was sent once and acknowledged, which is nothing special."""
        each = self.exchange
        return (
            each is not None
            and not self.is_evidence
            and each.attempt == 1
            and each.ending == ANSWERED
            and not each.error
            and each.appended_at >= 0
        )


@dataclass(slots=True)
class Timeline:
    """Of one side: its rows, and where its lanes are."""

    rows: list[Row]
    lanes: list[str]
    began_us: int
    partitions: list[int]
    findings: list[Finding]


def tell(outcome: SideOutcome, brokers: int) -> Timeline | None:
    """The timeline of a side on so many brokers; None where nothing was recorded."""
    recorded = outcome.recorded
    if recorded is None:
        return None
    resent = {_batch(each) for each in recorded.exchanges if each.attempt > 1}
    rows = [*_exchange_rows(recorded), *_event_rows(recorded), *_flush_rows(recorded)]
    rows.sort(key=lambda row: (row.at_us, row.order))
    findings = _findings(outcome.anomalies, recorded)
    rows = _with_findings(rows, findings)
    rows = _fold(rows, lambda row: row.is_plain and row.exchange is not None and _batch(row.exchange) not in resent)
    rows = _fold(rows, lambda row: row.kind == LEADER)
    if len(rows) > ROWS_MAX:
        rows = _fold(rows, lambda row: row.kind in (REQUEST, ANSWER, NO_ANSWER) and not row.is_evidence)
    if len(rows) > ROWS_MAX:
        rows = _cut(rows)
    if recorded.left_out:
        rows.append(Row(rows[-1].at_us, FOLD, "", "", f"{recorded.left_out:,} more were seen and are not told here"))
    lanes = [PRODUCER, *(f"broker {number}" for number in range(1, brokers + 1))]
    partitions = sorted({each.partition for each in recorded.exchanges})
    return Timeline(rows, lanes, recorded.began_us, partitions, findings)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _exchange_rows(recorded: Recorded) -> Iterator[Row]:
    for each in recorded.exchanges:
        broker = f"broker {each.broker}"
        yield Row(each.at_us, REQUEST, PRODUCER, broker, _request_words(each), each.partition, each, each.order)
        end, order = each.end_us, max(each.ended_order, each.order)
        if each.ending == ANSWERED and each.acks == 0:
            words = f"{_records(each)}: acks=0, no answer is expected; {_place(each)}"
            yield Row(end, ANSWER, broker, "", words, each.partition, each, order)
        elif each.ending == ANSWERED:
            yield Row(end, ANSWER, broker, PRODUCER, _answer_words(each), each.partition, each, order)
        else:
            words = f"{_records(each)}: no answer, {_why_no_answer(each)}; {_place(each)}"
            yield Row(end, NO_ANSWER, broker, "", words, each.partition, each, order)


def _request_words(each: Exchange) -> str:
    said = f"{_records(each)}, {each.size:,} bytes"
    if each.producer_id >= 0:
        said += f", producer {each.producer_id}, epoch {each.producer_epoch}, sequence {each.sequence}"
    if each.attempt > 1:
        said = f"retry (attempt {each.attempt}): {said}"
    if each.in_flight > 1:
        said += f"; {each.in_flight} in flight"
    return said


def _answer_words(each: Exchange) -> str:
    if each.error:
        return f"{_records(each)}: {each.error}; {_place(each)}"
    if each.appended_at < 0:
        known = "known by its sequence number, nothing appended"
        return f"{_records(each)}: acknowledged at offset {each.base_offset}; {known}; {_holders(each)}"
    return (
        f"{_records(each)}: acknowledged at offset {each.base_offset}; {_holders(each)}; "
        f"high watermark {each.high_watermark}"
    )


def _place(each: Exchange) -> str:
    if each.appended_at < 0:
        return "nothing appended"
    return f"appended at offset {each.appended_at}, {_holders(each)}"


def _why_no_answer(each: Exchange) -> str:
    if each.ending == HUNG_UP:
        return f"the connection is closed ({each.reason})"
    if each.ending == CLIENT_LEFT:
        return "the producer has closed the connection"
    return "the broker has ended" if each.ending == BROKER_ENDED else "the connection stays open"


def _holders(each: Exchange) -> str:
    if not each.held:
        return "no running broker had it"
    synced = f"synced by {_ids(each.synced)}" if each.synced else "synced by none"
    return f"in the log of {_ids(each.held)}, {synced}"


def _ids(brokers: Sequence[int]) -> str:
    return f"broker{'' if len(brokers) == 1 else 's'} {', '.join(map(str, brokers))}"


def _records(each: Exchange) -> str:
    if each.first < 0:
        return f"{each.count} record{'' if each.count == 1 else 's'} for partition {each.partition}"
    numbers = f"record {each.first}" if each.count == 1 else f"records {each.first} to {each.last}"
    if each.last - each.first + 1 != each.count:
        # Of several partitions, each has only some of the numbers.
        numbers = f"{each.count} records from {each.first} to {each.last}"
    return f"{numbers} for partition {each.partition}"


def _fate(each: Exchange) -> str:
    again = "" if each.attempt == 1 else f" (attempt {each.attempt})"
    if each.ending == ANSWERED and each.acks == 0:
        became = f"no answer expected, {_place(each)}"
    elif each.ending == ANSWERED and each.error:
        became = f"answered {each.error}, {_place(each)}"
    elif each.ending == ANSWERED:
        known = " without a second append" if each.appended_at < 0 else ""
        became = f"acknowledged at offset {each.base_offset}{known}, {_holders(each)}"
    else:
        became = f"no answer, {_why_no_answer(each)}, {_place(each)}"
    return f"Broker {each.broker}, {_records(each)}{again}: {became}."


def _event_rows(recorded: Recorded) -> Iterator[Row]:
    for each in recorded.events:
        kind, words = _event_words(each)
        at = f"broker {each['broker']}" if each["broker"] else ""
        yield Row(each["at_us"], kind, at, "", words, each.get("partition", -1), None, each["order"])


def _event_words(each: Mapping[str, Any]) -> tuple[str, str]:
    kind, broker = each["kind"], each["broker"]
    if kind == BEGINS:
        return FAULT, f"fault begins: {each['words']}"
    if kind == FIRES:
        return FAULT, f"fault fires: {each['words'].replace('_', ' ')}"
    if kind == HEALED:
        return FAULT, f"fault ends: {each['words']}"
    if kind == DOWN:
        return BROKER, f"broker {broker} {_ENDS.get(each['words'], 'ends')}"
    if kind == STARTS:
        return BROKER, f"broker {broker} starts"
    in_sync = f"in sync: {', '.join(map(str, each['isr'])) or 'nobody'}"
    if each["leader"] < 0:
        return LEADER, f"partition {each['partition']} has no leader; {in_sync}"
    if each["leader"] == each["was"]:
        return LEADER, f"partition {each['partition']}: {in_sync}"
    return LEADER, f"broker {each['leader']} leads partition {each['partition']} in epoch {each['epoch']}; {in_sync}"


def _flush_rows(recorded: Recorded) -> Iterator[Row]:
    for at_us, count in recorded.flushes:
        yield Row(at_us, FLUSH, PRODUCER, "", f"flush: the producer was told of all {count:,} records so far")


# ---- anomalies ------------------------------------------------------------------------------------------------------


def _findings(anomalies: Sequence[Anomaly], recorded: Recorded) -> list[Finding]:
    """The anomalies, those together whose records were in the same requests."""
    found: dict[tuple[str, int, tuple[int, ...]], Finding] = {}
    for anomaly in anomalies:
        exchanges = list(recorded.about(anomaly))
        # Without any request, each anomaly stands for itself.
        place = tuple(each.order for each in exchanges) or (-1, len(found))
        key = anomaly.kind, anomaly.partition, place
        if key in found:
            found[key].anomalies.append(anomaly)
        else:
            found[key] = Finding(len(found), anomaly.kind, anomaly.partition, [anomaly], exchanges)
    return list(found.values())


def _with_findings(rows: list[Row], findings: Sequence[Finding]) -> list[Row]:
    """The rows with each finding after the last row about it, or at the end where there is none."""
    places: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row.exchange is not None:
            places.setdefault(row.exchange.order, []).append(place)
    found_after: dict[int, list[Row]] = {}
    for finding in findings:
        about = [place for each in finding.exchanges for place in places[each.order]]
        for place in about:
            rows[place].is_evidence = True
        last = max(about, default=len(rows) - 1)
        at_us = rows[last].at_us if rows else 0
        told = Row(at_us, FINDING, "", "", finding.words, finding.partition, is_evidence=True, finding=finding)
        found_after.setdefault(last, []).append(told)
    merged: list[Row] = found_after.get(-1, [])
    for place, row in enumerate(rows):
        merged.append(row)
        merged += found_after.get(place, ())
    return merged


# ---- folding --------------------------------------------------------------------------------------------------------


def _fold(rows: Sequence[Row], may_go: Callable[[Row], bool]) -> list[Row]:
    """The rows, with the middle of each stretch of ordinary rows folded into one."""
    kept: list[Row] = []
    for goes, group in groupby(rows, may_go):
        run = list(group)
        if not goes or len(run) <= 2 * _STAY + 1:
            kept += run
        else:
            kept += [*run[:_STAY], _folded(run[_STAY:-_STAY]), *run[-_STAY:]]
    return kept


def _cut(rows: Sequence[Row]) -> list[Row]:
    """The first and the last rows, and what is evidence of those between."""
    half = ROWS_MAX // 2
    kept = [*rows[:half]]
    for is_found, group in groupby(rows[half:-half], lambda row: row.is_evidence):
        run = list(group)
        kept += run if is_found else [_folded(run)]
    return [*kept, *rows[-half:]]


def _folded(run: Sequence[Row]) -> Row:
    """One row in place of several."""
    answered = [row.exchange for row in run if row.kind == ANSWER and row.exchange is not None]
    requests = sum(row.kind == REQUEST for row in run)
    said = f"{len(run):,} rows are folded here"
    if all(row.kind == LEADER for row in run):
        said = f"{len(run):,} changes more of who leads a partition, or is in sync"
    if all(row.is_plain for row in run) and answered:
        first, last = answered[0], answered[-1]
        said = f"{requests:,} requests more, {len(answered):,} answered, each at the first attempt"
        if first.first >= 0:
            said += f": records {min(each.first for each in answered)} to {max(each.last for each in answered)}"
        said += f"; high watermark {first.high_watermark} to {last.high_watermark}" if last.acks else ""
    last_seen = next((row.exchange for row in reversed(run) if row.exchange is not None), None)
    return Row(run[0].at_us, FOLD, "", "", said, exchange=last_seen)


def _batch(each: Exchange) -> tuple[int, int, int, int]:
    return each.partition, each.producer_id, each.sequence, each.crc
