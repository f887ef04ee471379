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
    "clocks": "75b3220c1ca144a77d94eb82d7a14b11abd50db115dc3d456b4d567c031af20f",
    "kill": "11eedf76739c09f77bea97efeb8eee235c2f42b58331d1c878413b6f502260ce",
    "power": "d2bfa77df571356cbc5416ab8f823402e5d379ef6d427692cd3abcf327a48f64",
    "requests": "cc9c3dc6e4ddfbf5e49fbdc548f435fa69e59c22e991daade27f8c592135d2b4",
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
