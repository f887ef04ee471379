"""A follower whose newest epoch the leader has no record of any more has not parted from it."""

from __future__ import annotations

from ottla.broker.log.files import EpochEntry
from ottla.broker.log.leader_epochs import NO_EPOCH, LeaderEpochs


def test_an_epoch_older_than_all_that_is_left_ended_where_the_oldest_begins() -> None:
    epochs = LeaderEpochs([EpochEntry(4, 3), EpochEntry(6, 9)])
    assert epochs.end_of(3, 12) == (3, 3)
    assert epochs.end_of(4, 12) == (4, 9)
    assert epochs.end_of(5, 12) == (4, 9)
    assert epochs.end_of(6, 12) == (6, 12)


def test_without_any_epoch_or_for_none_there_is_no_end() -> None:
    assert LeaderEpochs().end_of(3, 12) == (NO_EPOCH, -1)
    assert LeaderEpochs([EpochEntry(4, 3)]).end_of(NO_EPOCH, 12) == (NO_EPOCH, -1)
