"""One file per API a broker answers, each opening with its versions and behaviour; `VERSIONS` lists them all."""

from __future__ import annotations

from ottla.protocol import messages
from ottla.protocol.messages import (
    ALTER_PARTITION,
    BROKER_HEARTBEAT,
    GET_TELEMETRY_SUBSCRIPTIONS,
    PUSH_TELEMETRY,
)

# What brokers ask the controller for.
_OF_THE_CONTROLLER = (ALTER_PARTITION, BROKER_HEARTBEAT)
# API key -> (lowest, highest) version; what ApiVersions advertises and what the core accepts: all that messages are
# generated for. `tests/house/test_newcomer.py` compares it with what each file says of itself.
VERSIONS = {key: versions for key, versions in messages.VERSIONS.items() if key not in _OF_THE_CONTROLLER}
# In ApiVersions only while there is a subscription to clients' metrics: clients that see these APIs use them.
OF_CLIENT_METRICS = (GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY)
