"""Makes a failing plan as small as it can be while the same kind of thing is still found.

Delta debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002) leaves out parts of
the plan. The parts that explain most come first: faults, service times of brokers, moves of replicas, producers,
readers, whole transactions, single acts, topics and partitions. Then what is left is made plainer (shorter pauses, no
keys, default settings). Leaving something out changes what the world draws, so a smaller plan is another run: a step is
kept only if the same kind of finding comes again.

It is deterministic: the same plan has the same result, unless the caller stops it. The number of runs is limited; the
result is the smallest plan found until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ottla.simulation.outcome import Outcome, kinds_of
from ottla.simulation.plan import ABORT, BEGIN, COMMIT, CRASH, PAUSE, REPLACE, SEND, Act, Plan, ProducerPlan, TimedFault
from ottla.simulation.plan_check import misfit, move_misfit
from ottla.simulation.run import execute

T = TypeVar("T")
RUNS_MAX = 600
_ENDINGS = (COMMIT, ABORT, CRASH, REPLACE)


@dataclass(slots=True)
class Shrunk:
    """The smallest plan found, its outcome, and the number of runs; `kind` is the finding that it must have.

    `stopped_early`: the limit of runs or the caller ended it.
    """

    plan: Plan
    outcome: Outcome
    kind: str
    runs: int
    stopped_early: bool = False


def shrink(
    plan: Plan,
    outcome: Outcome,
    *,
    run: Callable[[Plan], Outcome] = execute,
    runs_max: int = RUNS_MAX,
    progress: Callable[[Plan, int], None] | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> Shrunk:
    """The fewest parts of `plan` with which the first finding of `outcome` still comes.

    `progress` is called after each run with the smallest plan so far and the number of runs. `goes_on` is called before
    each run; shrinking ends when it returns False.
    """
    job = _Job(plan, outcome, run, runs_max, progress, goes_on)
    passes = (_fewer_faults, _fewer_clients, _fewer_acts, _fewer_topics, _plainer)
    before = None
    while before != job.plan and not job.stopped_early:
        before = job.plan
        for each in passes:
            each(job)
    return Shrunk(job.plan, job.outcome, job.kind, job.runs, job.stopped_early)


class _Job:
    """The smallest plan so far, and tries at smaller ones."""

    def __init__(
        self,
        plan: Plan,
        outcome: Outcome,
        run: Callable[[Plan], Outcome],
        runs_max: int,
        progress: Callable[[Plan, int], None] | None,
        goes_on: Callable[[], bool],
    ) -> None:
        self.plan = plan
        self.outcome = outcome
        self.kind = kinds_of(outcome)[0]
        self.runs = 0
        self._run = run
        self._runs_max = runs_max
        self._progress = progress
        self._goes_on = goes_on
        self.stopped_early = False

    @property
    def may_run(self) -> bool:
        """Whether another run is allowed; to be read only if there is something to try."""
        if not self.stopped_early:
            self.stopped_early = self.runs >= self._runs_max or not self._goes_on()
        return not self.stopped_early

    def attempt(self, smaller: Plan) -> bool:
        """Run a smaller plan, and return whether it has the finding; then it is the smallest one so far."""
        if smaller == self.plan or not self.may_run:
            return False
        self.runs += 1
        outcome = self._run(smaller)
        found = self.kind in kinds_of(outcome)
        if found:
            self.plan, self.outcome = smaller, outcome
        if self._progress is not None:
            self._progress(self.plan, self.runs)
        return found

    def fewest(self, items: list[T], without: Callable[[list[T]], Plan]) -> list[T]:
        """Leave out all items that can be left out, large pieces first; `without` makes the plan with the others."""
        piece = len(items)
        while piece and items:
            start = 0
            while start < len(items) and not self.stopped_early:
                fewer = items[:start] + items[start + piece :]
                if self.attempt(without(fewer)):
                    items = fewer
                else:
                    start += piece
            piece //= 2
        return items


def _fewer_faults(job: _Job) -> None:
    job.fewest(job.plan.faults, lambda left: replace(job.plan, faults=left))
    job.fewest(job.plan.service, lambda left: replace(job.plan, service=left))
    job.fewest(job.plan.moves, lambda left: replace(job.plan, moves=left))


def _fewer_clients(job: _Job) -> None:
    job.fewest(job.plan.producers, lambda left: _fitting(replace(job.plan, producers=left)))
    job.fewest(job.plan.readers, lambda left: _fitting(replace(job.plan, readers=left)))


def _fitting(plan: Plan) -> Plan:
    """The plan without faults and moves of what is no longer in it: `plan_check` would refuse those."""
    return replace(
        plan,
        faults=[each for each in plan.faults if misfit(plan, each) is None],
        moves=[each for each in plan.moves if move_misfit(plan, each) is None],
    )


def _fewer_acts(job: _Job) -> None:
    for number in range(len(job.plan.producers)):
        for parts in (_transactions, _singly):
            job.fewest(
                list(parts(job.plan.producers[number].acts)),
                lambda left, n=number: _with_acts(job.plan, n, [act for part in left for act in part]),  # type: ignore[misc]
            )


def _transactions(acts: list[Act]) -> Iterator[tuple[Act, ...]]:
    """The acts in pieces: one for each transaction, from BEGIN to its end, and one for each other act."""
    piece: list[Act] = []
    for act in acts:
        if piece or act.do == BEGIN:
            piece.append(act)
            if act.do in _ENDINGS:
                yield tuple(piece)
                piece = []
        else:
            yield (act,)
    if piece:
        yield tuple(piece)


def _singly(acts: list[Act]) -> Iterator[tuple[Act, ...]]:
    return ((act,) for act in acts)


def _with_acts(plan: Plan, number: int, acts: list[Act]) -> Plan:
    producers = list(plan.producers)
    producers[number] = ProducerPlan(producers[number].name, producers[number].settings, acts)
    return replace(plan, producers=producers)


def _fewer_topics(job: _Job) -> None:
    used = dict.fromkeys(act.topic for producer in job.plan.producers for act in producer.acts)
    kept = [topic for topic in job.plan.topics if topic.name in used] or job.plan.topics[:1]
    names = [topic.name for topic in kept]
    readers = [each for each in job.plan.readers if each.topic in names]
    job.attempt(_fitting(replace(job.plan, topics=kept, readers=readers)))
    for number, topic in enumerate(job.plan.topics):
        for partitions in range(1, topic.partitions):
            topics = list(job.plan.topics)
            topics[number] = replace(topic, partitions=partitions)
            if job.attempt(_fitting(_into(replace(job.plan, topics=topics), topic.name, partitions))):
                break


def _into(plan: Plan, topic: str, partitions: int) -> Plan:
    """The plan with all acts moved into the partitions that a topic now has."""

    def moved(act: Act) -> Act:
        if act.topic != topic or act.partition is None or act.partition < partitions:
            return act
        return replace(act, partition=act.partition % partitions)

    return _each_act(plan, moved)


def _each_act(plan: Plan, change: Callable[[Act], Act]) -> Plan:
    return replace(
        plan,
        producers=[ProducerPlan(each.name, each.settings, list(map(change, each.acts))) for each in plan.producers],
    )


def _plainer(job: _Job) -> None:
    job.attempt(replace(job.plan, through_bytes=False))
    job.attempt(_each_act(job.plan, lambda act: replace(act, key=None) if act.do == SEND else act))
    job.attempt(_each_act(job.plan, lambda act: replace(act, value_bytes=0) if act.do == SEND else act))
    job.attempt(_each_act(job.plan, lambda act: replace(act, headers=[])))
    job.attempt(_each_act(job.plan, lambda act: replace(act, partition=0) if act.do == SEND else act))
    for pause_us in (0, 1_000, 100_000):
        short = _each_act(job.plan, lambda act, most=pause_us: _paused(act, most))  # type: ignore[misc]
        if job.attempt(short):
            break
    constant = [replace(each, least_us=each.most_us) for each in job.plan.service]
    job.attempt(replace(job.plan, service=constant))
    _fewer_settings(job)
    _plainer_faults(job)


def _paused(act: Act, most_us: int) -> Act:
    return replace(act, pause_us=min(act.pause_us, most_us)) if act.do == PAUSE else act


def _fewer_settings(job: _Job) -> None:
    """Leave out every setting whose default also gives the finding."""
    for number, producer in enumerate(job.plan.producers):
        # Without a transactional_id its acts would make no sense.
        names = [name for name in producer.settings if name != "transactional_id"]
        for name in names:
            settings = {key: value for key, value in job.plan.producers[number].settings.items() if key != name}
            producers = list(job.plan.producers)
            producers[number] = replace(producers[number], settings=settings)
            job.attempt(replace(job.plan, producers=producers))
    for name in list(job.plan.settings):
        job.attempt(replace(job.plan, settings={key: v for key, v in job.plan.settings.items() if key != name}))


# Fields of request faults that limit the requests; without them a fault applies to more requests.
_PLAINER_WITHOUT = (("partition",), ("topic", "partition"), ("every",), ("times",))


def _plainer_faults(job: _Job) -> None:
    for number in range(len(job.plan.faults)):
        for changes in _plain_fault(job.plan.faults[number]):
            faults = list(job.plan.faults)
            faults[number] = replace(faults[number], **changes)
            job.attempt(replace(job.plan, faults=faults))


def _plain_fault(timed: TimedFault) -> Iterator[dict[str, Any]]:
    if timed.fault.applies_to_requests:
        for names in _PLAINER_WITHOUT:
            # A partition is one of a topic.
            if getattr(timed.fault, names[0], None) is not None:
                yield {"fault": timed.fault.but(**dict.fromkeys(names))}
    for at_us in (0, timed.at_us // 2):
        if at_us < timed.at_us:
            yield {"at_us": at_us}
    if timed.lasts_us > 200_000:
        yield {"lasts_us": 200_000}
