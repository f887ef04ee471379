"""Draws the faults of a plan: first which kinds a run has, then one fault after another.

Each kind of fault has its own `draw` (`Fault.draw`); here is what faults can apply to in a plan, and when.

In a mild plan nothing happens that Kafka does not survive without syncs: `SEVERE_KINDS` are for severe plans only.
Swarm testing (Groce and others, ISSTA 2012): a run has only few of the kinds, so that they do not hide each other.

A fault that never fires tests nothing. So a fault is drawn for a time and a partition or broker at which it will
fire, as far as the plan says (`timetable`): while producers send, not at a broker that is down for another fault. The
run may be later than the plan; then some faults still never fire.
"""

from __future__ import annotations

from ottla.faults.broker_fault import BrokerFault
from ottla.faults.fault import KINDS, OF_REQUESTS, Fault, fault_class
from ottla.faults.site import Span
from ottla.simulation.chance import Chance
from ottla.simulation.plan import SEVERE, Plan, TimedFault
from ottla.simulation.timetable import Sending, Timetable

# Faults that apply to requests are drawn as one kind, REQUESTS: mostly one of `_AT_REQUESTS`, sometimes one that
# answers with an error, or that ends or freezes the broker while it handles a request.
REQUESTS = "requests"
_REFUSING = ("refuse", "refuse_after_append")
_OFTEN = (
    "lose_ack",
    "lose_ack",
    "lose_request",
    "drop_ack",
    "drop_request",
    "delay_ack",
    "delay_request",
    "redeliver",
)
# "hold" is for tests only.
_AT_REQUESTS = (*_OFTEN, *(kind for kind in OF_REQUESTS if kind not in (*_OFTEN, *_REFUSING, "hold")))
_ENDING_MILD, _ENDING_SEVERE = ("kill", "pause"), ("kill", "power_off", "pause", "cut_power")
_REFUSING_SHARE, _ENDING_SHARE = 0.2, 0.15
SEVERE_KINDS = ("cut_power", "corrupt_unsynced")
# Not drawn as kinds: faults of requests (they are REQUESTS; "hold" is for tests only), and two that break promises.
_NEVER = (*OF_REQUESTS, "corrupt", "unclean_election")
# Drawn by a generator of its own (`draw`): it was added later, and the draws of all other seeds were to stay.
_APART = ("failing_disk",)
DRAWN_KINDS = (REQUESTS, *(kind for kind in KINDS if kind not in _NEVER))
# The share of runs with faults of requests, which find the most.
_REQUESTS_SHARE = 0.6
_LASTS_US = (200_000, 2_000_000, 6_000_000)
_GAPS_US = (0, 10_000, 200_000, 500_000, 1_000_000, 3_000_000)
# How long a fault begins before the event to which it is to apply.
_AHEAD_US = (0, 1_000, 20_000)
# How often to draw again if a fault would not fire, each time for a little later; and how often for one kind.
_TRIES = 12
_TRIES_OF_A_KIND = 3
_LATER_US = 100_000
# How many records a request may have.
_RECORDS_PER_REQUEST = 3
# How much later than planned a request may come: a Produce request, and one of another API.
_LATE_US = 500_000
_CALLED_LATE_US = 4_000_000
# How long after a fault of brokers all replicas are in sync again, and the internal topics exist.
_RECOVERED_US = 2_000_000
# Faults that end brokers at a time, without a request.
_ENDS = ("kill", "stop", "power_off", "corrupt_unsynced", "cut_power")


def stops_controller(fault: Fault) -> bool:
    """Whether a fault keeps the controller down as long as it lasts."""
    return fault.kind == "stop_controller" or (fault.kind == "cut_power" and bool(getattr(fault, "controller", False)))


class PlanDrawing:
    """What faults can apply to in a plan, given those drawn so far (`faults.site.Drawing`)."""

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
        """Add a fault to those drawn so far."""
        self._drawn.append(timed)

    def in_force(self, at_us: int, *kinds: str) -> list[Fault]:
        """The faults of these kinds that are in force at that time, without those that wait for a request."""
        return [
            each.fault
            for each in self._drawn
            if each.kind in kinds
            and not each.fault.applies_to_requests
            and each.at_us <= at_us <= each.at_us + each.lasts_us
        ]

    def up(self, at_us: int, *also: str) -> list[int]:
        """The brokers that are not down at that time, nor affected by faults of the kinds `also`."""
        down = [fault.victim for fault in self.in_force(at_us, *_ENDS, *also)]
        return [each for each in self.brokers if each not in down and None not in down]

    def stops_controller(self, at_us: int) -> bool:
        """Whether there is no controller at that time."""
        return any(map(stops_controller, self.in_force(at_us, "stop_controller", "cut_power")))

    def is_free(self, timed: TimedFault) -> bool:
        """Whether this fault may happen at its time.

        In a mild plan no other fault that may end a broker happens during a power cut.
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
                # A broker that was affected at a request stays down for `lasts_us` from then on.
                lasts_us = each.lasts_us * (2 if each.fault.applies_to_requests else 1)
                if each.at_us <= at_us <= each.at_us + lasts_us + _RECOVERED_US:
                    return False
                # Nor may it come so soon before another one that the run would put that off.
                if at_us <= each.at_us <= at_us + min(timed.lasts_us, self._session_us) + _RECOVERED_US:
                    return False
        return True

    def await_sending(self, span: Span, producer: str | None = None) -> Sending | None:
        """Let the fault begin when a record is sent; None if none ever is."""
        sending = self.timetable.next_sending(span.at_us, self.chance, producer)
        if sending is not None:
            begins_us = sending.at_us - self.chance.choice(_AHEAD_US)
            span.at_us = max(0, begins_us, span.at_us if span.at_us <= sending.at_us else 0)
        return sending

    def await_requests(self, span: Span, api: str, topic: str | None, count: int) -> bool:
        """Let the fault be in force when `count` requests come; False if there are not so many in the plan."""
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
    """The times at which `count` faults begin, in order."""
    at_us, times = 0, []
    for _ in range(count):
        at_us += chance.choice(_GAPS_US)
        times.append(at_us)
    return times


def draw_faults(chance: Chance, times: list[int], plan: Plan, kind: str | None = None) -> list[TimedFault]:
    """A fault for each of these times, of the few kinds that this run has; all else of the plan must be there.

    `kind`: draw faults of this kind alone, if they can fire.
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
    """A fault that will fire, as far as the plan says: of one of these kinds if possible."""
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
