"""Which seeds convict which weakness, and of what: the table behind the negative controls.

    python tools/measure_weaknesses.py --seeds 200 [--first-seed 0] [weakness ...]

Prints for each weakness the first seed that convicts it, how many of the seeds do, and how often each kind was found.
`sound` stands for no weakness at all, where every line but 0 is a defect of the product or of a judge.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from typing import cast, get_args

from ottla.simulation.draw import draw
from ottla.simulation.run import execute
from ottla.weaknesses import Weakness

SOUND = "sound"


def measure(name: str, first_seed: int, seeds: int) -> str:
    """One line of the table."""
    weaknesses = () if name == SOUND else (cast(Weakness, name),)
    found: Counter[str] = Counter()
    convicting = []
    began = time.monotonic()
    for seed in range(first_seed, first_seed + seeds):
        outcome = execute(draw(seed), weaknesses=weaknesses)
        if not outcome.is_clean:
            convicting.append(seed)
            found.update(finding.kind for finding in outcome.findings)
            found.update(["crashed"] if outcome.crashed is not None else [])
    told = ", ".join(f"{kind} {count}" for kind, count in found.most_common())
    first = f"first {convicting[0]}" if convicting else "never"
    some = " ".join(map(str, convicting[:5]))
    return f"{name}: {first}, {len(convicting)} of {seeds} ({told}) [{some}] {time.monotonic() - began:.0f} s"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("names", nargs="*", default=[SOUND, *get_args(Weakness)])
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name in given.names:
        print(measure(name, given.first_seed, given.seeds), flush=True)


if __name__ == "__main__":
    main()
