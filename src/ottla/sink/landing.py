"""Writes R again with a note at each transaction that it names: committed (landed), or taken back by a timeout (lost).

From then on nobody needs to be asked about them: not their coordinators, which forget idle transactional ids
(`transactional.id.expiration.ms`) and tell of an id's last transaction only, and not their markers.
"""

from __future__ import annotations

import logging

from ottla.errors import OttlaError
from ottla.sink.decision import Decision
from ottla.sink.decision_writer import DecisionWriter

_log = logging.getLogger("ottla.sink")


def write_again(writer: DecisionWriter, decision: Decision) -> None:
    """Write R again with its notes; raises what the writer raises."""
    writer.write(decision, lambda: decision, asked_times=1)


def try_to_write_again(writer: DecisionWriter, decision: Decision) -> None:
    """As `write_again`, but a failure is only logged: the next plan tries again."""
    try:
        write_again(writer, decision)
    except (OttlaError, TimeoutError) as error:
        _log.warning(
            "%s of sink %r is committed, but its decision record could not be updated; the next start of the query "
            "does it: %s",
            decision.batch,
            decision.sink_id,
            error,
        )
