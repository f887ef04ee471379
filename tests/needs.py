"""Tests that need a tool are skipped where it is missing, unless OTTLA_REQUIRE says that it has to be there.

OTTLA_REQUIRE=kafka,kcat,spark,chromium names tools, separated by commas: Apache Kafka's jars and a Java to run them,
kcat, a Java for PySpark and Spark's connector, the distribution's Chromium. Where one is missing, its tests fail.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

TOOLS = {"kafka", "kcat", "spark", "chromium"}


def required() -> set[str]:
    """The tools that have to be there; UsageError for one that nobody knows."""
    named = {name.strip() for name in os.environ.get("OTTLA_REQUIRE", "").split(",")} - {""}
    if named - TOOLS:
        unknown = ", ".join(sorted(named - TOOLS))
        raise pytest.UsageError(f"OTTLA_REQUIRE: {unknown} unknown; there are {', '.join(sorted(TOOLS))}")
    return named


def lacking(tool: str, reason: object) -> NoReturn:
    """Give up a test that needs this tool."""
    if tool in required():
        pytest.fail(f"OTTLA_REQUIRE wants {tool}: {reason}", pytrace=False)
    pytest.skip(str(reason))
