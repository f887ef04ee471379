"""Histories in which producer ids use up their epochs: each id goes on under another producer id (KIP-890).

A driver takes some six epochs for each batch, so this comes about every 5,000 batches.
"""

from __future__ import annotations

import pytest
from tests.drawn import commit_seeds, fixed_seeds

from ottla.broker.transactions import coordinator
from ottla.broker.transactions.transaction import EPOCH_MAX, NO_EPOCH, TransactionData, initialized_data
from ottla.simulation.chance import Chance

from .test_histories import assert_is_good

_LEFT_MOST = 14


def begin_late(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each transactional id begin with few epochs left, as if it had been used for long."""
    chance = Chance(f"epochs {seed}")

    def initialized(data: TransactionData, *more: object) -> TransactionData:
        found = initialized_data(data, *more)  # type: ignore[arg-type]
        is_new = data.epoch == NO_EPOCH
        return found._replace(epoch=EPOCH_MAX - 1 - chance.randint(0, _LEFT_MOST)) if is_new else found

    monkeypatch.setattr(coordinator, "initialized_data", initialized)


@pytest.mark.parametrize("seed", fixed_seeds(1))
def test_every_row_is_there_once_though_epochs_are_used_up(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_late(seed, monkeypatch)
    assert_is_good(seed)


@pytest.mark.prove
@pytest.mark.parametrize("seed", commit_seeds(10, soak=500))
def test_every_row_is_there_once_though_epochs_are_used_up_in_many_histories(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_late(seed, monkeypatch)
    assert_is_good(seed)
