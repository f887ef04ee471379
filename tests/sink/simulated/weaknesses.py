"""Guarantees that are taken out of the mechanism, one by one: the judge of histories must find each.

As in `tools/mutation/weaknesses.py`, each row is a change of the source, in a process of its own. Some steps of the
mechanism are not here, since others stand behind them: where tasks' transactions are not looked at before the decision,
a batch that was lost by a timeout is written again; where nothing is swept, brokers end it in time.
"""

from __future__ import annotations

from tools.mutation.control import Control
from tools.mutation.source import Edit, changed, replace

from .history import play

WEAKNESSES: dict[str, list[Edit]] = {
    # Tasks' transactions are committed, and only then the decision that names them.
    "applied_before_it_is_decided": [
        replace(
            "sink/commit.py",
            "decision, driver_identity = decide(writer, plan, decision, prepared)\n",
            "apply(session, batch, decision.unsettled)\n"
            "        decision, driver_identity = decide(writer, plan, decision, [])\n",
        ),
    ],
    "what_ends_too_late_counts_as_committed": [
        replace(
            "sink/deciding.py",
            "entry._replace(lost=True) if entry in gone",
            "entry._replace(landed=True) if entry in gone",
        ),
    ],
    "what_ended_in_time_is_written_again": [
        replace(
            "sink/refusals.py",
            "return Role.REWRITE if partition_id in last.lost else Role.SKIP",
            "return Role.REWRITE if last.lost else Role.SKIP",
        ),
        replace("sink/commit.py", "rewritten != set(last.lost)", "not rewritten"),
    ],
    "no_fencing_at_planning": [
        replace(
            "sink/session.py",
            "        begun = self.port.next_identity(self.driver_id, settings.decision_timeout_ms)\n"
            "        self.version =",
            "        known = self.port.describe_transactions([self.driver_id]).get(self.driver_id)\n"
            "        if known is not None:\n"
            "            self._decisions.has_awaited = True\n"
            "            return TransactionIdentity(known.transactional_id, known.producer_id, known.producer_epoch)\n"
            "        begun = self.port.next_identity(self.driver_id, settings.decision_timeout_ms)\n"
            "        self.version =",
        ),
    ],
    "decision_is_not_read_at_planning": [
        replace(
            "sink/planning.py",
            "decision = read_settled(session, driver_identity)\n    driver_identity,",
            "decision = None\n    driver_identity,",
        ),
    ],
    "last_decision_is_not_carried_out": [
        replace("sink/planning.py", "*apply(session, decision.batch, found.commit, accept_loss),", ""),
    ],
    "rows_that_a_timeout_took_back_are_forgotten": [
        replace("sink/planning.py", "settled = decision.settled(lost)", "settled = decision.settled(())"),
    ],
    "receipts_are_deleted_after_a_day": [
        replace(
            "sink/topics.py",
            '        **_COMPACTED,\n        "segment.bytes": _RECEIPTS_SEGMENT_BYTES,',
            '        "retention.ms": 24 * 3_600_000,\n        "segment.bytes": _RECEIPTS_SEGMENT_BYTES,',
        ),
        replace("sink/topics.py", "        _check_cleanup(admin, settings, topic)\n", "        pass\n"),
    ],
    "what_is_in_no_decision_is_committed": [
        replace(
            "sink/planning.py",
            "told = session.end(identities, committed=False)",
            "told = session.end(identities, committed=True)",
        ),
    ],
    "what_is_committed_is_taken_for_aborted": [
        replace("sink/sweep.py", "receipt.fate if is_it else None", "Fate.ABORTED if is_it else None"),
    ],
    # Whoever was held up after its look at an id takes it from the one who has it by then.
    "attempts_take_no_turns": [
        replace(
            "sink/taking.py",
            "ticket = port.next_identity(tickets, timeout_ms)",
            "ticket = port.next_identity(tickets, timeout_ms)._replace(producer_epoch=_)",
        ),
        replace("sink/taking.py", "is_exact and not session.is_newest(ticket)", "False"),
    ],
    # Who joins a transaction that another attempt has begun since its look believes that it is alone.
    "tickets_are_not_confirmed": [
        replace("sink/taking.py", "is_exact and not session.is_newest(ticket)", "False"),
    ],
    # Each process goes by what its connections have told of the cluster, which may be older than another's.
    "processes_differ_about_the_transaction_version": [
        replace("sink/taking.py", "session.version >= 2", "port.transaction_version() >= 2"),
        replace("client/transaction_handle.py", "versions[identity]", "None"),
    ],
    "decided_batches_are_written_again": [
        replace(
            "sink/refusals.py",
            "return Role.REWRITE if partition_id in last.lost else Role.SKIP",
            "return Role.WRITE",
        ),
    ],
}


def weakened(name: str) -> Control:
    """A process without this guarantee."""
    return Control(changed(WEAKNESSES[name]))


def findings_of(seed: int) -> list[str]:
    """What is found in the history of a seed."""
    return play(seed).findings
