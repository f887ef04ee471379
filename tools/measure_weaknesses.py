"""Which seeds convict which weakness, and of what: the table behind the negative controls.

    python tools/measure_weaknesses.py --seeds 200 [--first-seed 0] [weakness ...]

Prints for each weakness the first seed that convicts it, how many of the seeds do, and how often each kind was found.
Seeds that convict a sound house, too, are told first and left out: there the product or a judge has a defect.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import cast, get_args

from ottla.simulation.draw import draw
from ottla.simulation.run import execute
from ottla.weaknesses import Weakness, Weaknesses


def found(seed: int, weaknesses: Weaknesses = ()) -> list[str]:
    """The kinds of what is found; an exception inside a core is one, too."""
    outcome = execute(draw(seed), weaknesses=weaknesses)
    return [finding.kind for finding in outcome.findings] + ["crashed"] * (outcome.crashed is not None)


def measure(weakness: Weakness, seeds: Sequence[int]) -> str:
    """One line of the table."""
    kinds: Counter[str] = Counter()
    convicting = []
    began = time.monotonic()
    for seed in seeds:
        seen = found(seed, (weakness,))
        kinds.update(seen)
        if seen:
            convicting.append(seed)
    told = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    first = f"first {convicting[0]}" if convicting else "never"
    some = " ".join(map(str, convicting[:5]))
    return f"{weakness}: {first}, {len(convicting)} of {len(seeds)} ({told}) [{some}] {time.monotonic() - began:.0f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("names", nargs="*", default=get_args(Weakness))
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    sound = {seed: found(seed) for seed in seeds}
    print("left out:", {seed: kinds for seed, kinds in sound.items() if kinds}, flush=True)
    for name in given.names:
        print(measure(cast(Weakness, name), [seed for seed in seeds if not sound[seed]]), flush=True)


if __name__ == "__main__":
    main()
