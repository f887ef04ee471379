"""Which replica leads a partition, and which are in sync, when brokers come, go, or hand over: pure functions.

Each takes a `PartitionImage` and returns the one that follows it, or the same object where nothing changes. A leader
comes from the replicas in sync that are alive, in the order in which the replicas were assigned; only if an unclean
election is allowed and no living replica is in sync may another living one lead. Then it alone is in sync: records that
it never had are lost.

A broker that comes back with another folder has lost its logs: it is not in sync, not even as the last one, unless it
is the only replica. If it was the last one, no replica is in sync, and none leads until an unclean election. One that
lacks committed records of a partition when all brokers are started anew is not in sync there, unless none is better.

Invariants: otherwise a partition always has a replica in sync, if only on a broker that is gone (the last one stays, as
it alone has everything); the leader, where there is one, is alive and in sync; the leader epoch grows with every change
of the leader, the partition epoch with every change. Eligible leader replicas (KIP-966) are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from ottla.broker.events import PartitionImage

NO_LEADER = -1

Alive = Callable[[int], bool]


def without(
    partition: PartitionImage, broker_id: int, alive: Alive, *, unclean: bool, has_lost: bool = False
) -> PartitionImage:
    """`broker_id` is gone or about to go: it leads no more and, unless it is the last one, is in sync no more.

    `has_lost`: with its folder, which will not come back.
    """
    if broker_id != partition.leader and broker_id not in partition.isr:
        return partition
    isr = tuple(each for each in partition.isr if each != broker_id)
    if not isr and not (has_lost and len(partition.replicas) > 1):
        isr = partition.isr

    def others_alive(each: int) -> bool:
        return each != broker_id and alive(each)

    return led(partition, isr, others_alive, unclean=unclean)


def led(partition: PartitionImage, isr: tuple[int, ...], alive: Alive, *, unclean: bool) -> PartitionImage:
    """The partition with these replicas in sync: its leader stays where it can, otherwise another one is elected."""
    leader = partition.leader
    if leader not in isr or not alive(leader):
        leader = next((each for each in partition.replicas if each in isr and alive(each)), NO_LEADER)
        if leader == NO_LEADER and unclean:
            leader = next((each for each in partition.replicas if alive(each)), NO_LEADER)
            isr = (leader,) if leader != NO_LEADER else isr
    return changed(partition, leader, isr)


def preferred(partition: PartitionImage, alive: Alive) -> PartitionImage:
    """The partition led by the first of its replicas, where that one is alive and in sync."""
    first = partition.replicas[0]
    if first == partition.leader or first not in partition.isr or not alive(first):
        return partition
    return changed(partition, first, partition.isr)


def changed(partition: PartitionImage, leader: int, isr: tuple[int, ...]) -> PartitionImage:
    """The partition with this leader and these replicas in sync."""
    if leader == partition.leader and isr == partition.isr:
        return partition
    leader_epoch = partition.leader_epoch + (leader != partition.leader)
    return _following(partition, leader, leader_epoch, isr)


def restarted(
    partition: PartitionImage,
    alive: Alive,
    *,
    clean: bool,
    unclean_election: bool,
    lost: Container[int],
    lacking: Container[int],
) -> PartitionImage:
    """The partition after the whole cluster was started anew; brokers in `lost` have other folders than before.

    Those in `lacking` lack records of this partition that were committed: they are in sync only where all others in
    sync lack some, too.

    Its leader begins a new epoch. Where the brokers had not closed their logs in order, a follower may have less than
    what was committed: it must catch up before it counts as in sync again.
    """
    isr = partition.isr
    if len(partition.replicas) > 1:
        isr = tuple(each for each in isr if each not in lost)
    isr = tuple(each for each in isr if each not in lacking) or isr
    after = led(partition, isr, alive, unclean=unclean_election)
    leader = after.leader
    isr = after.isr if clean or leader == NO_LEADER else (leader,)
    return _following(partition, leader, partition.leader_epoch + 1, isr)


def _following(partition: PartitionImage, leader: int, leader_epoch: int, isr: tuple[int, ...]) -> PartitionImage:
    """The next image of a partition that is held by the same replicas."""
    epoch = partition.partition_epoch + 1
    return PartitionImage(leader, leader_epoch, partition.replicas, isr, epoch, partition.adding, partition.removing)
