"""Kafka's error codes: their names, whether they are retriable or fatal, and what each means in one clause.

Codes, names and retriability are those of Apache Kafka 4.3.1; the wording is ours. `NETWORK_EXCEPTION` is never sent:
it is the name that clients give to a broken connection.

A code is fatal if Java's producer (4.3.1) can neither try again nor abort after it: failed authentication, the codes in
answers to Produce for which its TransactionManager enters the fatal state, and two that only coordinators answer.

Some codes are fatal in answers to some requests only: INVALID_PRODUCER_EPOCH is abortable for Produce, and the same as
PRODUCER_FENCED from a transaction coordinator; INVALID_TXN_STATE is similar. For those the caller passes `fatal`.
"""

from __future__ import annotations

from ottla.errors import TOPIC_NAMES, KafkaError, ProducerFenced, shown_name


class ErrorCode:
    """The codes as plain integers (an enum would cost more to import than all messages together)."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


RETRIABLE = frozenset(
    (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    )
)

FATAL = frozenset(
    (
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
    )
)
_CLASSES: dict[int, type[KafkaError]] = {ErrorCode.PRODUCER_FENCED: ProducerFenced}

_MEANINGS = {
    -1: "the broker met an error it has no code for; its log tells more",
    0: "no error",
    1: "the partition does not hold the requested offset",
    2: "the record batch arrived damaged, or without a key in a compacted topic",
    3: "the broker does not know this topic or partition",
    4: "the fetch size is not allowed",
    5: "the partition has no leader at the moment",
    6: "the broker does not lead this partition (any more)",
    7: "the request took longer than its timeout",
    8: "the broker is not available",
    9: "the replica is not available on this broker",
    10: "the batch is larger than the topic's max.message.bytes",
    11: "the controller epoch is outdated",
    12: "the metadata of the committed offset is too large",
    13: "the connection broke before an answer came",
    14: "the coordinator is still loading its state",
    15: "the coordinator is not available",
    16: "the broker is not the coordinator (any more)",
    17: f"the topic name is not allowed; names have {TOPIC_NAMES}",
    18: "the batch is larger than a log segment",
    19: "fewer replicas are in sync than min.insync.replicas asks for; nothing was appended",
    20: "the records were appended, then fewer replicas were in sync than min.insync.replicas asks for",
    21: "acks must be 0, 1 or all (-1)",
    22: "the generation of the group is not the current one",
    23: "the group's members share no assignment protocol",
    24: "the group id is not allowed",
    25: "the group does not know this member",
    26: "the session timeout is outside of what the broker allows",
    27: "the group is rebalancing",
    28: "the offset commit is too large",
    29: "not authorized to access this topic",
    30: "not authorized to access this group",
    31: "not authorized for this on the cluster",
    32: "a record's timestamp is outside of what the topic allows",
    33: "the broker does not offer this SASL mechanism",
    34: "the SASL exchange is not at this step",
    35: "the broker does not support this version of the request",
    36: "the topic exists already",
    37: "the number of partitions is not allowed",
    38: "the replication factor is not allowed; it must be between 1 and the number of brokers",
    39: "the replica assignment is not allowed",
    40: "a configuration is not allowed",
    41: "the broker is not the controller (any more)",
    42: "the request contradicts itself or the protocol",
    43: "the format of the stored records does not allow this",
    44: "the broker's policy refuses this",
    45: "records of this producer are missing before this batch",
    46: "the broker has stored this batch already",
    47: "a producer with a newer epoch has taken over",
    48: "the transaction is not in a state that allows this",
    49: "the producer id does not belong to this transactional id",
    50: "the transaction timeout is larger than the broker allows",
    51: "another transaction of this transactional id is still being completed",
    52: "another transaction coordinator has taken over",
    53: "not authorized to use this transactional id",
    54: "security is switched off on this cluster",
    55: "the operation was not tried, because an earlier one failed",
    56: "the broker could not read or write its disk",
    57: "the log directory does not exist on this broker",
    58: "the credentials were refused",
    59: "the broker no longer knows this producer id",
    60: "the partition is being reassigned",
    61: "delegation tokens are switched off",
    62: "the delegation token is unknown",
    63: "the delegation token belongs to somebody else",
    64: "delegation tokens cannot be requested over this connection",
    65: "not authorized for delegation tokens",
    66: "the delegation token has expired",
    67: "the type of principal is not supported",
    68: "the group still has members",
    69: "the group does not exist",
    70: "the broker does not know this fetch session",
    71: "the fetch session is at another epoch",
    72: "the leader has no listener of this name",
    73: "topic deletion is switched off",
    74: "the leader epoch in the request is older than the broker's",
    75: "the leader epoch in the request is newer than the broker's",
    76: "the topic or the request version does not allow this compression",
    77: "the broker epoch is outdated",
    78: "the new leader does not know its end offset yet",
    79: "the member must join with the id it was given",
    80: "the preferred leader is not available",
    81: "the group is full",
    82: "another member with this instance id has taken over",
    83: "no replica is eligible as leader",
    84: "the partition has its leader already",
    85: "no reassignment is under way",
    86: "the group is subscribed to the topic",
    87: "a record was refused",
    88: "offsets with open transactions are not stable yet",
    89: "a quota was exceeded",
    90: "a newer producer with the same transactional id has taken over; close this one, and do not make "
    "another while the newer one runs: they would fence each other again and again",
    91: "the resource does not exist",
    92: "the resource was named twice",
    93: "the credential is not acceptable",
    94: "the voters named differ from the known ones",
    95: "the version to update to is not allowed",
    96: "the feature could not be updated",
    97: "the forwarded principal could not be read",
    98: "the snapshot does not exist",
    99: "the position is outside of the snapshot",
    100: "the broker does not know this topic id",
    101: "the broker id is registered already",
    102: "the broker id is not registered",
    103: "the topic id does not match the log's",
    104: "the cluster id is another cluster's",
    105: "the transactional id does not exist",
    106: "the fetch session mixes topic names and topic ids",
    107: "the replica may not join the in-sync replicas",
    108: "the request was made, and it made another broker the leader",
    109: "the offset was moved to tiered storage",
    110: "the member epoch is not the current one",
    111: "the instance id is still held by another member",
    112: "no assignor named is supported",
    113: "the member epoch is outdated; ask again with the newer one",
    114: "the request went to the wrong kind of endpoint",
    115: "this kind of endpoint is not supported",
    116: "the controller id is unknown",
    117: "the telemetry subscription is unknown",
    118: "the telemetry is larger than the broker allows",
    119: "the registration is not allowed",
    120: "the transaction must be aborted, then tried again",
    121: "the record is not in a state that allows this",
    122: "the share session does not exist",
    123: "the share session is at another epoch",
    124: "the share coordinator's state epoch is newer",
    125: "the voter key does not match",
    126: "the voter exists already",
    127: "the voter does not exist",
    128: "the regular expression is not valid",
    129: "the client must start from its bootstrap servers again",
    130: "the topology of the streams application is not valid",
    131: "the topology epoch of the streams application is not valid",
    132: "the topology of the streams application is outdated",
    133: "the broker has no room for another share session",
}

_NAMES: dict[int, str] = {
    code: name for name, code in vars(ErrorCode).items() if isinstance(code, int) and name.isupper()
}


def error_name(code: int) -> str:
    """Kafka's name of a code; `ERROR_n` for one that 4.3.1 does not have."""
    return _NAMES.get(code, f"ERROR_{code}")


def is_retriable(code: int) -> bool:
    """Whether Kafka calls the code retriable."""
    return code in RETRIABLE


def kafka_error(
    code: int,
    detail: str = "",
    *,
    fatal: bool | None = None,
    topic: str | None = None,
    partition: int | None = None,
    broker_id: int | None = None,
    attempts: int | None = None,
    age_ms: int | None = None,
) -> KafkaError:
    """The exception for a code; its text has the meaning, then where it happened and `detail` (the broker's message).

    `fatal` replaces what `FATAL` says, for a code that is fatal for some requests only.
    """
    name = error_name(code)
    message = f"{name}: {_MEANINGS.get(code, 'an error this version does not know')}"
    where = _circumstances(topic, partition, broker_id, attempts, age_ms)
    if where or detail:
        message += f" ({': '.join(part for part in (where, detail) if part)})"
    kind = _CLASSES.get(code, KafkaError)
    return kind(
        code,
        name,
        message,
        retriable=code in RETRIABLE and not fatal,
        fatal=code in FATAL if fatal is None else fatal,
        topic=topic,
        partition=partition,
        broker_id=broker_id,
        attempts=attempts,
        age_ms=age_ms,
    )


def _circumstances(
    topic: str | None, partition: int | None, broker_id: int | None, attempts: int | None, age_ms: int | None
) -> str:
    parts = []
    if topic is not None:
        parts.append(f"topic {shown_name(topic)}" if partition is None else f"{topic}-{partition}")
    if broker_id is not None:
        parts.append(f"broker {broker_id}")
    if attempts is not None:
        parts.append(f"{attempts} attempt{'' if attempts == 1 else 's'}" if attempts else "never sent")
    if age_ms is not None:
        parts.append(f"{age_ms} ms old")
    return ", ".join(parts)
