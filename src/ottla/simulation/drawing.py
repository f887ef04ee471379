"""Faults drawn from a seed: which kinds a run has at all, then so many of them, one after another.

Each kind of fault knows how it is drawn (`Fault.draw`); what faults can apply to in a plan, and when, stands here.

In a mild plan nothing happens that Kafka does not survive without a sync; `SEVERE_KINDS` are drawn for severe ones
only. Swarm testing (Groce and others, ISSTA 2012): a run has few of the kinds, so that they do not hide each other.

A fault that never fires tests nothing. So a fault is drawn for a time and a place where it will fire, as far
as a plan tells (`timetable`): while producers write, not at a broker that another fault has taken down. Which that is
in the run is another matter; faults that come too late for what they were meant for still miss.
"""

from __future__ import annotations

from ottla.faults.broker_fault import BrokerFault
from ottla.faults.fault import KINDS, OF_REQUESTS, Fault, fault_class
from ottla.faults.site import Span
from ottla.simulation.chance import Chance
from ottla.simulation.plan import SEVERE, Plan, TimedFault
from ottla.simulation.timetable import Sending, Timetable

# Faults that apply to requests, drawn as one kind among the others: these, often ones that answer with an error, and
# now and then ones that end or freeze the broker in the midst of a request.
REQUESTS = "requests"
_AT_REQUESTS = (
    "lose_ack",
    "lose_ack",
    "lose_request",
    "drop_ack",
    "drop_request",
    "delay_ack",
    "delay_request",
    "redeliver",
)
_REFUSING = ("refuse", "refuse_after_append")
_ENDING_MILD, _ENDING_SEVERE = ("kill", "pause"), ("kill", "power_off", "pause", "cut_power")
_REFUSING_SHARE, _ENDING_SHARE = 0.2, 0.15
SEVERE_KINDS = ("cut_power", "corrupt_unsynced")
# Nothing of these is drawn: one is a barrier for tests, others break a promise or are the controller's affair.
_NEVER = (*OF_REQUESTS, "corrupt", "unclean_election")
# Drawn for themselves (`draw`), so that what other seeds draw stays as it was.
_APART = ("failing_disk",)
DRAWN_KINDS = (REQUESTS, *(kind for kind in KINDS if kind not in _NEVER))
# How many runs have faults of requests among the rest: nothing finds more.
_REQUESTS_SHARE = 0.6
_LASTS_US = (200_000, 2_000_000, 6_000_000)
_GAPS_US = (0, 10_000, 200_000, 500_000, 1_000_000, 3_000_000)
# How long before the event that it is to apply to a fault begins.
_AHEAD_US = (0, 1_000, 20_000)
# How many times in a row a fault may be drawn that would not fire, each for a little later than the one before;
# and how many of one kind.
_TRIES = 12
_TRIES_OF_A_KIND = 3
_LATER_US = 100_000
# How many records may lie in a request.
_RECORDS_PER_REQUEST = 3
# How much later than planned a request may come: one that is sent by the clock, and one that waits for others.
_LATE_US = 500_000
_CALLED_LATE_US = 4_000_000
# Until all replicas are in sync after what was the matter with brokers is over, and topics of the brokers' own exist.
_RECOVERED_US = 2_000_000
# What ends brokers, when it fires by the clock.
_ENDS = ("kill", "stop", "power_off", "corrupt_unsynced", "cut_power")


def stops_controller(fault: Fault) -> bool:
    """Whether there is no controller for as long as it lasts."""
    return fault.kind == "stop_controller" or (fault.kind == "cut_power" and bool(getattr(fault, "controller", False)))


class PlanDrawing:
    """What faults can apply to in a plan, and what those drawn so far have left of it (`faults.site.Drawing`)."""

    def __init__(self, chance: Chance, plan: Plan) -> None:
        self.chance = chance
        self.timetable = Timetable(plan)
        self.brokers = range(plan.brokers)
        self.topics = plan.topics
        self.producers = [each.name for each in plan.producers]
        self.readers = {each.name: each.topic for each in plan.readers}
        self.is_severe = plan.severity == SEVERE
        self._session_us = 1000 * plan.settings.get("broker_session_timeout_ms", 9_000)
        self._drawn = list(plan.faults)

    def note(self, timed: TimedFault) -> None:
        """It is part of the plan."""
        self._drawn.append(timed)

    def in_force(self, at_us: int, *kinds: str) -> list[Fault]:
        """Those of these kinds that last at that time, without those that wait for a request."""
        return [
            each.fault
            for each in self._drawn
            if each.kind in kinds
            and not each.fault.applies_to_requests
            and each.at_us <= at_us <= each.at_us + each.lasts_us
        ]

    def up(self, at_us: int, *also: str) -> list[int]:
        """The brokers that are not down then; `also`: nor affected by these kinds."""
        down = [fault.victim for fault in self.in_force(at_us, *_ENDS, *also)]
        return [each for each in self.brokers if each not in down and None not in down]

    def stops_controller(self, at_us: int) -> bool:
        """Whether there is no controller then."""
        return any(map(stops_controller, self.in_force(at_us, "stop_controller", "cut_power")))

    def is_free(self, timed: TimedFault) -> bool:
        """Whether this may happen when it is meant to.

        In a mild plan nothing that may cost a broker happens beside a power cut.
        """
        if self.is_severe or not timed.fault.may_cost_a_broker:
            return True
        at_us = timed.at_us
        for each in self._drawn:
            if each.kind == "power_off":
                unnoticed_us = min(each.lasts_us, self._session_us) + _RECOVERED_US
                if each.at_us <= at_us <= each.at_us + unnoticed_us:
                    return False
            if timed.kind == "power_off" and each.fault.may_cost_a_broker:
                # A broker that was affected by a request is down for as long again.
                lasts_us = each.lasts_us * (2 if each.fault.applies_to_requests else 1)
                if each.at_us <= at_us <= each.at_us + lasts_us + _RECOVERED_US:
                    return False
                # Nor may it come so soon that the other one would be put off.
                if at_us <= each.at_us <= at_us + min(timed.lasts_us, self._session_us) + _RECOVERED_US:
                    return False
        return True

    def await_sending(self, span: Span, producer: str | None = None) -> Sending | None:
        """Have the fault begin when something is sent; None where nothing is."""
        sending = self.timetable.next_sending(span.at_us, self.chance, producer)
        if sending is not None:
            begins_us = sending.at_us - self.chance.choice(_AHEAD_US)
            span.at_us = max(0, begins_us, span.at_us if span.at_us <= sending.at_us else 0)
        return sending

    def await_requests(self, span: Span, api: str, topic: str | None, count: int) -> bool:
        """Have the fault be in force when so many requests come; False where so many never do, or not soon enough."""
        moments = self.timetable.requests(api, topic)
        if api == "Produce" and count > 1:
            count *= _RECORDS_PER_REQUEST
        later = [at_us for at_us in moments if at_us >= span.at_us]
        if len(later) < count:
            if len(moments) < count:
                return False
            later = moments[self.chance.randrange(len(moments) - count + 1) :]
            span.at_us = max(0, later[0] - self.chance.choice(_AHEAD_US))
        come_us = later[count - 1] + (_LATE_US if api == "Produce" else _CALLED_LATE_US)
        span.lasts_us = max(span.lasts_us, come_us - span.at_us)
        return True


def draw_times(chance: Chance, count: int) -> list[int]:
    """When so many faults begin, one after the other."""
    at_us, times = 0, []
    for _ in range(count):
        at_us += chance.choice(_GAPS_US)
        times.append(at_us)
    return times


def draw_faults(chance: Chance, times: list[int], plan: Plan, kind: str | None = None) -> list[TimedFault]:
    """A fault for each of these times, of the few kinds that this run has; the plan is ready but for them.

    `kind`: of this one alone, as far as it can fire.
    """
    drawing = PlanDrawing(chance, plan)
    if kind is not None:
        return _drawn_of(drawing, [kind], times)
    share = chance.choice((0.15, 0.3, 0.6))
    kinds = [each for each in DRAWN_KINDS if each not in _APART and (drawing.is_severe or each not in SEVERE_KINDS)]
    allowed = [each for each in kinds if chance.random() < share]
    if not allowed or chance.random() < _REQUESTS_SHARE:
        allowed += [REQUESTS] * (len(allowed) // 3 + 1)
    return _drawn_of(drawing, allowed, times)


def _drawn_of(drawing: PlanDrawing, allowed: list[str], times: list[int]) -> list[TimedFault]:
    drawn = []
    for at_us in times:
        drawn.append(_drawn(drawing, allowed, at_us))
        drawing.note(drawn[-1])
    return drawn


def _drawn(drawing: PlanDrawing, allowed: list[str], at_us: int) -> TimedFault:
    """A fault that will fire: of one of these kinds, if any of them will soon."""
    chance = drawing.chance
    for attempt in range(_TRIES):
        if attempt % _TRIES_OF_A_KIND == 0:
            kind = chance.choice(allowed)
        span = Span(at_us + attempt * attempt * _LATER_US, chance.choice(_LASTS_US))
        fault = _draw_one(drawing, kind, span)
        if fault is not None:
            timed = TimedFault(fault, span.at_us, span.lasts_us)
            if drawing.is_free(timed):
                return timed
    # This one always fires.
    span = Span(at_us, chance.choice(_LASTS_US))
    fault = _draw_one(drawing, "jump_clock", span)
    assert fault is not None
    return TimedFault(fault, span.at_us, span.lasts_us)


def _draw_one(drawing: PlanDrawing, kind: str, span: Span) -> Fault | None:
    if kind != REQUESTS:
        return fault_class(kind).draw(drawing, span)
    chance = drawing.chance
    drawn = chance.random()
    if drawn < _REFUSING_SHARE:
        return fault_class(chance.choice(_REFUSING)).draw(drawing, span)
    if drawn < _REFUSING_SHARE + _ENDING_SHARE:
        ending = fault_class(chance.choice(_ENDING_SEVERE if drawing.is_severe else _ENDING_MILD))
        assert issubclass(ending, BrokerFault)
        return ending.draw_at_requests(drawing, span)
    return fault_class(chance.choice(_AT_REQUESTS)).draw(drawing, span)
