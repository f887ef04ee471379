"""The story of one run, message by message: its requests and answers, its faults, and what was found.

`tell` runs the plan once more, with a listener on its trace. Messages without news (heartbeats, empty fetches) are left
out. Of many similar lines the first few are kept, and the others folded into one. `as_text` draws a sequence diagram of
`WIDTH` columns: time, one lane per participant, and a text beside each arrow. `story_page` makes a page of the same
lines.

Invariant: every line was seen in the run; no line comes from the plan alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ottla.audit.findings import Finding
from ottla.faults.fields import CONTROLLER
from ottla.host.crossing import Crossing
from ottla.simulation.outcome import Outcome, evidence_of
from ottla.simulation.plan import Plan, TimedFault
from ottla.simulation.run import Run, conclude
from ottla.simulation.words import api_of, is_idle, runs, words_of

WIDTH = 120
_TIME_COLUMNS = 12
_LANE_COLUMNS = 9
_LANES_MAX = 8
# So many similar lines are shown; after a line that is never folded the count begins anew.
_ALIKE_MAX = 4
# A message that takes longer than this is shown as late.
_LATE_US = 5_000

MESSAGE, HANG_UP, FAULT, NOTE, FOLD, FINDING = "message", "hang up", "fault", "note", "fold", "finding"


@dataclass(slots=True)
class Line:
    """One line; `at_us` counts from the start of the run. `receiver` is "" if the line is no message.

    `is_evidence`: it is about what was found.
    """

    at_us: int
    kind: str
    sender: str
    receiver: str
    words: str
    is_evidence: bool = False
    # Many lines with the same gist are folded.
    gist: str = ""
    is_answer: bool = False


@dataclass(slots=True)
class Story:
    """The story of one run: its participants from left to right, its lines in the order of time, its outcome."""

    plan: Plan
    outcome: Outcome
    participants: list[str]
    lines: list[Line] = field(default_factory=list)


def tell(plan: Plan, *, conclude: Callable[[Run, str | None], Outcome] = conclude) -> Story:
    """Run the plan and write its story; `conclude` judges the run."""
    run = Run(plan)
    listener = _Listener(run)
    run.world.trace.listeners.append(listener.hear)
    crashed = None
    try:
        run.go()
    except Exception:
        crashed = traceback.format_exc()
    outcome = conclude(run, crashed)
    # In the same moment: first that records are sent, then messages, then notes.
    lines = sorted([*_sent(run), *listener.lines, *_notes(run)], key=lambda line: line.at_us)
    lines = [line for line in lines if line.at_us >= run.began_us]
    _mark(lines, outcome.findings)
    lines = sorted([*lines, *_findings(outcome, run.world.scheduler.now_us)], key=lambda line: line.at_us)
    for line in lines:
        line.at_us -= run.began_us
    told = list(_folded(lines))
    return Story(plan, outcome, _participants(run, told), told)


class _Listener:
    """Makes a line of each message during a run."""

    def __init__(self, run: Run) -> None:
        self.lines: list[Line] = []
        self._run = run
        self._fired = [0] * len(run.plan.faults)
        self._fetched: dict[tuple[str, str], str] = {}
        # When each Produce request reached its broker.
        self._came_us: dict[tuple[str, str, int], int] = {}

    def hear(self, crossing: Crossing) -> None:
        """Add the lines of faults that fired since the last message, and that of this message."""
        self._look_out()
        at_us, what, message, arrives_us = crossing.at_us, crossing.what, crossing.message, crossing.arrives_us
        sender, receiver = crossing.sender, crossing.receiver
        sender, receiver = self._name(sender), self._name(receiver)
        if not sender or not receiver or is_idle(crossing):
            return
        if what == "hang up":
            self.lines.append(Line(at_us, HANG_UP, sender, receiver, "hangs up", gist=f"{sender}>{receiver} hang up"))
            return
        api, words = api_of(message), words_of(message)
        if api == "Fetch" and what == "request":
            # A Fetch shows its sender's position: it gets a line only if the position is new.
            if self._fetched.get((sender, receiver)) == words:
                return
            self._fetched[sender, receiver] = words
        arrow = api if what == "request" else f"{api} answered"
        late_us = arrives_us - at_us
        late = f" (arrives {_seconds(late_us)} s later)" if late_us > _LATE_US else ""
        if late_us < 0:
            late = " (held up, or lost)"
        took = self._took(crossing)
        errors = " ".join(word for word in words.replace(",", " ").split() if word.isupper() and "_" in word)
        gist = f"{sender}>{receiver} {arrow} {errors}{late and ' late'}"
        told = f"{arrow}{': ' if words else ''}{words}{took}{late}"
        line = Line(at_us, MESSAGE, sender, receiver, told, gist=gist, is_answer=what == "answer")
        self.lines.append(line)

    def _took(self, crossing: Crossing) -> str:
        """How long a broker took to answer a Produce request, as text; "" if it was not long."""
        if api_of(crossing.message) != "Produce":
            return ""
        if crossing.what == "request":
            self._came_us[crossing.sender, crossing.receiver, crossing.number] = crossing.arrives_us
            return ""
        came_us = self._came_us.pop((crossing.receiver, crossing.sender, crossing.number), -1)
        took_us = crossing.at_us - came_us
        return f" (after {_seconds(took_us)} s)" if came_us >= 0 and took_us > _LATE_US else ""

    def _name(self, client: str) -> str:
        """The client's name in the plan; "" for the readers that read all logs at the end."""
        return self._run.names.get(client, "") if client.startswith("client-") else client

    def _look_out(self) -> None:
        fired = self._run.faults.fired
        if fired == self._fired:
            return
        now_us = self._run.world.scheduler.now_us
        for number, (before, after) in enumerate(zip(self._fired, fired, strict=True)):
            if after > before:
                timed = self._run.plan.faults[number]
                words = f"fault {number}{' again' if before else ''}: {fault_words(timed)}"
                gist = f"fault {number} again" if before else ""
                self.lines.append(Line(now_us, FAULT, _victim(timed), "", words, gist=gist))
        self._fired = list(fired)


def fault_words(timed: TimedFault) -> str:
    """ "broker 1 is killed, for 2 s"."""
    lasts = f", for {_seconds(timed.lasts_us)} s" if timed.lasts_us else ""
    return f"{timed.fault.tell()}{lasts}"


def _victim(timed: TimedFault) -> str:
    victim = timed.fault.victim
    if isinstance(victim, int):
        return "controller" if victim == CONTROLLER else f"broker-{victim}"
    return victim or ""


def _seconds(us: int) -> str:
    return f"{us / 1_000_000:.3f}".rstrip("0").rstrip(".")


# ---- lines from the chronicle -----------------------------------------------------------------------------------


def _notes(run: Run) -> Iterator[Line]:
    chronicle = run.chronicle
    for life in chronicle.instances or ():
        if life.instance > 1:
            yield Line(life.born_us, NOTE, _instance(life.producer, life.instance), "", "is born")
        if life.died_us >= 0:
            yield Line(life.died_us, NOTE, _instance(life.producer, life.instance), "", "dies")
    for each in chronicle.leaderships or ():
        if each.leader_epoch or len(each.isr) < 3:
            led = f"led by {each.leader}" if each.leader >= 0 else "led by nobody"
            unclean = ", an unclean election" if each.is_unclean else ""
            words = f"{led}, epoch {each.leader_epoch}, in sync {_these(each.isr)}{unclean}"
            yield Line(each.at_us, NOTE, "controller", "", f"{each.topic}-{each.partition} {words}")
    for done in chronicle.transactions:
        if done.ended_us >= 0:
            yield Line(done.ended_us, NOTE, _instance(done.producer, done.instance), "", f"told: {done.outcome}")
    if chronicle.healed_us:
        yield Line(chronicle.healed_us, NOTE, "", "", "everything has healed")
    for read in chronicle.reads:
        if read.is_final:
            numbers = runs(record.number for record in read.records if record.number >= 0)
            found = f"records {numbers} in offsets {read.start} to {read.end}" if numbers else "no records"
            words = f"{read.topic}-{read.partition} read {read.isolation_level.removeprefix('read_')}: {found}"
            yield Line(read.ended_us, NOTE, "", "", f"{words}{f', then {read.error}' if read.error else ''}")


def _these(brokers: tuple[int, ...]) -> str:
    return ", ".join(map(str, sorted(brokers))) or "nobody"


def _instance(producer: str, instance: int) -> str:
    return producer if instance <= 1 else f"{producer}.{instance}"


def _sent(run: Run) -> Iterator[Line]:
    """Records that were sent, and their outcomes; those of the same moment and place are one line."""
    told: dict[tuple[Any, ...], list[int]] = {}
    for record in run.chronicle.sent:
        who, place = _instance(record.producer, record.instance), f"{record.topic}-{record.partition}"
        told.setdefault((record.sent_us, who, f"sends to {record.topic}: record"), []).append(record.number)
        if record.told_us >= 0:
            what = f"told {record.outcome} in {place}" + (f" ({record.error})" if record.error else "")
            told.setdefault((record.told_us, who, f"{what}: record"), []).append(record.number)
    for (at_us, who, words), numbers in told.items():
        plural = "" if len(numbers) == 1 else "s"
        yield Line(at_us, NOTE, who, "", f"{words}{plural} {runs(numbers)}", gist=f"{who} {words.split(':')[0]}")


def _findings(outcome: Outcome, end_us: int) -> Iterator[Line]:
    """What was found, at its time and broker if these are known, otherwise at the end."""
    for piece, words in evidence_of(outcome):
        at_us = piece.at_us if piece.at_us >= 0 else end_us
        where = f"broker-{piece.brokers[0]}" if len(piece.brokers) == 1 else ""
        yield Line(at_us, FINDING, where, "", words, is_evidence=True)
    if outcome.crashed is not None:
        # Without the lines of ^^^ in a traceback: where text is wrapped they point to nothing.
        for words in filter(lambda each: each.strip(" ^~"), outcome.crashed.strip().splitlines()):
            yield Line(end_us, FINDING, "", "", words.rstrip(), is_evidence=True)


def _mark(lines: list[Line], findings: list[Finding]) -> None:
    """Mark the lines about records that are in findings."""
    numbers = {piece.sequence: None for finding in findings for piece in finding.evidence if piece.sequence >= 0}
    for line in lines:
        if line.kind in (MESSAGE, NOTE) and "record" in line.words and _speaks_of(line.words, numbers):
            line.is_evidence = True


def _speaks_of(words: str, numbers: dict[int, None]) -> bool:
    for after in words.split("record")[1:]:
        told = after.removeprefix("s").partition("(")[0].partition(";")[0].partition(" in ")[0]
        for run in told.split(","):
            first, _, last = run.strip().partition("-")
            if first.isdigit() and any(int(first) <= each <= int(last or first) for each in numbers):
                return True
    return False


# ---- folding and drawing ----------------------------------------------------------------------------------------


def _folded(lines: list[Line]) -> Iterator[Line]:
    """The lines, with those of the same gist folded between two lines without one."""
    alike: dict[str, int] = {}
    left_out, last_us = 0, 0
    for line in lines:
        if line.gist and not line.is_evidence:
            alike[line.gist] = count = alike.get(line.gist, 0) + 1
            if count > _ALIKE_MAX:
                left_out, last_us = left_out + 1, line.at_us
                continue
        elif not line.gist:
            if left_out:
                yield Line(last_us, FOLD, "", "", f"{left_out} more like these")
            alike, left_out = {}, 0
        yield line


def _participants(run: Run, lines: list[Line]) -> list[str]:
    """Clients in the order in which they were made, all brokers, the controller; no client without a line."""
    named = dict.fromkeys(name for line in lines for name in (line.sender, line.receiver) if name)
    clients = [name for name in dict.fromkeys(run.names.values()) if name in named]
    brokers = [f"broker-{number}" for number in range(run.plan.brokers)]
    return [*clients, *brokers, *(["controller"] if "controller" in named else [])]


def as_text(story: Story, width: int = WIDTH) -> list[str]:
    """A sequence diagram, no line wider than `width`."""
    lanes = {name: number for number, name in enumerate(story.participants)}
    columns = _LANE_COLUMNS if len(lanes) <= _LANES_MAX else max(3, _LANE_COLUMNS * _LANES_MAX // len(lanes))
    beside = width - _TIME_COLUMNS - columns * len(lanes) - 1
    heads = "".join(short(name)[: columns - 1].ljust(columns) for name in story.participants)
    drawn = [f"{'seconds':>{_TIME_COLUMNS - 2}}  {heads}".rstrip()]
    for line in story.lines:
        time = f"{line.at_us / 1_000_000:>{_TIME_COLUMNS - 2}.4f}  "
        lane = _lanes(line, lanes, columns)
        rows = _wrapped(_SIGNS.get(line.kind, "") + line.words + (" ◀" if line.is_evidence else ""), beside)
        drawn.append(f"{time}{lane} {rows[0]}".rstrip())
        rest = " " * _TIME_COLUMNS + "".join("│".ljust(columns) for _ in lanes)
        drawn += [f"{rest} {row}".rstrip() for row in rows[1:]]
    return drawn


_SIGNS = {FAULT: "⚡ ", FOLD: "⋮ ", FINDING: "✗ "}


def short(name: str) -> str:
    """A participant's name at the head of its lane."""
    return name.replace("broker-", "b").replace("controller", "ctrl")


def _lanes(line: Line, lanes: dict[str, int], columns: int) -> str:
    cells = [*("│" + " " * (columns - 1)) * len(lanes)]
    one, other = lanes.get(line.sender), lanes.get(line.receiver)
    if one is not None and other is not None and one != other:
        first, last = min(one, other) * columns, max(one, other) * columns
        for at in range(first + 1, last):
            cells[at] = "─" if cells[at] == " " else "┼"
        forward = other > one
        cells[first], cells[last] = ("├", "▶") if forward else ("◀", "┤")
        if line.kind == HANG_UP:
            cells[last if forward else first] = "✕"
    elif one is not None:
        cells[one * columns] = {FAULT: "⚡", FINDING: "✗"}.get(line.kind, "●")
    return "".join(cells)


def _wrapped(words: str, columns: int) -> list[str]:
    """The text in rows of at most so many columns."""
    rows: list[str] = []
    row = ""
    for word in words.split(" "):
        while len(word) > columns:
            rows, row, word = [*rows, *([row] if row else []), word[:columns]], "", word[columns:]
        if row and len(row) + 1 + len(word) > columns:
            rows.append(row)
            row = word
        else:
            row = f"{row} {word}" if row else word
    return [*rows, row]
