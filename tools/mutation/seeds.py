"""What the judges of the simulation find in drawn seeds: called in a control, or here, with the unchanged source."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome
from ottla.simulation.run import execute


def kinds_found(seed: int) -> tuple[str, ...]:
    """The kinds of what is found in a seed; an exception inside a core is one, too."""
    return _kinds(_run(seed))


def first_found(seeds: Iterable[int]) -> tuple[int, tuple[str, ...]] | None:
    """The first of these seeds in which something is found, and what."""
    return next(((seed, kinds) for seed in seeds if (kinds := kinds_found(seed))), None)


def trace_hash(seed: int) -> str:
    """The fingerprint of a run: another one shows that the source makes a difference in it."""
    return _run(seed).trace_hash


def _run(seed: int) -> Outcome:
    # Brokers tell of every torn batch they cut.
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return execute(draw(seed))
    finally:
        logging.disable(before)


def _kinds(outcome: Outcome) -> tuple[str, ...]:
    crashed = ("crashed",) if outcome.crashed is not None else ()
    return (*(finding.kind for finding in outcome.findings), *crashed)
