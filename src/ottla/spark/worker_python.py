"""Which Python Spark starts its workers as; they are who looks for `format("ottla")`, and for everything else.

That is `PYSPARK_PYTHON`, else the first `python3` on PATH: another one than the program's where its virtual environment
is not activated (`venv/bin/python job.py`), and ottla is not there. The JVM takes both from its environment as it
starts, so they must be right before the first session is made.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path

# By these somebody has said what workers run; the last one stands for spark-submit, whose JVM is up already, and which
# has its own settings for it (spark.pyspark.python).
_SAID_BY = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")


def name_this_python(environment: MutableMapping[str, str]) -> None:
    """Set PYSPARK_PYTHON to this interpreter, unless it is set in some way or `python3` is this environment's.

    In the last case nothing is set, because the nodes of a cluster may have their `python3` in another folder.
    """
    if not sys.executable or any(name in environment for name in _SAID_BY):
        return
    found = shutil.which("python3", path=environment.get("PATH", os.defpath))
    if found is None or not Path(found).parent.samefile(Path(sys.executable).parent):
        environment["PYSPARK_PYTHON"] = sys.executable
