"""The transactional ids of a sink: one for its driver, few for its tasks. Pure.

    ottla-sink-6-orders/driver        the coordinator's: whoever has its newest epoch may decide
    ottla-sink-6-orders/2/17/0        a task's: slot 2, Spark partition 17, first choice

The length of the sink id stands in front, so that no sink's prefix is the prefix of another one's ids.

Two attempts that can be alive at once never share a task's id, or the newer one would fence the older one, prepared or
not. Attempt numbers are no help: a stage that is retried counts from 0 again. Instead an attempt looks before it takes
an id: one that is in use is left alone and the next index is looked at (`is_free`). The slot, which changes with every
plan, keeps tasks of earlier plans away from ids that are in use now. So the number of ids stays slots times partitions
for as long as no attempt has a rival, and each attempt that has one may add one.

With `atomic=true` all tasks write in the coordinator's own transaction, and an id only claims a partition: each attempt
takes the next identity of the partition's one id before its first row, and where another one has taken one since the
plan, the batch is given up (`is_only_claim`, `are_only_claims`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ottla.client.transaction_admin import TransactionDescription
from ottla.producer.transaction_states import TransactionIdentity

# The slot is the coordinator's epoch modulo this. A batch raises the epoch by 1 (with transaction version 2 by 3), and
# a process's first plan raises it by 1 more. None of 1 to 4 is a multiple of 5, so the slot changes with every plan.
SLOTS = 5
INDEXES = 64
_FREE = ("CompleteCommit", "CompleteAbort")


def prefix_of(sink_id: str) -> str:
    """What the transactional ids of this sink begin with, and of no other."""
    return f"ottla-sink-{len(sink_id.encode())}-{sink_id}/"


def coordinator_id(sink_id: str) -> str:
    """The transactional id of the sink's driver."""
    return f"{prefix_of(sink_id)}driver"


def slot_of(coordinator: TransactionIdentity) -> int:
    """The slot of the tasks of a plan with this identity."""
    return coordinator.producer_epoch % SLOTS


def task_transactional_id(sink_id: str, slot: int, partition_id: int, index: int) -> str:
    """The `index`-th choice of an attempt at this partition."""
    return f"{prefix_of(sink_id)}{slot}/{partition_id}/{index}"


def is_free(described: TransactionDescription | None, idle: Collection[TransactionIdentity]) -> bool:
    """Whether no attempt that may be alive has this transactional id.

    `idle` are those that the plan found with an identity and without a transaction: whoever was given one of them is of
    an earlier plan. One found so since then belongs to an attempt of this plan that has not sent anything yet.
    """
    if described is None or described.state in _FREE:
        return True
    known = TransactionIdentity(described.transactional_id, described.producer_id, described.producer_epoch)
    return described.state == "Empty" and known in idle


def is_only_claim(described: TransactionDescription | None, claim: TransactionIdentity) -> bool:
    """Whether nobody was given an identity between the look (`described`) and the claim that followed it."""
    if described is None:
        return claim.producer_epoch == 0
    # A producer id whose epochs are used up is replaced: nobody can tell, and the batch is run again.
    return (claim.producer_id, claim.producer_epoch) == (described.producer_id, described.producer_epoch + 1)


def are_only_claims(claims: Collection[TransactionIdentity], described: Mapping[str, TransactionDescription]) -> bool:
    """Whether these claims are the newest of their ids, so that no other attempt came after them."""
    now = {(each.transactional_id, each.producer_id, each.producer_epoch) for each in described.values()}
    return all(tuple(claim) in now for claim in claims)
