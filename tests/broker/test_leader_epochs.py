"""Which leader epoch began where: what retention and truncation leave of it can be kept and read again."""

from __future__ import annotations

from ottla.broker.log.files import EpochEntry, write_leader_epochs
from ottla.broker.log.leader_epochs import LeaderEpochs


def test_an_epoch_of_which_nothing_is_left_makes_room_for_the_next() -> None:
    epochs = LeaderEpochs([EpochEntry(0, 0), EpochEntry(2, 40)])
    epochs.advance_start(70)
    epochs.note(3, 70)
    assert epochs.entries() == [EpochEntry(3, 70)]
    assert write_leader_epochs(epochs.entries())
    epochs.note(4, 80)
    assert epochs.entries() == [EpochEntry(3, 70), EpochEntry(4, 80)]


def test_an_epoch_older_than_all_that_are_known_ended_where_the_first_of_them_begins() -> None:
    epochs = LeaderEpochs([EpochEntry(2, 22), EpochEntry(4, 30)])
    assert epochs.end_of(1, 40) == (1, 22)
    assert epochs.end_of(3, 40) == (2, 30)
    assert LeaderEpochs().end_of(1, 40) == (-1, -1)
