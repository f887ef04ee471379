"""`ottla simulate`: many seeds or one plan, their outcomes, and the story of what failed.

Of the seeds that failed, the first of each kind is made as small as possible and its story is told; all others are
named. If the command is ended early (Ctrl+C, a signal), what was run until then is summed up all the same.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ottla.errors import UserMistake
from ottla.json_output import STDOUT, check_json_output, write_json
from ottla.screen import open_console, plain_table, showing_steps
from ottla.seeds.kept_plan import keep, read_plan
from ottla.seeds.processes import PATIENCE_S, PlanRuns, run_plan, run_seeds
from ottla.seeds.tally import Tally
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome, evidence_of, kinds_of, summary_of
from ottla.simulation.plan import Plan
from ottla.simulation.shrink import RUNS_MAX, Shrunk, shrink
from ottla.simulation.story import as_text, tell
from ottla.simulation.story_page import as_page
from ottla.whole_file import check_path, write_whole

FAILED = 1
# At most this many kinds of failures are made small and told. Others may have the same cause, and can wait.
_TOLD_MAX = 3
_STORY_LINES_MAX = 400
_RAREST = 5
_FRESH_SEEDS = 1_000_000_000


@dataclass(slots=True)
class SimulateOptions:
    """What the command line said; without `first_seed` new seeds are drawn.

    `patience_s` (real time, for one run) cannot be given on a command line: it is for tests of what is shown when a run
    does not end.
    """

    seeds: int
    first_seed: int | None
    jobs: int
    seed: int | None = None
    plan: Path | None = None
    shrink: bool = True
    keep: Path | None = None
    story: Path | None = None
    json_file: str | None = None
    patience_s: float = PATIENCE_S
    # How long one failure may be made smaller, in real time.
    shrink_s: float = math.inf


def simulate_all(options: SimulateOptions) -> int:
    """Run what was asked for and return the exit status."""
    # With --json - stdout is for the figures alone.
    console = Console(quiet=True) if options.json_file == STDOUT else open_console()
    if options.story is not None:
        check_path(options.story, what="the story", option="--story")
    check_json_output(options.json_file, what="the outcome")
    if options.keep is not None:
        _make_folder(options.keep)
    if options.plan is not None or options.seed is not None:
        return _one(console, options)
    return _many(console, options)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserMistake(f"{folder} cannot be made ({error.strerror}): give --keep another folder") from None
    check_path(folder / "seed-0.json", what="what is found", option="--keep")


# ---- one plan ---------------------------------------------------------------------------------------------------


def _one(console: Console, options: SimulateOptions) -> int:
    kept = read_plan(options.plan) if options.plan is not None else None
    plan = kept.plan if kept is not None else draw(options.seed or 0)
    outcome = run_plan(plan, patience_s=options.patience_s)
    told = _Told(console, options)
    same_trace = None if kept is None or kept.trace_hash is None else kept.trace_hash == outcome.trace_hash
    try:
        if not outcome.is_clean:
            # At once: making it smaller takes a while, and may be interrupted.
            told.keep_drawn(plan, outcome)
        _show_outcome(console, outcome)
        if kept is not None and same_trace is False:
            by = f"ottla {kept.version}" if kept.version else "another version"
            words = f"The trace is not the one that {by} kept: the cores have changed since."
            console.print(Text(words, "yellow"))
        if outcome.is_clean:
            told.clean(plan, outcome)
        else:
            told.failing(plan, outcome)
    finally:
        compared = {"kept_by": kept.version if kept is not None else None, "same_trace": same_trace}
        _write_json(options, {**outcome.to_dict(), **compared, "shrunk": told.shrunk_as_json(outcome.seed)})
    return 0 if outcome.is_clean else FAILED


def _show_outcome(console: Console, outcome: Outcome) -> None:
    console.print(Text(f"seed {outcome.seed}: {summary_of(outcome)}", "green" if outcome.is_clean else "bold red"))
    table = _table()
    table.add_row("trace hash", outcome.trace_hash)
    _add_figures(table, outcome)
    table.add_row("states covered", "; ".join(outcome.states) or "none")
    _add_unseen(table, outcome.unseen)
    console.print(table)
    _show_findings(console, outcome)


def _show_findings(console: Console, outcome: Outcome) -> None:
    for _, words in evidence_of(outcome):
        console.print(Text(f"  {words}"))
    if outcome.crashed is not None:
        console.print(Text(outcome.crashed.rstrip(), "dim"), soft_wrap=True)


# ---- many seeds -------------------------------------------------------------------------------------------------


def _many(console: Console, options: SimulateOptions) -> int:
    first = options.first_seed if options.first_seed is not None else secrets.randbelow(_FRESH_SEEDS)
    seeds = range(first, first + options.seeds)
    tally, told = Tally(), _Told(console, options)
    figures: dict[str, Any] = {"first_seed": first, "seeds": options.seeds}
    try:
        _run_and_show(console, options, seeds, tally, told, figures)
        for outcome in _first_of_each_kind(tally.failed):
            told.failing(draw(outcome.seed), outcome)
    finally:
        # Also where Ctrl+C has ended it: nothing that was found is lost.
        shrunk = [told.shrunk_as_json(outcome.seed) for outcome in tally.failed]
        _write_json(options, {**figures, **tally.to_dict(), "shrunk": [each for each in shrunk if each is not None]})
    return FAILED if tally.failed else 0


def _run_and_show(
    console: Console, options: SimulateOptions, seeds: range, tally: Tally, told: _Told, figures: dict[str, Any]
) -> None:
    title, began = f"seeds {seeds[0]} to {seeds[-1]}", time.monotonic()
    try:
        # First of all, so that it is known whatever happens.
        command = f"ottla simulate --first-seed {seeds[0]} --seeds {len(seeds)}"
        console.print(f"{title}, {options.jobs} at once: {command}", soft_wrap=True)
        with (
            showing_steps(console) as steps,
            steps.step(title, len(seeds), "seeds") as step,
            closing(run_seeds(seeds, options.jobs, patience_s=options.patience_s)) as outcomes,
        ):
            for outcome in outcomes:
                tally.add(outcome)
                step.advance()
                if not outcome.is_clean:
                    console.print(Text(f"seed {outcome.seed}: {summary_of(outcome)}", "bold red"))
                    _show_findings(console, outcome)
                    told.keep_drawn(draw(outcome.seed), outcome)
    finally:
        took_s = time.monotonic() - began
        figures["seconds"] = round(took_s, 1)
        _show_summary(console, title, tally, len(seeds), took_s)


def _first_of_each_kind(failed: list[Outcome]) -> list[Outcome]:
    first: dict[str, Outcome] = {}
    for outcome in failed:
        first.setdefault(kinds_of(outcome)[0], outcome)
    return list(first.values())[:_TOLD_MAX]


def _show_summary(console: Console, title: str, tally: Tally, wanted: int, took_s: float) -> None:
    console.print()
    console.print(_summary(title, tally, wanted))
    table = _table()
    _add_figures(table, tally)
    if took_s > 0 and tally.runs:
        faster = tally.simulated_us / 1e6 / took_s
        table.add_row(
            "took", f"{took_s:,.1f} s: {tally.runs / took_s * 60:,.0f} seeds a minute, {faster:,.0f} × real time"
        )
    rarest = sorted(tally.states.items(), key=lambda item: (item[1], item[0]))[:_RAREST]
    seldom = "; ".join(f"{name} ({times:,})" for name, times in rarest)
    table.add_row("states covered", f"{len(tally.states):,}{f', the rarest: {seldom}' if seldom else ''}")
    blind = sorted(tally.unseen.items(), key=lambda item: (-item[1], item[0]))
    _add_unseen(table, [f"{kind} ({times:,})" for kind, times in blind])
    console.print(table)
    for outcome in tally.failed:
        console.print(Text(f"  ottla simulate --seed {outcome.seed}", "cyan"), Text(summary_of(outcome), "dim"))


def _summary(title: str, tally: Tally, wanted: int) -> Text:
    failed = len(tally.failed)
    if tally.runs < wanted:
        words = f"{title}, interrupted: {tally.runs:,} of {wanted:,} run, {f'{failed:,}' if failed else 'none'} failed"
        return Text(words, "bold red" if failed else "bold yellow")
    words = f"{title}: {tally.runs:,} run, {f'{failed:,} failed' if failed else 'all clean'}"
    return Text(words, "bold red" if failed else "bold green")


def _table() -> Table:
    table = plain_table()
    table.add_column(no_wrap=True, style="dim")
    # The trace hash, too, is shown whole.
    table.add_column(overflow="fold")
    return table


def _add_figures(table: Table, of: Outcome | Tally) -> None:
    table.add_row("messages", f"{of.messages:,}")
    table.add_row("records", f"{of.records:,}")
    hours = of.simulated_us / 3_600_000_000
    table.add_row("simulated", f"{hours:,.1f} hours" if hours >= 1 else f"{of.simulated_us / 1e6:,.1f} s")
    fired = [f"{kind.replace('_', ' ')} {times:,} ×" for kind, times in sorted(of.fired.items())]
    table.add_row("faults", ", ".join(fired) or "none")
    missed = sorted(of.missed.items(), key=lambda item: (-item[1], item[0]))
    if missed:
        table.add_row("never fired", "; ".join(f"{why} ({times:,})" for why, times in missed))


def _add_unseen(table: Table, kinds: Sequence[str]) -> None:
    if kinds:
        table.add_row("not wholly seen", "; ".join(kinds))


# ---- what failed ------------------------------------------------------------------------------------------------


class _Told:
    """Makes failing plans small, tells their stories and keeps them; remembers which."""

    def __init__(self, console: Console, options: SimulateOptions) -> None:
        self._console = console
        self._options = options
        self._shrunk: dict[int, Shrunk] = {}
        self._has_story = False

    def keep_drawn(self, plan: Plan, outcome: Outcome) -> None:
        """Keep what failed as it was drawn, or given, at once."""
        if self._options.keep is not None:
            keep(self._options.keep, plan, outcome)

    def failing(self, plan: Plan, outcome: Outcome) -> None:
        """Tell what failed."""
        small: Shrunk | None = None
        # Without a trace its process died or never ended: it is not run in this process, which would end like that,
        # too.
        can_run = bool(outcome.trace_hash)
        if self._options.shrink and can_run:
            small = self._shrunk[plan.seed] = self._made_small(plan, outcome)
            plan, outcome = small.plan, small.outcome
        # Files first: the program that reads the output (such as `head`) may stop at any line, which ends this one.
        path = keep(self._options.keep, plan, outcome) if self._options.keep is not None else None
        wants_page = can_run and self._options.story is not None and not self._has_story
        if wants_page:
            self._write_story(plan)
        if small is not None:
            self._show_story(small)
        if wants_page:
            self._name_story()
        if path is not None:
            self._console.print(f"kept: ottla simulate --plan {path}", soft_wrap=True)

    def _made_small(self, plan: Plan, outcome: Outcome) -> Shrunk:
        """The smallest plan that is found in time; a smaller one that never comes to an end takes no longer."""
        end_s, options = time.monotonic() + self._options.shrink_s, self._options

        def run(smaller: Plan) -> Outcome:
            return runs.run(smaller, min(options.patience_s, max(0.0, end_s - time.monotonic())))

        with _progress_of_shrinking(self._console, plan.seed) as progress, closing(PlanRuns()) as runs:
            return shrink(plan, outcome, run=run, progress=progress, goes_on=lambda: time.monotonic() < end_s)

    def _show_story(self, shrunk: Shrunk) -> None:
        plan = shrunk.plan
        self._console.print()
        faults, records = _counted(len(plan.faults), "fault"), _counted(plan.records, "record")
        words = f"seed {plan.seed}, “{shrunk.kind}” with {faults} and {records}"
        after = f"after {_counted(shrunk.runs, 'run')}"
        if shrunk.stopped_early:
            runs_out = shrunk.runs >= RUNS_MAX
            after += "" if runs_out else f" in {self._options.shrink_s:g} s"
            after += ", stopped early: the smallest found until then"
            after += "" if runs_out else "; --shrink-seconds says how long it may take"
        self._console.print(Text(f"{words} ({after})", "bold"), soft_wrap=True)
        lines = as_text(tell(plan))
        half = _STORY_LINES_MAX // 2
        if len(lines) > _STORY_LINES_MAX:
            lines = [*lines[:half], f"… {len(lines) - 2 * half:,} lines, which --story FILE has …", *lines[-half:]]
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)

    def clean(self, plan: Plan, outcome: Outcome) -> None:
        """Where they are asked for: keep the seed in which nothing failed, and tell its story."""
        if self._options.keep is not None:
            path = self._options.keep / f"seed-{plan.seed}.json"
            if path.exists():
                # It may have what was found before.
                self._console.print(f"nothing was found: {path} is not changed", soft_wrap=True)
            elif self._options.plan is not None:
                told = f"nothing was found: nothing is written to {self._options.keep}"
                self._console.print(told, soft_wrap=True)
            else:
                path = keep(self._options.keep, plan, outcome)
                self._console.print(f"kept: ottla simulate --plan {path}", soft_wrap=True)
        if self._options.story is not None:
            self._write_story(plan)
            self._name_story()

    def _write_story(self, plan: Plan) -> None:
        assert self._options.story is not None
        self._has_story = True
        write_whole(self._options.story, as_page(tell(plan)), what="the story", option="--story")

    def _name_story(self) -> None:
        self._console.print(f"its story: {self._options.story}", soft_wrap=True)

    def shrunk_as_json(self, seed: int) -> dict[str, Any] | None:
        """The smallest plan of a seed and its outcome, None where it was not made smaller."""
        shrunk = self._shrunk.get(seed)
        if shrunk is None:
            return None
        return {
            "kind": shrunk.kind,
            "runs": shrunk.runs,
            "stopped_early": shrunk.stopped_early,
            "plan": shrunk.plan.to_dict(),
            "outcome": shrunk.outcome.to_dict(),
        }


def _counted(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


@contextmanager
def _progress_of_shrinking(console: Console, seed: int) -> Iterator[Any]:
    with showing_steps(console) as steps, steps.step(f"making seed {seed} smaller", unit="runs") as step:
        yield lambda plan, runs: step.show(runs, RUNS_MAX)


def _write_json(options: SimulateOptions, figures: dict[str, Any]) -> None:
    write_json(options.json_file, json.dumps(figures, indent=2) + "\n", what="the outcome")
