"""Trials with what their brokers saw, made once for the tests of reports."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from typing import Any

from ottla.trial.outcome import TrialOutcome
from ottla.trial.run import run_scenario
from ottla.trial.scenario_file import load_shipped, read_scenario

HOSTILE = "<script>alert(1)</script> & \"'"


class _Silent:
    def advance(self, count: int = 1) -> None: ...


def _stepping(words: str, total: int | None = None, unit: str = "") -> Any:
    return nullcontext(_Silent())


@cache
def lost_ack() -> TrialOutcome:
    """The trial that comes with ottla: one side duplicates, both are as expected."""
    return run_scenario(load_shipped("lost-ack"), _stepping, is_recorded=True)


@cache
def power_cut() -> TrialOutcome:
    """Acknowledged records are lost: what only the page cache had."""
    return run_scenario(load_shipped("whole-cluster-power-cut"), _stepping, is_recorded=True)


@cache
def void_and_hostile() -> TrialOutcome:
    """A fault that never fires, and names that would be markup and control characters."""
    text = f"""
title = '''{HOSTILE}'''
teaches = '''{HOSTILE}'''
records = 40
partitions = 2
flush_every = 20
[[fault]]
kind = "lose_ack"
nth = 5000
[[side]]
name = "hostile"
claims = "at-least-once"
shows = ["duplicated"]
producer = {{ acks = "all", "enable.idempotence" = false }}
[[side]]
name = "sound"
claims = "exactly-once"
producer = {{ acks = "all", "client.id" = '''{HOSTILE}''' }}
"""
    scenario = read_scenario(HOSTILE, text, "hostile.toml")
    # A file may not name a side like this.
    sides = (replace(scenario.sides[0], name="<b>\x07\x1b]]>"), *scenario.sides[1:])
    return run_scenario(replace(scenario, sides=sides), _stepping, is_recorded=True)


@cache
def missing_control() -> TrialOutcome:
    """A control that is idempotent, and shows nothing."""
    text = """
title = "t"
teaches = "t"
records = 40
[[fault]]
kind = "lose_ack"
nth = 1
[[side]]
name = "control"
claims = "exactly-once"
shows = ["duplicated"]
producer = { acks = "all" }
"""
    return run_scenario(read_scenario("missing", text, "missing.toml"), _stepping, is_recorded=True)
