"""The same plan leaves the same trace on every machine and under every version of Python: known ones, word for word.

The plans are kept as files, since what a seed draws may change. The fingerprints below were taken under CPython 3.11;
every other version must find the same. A change of the cores changes them everywhere alike: then this test fails
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
    "clocks": "c18c4ac0589fa0594cbc30041c96a64de6510a2ae33d3cbbb832047091ad6bbd",
    "kill": "e88c372a31c0a7da39256aeb6483e7557c9c5742485690786415c55adbdf4400",
    "power": "9e9de6a9d5bbc80a7b14d17e3ca1909a924fd55f53c7b325878d0d95b93c7fe4",
    "requests": "b7b901c8eb280bf0893a1decdd176bbd762171006183ea4f4b2adb0ee855aa85",
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
