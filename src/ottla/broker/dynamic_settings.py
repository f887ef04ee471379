"""Which broker settings can be changed while a broker runs (KIP-226), and what is in force when some have been.

An image's `broker_configs` holds what was changed: under "" for all brokers, under a broker's id for that one, which
comes first. A core keeps the settings it was started with and a copy of its own that `reconfigure` brings up to date
in place, so that all who hold the copy see the change. As with Kafka, these are the settings that stand in for a
topic's, and a few more; others are refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.settings import BROKER_SETTINGS, BrokerSettings, Setting, text_of
from ottla.broker.topic_settings import BROKER_SYNONYMS

ConfigPairs = tuple[tuple[str, str], ...]
ALL_BROKERS = ""

# Where a value comes from, as Kafka's ConfigSource counts.
TOPIC_SOURCE, BROKER_SOURCE, ALL_BROKERS_SOURCE, STATIC_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5

BROKER_SETTINGS_BY_NAME: dict[str, Setting] = {setting.name: setting for setting in BROKER_SETTINGS}
DYNAMIC: dict[str, Setting] = {
    name: BROKER_SETTINGS_BY_NAME[name]
    for name in (
        *BROKER_SYNONYMS.values(),
        "log.cleaner.backoff.ms",
        "max.connections",
        "producer.id.expiration.ms",
        "transaction.partition.verification.enable",
    )
}


def broker_config_fault(configs: Iterable[tuple[str, str]]) -> str | None:
    """None where a running broker may be given these settings, otherwise one sentence saying why not."""
    for name, value in configs:
        setting = DYNAMIC.get(name)
        if setting is None:
            if name in BROKER_SETTINGS_BY_NAME:
                return f"broker setting {name} cannot be changed while the broker runs"
            return f"there is no broker setting {name}"
        try:
            setting.parse(value)
        except ValueError as error:
            return f"{name}={value} {error}"
    return None


def reconfigure(
    settings: BrokerSettings, static: BrokerSettings, broker_configs: dict[str, ConfigPairs], broker_id: int
) -> None:
    """Bring a core's own `settings` up to date: as started (`static`), then what was changed since."""
    changed = {**dict(broker_configs.get(ALL_BROKERS, ())), **dict(broker_configs.get(str(broker_id), ()))}
    for name, setting in DYNAMIC.items():
        attribute = setting.attribute
        given = changed.get(name)
        setattr(settings, attribute, getattr(static, attribute) if given is None else setting.parse(given))


def values_of(
    setting: Setting, static: BrokerSettings, broker_configs: dict[str, ConfigPairs], broker_id: int
) -> list[tuple[str, int]]:
    """Every value a broker setting has, as (text, source); the first one is in force."""
    values = []
    for key, source in ((str(broker_id), BROKER_SOURCE), (ALL_BROKERS, ALL_BROKERS_SOURCE)):
        for name, text in broker_configs.get(key, ()):
            if name == setting.name:
                values.append((text_of(setting.parse(text)), source))
    started_with = getattr(static, setting.attribute)
    if started_with != setting.default:
        values.append((text_of(started_with), STATIC_SOURCE))
    values.append((text_of(setting.default), DEFAULT_SOURCE))
    return values
