"""Settings of topics and brokers, asked of brokers: DescribeConfigs, IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.admin_driver import AdminDriver, left_out
from ottla.connection.request import ANY_NODE
from ottla.errors import OttlaError
from ottla.protocol.error_codes import ErrorCode, kafka_error
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

# Kafka's ConfigResource.Type, AlterConfigOp.OpType and ConfigEntry.ConfigSource.
_TOPIC, _BROKER = 2, 4
_SET, _DELETE = 0, 1
_SOURCES = {1: "topic", 2: "broker", 3: "brokers", 4: "file", 5: "default"}


@dataclass(slots=True, frozen=True)
class ConfigDescription:
    """One setting: its value as text (None: not set, or sensitive), where it is set, whether it can be changed.

    `source` is "topic", "broker" or "brokers" (changed while they run), "file" (set when they were started), "default"
    or "other". `is_sensitive`: brokers never send its value, for example a password.
    """

    name: str
    value: str | None
    source: str
    read_only: bool
    is_sensitive: bool = False


class ConfigAdmin:
    """The calls of `Admin` about settings."""

    def __init__(self, driver: AdminDriver) -> None:
        self._driver = driver

    def describe(self, topic: str | None, broker_id: int | None) -> dict[str, ConfigDescription]:
        """See `Admin.describe_configs`."""
        owner = _Owner(topic, broker_id)
        resource = DescribeConfigsResource(resource_type=owner.type, resource_name=owner.name, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[resource])
        found = self._ask(owner, request, lambda response: response.results)
        return {
            each.name: ConfigDescription(
                each.name, each.value, _SOURCES.get(each.config_source, "other"), each.read_only, each.is_sensitive
            )
            for each in found.configs
        }

    def alter(self, configs: Mapping[str, Any], topic: str | None, broker_id: int | None) -> None:
        """See `Admin.alter_configs`."""
        owner = _Owner(topic, broker_id)
        self._ask(owner, alter_request(owner.type, owner.name, configs), lambda response: response.responses)

    def _ask(self, owner: _Owner, request: Any, results: Callable[[Any], Iterable[Any]]) -> Any:
        """Ask, retrying if need be, and return the answer's part about this owner; raises KafkaError."""
        found: list[Any] = []

        def attempt() -> OttlaError | None:
            answer = self._driver.ask(request, owner.node_id)
            found[:] = [
                each
                for each in results(answer.message)
                if (each.resource_type, each.resource_name) == (owner.type, owner.name)
            ]
            if not found:
                return left_out(owner.text or f"topic {owner.topic!r}", answer)
            if not found[0].error_code:
                return None
            detail = found[0].error_message or owner.text
            error = kafka_error(found[0].error_code, detail, topic=owner.topic, broker_id=answer.broker_id)
            if found[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # Most often the name is misspelt: waiting for the topic would look like a hang.
                raise error
            return error

        self._driver.until_well(attempt)
        return found[0]


class _Owner:
    """Whose settings they are: a topic's, a broker's, or (neither given) those of all brokers."""

    def __init__(self, topic: str | None, broker_id: int | None) -> None:
        if topic is not None and broker_id is not None:
            raise OttlaError("settings are a topic's or a broker's: give one of topic and broker_id")
        self.topic = topic
        # Its type and name in a request, and the node that gets it: only a broker itself answers for its settings.
        self.type = _BROKER if topic is None else _TOPIC
        self.name = topic if topic is not None else "" if broker_id is None else str(broker_id)
        self.node_id = ANY_NODE if broker_id is None else broker_id
        # For errors that do not name the owner themselves.
        self.text = "" if topic is not None else "settings of all brokers" if broker_id is None else "its settings"


def alter_request(resource_type: int, name: str, configs: Mapping[str, Any]) -> IncrementalAlterConfigsRequest:
    """The request that changes these settings of a topic, broker or other resource; None: back to the default."""
    changes = [
        AlterableConfig(name=key, config_operation=_DELETE, value=None)
        if value is None
        else AlterableConfig(name=key, config_operation=_SET, value=config_text(value))
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource])


def config_text(value: Any) -> str:
    """A setting's value as the text that brokers take; OttlaError for other types."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        return str(value)
    raise OttlaError(f"a setting is text, a number or true/false, not {type(value).__name__}")
