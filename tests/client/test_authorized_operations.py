"""What brokers say a user may do with a topic: Apache Kafka's own answers are in tests/spark/test_permissions.py."""

from __future__ import annotations

import pytest

from ottla.client.authorized_operations import check_allowed, read_operations
from ottla.errors import KafkaError

DESCRIBE_ALONE = 1 << 8
NOT_TOLD = -(1 << 31)


def test_rights_that_are_lacking_are_named() -> None:
    with pytest.raises(KafkaError, match="no READ and WRITE on the topic") as refused:
        check_allowed("orders", read_operations(DESCRIBE_ALONE), {"READ", "WRITE", "DESCRIBE"})
    assert (refused.value.name, refused.value.topic) == ("TOPIC_AUTHORIZATION_FAILED", "orders")


@pytest.mark.parametrize("bits", [NOT_TOLD, 1 << 3 | 1 << 8])
def test_what_is_allowed_or_not_known_is_no_error(bits: int) -> None:
    check_allowed("orders", read_operations(bits), {"READ"})
