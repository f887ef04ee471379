"""Writes R again once all transactions that it names are committed (they have landed), with a note of that in it.

Coordinators forget idle transactional ids (`transactional.id.expiration.ms`), and markers are kept for a day. After a
longer pause only R can say that they were committed.
"""

from __future__ import annotations

import logging

from ottla.errors import OttlaError
from ottla.sink.applying import Lost
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter

_log = logging.getLogger("ottla.sink")


def landed(decision: Decision) -> Decision:
    """The decision with the note that all its entries are committed."""
    return decision._replace(entries=tuple(entry._replace(landed=True) for entry in decision.entries))


def is_to_be_marked(decision: Decision | None, lost: Lost = ()) -> bool:
    """Whether R lacks the note that all is committed. Atomic decisions need none: R and rows are committed together."""
    if decision is None or decision.atomic or lost:
        return False
    return not all(entry.landed for entry in decision.entries)


def mark(writer: DecisionWriter, decision: Decision) -> None:
    """Write R again, with the note that all of it is committed; raises what the writer raises."""
    writer.write(landed(decision), lambda: None, asked_times=1)


def try_to_mark(writer: DecisionWriter, decision: Decision) -> None:
    """As `mark`, but a failure is only logged: the next plan tries again."""
    try:
        mark(writer, decision)
    except (OttlaError, TimeoutError) as error:
        _log.warning(
            "%s of sink %r is committed, but its decision record could not be updated to say so; the next start of the "
            "query updates it, if brokers still know the transactions by then: %s",
            decision.batch,
            decision.sink_id,
            error,
        )
