"""`ottla explain`: what a capture shows to be broken, which faults explain it, and the same in the simulator."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ottla.cli.options import Json, JsonFile, json_output, whole
from ottla.errors import UserMistake
from ottla.interruptible_reads import standard_input
from ottla.json_output import STDOUT, check_json_output, write_json

if TYPE_CHECKING:
    from ottla.explain.explanation import Explanation
    from ottla.screen import Steps
    from ottla.tap.exchange import Entry

_BROKEN = 1
_STDIN = "-"
_SHRINK_S = 60
_SHOWN_MAX = 10
# Progress is shown after so many requests.
_SHOWN_EVERY = 500


def explain(
    capture: Annotated[
        str,
        typer.Argument(
            help="What `ottla proxy --record` wrote, a pcap or a pcapng (tcpdump -w, Wireshark); - is stdin.",
            metavar="CAPTURE",
        ),
    ],
    as_json: Json = False,
    json_file: JsonFile = None,
    story: Annotated[
        Path | None,
        typer.Option("--story", help="Write the smallest run, message by message, as a page.", metavar="FILE.html"),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", help="Write the smallest plan; `ottla simulate --plan` runs it.", metavar="PLAN.json"),
    ] = None,
    shrink_seconds: Annotated[
        int,
        typer.Option(
            "--shrink-seconds",
            help="How long to make the plan smaller.",
            parser=whole("--shrink-seconds", 1, such_as=_SHRINK_S),
            metavar="SECONDS",
        ),
    ] = _SHRINK_S,
) -> None:
    """Say which promise a capture shows to be broken, and which faults are consistent with it.

    It finds records that are stored more than once, lost, or out of order in their partition, and names only what the
    capture makes certain. Then it tries the faults in the simulator, and shows the smallest run that breaks in the same
    way, message by message. Disks, clocks and what brokers say to each other cannot be seen in a capture.

    For example:

        ottla proxy --upstream localhost:9092 --record orders.capture
        ottla explain orders.capture --story why.html --keep plan.json

    Exit status: 0 when nothing is seen to be broken, 1 when a promise is broken, 2 when something that was given cannot
    be used.
    """
    from ottla.whole_file import check_path

    place = json_output(as_json, json_file)

    for option, path, what in (("--story", story, "the story"), ("--keep", keep, "the plan")):
        if path is not None:
            check_path(path, what=what, option=option)
    check_json_output(place, what="the explanation")
    found = explained(capture, shrink_seconds, is_quiet=place == STDOUT)
    if place != STDOUT:
        _show(found)
    _write_plan(found, story, keep)
    if place is not None:
        write_json(place, json.dumps(found.to_dict(), indent=1) + "\n", what="the explanation")
    raise typer.Exit(_BROKEN if found.is_broken else 0)


def explained(capture: str, shrink_s: int = _SHRINK_S, *, is_quiet: bool = False) -> Explanation:
    """All that is made of a capture; UserMistake where it is none, or has no Produce request. `-` is stdin.

    Progress is shown on a terminal, unless it `is_quiet`.
    """
    from rich.console import Console

    from ottla.explain.explanation import SHRINK_RUNS_MAX, reproduce
    from ottla.screen import open_console, showing_steps

    # What simulated brokers warn of is part of the faults that are tried.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    console = Console(quiet=True) if is_quiet or not sys.stdout.isatty() else open_console()
    with showing_steps(console) as steps:
        found = _read(capture, steps)
        end_s = time.monotonic() + shrink_s
        if found.suspects or found.breaches:
            with steps.step("trying the faults in the simulator", unit="runs") as step:
                reproduce(
                    found,
                    progress=lambda _, runs: step.show(runs, SHRINK_RUNS_MAX),
                    goes_on=lambda: time.monotonic() < end_s,
                )
    return found


def _read(capture: str, steps: Steps) -> Explanation:
    from ottla.explain.explanation import read
    from ottla.tap.recording import Recording

    if capture != _STDIN and Path(capture).is_dir():
        raise UserMistake(f"{capture} is a folder: give a capture in it")
    name = "stdin" if capture == _STDIN else capture
    with (
        nullcontext(standard_input()) if capture == _STDIN else Path(capture).open("rb") as file,
        steps.step(f"reading {name}", unit="bytes") as step,
    ):
        recording = Recording(file, name)
        size_bytes = os.fstat(file.fileno()).st_size

        def entries() -> Iterator[Entry]:
            for count, entry in enumerate(recording.entries()):
                if count % _SHOWN_EVERY == 0:
                    step.show(recording.position, size_bytes)
                yield entry
            yield from recording.end()

        found = read(entries(), name)
        found.seen.unseen += recording.notes()
        if (cut_off := recording.cut_off()) is not None:
            found.seen.unseen.append(f"what follows: {cut_off}")
    return found


def _show(found: Explanation) -> None:
    from ottla.cli.output import counted
    from ottla.screen import open_console
    from ottla.simulation.story import as_text, tell

    console = open_console()

    def say(words: str = "") -> None:
        console.print(words, soft_wrap=True)

    seen = found.seen
    seconds = (seen.ended_us - seen.began_us) / 1e6
    partitions = sum(bool(each.attempts) for each in seen.partitions.values())
    say(
        f"{counted(len(seen.exchanges), 'request')} in {seconds:,.1f} s; "
        f"{counted(len(seen.attempts), 'batch').replace('batchs', 'batches')} sent to "
        f"{counted(partitions, 'partition')}"
    )
    say()
    say("broken:" if found.breaches else "broken: nothing that this capture shows")
    for breach in found.breaches[:_SHOWN_MAX]:
        against = (
            "although its settings promise that this does not happen"
            if breach.is_claimed
            else f"its settings claim {breach.claims}"
        )
        say(f"  {breach.kind} in {breach.place[0]}-{breach.place[1]}: {breach.words} ({against})")
    _say_rest(say, len(found.breaches))
    if found.suspects:
        say()
        say("faults that are consistent with it:")
    # Those of what is broken come first: a long capture has many others.
    broken = {each.number for breach in found.breaches for each in breach.attempts}
    for suspect in sorted(found.suspects, key=lambda each: each.attempt.number not in broken)[:_SHOWN_MAX]:
        first, *others = [fault.tell() for fault in suspect.faults]
        or_else = f"; or {', or '.join(others)}" if others else ""
        say(f"  {_request(suspect.attempt)}: {suspect.words}")
        say(f"    {first}{or_else}")
    _say_rest(say, len(found.suspects))
    say()
    say(f"unseen: {'; '.join(seen.unseen)}")
    if found.replayed is None:
        return
    say()
    plan = found.plan
    assert plan is not None
    faults, records = counted(len(plan.faults), "fault"), counted(plan.records, "record")
    if not found.reproduced:
        say(
            f"in the simulator: not shown again in {counted(found.replayed.runs, 'plan')}; "
            "something unseen may be to blame"
        )
    elif found.breaches:
        small = found.small
        after = "" if small is None else f", made smaller in {counted(small.runs, 'run')}"
        say(f"in the simulator: the same, with {faults} and {records}{after}")
        from ottla.explain.replay import conclude_held

        for line in as_text(tell(plan, conclude=conclude_held)):
            say(line)
    else:
        say(f"in the simulator: {faults} and {records}, and nothing breaks there, either")


def _say_rest(say: object, count: int) -> None:
    if count > _SHOWN_MAX and callable(say):
        say(f"  and {count - _SHOWN_MAX:,} more, which --json has")


def _request(attempt: object) -> str:
    from ottla.explain.sighting import Attempt

    assert isinstance(attempt, Attempt)
    exchange = attempt.exchange
    at = time.strftime("%H:%M:%S", time.gmtime(attempt.sent_us // 1_000_000))
    topic, partition = attempt.place
    return (
        f"{at}.{attempt.sent_us // 1000 % 1000:03} {topic}-{partition}, Produce {attempt.nth}, connection "
        f"{exchange.connection} of {exchange.client_id or exchange.client}"
    )


def _write_plan(found: Explanation, story: Path | None, keep: Path | None) -> None:
    """As a story and as JSON, where there is a plan; if nothing is broken there is none, and that is no error."""
    from ottla.explain.replay import conclude_held
    from ottla.simulation.story import tell
    from ottla.simulation.story_page import as_page
    from ottla.whole_file import write_whole

    plan = found.plan
    if plan is None:
        for option, path in (("--story", story), ("--keep", keep)):
            if path is not None:
                sys.stderr.write(
                    f"ottla: {option} writes nothing to {path}: this capture shows no fault and breaks nothing\n"
                )
        return
    if story is not None:
        write_whole(story, as_page(tell(plan, conclude=conclude_held)), what="the story", option="--story")
    if keep is not None:
        write_whole(keep, json.dumps(plan.to_dict(), indent=1) + "\n", what="the plan", option="--keep")
