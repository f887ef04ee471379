"""DescribeConfigs, versions 1 to 4: the settings of topics and brokers, with where each value comes from.

A topic's settings: its own, or the broker's that stand in (KIP-226 calls those synonyms). A broker's, when named by
its id, which only that broker answers: all of them; named by "": those changed for all brokers. Settings that can be
changed while the broker runs are not read-only. A subscription to clients' metrics has its settings, or their defaults
where there is none of that name. There are no loggers (an empty list), and no settings of groups (INVALID_REQUEST). No
setting is secret, so every value is in the answer.
"""

from __future__ import annotations

from typing import Any

from ottla.broker.apis.port import BrokerPort
from ottla.broker.client_metrics_settings import CLIENT_METRICS_SETTINGS
from ottla.broker.dynamic_settings import (
    ALL_BROKERS,
    ALL_BROKERS_SOURCE,
    BROKER_SETTINGS_BY_NAME,
    DEFAULT_SOURCE,
    DYNAMIC,
    STATIC_SOURCE,
    TOPIC_SOURCE,
    values_of,
)
from ottla.broker.request import Request
from ottla.broker.settings import BOOLEAN, BROKER_SETTINGS, DOUBLE, INT, LIST, LONG, Setting, text_of
from ottla.broker.topic_names import topic_name_fault
from ottla.broker.topic_settings import BROKER_SYNONYMS, TOPIC_SETTINGS
from ottla.protocol.error_codes import ErrorCode
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS = 2, 4, 8, 16
_CLIENT_METRICS_SOURCE = 7
_TYPES = {BOOLEAN: 1, INT: 3, LONG: 5, DOUBLE: 6, LIST: 7}
_STRING = 2

# (name, value, source) by which a setting is known, the first one in force.
Synonyms = list[tuple[str, str, int]]


def handle(broker: BrokerPort, request: Request, now_us: int) -> None:
    """Describe resource by resource."""
    message = request.message
    results = []
    for resource in message.resources:
        code, detail, configs = _describe(broker, resource, message)
        results.append(
            DescribeConfigsResult(
                error_code=code,
                error_message=detail,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=configs,
            )
        )
    broker.answer(request, DescribeConfigsResponse(results=results), now_us)


def _describe(
    broker: BrokerPort, resource: DescribeConfigsResource, message: Any
) -> tuple[int, str | None, list[DescribeConfigsResourceResult]]:
    """Error code, sentence and settings of one resource."""
    kind, name = resource.resource_type, resource.resource_name
    if kind == _TOPIC:
        wrong = topic_name_fault(name)
        if wrong is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, wrong, []
        topic = broker.image.topics.get(name)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}", []
        own = dict(topic.configs)
        found = [(setting, False, _of_topic(broker, setting, own)) for setting in TOPIC_SETTINGS]
    elif kind == _BROKER and not name:
        changed = broker.image.broker_configs.get(ALL_BROKERS, ())
        found = [
            (DYNAMIC[key], False, [(key, text_of(DYNAMIC[key].parse(text)), ALL_BROKERS_SOURCE)])
            for key, text in changed
        ]
    elif kind in (_BROKER, _BROKER_LOGGER):
        if name != str(broker.broker_id):
            detail = f"this is broker {broker.broker_id}, it knows no settings of broker {name!r}"
            return ErrorCode.INVALID_REQUEST, detail, []
        found = [] if kind == _BROKER_LOGGER else _of_broker(broker)
    elif kind == _CLIENT_METRICS:
        if not name:
            return ErrorCode.INVALID_REQUEST, "a subscription to clients' metrics needs a name", []
        found = _of_subscription(dict(broker.image.client_metrics.get(name, ())))
    else:
        return ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here", []
    asked = resource.configuration_keys
    return 0, "", [_told(*each, message) for each in found if not asked or each[0].name in asked]


def _of_topic(broker: BrokerPort, setting: Setting, own: dict[str, str]) -> Synonyms:
    synonym = BROKER_SETTINGS_BY_NAME[BROKER_SYNONYMS[setting.name]]
    values = values_of(synonym, broker.static_settings, broker.image.broker_configs, broker.broker_id)
    known = [(synonym.name, text, source) for text, source in values]
    given = own.get(setting.name)
    if given is not None:
        known.insert(0, (setting.name, text_of(setting.parse(given)), TOPIC_SOURCE))
    return known


def _of_subscription(own: dict[str, str]) -> list[tuple[Setting, bool, Synonyms]]:
    found = []
    for setting in CLIENT_METRICS_SETTINGS:
        known = [(setting.name, text_of(setting.default), DEFAULT_SOURCE)]
        if setting.name in own:
            known.insert(0, (setting.name, text_of(setting.parse(own[setting.name])), _CLIENT_METRICS_SOURCE))
        found.append((setting, False, known))
    return found


def _of_broker(broker: BrokerPort) -> list[tuple[Setting, bool, Synonyms]]:
    own_id = str(broker.broker_id)
    found = [
        (Setting(name, INT, broker.broker_id), True, [(name, own_id, STATIC_SOURCE)])
        for name in ("broker.id", "node.id")
    ]
    for setting in BROKER_SETTINGS:
        values = values_of(setting, broker.static_settings, broker.image.broker_configs, broker.broker_id)
        found.append((setting, setting.name not in DYNAMIC, [(setting.name, text, source) for text, source in values]))
    return found


def _told(setting: Setting, read_only: bool, known: Synonyms, message: Any) -> DescribeConfigsResourceResult:
    documentation = None
    if message.include_documentation:
        from ottla.broker.setting_documentation import documentation_of

        documentation = documentation_of(setting.name)
    return DescribeConfigsResourceResult(
        name=setting.name,
        value=known[0][1],
        read_only=read_only,
        config_source=known[0][2],
        synonyms=[
            DescribeConfigsSynonym(name=name, value=text, source=source)
            for name, text, source in (known if message.include_synonyms else ())
        ],
        config_type=_TYPES.get(setting.kind, _STRING) if isinstance(setting.kind, str) else _STRING,
        documentation=documentation,
    )
