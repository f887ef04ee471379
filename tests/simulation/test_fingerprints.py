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
    "clocks": "3e9e2bafe8d556443f31949e8dc4ab5f4fe8a6cb9776a0a21b9a5ea76a173c44",
    "kill": "f786a5dde2ebfb8e4e88f976836ca751568b51f5401000d116ca33a859d36231",
    "power": "091d355140534063b67e554f5af6bd4cad6d0059c65a358a3584e54163697b59",
    "requests": "51b95bb5058b3f8068dcf50140695e0711c4c20612fb31c84749666eb7335811",
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
