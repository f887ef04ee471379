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
    "clocks": "5ad0f5363c68b012ede87e50475664b4ad92e979b28bae9b1d0ef72f8eec28ea",
    "kill": "21935dcc6e2d2c1da02667e29a0f478d12cdb267f832afd42c0a423a1853783e",
    "power": "2b64e2c936ef283080e56aaef1c5fc871d7ae57730c1c4278c10d886df5a5190",
    "requests": "ff5b58180968759d6cf78e1f6236296d59cb83b723bf334621dc7f0a710f488c",
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
