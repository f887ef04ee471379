"""How options are named: in any case, and the client's settings with dots or underscores, as the client takes them."""

from __future__ import annotations

from collections.abc import Mapping, Set

from ottla.errors import ConfigError
from ottla.producer.settings_table import PRODUCER_SETTINGS
from ottla.reader.settings import READER_SETTINGS

SETTINGS = {name: row.name for row in (*PRODUCER_SETTINGS, *READER_SETTINGS) for name in (row.name, row.keyword)}
"""Each spelling of a setting, linger.ms and linger_ms, and its name in Kafka."""
_PREFIX = "kafka."


def by_name(options: Mapping[str, str], own: Set[str]) -> dict[str, str]:
    """Options by their names in lower case, and kafka.linger_ms as kafka.linger.ms.

    `own` are options in lower case that are no settings of the client. ConfigError for one of them with the prefix
    kafka., and for a setting that is given in both spellings.
    """
    given: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for option, value in options.items():
        name = option.lower()
        if name.startswith(_PREFIX):
            setting = name.removeprefix(_PREFIX)
            if setting in own and setting not in SETTINGS:
                raise ConfigError(f"The option {option} is no setting of the Kafka client: give it without kafka.")
            name = _PREFIX + SETTINGS.get(setting, setting)
        if name in given:
            raise ConfigError(f"The option {name} is given twice, as {spelt[name]} and as {option}: keep one.")
        given[name], spelt[name] = value, option
    return given
