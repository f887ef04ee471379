"""Changes the source of ottla on purpose, and looks who finds out.

    python -m tools.mutate weaknesses [--seeds 2000] [--first-seed 0] [--enough 2] [name ...]
    python -m tools.mutate mutants [--seed 1] [--each 5] [--seeds 100] [--first-seed 0] [--list] [file ...]

`weaknesses` are the guarantees of `tools/mutation/weaknesses.py`, taken out one by one. Seed after seed is drawn, as
`ottla simulate` does, until a weakness was found in `--enough` of them or `--seeds` were looked at. Printed is one
line of the table in docs/simulation.md for each: in how many seeds it is found, in which, and as what. A
seed in which something is found with the unchanged source as well is named, and the exit status is 1.

`mutants` are mechanical changes (`tools/mutation/mechanical.py`), `--each` of every file, drawn by `--seed`. Each goes
through `--seeds` seeds of the simulation and then through the tests of its room (`TESTS`), each for a bounded time, up
to the first who finds it. Printed is who that was. What survives both is looked up in `tools/mutation/survivors.py`;
the exit status is 1 if there is no reason for it there.

Ctrl+C, or SIGTERM, ends the processes that it has started, too.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from multiprocessing.pool import ThreadPool
from typing import Never

from tools.mutation.control import Control, ControlFailed
from tools.mutation.mechanical import Mutant, draw
from tools.mutation.seeds import first_found, kinds_found, trace_hash
from tools.mutation.source import PACKAGE, ROOT
from tools.mutation.survivors import reason_for
from tools.mutation.weaknesses import WEAKNESSES, weakened

# Those whose mistakes cost records.
FILES = (
    "producer/sender.py",
    "broker/partition.py",
    "broker/log/log.py",
    "broker/log/producer_state.py",
    "sink/commit.py",
    "sink/deciding.py",
    "sink/applying.py",
)
TESTS = {
    "producer": ("tests/producer",),
    "broker": ("tests/broker",),
    "reader": ("tests/reader",),
    "sink": ("tests/sink",),
    # What Spark does of it is tested with Spark.
    "audit": ("tests/audit", "tests/spark/test_audit_at_scale.py"),
}
# The simulation has no sink, and the trace of a run does not tell who judged it.
_UNTRACED = ("sink", "audit")
# Of seeds that are compared with those of the unchanged source, where nothing was found in any.
_COMPARED = 20
_PATIENCE_S = 900
# The line of pytest's report behind which the tests that failed are listed.
_SUMMARY = "short test summary info"
# The process groups of tests that run.
_groups: set[int] = set()
# A single test that takes so long never ends.
_TEST_PATIENCE_S = 180
_PYTEST = (
    *("-m", "pytest", "-q", "-x", "--no-header", "--tier", "test", "-p", "no:cacheprovider"),
    *("-o", f"faulthandler_timeout={_TEST_PATIENCE_S}"),
    # To rewrite asserts pytest imports plain modules of ottla, which is a plugin of it, itself: past the control.
    "--assert=plain",
)


def room_of(file: str) -> str:
    """The room of a file below src/ottla."""
    return file.split("/", 1)[0]


# ---- weaknesses -------------------------------------------------------------------------------------------------


def measure(name: str, first_seed: int, seeds: int, enough: int) -> tuple[str, bool]:
    """One line of the table, and whether nothing was found with the unchanged source in the seeds it tells of."""
    kinds: Counter[str] = Counter()
    convicting: list[int] = []
    unsound: list[int] = []
    looked = 0
    with weakened(name) as control:
        for seed in range(first_seed, first_seed + seeds):
            looked += 1
            found = control.call(kinds_found, seed)
            if not any(kind in WEAKNESSES[name].convicted_of for kind in found):
                continue
            if _sound(seed):
                unsound.append(seed)
                continue
            kinds.update(found)
            convicting.append(seed)
            if len(convicting) == enough:
                break
    told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    rate = f"{looked / len(convicting):.0f}" if convicting else f"none of {looked}"
    left_out = f"; the unchanged source is convicted in {unsound}" if unsound else ""
    return f"| `{name}` | {rate} | {', '.join(map(str, convicting))} | {told}{left_out} |", not unsound


@cache
def _sound(seed: int) -> tuple[str, ...]:
    return kinds_found(seed)


# ---- mutants ----------------------------------------------------------------------------------------------------


def killed_by(file: str, text: str, seeds: range) -> str:
    """Who finds out first that the file has this text: whoever loads it, simulation, tests; "" for nobody."""
    try:
        control = Control({file: text})
    except ControlFailed as failure:
        return f"whoever loads it: {_last_line(str(failure))}"
    with control:
        found = "" if room_of(file) in _UNTRACED else _killed_by_simulation(control, seeds)
        return found or killed_by_tests(control, TESTS[room_of(file)])


def _killed_by_simulation(control: Control, seeds: range) -> str:
    try:
        found = control.call(first_found, seeds, timeout_s=_PATIENCE_S)
    except ControlFailed as failure:
        return f"simulation: {_last_line(str(failure))}"
    return f"simulation: {', '.join(found[1])} in seed {found[0]}" if found else ""


def killed_by_tests(control: Control, tests: tuple[str, ...]) -> str:
    """Which of these tests fails in the control; "": none."""
    with subprocess.Popen(
        [sys.executable, *_PYTEST, *tests],
        cwd=ROOT,
        env=control.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A group of its own, which is ended with all that the tests have started.
        start_new_session=True,
    ) as pytest:
        _groups.add(pytest.pid)
        try:
            output, errors = pytest.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            return f"tests: no end after {_PATIENCE_S} s"
        finally:
            _end_group(pytest.pid)
    if not pytest.returncode:
        return ""
    if "Timeout (" in errors:
        return f"tests: one does not end in {_TEST_PATIENCE_S} s"
    # What was logged is shown in front of it, and may begin with ERROR as well.
    listed = output.rpartition(_SUMMARY)[2] if _SUMMARY in output else ""
    failed = [line for line in listed.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    # The test's id alone: pytest adds the error where the line is long enough, and always where CI is set.
    return f"tests: {failed[0].partition(' - ')[0] if failed else _last_line(output + errors)}"


def _end_group(group: int) -> None:
    _groups.discard(group)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no word"])[-1]


def judge(mutant: Mutant, seeds: range) -> tuple[str, bool]:
    """What is told of a mutant, and whether somebody has killed it or there is a reason why nobody can."""
    text = (PACKAGE / mutant.file).read_text()
    told, changed = mutant.told(text), mutant.apply(text)
    killer = killed_by(mutant.file, changed, seeds)
    if killer:
        return f"killed    {told}\n          {killer}", True
    reason = reason_for(mutant.file, text, changed)
    if reason:
        return f"survived  {told}\n          known: {reason}", True
    return f"SURVIVED  {told}\n          {_difference(mutant, changed, seeds)}", False


def _difference(mutant: Mutant, changed: str, seeds: range) -> str:
    if room_of(mutant.file) in _UNTRACED:
        return "the simulation leaves no trace of it"
    compared = seeds[:_COMPARED]
    with Control({mutant.file: changed}) as control:
        other = sum(control.call(trace_hash, seed) != trace_hash(seed) for seed in compared)
    return f"{other} of {len(compared)} seeds leave another trace"


# ---- the command line -------------------------------------------------------------------------------------------


def main() -> int:
    """Do what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1, help="how many at once")
    commands = parser.add_subparsers(required=True)
    planned = commands.add_parser("weaknesses")
    planned.set_defaults(run=_weaknesses)
    planned.add_argument("--seeds", type=int, default=2_000)
    planned.add_argument("--first-seed", type=int, default=0)
    planned.add_argument("--enough", type=int, default=2)
    planned.add_argument("names", nargs="*", default=list(WEAKNESSES))
    drawn = commands.add_parser("mutants")
    drawn.set_defaults(run=_mutants)
    drawn.add_argument("--seed", type=int, default=1)
    drawn.add_argument("--each", type=int, default=5)
    drawn.add_argument("--seeds", type=int, default=100)
    drawn.add_argument("--first-seed", type=int, default=0)
    drawn.add_argument("--list", action="store_true", help="only say which they are")
    drawn.add_argument("files", nargs="*", default=list(FILES))
    given = parser.parse_args()
    run: Callable[[argparse.Namespace], bool] = given.run
    signal.signal(signal.SIGTERM, _stop)
    try:
        return 0 if run(given) else 1
    finally:
        # Where it is stopped, the threads that wait for these go no further.
        for group in [*_groups]:
            _end_group(group)


def _stop(number: int, _: object) -> Never:
    sys.exit(128 + number)


def _weaknesses(given: argparse.Namespace) -> bool:
    look = partial(measure, first_seed=given.first_seed, seeds=given.seeds, enough=given.enough)
    return _told(look, given.names, given.jobs)


def _mutants(given: argparse.Namespace) -> bool:
    mutants = draw(given.files, given.each, given.seed)
    if given.list:
        for mutant in mutants:
            print(mutant.told((PACKAGE / mutant.file).read_text()))
        return True
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    for file in {room_of(each): each for each in given.files}.values():
        # The control of the controls: what nothing was changed in survives.
        if killer := killed_by(file, (PACKAGE / file).read_text(), seeds):
            print(f"{file} as it is: {killer}")
            return False
    return _told(partial(judge, seeds=seeds), mutants, given.jobs)


def _told(look: Callable[..., tuple[str, bool]], what: list[object], jobs: int) -> bool:
    well = True
    with ThreadPool(jobs) as pool:
        for line, is_well in pool.imap(look, what):
            print(line, flush=True)
            well = well and is_well
    return well


if __name__ == "__main__":
    sys.exit(main())
