"""The settings of a subscription to clients' metrics (KIP-714), which IncrementalAlterConfigs sets by its name.

`metrics`: beginnings of names, or `*` for all; `interval.ms`: how often clients push; `match`: patterns that a client
must match, all of them, by what is known of it. Without patterns every client matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.patterns import PatternError, compile_pattern
from ottla.broker.settings import INT, Setting
from ottla.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    import re

ALL_METRICS = "*"
INTERVAL_MS_DEFAULT = 300_000
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
# What clients are matched by.
CLIENT_FIELDS = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class WordsSetting(Setting):
    """A list of words of any kind."""

    def parse(self, value: str) -> tuple[str, ...]:
        """The words."""
        return tuple(dict.fromkeys(word.strip() for word in value.split(",") if word.strip()))


CLIENT_METRICS_SETTINGS: tuple[Setting, ...] = (
    WordsSetting("metrics", "list", ()),
    Setting("interval.ms", INT, INTERVAL_MS_DEFAULT, INTERVAL_MS_MIN, INTERVAL_MS_MAX),
    WordsSetting("match", "list", ()),
)
CLIENT_METRICS_BY_NAME = {setting.name: setting for setting in CLIENT_METRICS_SETTINGS}


def client_metrics_fault(name: str, configs: Iterable[tuple[str, str]]) -> tuple[int, str] | None:
    """Error code and sentence why a subscription cannot be set so; None where it can.

    The codes are Apache Kafka's: what is no number, or no pattern, is INVALID_CONFIG, all else INVALID_REQUEST.
    """
    if not name:
        return ErrorCode.INVALID_REQUEST, "a subscription to clients' metrics needs a name"
    for key, value in configs:
        setting = CLIENT_METRICS_BY_NAME.get(key)
        if setting is None:
            return ErrorCode.INVALID_REQUEST, f"a subscription to clients' metrics has no setting {key}"
        try:
            if key == "interval.ms" and not INTERVAL_MS_MIN <= int(value) <= INTERVAL_MS_MAX:
                return ErrorCode.INVALID_REQUEST, f"{key}={value} must be {setting.allowed}"
            setting.parse(value)
            if key == "match":
                patterns_of(value)
        except ValueError as error:
            return ErrorCode.INVALID_CONFIG, f"{key}={value} {error}"
    return None


def patterns_of(match: str) -> dict[str, re.Pattern[str]]:
    """Field -> the pattern that a client must match there; ValueError."""
    patterns = {}
    for word in CLIENT_METRICS_BY_NAME["match"].parse(match):  # type: ignore[union-attr]
        field, equals, pattern = str(word).partition("=")
        field = field.strip()
        if not equals or field not in CLIENT_FIELDS:
            raise ValueError(f"must be some of {', '.join(f'{each}=pattern' for each in CLIENT_FIELDS)}")
        try:
            patterns[field] = compile_pattern(pattern.strip())
        except PatternError as error:
            raise ValueError(f"has a pattern that cannot be used: {error}") from None
    return patterns
