"""What coordinators and partitions forgot excuses the order in a log, and nothing else does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.audit.scene import Scene, batch, marker

from ottla.audit.chronicles.fencing import check_fencing
from ottla.audit.chronicles.sequences import check_sequences


def give_out_again(
    scene: Scene, forgotten_us: int = 5_000, expiration_ms: int = 1, *, is_open: bool = False, sequence: int = 0,
    again_us: int = 6_000,
) -> None:  # fmt: skip
    """Producer 2 comes with epoch 0 behind its epoch 1, 1.5 ms after it wrote last; its coordinator forgets it once."""
    scene.chronicle.producer_id_expiration_ms = expiration_ms
    for broker in range(3):
        batches = scene.batches(broker)
        batches[4] = batch(6, [51], producer_id=2, epoch=1) if is_open else marker(6, commits=False, epoch=1)
        batches.append(batch(7, [50], producer_id=2, epoch=0, sequence=sequence))
    scene.let_pass(0, again_us, 7, 8)
    scene.forget_transactions(forgotten_us)


def test_an_epoch_given_out_again_begins_anew_where_the_partition_had_forgotten_its_producer(scene: Scene) -> None:
    give_out_again(scene)
    for broker in range(3):
        more = [batch(8, [52], producer_id=2, epoch=0, sequence=1), marker(9, commits=True, epoch=1)]
        scene.batches(broker).extend([*more, batch(10, [53], producer_id=2, epoch=1)])
    scene.let_pass(0, 6_500, 8, 11)
    why = (
        "excused: its producer had expired, and its coordinator forgot it after power off of broker 1 at 5000 us, "
        "the last replica in sync"
    )
    for check in (check_sequences, check_fencing):
        finding = scene.ask(check)
        assert finding.passed
        assert finding.tallies == ((why, 1),)
    for broker in range(3):
        scene.batches(broker).append(batch(11, [54], producer_id=2, epoch=0, sequence=0))
    scene.let_pass(0, 6_800, 11, 12)
    assert scene.ask(check_sequences).count == 1
    assert scene.ask(check_fencing).count == 1


@pytest.mark.parametrize(
    ("forgotten_us", "expiration_ms", "is_open"),
    [(4_000, 1, False), (6_500, 1, False), (5_000, 2, False), (5_000, 1, True)],
    ids=["forgotten before", "forgotten afterwards", "not expired", "a transaction open"],
)
def test_an_epoch_that_comes_again_is_found_where_coordinator_or_partition_knew_its_producer(
    scene: Scene, forgotten_us: int, expiration_ms: int, is_open: bool
) -> None:
    give_out_again(scene, forgotten_us, expiration_ms, is_open=is_open)
    assert scene.ask(check_sequences).count == 1
    assert scene.ask(check_fencing).count == 1


def test_a_producer_that_expired_is_not_forgotten_by_its_coordinator_for_that(scene: Scene) -> None:
    give_out_again(scene)
    scene.chronicle.broker_ends = []
    assert scene.ask(check_sequences).count == 1
    assert scene.ask(check_fencing).count == 1


@pytest.mark.parametrize(("sequence", "count"), [(0, 0), (1, 1), (2, 0), (3, 1)])
def test_an_epoch_of_a_forgotten_producer_begins_with_0_or_goes_on(scene: Scene, sequence: int, count: int) -> None:
    give_out_again(scene, sequence=sequence)
    assert scene.ask(check_sequences).count == count


def go_on_behind(scene: Scene, forgotten_us: int, producer_id: int, *, epoch: int = 0, is_open: bool = True) -> None:
    """Record 10 is instance 2's now, with this producer id and epoch; 12 of instance 1 stands behind it, as 2.

    `is_open`: instance 1 has something of that transaction in front of both.
    """
    scene.record(10).instance = scene.chronicle.transactions[0].instance = 2
    scene.chronicle.transactions[1].began_us = 2_500
    newer = replace(batch(3, [10], epoch=epoch, producer_id=producer_id), is_transactional=True)
    for broker in range(3):
        before = batch(2, [2], producer_id=2 if is_open else 1)
        end = replace(marker(4, commits=True, epoch=epoch), producer_id=producer_id)
        between = [] if producer_id == 2 else [end]
        last = batch(5, [12], producer_id=2, sequence=1)
        scene.replica(broker).batches = [batch(0, [0, 1]), before, newer, *between, last]
    scene.forget_transactions(forgotten_us)


@pytest.mark.parametrize("producer_id", [3, 2])
def test_who_was_replaced_goes_on_where_its_coordinator_had_forgotten_it(scene: Scene, producer_id: int) -> None:
    go_on_behind(scene, 2_800, producer_id)
    finding = scene.ask(check_fencing)
    assert finding.passed
    assert finding.tallies == (
        (
            "excused: its coordinator forgot it after power off of broker 1 at 2800 us, the last replica in sync",
            1,
        ),
    )


@pytest.mark.parametrize("producer_id", [3, 2])
@pytest.mark.parametrize("forgotten_us", [2_400, 3_100])
def test_what_coordinators_forgot_at_another_time_lets_nobody_go_on(
    scene: Scene, producer_id: int, forgotten_us: int
) -> None:
    go_on_behind(scene, forgotten_us, producer_id)
    assert scene.ask(check_fencing).count == 1


def test_who_was_replaced_by_another_producer_id_begins_no_transaction_any_more(scene: Scene) -> None:
    go_on_behind(scene, 2_800, 3, is_open=False)
    assert scene.ask(check_fencing).count == 1


def test_a_partition_that_has_the_newer_epoch_refuses_the_older_whatever_was_forgotten(scene: Scene) -> None:
    go_on_behind(scene, 2_800, 2, epoch=1)
    assert any("instance 2" in piece.detail for piece in scene.ask(check_fencing).evidence)


def test_a_producer_expires_as_soon_as_its_time_is_over(scene: Scene) -> None:
    give_out_again(scene, again_us=5_500)  # 1 ms after it wrote last
    assert scene.ask(check_fencing).passed


@pytest.mark.parametrize("what", ["newer batch", "transaction"])
def test_without_the_newer_batch_or_a_transaction_nothing_is_known_to_excuse_who_goes_on(
    scene: Scene, what: str
) -> None:
    go_on_behind(scene, 2_800, 3)
    if what == "newer batch":
        for broker in range(3):
            del scene.batches(broker)[2]
    else:
        scene.record(12).transaction = -1
    assert scene.ask(check_fencing).count == 1
