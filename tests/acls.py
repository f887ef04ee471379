"""ACLs of an Apache Kafka with an authorizer."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from .client.in_time import wait_until

_PATIENCE_S = 60


def grant_only(bootstrap_servers: str, granted: Collection[AclBinding]) -> None:
    """Replace all ACLs by these, and wait until the broker applies them: its controller answers before that."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    for done in admin.delete_acls([every]).values():
        done.result()
    for done in admin.create_acls([*granted]).values() if granted else ():
        done.result()

    def told() -> set[AclBinding]:
        return {*admin.describe_acls(every).result()}

    wait_until(lambda: told() == {*granted}, lambda: told(), _PATIENCE_S)
