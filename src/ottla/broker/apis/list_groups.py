"""ListGroups, versions 0 to 5: the groups this broker coordinates, of type "classic" or "consumer" (KIP-848).

Filters by state (version 4) and type (version 5) are names in any case; names that no group has find nothing.
"""

from __future__ import annotations

from ottla.broker.apis.port import BrokerPort
from ottla.broker.refused import Refused
from ottla.broker.request import Request
from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsResponse


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """List them."""
    states = dict.fromkeys(name.lower() for name in request.message.states_filter)
    types = dict.fromkeys(name.lower() for name in request.message.types_filter)
    try:
        groups = [
            ListedGroup(
                group_id=members.group_id,
                protocol_type=members.protocol_type or "",
                group_state=members.state.value,
                group_type=members.group_type,
            )
            for members in (group.members for group in broker.groups.all_groups(now_us))
            if (not states or members.state.value.lower() in states) and (not types or members.group_type in types)
        ]
    except Refused as refusal:
        broker.answer(request, ListGroupsResponse(error_code=refusal.error_code), now_us)
        return
    broker.answer(request, ListGroupsResponse(groups=groups), now_us)
