"""The states that a run went through: error codes of answers, states of transactions, leaders, outcomes of records.

A simulation without any unclean election or fenced producer proves nothing about them. So every run lists its states,
such as "Produce answered NOT_LEADER_OR_FOLLOWER" or "transaction open > abortable"; over thousands of seeds they are
counted. Error codes come from the answers in the trace, states of transactions from the producers, all others from the
chronicle at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.host.crossing import Crossing
from ottla.protocol.error_codes import error_name
from ottla.protocol.message import Message
from ottla.protocol.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from ottla.audit.chronicles.chronicle import Chronicle
    from ottla.audit.findings import Finding
    from ottla.simulation.clients import SimulatedProducer

_CODE_NAMES = ("error_code", "partition_error_code")
_LISTS = (list, type(None))
_NUMBER = re.compile(r"[0-9]+")
# Every second answer is one of these; only their top-level error code can be set.
_TOP_ONLY = ("BrokerHeartbeatResponse", "ApiVersionsResponse")

# By class: the fields to look at; the same for all runs.
_NAMES: dict[type, tuple[str, ...]] = {}


class States:
    """The states of one run; `seen` has them in the order in which they were first reached."""

    def __init__(self) -> None:
        self.seen: dict[str, None] = {}
        self._codes: dict[tuple[type, int], None] = {}
        self._stands: dict[str, Any] = {}

    def hear(self, crossing: Crossing) -> None:
        """Note the error codes of a message, if it is an answer."""
        what, message = crossing.what, crossing.message
        if what == "answer":
            if type(message) is FetchResponse and not message.responses and not message.error_code:
                return  # a Fetch answer without news, as every second answer is
            for code in error_codes(message):
                if code:
                    self._codes[type(message), code] = None
        elif what == "hang up":
            self.seen["a broker hung up"] = None

    def look_at(self, producer: SimulatedProducer) -> None:
        """Note a new state of a producer's transaction."""
        stands = producer.core.transaction_state
        if stands is None:
            return
        before = self._stands.get(producer.client_name)
        if stands is not before:
            self._stands[producer.client_name] = stands
            if before is not None:
                self.seen[f"transaction {before.name.lower()} > {stands.name.lower()}"] = None

    def add_tallies(self, judged: list[Finding]) -> None:
        """Note counts of the judge that are no errors, such as records lost for a known reason.

        The state's name says that it is a count and not a finding: "acknowledged too early: held by 3" alone would read
        as an error, but says that all three replicas had the record. Numbers in a reason are replaced by N: they differ
        from run to run.
        """
        for finding in judged:
            for name, _ in finding.tallies:
                words = _NUMBER.sub("N", name) if "excused" in name else name
                self.seen[f"seen while looking for “{finding.kind}”: {words}"] = None

    def conclude(self, chronicle: Chronicle) -> tuple[str, ...]:
        """All states of the run, in alphabetical order."""
        for kind, code in self._codes:
            self.seen[f"{kind.__name__.removesuffix('Response')} answered {error_name(code)}"] = None
        for told in _told(chronicle):
            self.seen[told] = None
        return tuple(sorted(self.seen))


def error_codes(message: Any) -> list[int]:
    """Every error code of an answer, 0 included; none of None."""
    kind = type(message)
    if message is None:
        return []
    if kind is FetchResponse:
        return [message.error_code, *[part.error_code for topic in message.responses for part in topic.partitions]]
    if kind.__name__ in _TOP_ONLY:
        return [message.error_code]
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = _telling_names(kind)
    codes: list[int] = []
    for name in names:
        value = getattr(message, name)
        if name in _CODE_NAMES:
            codes.append(value)
        elif type(value) is list and value and isinstance(value[0], Message):
            for each in value:
                codes += error_codes(each)
    return codes


def _telling_names(kind: Any) -> tuple[str, ...]:
    """The fields of a message with error codes, and those with lists, which may be null."""
    if not issubclass(kind, Message):
        return tuple(kind.__slots__)
    blank = kind()
    return tuple(name for name in kind.__slots__ if name in _CODE_NAMES or type(getattr(blank, name)) in _LISTS)


def _told(chronicle: Chronicle) -> Iterator[str]:
    for record in chronicle.sent:
        yield f"record {record.outcome}"
    for transaction in chronicle.transactions:
        whose = " of a replaced producer" if transaction.is_zombie else ""
        yield f"transaction{whose} {transaction.outcome}"
        if transaction.offsets_taken:
            yield f"offsets in a transaction {transaction.outcome}"
    for read in chronicle.reads:
        yield f"{read.isolation_level} round {'ended early' if read.error else 'to the end'}"
    for leadership in chronicle.leaderships or ():
        yield f"{len(leadership.isr)} in sync"
        if leadership.leader < 0:
            yield "no leader"
        elif leadership.is_unclean:
            yield "unclean election"
    for end in chronicle.broker_ends or ():
        yield f"broker went down by {end.kind}"
    yield from _of_logs(chronicle)
    if chronicle.stuck:
        yield "stuck"


def _of_logs(chronicle: Chronicle) -> Iterator[str]:
    ends: dict[tuple[int, str, int], tuple[int, int, bool]] = {}
    for mark in chronicle.watermarks or ():
        if mark.is_leader:
            if mark.high_watermark < mark.log_end_offset:
                yield "leader ahead of its high watermark"
            if mark.last_stable_offset < mark.high_watermark:
                yield "last stable offset behind the high watermark"
        place = mark.broker_id, mark.topic, mark.partition
        start, end, led = ends.get(place, (mark.broker_start, 0, mark.is_leader))
        if mark.log_end_offset < end:
            yield "log cut back after a start" if start != mark.broker_start else "follower truncated"
        if start == mark.broker_start and led != mark.is_leader:
            yield "follower became leader" if mark.is_leader else "leader became follower"
        ends[place] = mark.broker_start, mark.log_end_offset, mark.is_leader
