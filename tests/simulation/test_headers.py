"""Headers come back as they were sent: whoever alters one on its way is found, and nothing else is.

What a producer has sent is altered as it crosses the network, with a CRC that fits, so that only the judge can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.audit.findings import ALTERED
from ottla.host.crossing import Crossing
from ottla.records.plain import decode_batches, encode_batch
from ottla.simulation.draw import draw
from ottla.simulation.outcome import Outcome
from ottla.simulation.plan import SEND
from ottla.simulation.run import Run, conclude

Headers = tuple[tuple[str, bytes | None], ...]
Change = Callable[[Headers], Headers]

# The first is the record's number.
ALTERATIONS: dict[str, Change] = {
    "none is left": lambda headers: headers[:1],
    "the last is missing": lambda headers: (headers[0], *headers[1:-1]),
    "there is one more": lambda headers: (*headers, ("more", None)),
    "the number is there twice": lambda headers: (*headers, headers[0]),
    "empty for null": lambda headers: tuple((name, value or b"") for name, value in headers),
    "null for empty": lambda headers: tuple((name, value or None) for name, value in headers),
    "another name": lambda headers: tuple((name or "name", value) for name, value in headers),
    "another value": lambda headers: tuple((name, b"b" if value == b"a" else value) for name, value in headers),
    "another order": lambda headers: (headers[0], *headers[:0:-1]),
    "each name once": lambda headers: tuple(dict(headers).items()),
}


def run_with_headers(change: Change) -> Outcome:
    run = Run(draw(3, records=60, faults=0))

    def alter(crossing: Crossing) -> None:
        if type(crossing.message).__name__ == "ProduceRequest":
            for topic in crossing.message.topic_data:
                for part in topic.partition_data:
                    part.records = altered(part.records, change)

    run.world.trace.listeners.append(alter)
    run.go()
    return conclude(run, None)


def altered(batches: Any, change: Change) -> bytes:
    return b"".join(
        encode_batch(
            [record._replace(headers=change(tuple(record.headers))) for record in records],
            codec=header.codec,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
        )
        for header, records in decode_batches(batches)
    )


@pytest.mark.parametrize("what", ALTERATIONS)
def test_headers_altered_on_their_way_are_found(what: str) -> None:
    outcome = run_with_headers(ALTERATIONS[what])
    assert outcome.crashed is None
    assert [finding.kind for finding in outcome.findings] == [ALTERED]
    assert "its headers have CRC" in outcome.findings[0].evidence[0].detail


def test_headers_that_are_only_packed_anew_are_the_same() -> None:
    assert run_with_headers(lambda headers: headers).is_clean


def test_drawn_records_have_all_sorts_of_headers() -> None:
    drawn = [act.headers for producer in draw(3).producers for act in producer.acts if act.do == SEND]
    values = [value for headers in drawn for _, value in headers]
    names = [[name for name, _ in headers] for headers in drawn]
    assert [] in drawn
    assert None in values
    assert "" in values
    assert any(len(each) != len(dict.fromkeys(each)) for each in names)
