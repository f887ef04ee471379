"""A trial from a capture: a scenario in TOML that shows the same breach on a cluster, for use as a regression test.

One side has the settings that were seen, and must show what the capture showed. Another side is idempotent, and must
keep everything. The faults are those of the plan that showed the same in the simulator. They apply to the same
requests, of a topic with one partition.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ottla.audit.findings import DUPLICATED, LOST, REORDERED
from ottla.audit.promises import claimed
from ottla.errors import UserMistake
from ottla.explain.explanation import Explanation
from ottla.faults.fault import Fault
from ottla.printable import printable
from ottla.simulation.plan import SEND, ProducerPlan

_RECORDS_LEAST = 60
_SHOWN = (DUPLICATED, LOST, REORDERED)
# With it the next requests are still in flight when the refused one is answered.
_SLOW_DISK = ("[[fault]]", 'kind = "slow_disk"', 'broker = "leader"', "delay_ms = 40")
# Fields that say where a fault applies; a trial has a topic of its own.
_PLACES = ("topic", "partition", "broker_id")


def scenario_text(found: Explanation, name: str) -> str:
    """The file; UserMistake where the capture broke nothing, or the simulator did not show the same."""
    plan = found.plan
    if not found.breaches or plan is None:
        raise UserMistake(
            f"{name} breaks no promise that can be seen, so a trial would have nothing to show: "
            "`ottla explain` says what is in it"
        )
    if not found.reproduced:
        raise UserMistake(
            f"the simulator did not show what {name} shows, so a trial would not, either: "
            "`ottla explain --keep` writes the plan that came nearest"
        )
    shown = [each.kind for each in found.replayed.outcome.findings] if found.replayed is not None else []
    kinds = [kind for kind in _SHOWN if kind in shown and kind in [each.kind for each in found.breaches]]
    if found.small is not None:
        kinds = [found.small.kind]
    # A file's name may have characters that TOML does not take.
    name = printable(name)
    producer = next(each for each in plan.producers if any(act.do == SEND for act in each.acts))
    lines = [
        f"title = {_text(f'As in {name}: ' + ' and '.join(kinds))}",
        'teaches = """',
        *_teaching(found, name),
        '"""',
        f"records = {max(_RECORDS_LEAST, plan.records)}",
    ]
    if REORDERED in kinds:
        lines += ["", *_SLOW_DISK]
    for timed in plan.faults:
        lines += ["", "[[fault]]", *_fault(timed.fault)]
    lines += ["", *_seen_side(producer, kinds), "", *_sound_side()]
    return "\n".join(lines) + "\n"


def _teaching(found: Explanation, name: str) -> list[str]:
    said = [f"{each.kind}: {each.words}." for each in found.breaches[:3]]
    more = f"And {len(found.breaches) - 3} more." if len(found.breaches) > 3 else ""
    words = [f"Made by ottla trial --from {name}.", *said, *([more] if more else [])]
    return [re.sub(r'["\\]', "'", printable(each)) for each in words]


def _fault(fault: Fault) -> list[str]:
    given = fault.to_dict()
    lines = [f"{key} = {_value(value)}" for key, value in given.items() if key not in _PLACES]
    return [*lines, *(['broker = "leader"'] if given.get("broker_id") is not None else [])]


def _seen_side(producer: ProducerPlan, kinds: list[str]) -> list[str]:
    settings = producer.settings
    acks = settings.get("acks", "all")
    idempotent = bool(settings.get("enable_idempotence", acks == "all"))
    promise = claimed(acks=-1 if acks == "all" else int(acks), idempotent=idempotent)
    in_flight = settings.get("max_in_flight_requests_per_connection", 5)
    is_forbidden = bool({*kinds} & {*promise.forbids(max_in_flight=in_flight, is_redelivered=False)})
    given = {
        "acks": acks,
        "enable.idempotence": idempotent,
        "max.in.flight.requests.per.connection": in_flight,
        # Each record a request, as in the plan.
        "batch.size": 1,
    }
    if acks == 0:
        given["retries"] = 0
    return [
        "[[side]]",
        'name = "as captured"',
        f"claims = {_text(promise.guarantee)}",
        f"producer = {_table(given)}",
        f"shows = {json.dumps(kinds)}",
        *(['expect = "broken"'] if is_forbidden else []),
    ]


def _sound_side() -> list[str]:
    given = {"acks": "all", "enable.idempotence": True, "batch.size": 1}
    return ["[[side]]", 'name = "exactly-once"', 'claims = "exactly-once"', f"producer = {_table(given)}"]


def _table(given: dict[str, Any]) -> str:
    inner = ", ".join(f"{key if '.' not in key else _text(key)} = {_value(value)}" for key, value in given.items())
    return f"{{ {inner} }}"


def _value(value: Any) -> str:
    return json.dumps(value)


def _text(text: str) -> str:
    # TOML has no pairs of surrogates, as JSON's escapes have for emoji.
    return json.dumps(text, ensure_ascii=False)
