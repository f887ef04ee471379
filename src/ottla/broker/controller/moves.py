"""Moving replicas to other brokers (KIP-455), one partition at a time: pure functions.

    moved      replicas are the new ones first, then those that will go; `adding` and `removing` say which are which
    completed  every replica that is to stay is in sync: those that were to go are gone, also as leader
    cancelled  the replicas that were added are gone, those that were to go stay

A move without new replicas is complete at once where all that stay are in sync. The leader epoch grows with every
replica that goes, as in Apache Kafka: requests of a broker that no longer holds the partition are refused by it.
"""

from __future__ import annotations

from ottla.broker.controller import elections
from ottla.broker.controller.elections import Alive
from ottla.broker.events import PartitionImage


def moved(partition: PartitionImage, target: tuple[int, ...], alive: Alive) -> PartitionImage:
    """The partition on its way to be held by these brokers, or held by them already."""
    removing = tuple(sorted(each for each in partition.replicas if each not in target))
    # Those that a move before this one has begun to add are still on their way.
    adding = tuple(sorted(each for each in target if each not in partition.replicas)) or tuple(
        each for each in partition.adding if each in target
    )
    replicas = (*target, *removing)
    if (replicas, adding, removing) == (partition.replicas, partition.adding, partition.removing):
        return partition
    started = partition.but(
        replicas=replicas,
        adding=adding,
        removing=removing,
        isr=tuple(each for each in replicas if each in partition.isr),
        partition_epoch=partition.partition_epoch + 1,
    )
    return completed(started, alive)


def completed(partition: PartitionImage, alive: Alive) -> PartitionImage:
    """The partition without the replicas that were to go, where all others are in sync; otherwise as it is."""
    if not partition.is_moving:
        return partition
    replicas = tuple(each for each in partition.replicas if each not in partition.removing)
    isr = tuple(each for each in partition.isr if each in replicas)
    if len(isr) < len(replicas):
        return partition
    return _held_by(partition, replicas, isr, alive, unclean=False)


def cancelled(partition: PartitionImage, alive: Alive, *, unclean: bool) -> PartitionImage | None:
    """The partition as it was before its replicas began to move; None where only an unclean election could lead it.

    That is where none of the replicas it had before is in sync any more.
    """
    replicas = tuple(each for each in partition.replicas if each not in partition.adding)
    isr = tuple(each for each in partition.isr if each in replicas)
    if not isr:
        if not unclean:
            return None
        isr = replicas[:1]
    return _held_by(partition, replicas, isr, alive, unclean=unclean)


def target_of(partition: PartitionImage) -> tuple[int, ...]:
    """Who holds the partition once its replicas have been moved."""
    return tuple(each for each in partition.replicas if each not in partition.removing)


def _held_by(
    partition: PartitionImage, replicas: tuple[int, ...], isr: tuple[int, ...], alive: Alive, *, unclean: bool
) -> PartitionImage:
    """The partition held by these brokers, its move over; led by one of them."""
    after = partition.but(
        replicas=replicas,
        isr=isr,
        adding=(),
        removing=(),
        partition_epoch=partition.partition_epoch + 1,
    )
    led = elections.led(after, isr, alive, unclean=unclean)
    epoch = partition.leader_epoch + (len(replicas) < len(partition.replicas) or led.leader != partition.leader)
    return led.but(leader_epoch=epoch)
