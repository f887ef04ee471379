"""The names of all APIs of Apache Kafka 4.3.1, those that are not decoded here among them.

Source of the latter: `org.apache.kafka.common.protocol.ApiKeys`, and the descriptors of APIs that 4.0 has removed.
"""

from __future__ import annotations

from ottla.protocol.messages import MODULES

NOT_DECODED = {
    4: "LeaderAndIsr",
    5: "StopReplica",
    6: "UpdateMetadata",
    7: "ControlledShutdown",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    34: "AlterReplicaLogDirs",
    38: "CreateDelegationToken",
    39: "RenewDelegationToken",
    40: "ExpireDelegationToken",
    41: "DescribeDelegationToken",
    50: "DescribeUserScramCredentials",
    51: "AlterUserScramCredentials",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    58: "Envelope",
    59: "FetchSnapshot",
    62: "BrokerRegistration",
    64: "UnregisterBroker",
    67: "AllocateProducerIds",
    70: "ControllerRegistration",
    73: "AssignReplicasToDirs",
    76: "ShareGroupHeartbeat",
    77: "ShareGroupDescribe",
    78: "ShareFetch",
    79: "ShareAcknowledge",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    83: "InitializeShareGroupState",
    84: "ReadShareGroupState",
    85: "WriteShareGroupState",
    86: "DeleteShareGroupState",
    87: "ReadShareGroupStateSummary",
    88: "StreamsGroupHeartbeat",
    89: "StreamsGroupDescribe",
    90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets",
    92: "DeleteShareGroupOffsets",
}
API_NAMES: dict[int, str] = dict(sorted({**{key: name for key, (_, name) in MODULES.items()}, **NOT_DECODED}.items()))

# What these carry, in requests or answers, are passwords, tokens and what stands for them, settings that may be
# passwords, or (Envelope) any other request, forwarded by a broker.
_SECRET_NAMES = frozenset(
    (
        "SaslAuthenticate",
        "CreateDelegationToken",
        "RenewDelegationToken",
        "ExpireDelegationToken",
        "DescribeDelegationToken",
        "AlterUserScramCredentials",
        "AlterConfigs",
        "IncrementalAlterConfigs",
        "Envelope",
    )
)
SECRET_APIS = frozenset(key for key, name in API_NAMES.items() if name in _SECRET_NAMES)
