"""Which leader epoch began where: what retention and truncation leave of it can be kept and read again."""

from __future__ import annotations

from ottla.broker.log.files import EpochEntry, write_leader_epochs
from ottla.broker.log.leader_epochs import LeaderEpochs


def test_an_epoch_of_which_nothing_is_left_makes_room_for_the_next() -> None:
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(2, 40)])
    epochs.advance_start(70)
    epochs.note(3, 70)
    assert epochs.entries() == [EpochEntry(2, 40), EpochEntry(3, 70)]
    epochs.advance_start(70)
    epochs.note(4, 70)
    assert epochs.entries() == [EpochEntry(2, 40), EpochEntry(4, 70)]
    assert write_leader_epochs(epochs.entries())
    epochs.note(5, 80)
    epochs.advance_start(80)
    assert epochs.entries() == [EpochEntry(4, 70), EpochEntry(5, 80)]


def test_a_log_that_ends_where_this_one_begins_is_diverging_with_an_older_epoch() -> None:
    epochs = LeaderEpochs([EpochEntry(2, 0), EpochEntry(3, 5)])
    epochs.advance_start(7)
    # Of epoch 2, offsets 5 and 6 of the other log are not the two that were deleted here.
    assert epochs.end_of(2, 7) == (2, 5)
    assert epochs.end_of(3, 7) == (3, 7)
    assert epochs.at(7) == 3


def test_an_epoch_older_than_all_that_are_known_ended_where_the_first_of_them_begins() -> None:
    epochs = LeaderEpochs([EpochEntry(2, 22), EpochEntry(4, 30)])
    assert epochs.end_of(1, 40) == (1, 22)
    assert epochs.end_of(3, 40) == (2, 30)
    assert LeaderEpochs().end_of(1, 40) == (-1, -1)
