"""A sentence on each setting, for DescribeConfigs; loaded when somebody asks for documentation.

A topic's setting has the sentence of the broker's setting that stands in for it.
"""

from __future__ import annotations

from ottla.broker.topic_settings import BROKER_SYNONYMS

_OF_BROKER: dict[str, str] = {
    "broker.id": "The number of this broker.",
    "node.id": "The number of this broker.",
    "log.segment.bytes": "The size at which a log begins a new segment file.",
    "log.roll.ms": "The age at which a log begins a new segment file even if the old one is not full.",
    "log.roll.jitter.ms": "By how much at most the age is shortened at random, so that logs do not all roll at once.",
    "log.index.interval.bytes": "How many bytes of batches lie between two entries of an offset index.",
    "log.index.size.max.bytes": "The size of an index at which its log begins a new segment file.",
    "log.preallocate": "Whether segment files are given their full size when they are made.",
    "log.message.timestamp.type": "Whether records keep the time their producer gave or get that of the append.",
    "log.message.timestamp.before.max.ms": "How far a record's time may lie in the past of the broker's clock.",
    "log.message.timestamp.after.max.ms": "How far a record's time may lie in the future of the broker's clock.",
    "message.max.bytes": "The largest record batch that is accepted.",
    "compression.type": "How batches are compressed in the log; producer: as they came.",
    "log.flush.interval.messages": "After how many records a log is synced to the disk.",
    "log.flush.interval.ms": "After how long at most a record is synced to the disk.",
    "log.flush.scheduler.interval.ms": "How often the broker looks for logs that are due to be synced.",
    "log.flush.offset.checkpoint.interval.ms": "How often it is noted up to where logs are known to be synced.",
    "os.flush.interval.ms": "After how long the operating system writes back what it was given.",
    "log.cleanup.policy": "What becomes of old records: delete drops old segments, compact keeps the last per key.",
    "log.retention.ms": "How long records are kept before their segment may be deleted; -1: for ever.",
    "log.retention.bytes": "How large a partition's log may grow before its oldest segments go; -1: no limit.",
    "log.retention.check.interval.ms": "How often the broker looks for segments that may be deleted.",
    "log.segment.delete.delay.ms": "How long the files of a deleted segment stay before they are removed.",
    "log.cleaner.enable": "Whether logs are compacted at all.",
    "log.cleaner.backoff.ms": "How long the cleaner waits when there is nothing to clean.",
    "log.cleaner.min.cleanable.ratio": "The share of a log that must be uncleaned before it is compacted.",
    "log.cleaner.min.compaction.lag.ms": "How long a record is safe from being compacted away.",
    "log.cleaner.max.compaction.lag.ms": "After how long at most a record is looked at by the cleaner.",
    "log.cleaner.delete.retention.ms": "How long a compacted log keeps the marks of deleted keys and transactions.",
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted.",
    "num.partitions": "How many partitions a topic gets when nobody says.",
    "default.replication.factor": "How many replicas a topic gets when nobody says; 0: three, or as many as brokers.",
    "replica.lag.time.max.ms": "How long a follower may be behind before it no longer counts as in sync.",
    "replica.fetch.max.bytes": "How many bytes of one partition a follower asks for at a time.",
    "replica.fetch.response.max.bytes": "How many bytes a follower asks for at a time.",
    "replica.fetch.wait.max.ms": "How long a follower's fetch waits at the leader for something new.",
    "replica.fetch.backoff.ms": "How long a follower waits after a fetch that failed.",
    "replica.high.watermark.checkpoint.interval.ms": "How often high watermarks are written to the disk.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may lead when no other is left.",
    "auto.leader.rebalance.enable": "Whether leadership goes back to preferred leaders by itself.",
    "leader.imbalance.check.interval.seconds": "How often it is checked whether preferred leaders lead.",
    "broker.session.timeout.ms": "After how long a broker that is not heard of counts as gone.",
    "broker.heartbeat.interval.ms": "How often a broker tells the controller that it is there.",
    "auto.create.topics.enable": "Whether a topic comes into being when it is first asked for.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "fetch.max.bytes": "How many bytes at most one fetch is answered with.",
    "max.connections": "How many connections a broker accepts.",
    "connections.max.idle.ms": "After how long a connection nobody uses is closed; -1: never.",
    "connection.failed.authentication.delay.ms": "How long the answer to a failed authentication is held back.",
    "recent.batches.bytes": "How many bytes of batches are kept in memory for followers.",
    "producer.id.expiration.ms": "After how long an idle producer's state is forgotten.",
    "producer.id.expiration.check.interval.ms": "How often the broker looks for producers to forget.",
    "transactional.id.expiration.ms": "After how long an idle transactional id is forgotten.",
    "transaction.max.timeout.ms": "The longest timeout a producer may ask for its transactions.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "How often timed out transactions are aborted.",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "How often expired transactional ids are removed.",
    "transaction.version": "How producers are told to run transactions (KIP-890): 2, or 1 and 0 for the ways before.",
    "transaction.partition.verification.enable": "Whether a transactional write is checked with its coordinator.",
    "add.partitions.to.txn.retry.backoff.ms": "How soon a busy coordinator is asked again to add a partition.",
    "add.partitions.to.txn.retry.backoff.max.ms": "How long it is, before the producer has to send again.",
    "transaction.state.log.num.partitions": "How many partitions the topic of transactions has.",
    "transaction.state.log.min.isr": "How many replicas of the topic of transactions must be in sync.",
    "offsets.topic.num.partitions": "How many partitions the topic of committed offsets has.",
    "offsets.commit.timeout.ms": "How long a commit of offsets waits for its replicas.",
    "offset.metadata.max.bytes": "How much text may go with a committed offset.",
    "group.min.session.timeout.ms": "The shortest session timeout a group member may ask for.",
    "group.max.session.timeout.ms": "The longest session timeout a group member may ask for.",
    "group.initial.rebalance.delay.ms": "How long a new group waits for more members before its first rebalance.",
}


def documentation_of(name: str) -> str:
    """One sentence on a broker's or a topic's setting; empty where there is none."""
    return _OF_BROKER.get(BROKER_SYNONYMS.get(name, name), "")
