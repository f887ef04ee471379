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
    "clocks": "8e4b67394c8638bf99ef6023b7fc95dd4811754a3af13953a36f0e794f84b2a5",
    "kill": "adeb05d0cc9f55ee04ed04bdf355bf7b086fc0be145ef3b9fc0878c147942964",
    "power": "19ab9ba932cb1b87f538416048c080a7f1982d14be05cce202bc0563f315331a",
    "requests": "b9c884f2061a6dc615be63fefafd23d154c9c730c3ad35985c41513d18f772cd",
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
