"""Which seeds convict which weakness, and of what: the table behind the negative controls.

    python tools/measure_weaknesses.py [--seeds 2000] [--first-seed 0] [--enough 5] [--jobs 2] [weakness ...]

Draws seed after seed, as `ottla simulate` does, until `--enough` of them have convicted a weakness or `--seeds` were
looked at. Prints for each weakness the convicting seeds, one in how many that is, and what was found in them. A seed
that convicts a sound house, too, does not count and is told: there the product or a judge has a defect.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import cast, get_args

from ottla.simulation.draw import draw
from ottla.simulation.run import execute
from ottla.simulation.weaknesses import WEAKNESSES
from ottla.weaknesses import Weakness, Weaknesses


def found(seed: int, weaknesses: Weaknesses = ()) -> list[str]:
    """The kinds of what is found; an exception inside a core is one, too."""
    outcome = execute(draw(seed), weaknesses=weaknesses)
    return [finding.kind for finding in outcome.findings] + ["crashed"] * (outcome.crashed is not None)


def measure(weakness: Weakness, first_seed: int, seeds: int, enough: int) -> str:
    """One line of the table."""
    logging.disable(logging.CRITICAL)
    kinds: Counter[str] = Counter()
    convicting: list[int] = []
    unsound: list[int] = []
    looked = 0
    for seed in range(first_seed, first_seed + seeds):
        looked += 1
        seen = found(seed, (weakness,))
        if not any(kind in WEAKNESSES[weakness].convicted_of for kind in seen):
            continue
        if found(seed):
            unsound.append(seed)
            continue
        kinds.update(seen)
        convicting.append(seed)
        if len(convicting) == enough:
            break
    told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    rate = f"one in {looked / len(convicting):.0f}" if convicting else f"none of {looked}"
    left_out = f"; left out: {unsound}" if unsound else ""
    return f"| `{weakness}` | {rate} | {' '.join(map(str, convicting))} | {told}{left_out} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--enough", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", default=get_args(Weakness))
    given = parser.parse_args()
    look = partial(measure, first_seed=given.first_seed, seeds=given.seeds, enough=given.enough)
    with ProcessPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(look, cast(Weakness, name)) for name in given.names]):
            print(done.result(), flush=True)


if __name__ == "__main__":
    main()
