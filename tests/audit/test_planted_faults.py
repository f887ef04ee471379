"""Any mixture of planted faults is counted as a plain, slow reading of the definitions counts it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.audit.history import PartitionHistory
from ottla.audit.ledgers.partition import audit_partition

Lay = Callable[..., PartitionHistory]

SENT = 8
logs = st.lists(st.integers(min_value=-1, max_value=SENT + 1), max_size=20)
words = st.dictionaries(st.integers(0, SENT - 1), st.sampled_from(["failed", "unknown"]))


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(log=logs, outcomes=words, altered=st.frozensets(st.integers(0, 19)))
def test_any_log_is_counted_as_the_definitions_say(
    lay: Lay, log: list[int], outcomes: dict[int, str], altered: frozenset[int]
) -> None:
    history = lay(log, sent=SENT, outcomes=outcomes, values=dict.fromkeys(altered, 1))
    figures = audit_partition(history).figures
    known = [record for record in log if 0 <= record < SENT]
    firsts = [record for place, record in enumerate(known) if record not in known[:place]]
    assert figures.stored == len(log)
    assert figures.sent == SENT
    assert figures.acked + figures.failed + figures.unknown == SENT
    assert figures.lost == sum(n not in known and outcomes.get(n) != "failed" for n in range(SENT))
    assert figures.duplicated == len(known) - len(firsts)
    assert figures.reordered == sum(record < max(firsts[: i + 1]) for i, record in enumerate(firsts))
    unsent = sum(not 0 <= record < SENT for record in log)
    changed = sum(0 <= record < SENT and offset in altered for offset, record in enumerate(log))
    assert figures.altered == unsent + changed
