"""The table of batch states says what may be claimed; these are the claims that matter."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ottla.producer.accumulator import PartitionQueue
from ottla.producer.batch import TRANSITIONS, Batch, BatchEvent, BatchState

ENDS = {BatchState.ACKED, BatchState.FAILED, BatchState.UNKNOWN, BatchState.SPLIT}


def batch_in(state: BatchState) -> Batch:
    batch = Batch(SimpleNamespace(size_bytes=0), PartitionQueue("flights", 0), 0, 0)
    batch.state = state
    return batch


def test_every_move_follows_the_table_and_everything_else_is_refused():
    for state in BatchState:
        for event in BatchEvent:
            batch = batch_in(state)
            if (state, event) in TRANSITIONS:
                assert batch.move(event) is TRANSITIONS[state, event]
            else:
                with pytest.raises(RuntimeError, match=f"{event.name} cannot happen in {state.name}"):
                    batch.move(event)


def test_an_outcome_is_final():
    assert not [state for state, _ in TRANSITIONS if state in ENDS]


def test_every_unsettled_state_can_be_given_up_and_only_waiting_ends_as_failed():
    for state in set(BatchState) - ENDS:
        end = TRANSITIONS[state, BatchEvent.GIVE_UP]
        assert end is (BatchState.FAILED if state is BatchState.WAITING else BatchState.UNKNOWN)


def test_the_parts_of_a_batch_are_in_doubt_where_the_whole_was():
    for before, after in ((BatchState.SENT, BatchState.WAITING), (BatchState.RESENT, BatchState.DOUBTED)):
        whole = batch_in(before)
        whole.number, whole.attempts = 40, 2
        halves = [SimpleNamespace(size_bytes=0, record_count=count) for count in (3, 4)]
        first, second = whole.divide(halves)
        assert whole.state is BatchState.SPLIT
        assert first.state is second.state is after
        assert (first.number, second.number) == (40, 43)
        assert first.attempts == second.attempts == 1


def test_doubt_is_only_ended_by_an_ack_or_by_proof():
    doubtful = {BatchState.DOUBTED, BatchState.RESENT}
    for (state, event), after in TRANSITIONS.items():
        if state in doubtful and after not in doubtful | {BatchState.UNKNOWN, BatchState.SPLIT}:
            assert event in (BatchEvent.ACK, BatchEvent.DISPROVE)
        if event is BatchEvent.DISPROVE:
            # While an attempt is on its way nothing can be proved.
            assert state is BatchState.DOUBTED
