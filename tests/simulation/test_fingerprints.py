"""The same plan leaves the same trace on every machine and under every version of Python: known ones, word for word.

The plans are kept as files, since what a seed draws may change. The fingerprints below were taken under CPython 3.11
and are the same under 3.12, 3.13 and 3.14. A change of the cores changes them everywhere alike: then this test fails
under every interpreter, and tells the new ones to be written down here. Where it fails under one alone, that is a bug.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from ottla.simulation.plan import Plan
from ottla.simulation.run import execute

FOLDER = Path(__file__).parent / "fingerprints"
FINGERPRINTS = {
    "clocks": "29f4d10647442932b3f5f2e45b54ffc7003ab061428cea4c5059ad89c4274298",
    "kill": "5bff654d5f772613c61e9fcdc15f1a0caa91644af9ba41f3f9f28ff68f8d18d3",
    "power": "456b8e8925f26e9b8261a8482ea98f038c253eac4589aabd85b2022db25ccebd",
    "requests": "e8eecb6fcd078eb4e1ca2a176355942832324c4e57da20e56b39a56c260cf5cb",
}


def test_known_plans_leave_known_traces() -> None:
    logging.disable(logging.CRITICAL)
    plans = {path.stem: Plan.from_dict(json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))}
    found = {name: execute(plan).trace_hash for name, plan in plans.items()}
    logging.disable(logging.NOTSET)
    written = "\n".join(f'    "{name}": "{trace_hash}",' for name, trace_hash in found.items())
    assert found == FINGERPRINTS, (
        "Other traces than those written down. If the cores were changed, and other versions of Python say the same, "
        f"these are the new fingerprints:\n{written}"
    )
