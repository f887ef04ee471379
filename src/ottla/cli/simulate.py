"""`ottla simulate`: thousands of simulated runs of a cluster with faults, each by its seed, checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ottla.cli.options import Json, JsonFile, json_output, whole
from ottla.errors import UserMistake

_SEEDS = 1_000
_SHRINK_S = 300


def simulate(
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds",
            help=f"How many seeds to run; {_SEEDS:,} unless given.",
            parser=whole("--seeds", 1, such_as=_SEEDS),
            metavar="COUNT",
        ),
    ] = None,
    first_seed: Annotated[
        int | None,
        typer.Option(
            "--first-seed",
            help="The first of them; without it fresh ones are drawn.",
            parser=whole("--first-seed", 0, such_as=4711),
            metavar="N",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            help="How many seeds run at once; as many as there are processors unless given.",
            parser=whole("--jobs", 1, such_as=2),
            metavar="COUNT",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            help="Run this one seed and show all of it.",
            parser=whole("--seed", 0, such_as=4711),
            metavar="N",
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Run a plan that --keep has written.", metavar="FILE")
    ] = None,
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink/--no-shrink",
            help="Make a run that fails as small as possible, and show it message by message.",
        ),
    ] = True,
    shrink_seconds: Annotated[
        int | None,
        typer.Option(
            "--shrink-seconds",
            help=f"How long to make a run that fails smaller; {_SHRINK_S} unless given.",
            parser=whole("--shrink-seconds", 1, such_as=_SHRINK_S),
            metavar="SECONDS",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            help="Write plans that fail into this folder, as seed-N.json; with --seed also one that is clean.",
            metavar="DIR",
        ),
    ] = None,
    story: Annotated[
        Path | None,
        typer.Option(
            "--story",
            help="Write the run, message by message, as a page; of many seeds, the first that fails.",
            metavar="FILE",
        ),
    ] = None,
    as_json: Json = False,
    json_file: JsonFile = None,
) -> None:
    """Run a simulated cluster with faults, thousands of times, and check what became of every record.

    A seed stands for one run: the shipped code of producers, readers and brokers on a simulated network, disk and
    clock, with 200 records, two producers, three brokers and ten faults. The same seed gives the same run on every
    computer.

    For example, and for a seed that failed:

        ottla simulate --seeds 10000
        ottla simulate --seed 4711 --story why.html

    Exit status: 0 when all were clean, 1 when something was found, 2 when something that was given cannot be used.
    """
    if seed is not None and plan is not None:
        raise UserMistake("--seed and --plan each say what to run: give one of them")
    given = [("--seeds", seeds), ("--first-seed", first_seed), ("--jobs", jobs)]
    many = [name for name, value in given if value is not None]
    if shrink_seconds is not None and not shrink:
        raise UserMistake("--shrink-seconds and --no-shrink exclude each other: give one of them")
    if many and (seed is not None or plan is not None):
        one = "--seed" if seed is not None else "--plan"
        raise UserMistake(f"{one} runs one and {many[0]} is about many: give one of them")
    from ottla.seeds.simulate import SimulateOptions, simulate_all

    options = SimulateOptions(
        seeds or _SEEDS,
        first_seed,
        jobs or os.cpu_count() or 1,
        seed,
        plan,
        shrink,
        keep,
        story,
        json_output(as_json, json_file),
        shrink_s=shrink_seconds or _SHRINK_S,
    )
    raise typer.Exit(simulate_all(options))
