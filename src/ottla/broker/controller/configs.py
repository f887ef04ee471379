"""The controller's part of AlterConfigs and IncrementalAlterConfigs: settings of topics, brokers and subscriptions.

Each resource is changed whole or not at all, independently of others in the same request. IncrementalAlterConfigs sets
and deletes single settings, and appends to or subtracts from lists (KIP-339); AlterConfigs replaces all of a resource's
settings. The broker that got the request has checked duplicates, nulls and broker ids before, in
`apis/incremental_alter_configs.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.broker.client_metrics_settings import CLIENT_METRICS_BY_NAME, client_metrics_fault
from ottla.broker.controller.state import ControllerState
from ottla.broker.dynamic_settings import (
    ALL_BROKERS_SOURCE,
    BROKER_SETTINGS_BY_NAME,
    TOPIC_SOURCE,
    ConfigPairs,
    broker_config_fault,
    reconfigure,
    values_of,
)
from ottla.broker.events import ClusterImage, TopicImage
from ottla.broker.refused import Refused, not_written
from ottla.broker.settings import LIST, BrokerSettings, Setting, text_of
from ottla.broker.topic_names import topic_name_fault
from ottla.broker.topic_settings import (
    BROKER_SYNONYMS,
    TOPIC_SETTINGS,
    TOPIC_SETTINGS_BY_NAME,
    topic_config_fault,
)
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages import ALTER_CONFIGS

if TYPE_CHECKING:
    from ottla.protocol.messages.create_topics import CreatableTopicConfigs
    from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsResponse

TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE = 2, 4, 16
_NO_BROKER = -1
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
_WORDS = {APPEND: "append", SUBTRACT: "subtract"}

Operation = tuple[str, int, str | None]


class ClusterConfigs:
    """Changes settings; the controller's own `settings` follow those of all brokers. `publish` gets each new image."""

    def __init__(
        self,
        state: ControllerState,
        static: BrokerSettings,
        settings: BrokerSettings,
        publish: Callable[[ClusterImage], None],
    ) -> None:
        self._state = state
        self._static = static
        self._settings = settings
        self._publish = publish
        self._reconfigure()

    def alter(self, message: Any) -> IncrementalAlterConfigsResponse:
        """Change settings; the broker that passed on an AlterConfigs puts the results into an answer of that kind."""
        from ottla.protocol.messages.incremental_alter_configs import (
            AlterConfigsResourceResponse,
            IncrementalAlterConfigsResponse,
        )

        changes = ConfigChanges(self._state.image)
        refusals = changes.take(message)
        if changes.any and not message.validate_only:
            try:
                image = self._state.change(
                    changes.changed_topics(),
                    broker_configs=changes.broker_configs,
                    client_metrics=changes.client_metrics,
                )
                self._reconfigure()
                self._publish(image)
            except OSError as error:
                failed = not_written(error)
                refusals = [refusal or failed for refusal in refusals]
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    error_code=0 if refusal is None else refusal.error_code,
                    error_message=None if refusal is None else str(refusal),
                )
                for resource, refusal in zip(message.resources, refusals, strict=True)
            ]
        )

    def _reconfigure(self) -> None:
        reconfigure(self._settings, self._static, self._state.image.broker_configs, _NO_BROKER)


class ConfigChanges:
    """The settings of an image as a request changes them, resource by resource."""

    def __init__(self, image: ClusterImage) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.broker_configs = dict(image.broker_configs)
        self.client_metrics = dict(image.client_metrics)
        self._image = image

    @property
    def any(self) -> bool:
        """Whether the request changes anything."""
        image = self._image
        return (
            bool(self.changed_topics())
            or self.broker_configs != image.broker_configs
            or self.client_metrics != image.client_metrics
        )

    def changed_topics(self) -> dict[str, TopicImage]:
        """The topics whose settings change."""
        return dict(self.topics)

    def take(self, message: Any) -> list[Refused | None]:
        """Change what the request asks for; for each of its resources, in order, why not, or None."""
        whole = message.API_KEY == ALTER_CONFIGS
        refusals: list[Refused | None] = []
        for resource in message.resources:
            try:
                operations = [
                    (config.name, SET if whole else config.config_operation, config.value)
                    for config in resource.configs
                ]
                self._alter(resource.resource_type, resource.resource_name, operations, whole=whole)
                refusals.append(None)
            except Refused as refusal:
                refusals.append(refusal)
        return refusals

    def _alter(self, kind: int, name: str, operations: Sequence[Operation], *, whole: bool) -> None:
        if kind == TOPIC_RESOURCE:
            self._alter_topic(name, operations, whole=whole)
        elif kind == BROKER_RESOURCE:
            present = {} if whole else dict(self.broker_configs.get(name, ()))
            changed = changed_configs(present, operations, BROKER_SETTINGS_BY_NAME)
            fault = broker_config_fault(changed)
            if fault is not None:
                raise Refused(ErrorCode.INVALID_REQUEST, fault)
            self.broker_configs.pop(name, None)
            if changed:
                self.broker_configs[name] = changed
        elif kind == CLIENT_METRICS_RESOURCE:
            present = {} if whole else dict(self.client_metrics.get(name, ()))
            changed = changed_configs(present, operations, CLIENT_METRICS_BY_NAME)
            refused = client_metrics_fault(name, changed)
            if refused is not None:
                raise Refused(*refused)
            self.client_metrics.pop(name, None)
            if changed:
                self.client_metrics[name] = changed
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here")

    def _alter_topic(self, name: str, operations: Sequence[Operation], *, whole: bool) -> None:
        fault = topic_name_fault(name)
        if fault is not None:
            code = ErrorCode.INVALID_TOPIC_EXCEPTION if name else ErrorCode.INVALID_REQUEST
            raise Refused(code, fault)
        topic = self.topics.get(name) or self._image.topics.get(name)
        present = {} if whole or topic is None else dict(topic.configs)
        changed = changed_configs(present, operations, TOPIC_SETTINGS_BY_NAME)
        wrong = topic_config_fault(changed)
        if wrong is not None:
            raise Refused(ErrorCode.INVALID_CONFIG, wrong)
        if topic is None:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        if changed != topic.configs:
            self.topics[name] = topic.but(configs=changed)


def changed_configs(
    present: dict[str, str], operations: Sequence[Operation], settings: dict[str, Setting]
) -> ConfigPairs:
    """Settings after these operations; raises Refused for a list operation on what is no list."""
    changed = dict(present)
    for name, operation, value in operations:
        if operation == SET:
            changed[name] = value or ""
        elif operation == DELETE:
            changed.pop(name, None)
        elif operation in _WORDS:
            setting = settings.get(name)
            if setting is None or setting.kind != LIST:
                word = _WORDS[operation]
                raise Refused(ErrorCode.INVALID_CONFIG, f"cannot {word} to {name}: it is not a list")
            words = [word for word in changed.get(name, text_of(setting.default)).split(",") if word]
            given = dict.fromkeys(word.strip() for word in (value or "").split(","))
            if operation == APPEND:
                present_words = dict.fromkeys(words)
                words += [word for word in given if word not in present_words]
            else:
                words = [word for word in words if word not in given]
            changed[name] = ",".join(words)
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"operation {operation} on a setting is unknown")
    return tuple(changed.items())


def configs_of_created(
    topic: TopicImage, static: BrokerSettings, broker_configs: dict[str, ConfigPairs]
) -> list[CreatableTopicConfigs]:
    """All settings of a topic as CreateTopics returns them: its own, and the brokers' where it has none."""
    from ottla.protocol.messages.create_topics import CreatableTopicConfigs

    own = dict(topic.configs)
    told = []
    for setting in TOPIC_SETTINGS:
        given = own.get(setting.name)
        if given is not None:
            value, source = text_of(setting.parse(given)), TOPIC_SOURCE
        else:
            synonym = BROKER_SETTINGS_BY_NAME[BROKER_SYNONYMS[setting.name]]
            value, source = next(
                found
                for found in values_of(synonym, static, broker_configs, _NO_BROKER)
                if found[1] >= ALL_BROKERS_SOURCE
            )
        told.append(CreatableTopicConfigs(name=setting.name, value=value, config_source=source))
    return told
