"""The settings of a reader, under the names of Kafka's consumer, and those of its connections.

`max.partition.fetch.bytes` is 8 MiB by default, not Kafka's 1 MiB, because columns are made of megabytes at a time.
`prefetch.max.bytes` and `decompressed.batch.max.bytes` are ottla's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from ottla.connection.function_setting import function_reader
from ottla.connection.setting import INT32_MAX, Setting, read_settings
from ottla.connection.settings import CONNECTION_SETTINGS, ConnectionSettings
from ottla.records.compression import DECOMPRESSED_BYTES_MAX


def _deserializer(setting: str) -> Callable[[Any], Any]:
    return function_reader(setting, ("deserialize_with_headers", "deserialize"), "deserialize(topic, bytes)")


READER_SETTINGS: tuple[Setting, ...] = (
    *CONNECTION_SETTINGS,
    Setting(
        "isolation.level",
        str,
        "read_uncommitted",
        "read_committed leaves out records of aborted and of unfinished transactions.",
        allowed=("read_uncommitted", "read_committed"),
        kip=98,
        group="Reading",
    ),
    Setting(
        "fetch.min.bytes",
        int,
        1,
        "How many bytes a broker gathers before it answers, fetch.max.wait.ms at most.",
        lowest=0,
        highest=INT32_MAX,
        group="Reading",
    ),
    Setting(
        "fetch.max.wait.ms",
        int,
        500,
        "How long a broker may hold back an answer that has fewer than fetch.min.bytes.",
        lowest=0,
        highest=INT32_MAX,
        group="Reading",
    ),
    Setting(
        "fetch.max.bytes",
        int,
        52_428_800,
        "The size of one answer; a single larger batch still comes through.",
        lowest=1,
        highest=INT32_MAX,
        kip=74,
        group="Reading",
    ),
    Setting(
        "max.partition.fetch.bytes",
        int,
        8_388_608,
        "The size of one partition's share in an answer; a single larger batch still comes through.",
        lowest=1,
        highest=INT32_MAX,
        kip=74,
        group="Reading",
    ),
    Setting(
        "prefetch.max.bytes",
        int,
        67_108_864,
        "About how many bytes are fetched ahead, for all partitions together (ottla's own).",
        lowest=1,
        highest=INT32_MAX,
        group="Reading",
    ),
    Setting(
        "default.api.timeout.ms",
        int,
        60_000,
        "How long a partition may stay out of reach before reading it fails.",
        lowest=1,
        highest=INT32_MAX,
        kip=266,
        group="Reading",
    ),
    Setting(
        "client.rack",
        str,
        "",
        "Where this client is, by the name that the brokers near it have in broker.rack: leaders whose brokers have a "
        "replica selector name a replica there to read from.",
        kip=392,
        group="Reading",
    ),
    Setting(
        "decompressed.batch.max.bytes",
        int,
        DECOMPRESSED_BYTES_MAX,
        "How much may come out of one compressed batch, since few bytes can be made to hold gigabytes (ottla's own).",
        lowest=1,
        highest=INT32_MAX,
        group="Reading",
    ),
    Setting(
        "key.deserializer",
        object,
        None,
        "What `Reader.records` makes of a key's bytes: a name such as json or long, a function of them, "
        "or an object with deserialize(topic, bytes); without one, keys are bytes.",
        takes="Any",
        reads=_deserializer("key.deserializer"),
        group="Deserializers",
    ),
    Setting(
        "value.deserializer",
        object,
        None,
        "The same for values; None stays None.",
        takes="Any",
        reads=_deserializer("value.deserializer"),
        group="Deserializers",
    ),
    Setting("check.crcs", bool, True, "Whether the CRC of every batch is checked.", group="Reading"),
)


class ReaderSettings:
    """The settings of `READER_SETTINGS`, one attribute each, checked; the connection's under `.connection`."""

    TABLE: ClassVar = READER_SETTINGS

    check_crcs: bool
    client_rack: str
    connection: ConnectionSettings
    decompressed_batch_max_bytes: int
    default_api_timeout_ms: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    isolation_level: str
    key_deserializer: Any
    max_partition_fetch_bytes: int
    prefetch_max_bytes: int
    value_deserializer: Any

    def __init__(self, given: Mapping[str, Any]) -> None:
        """Read dotted or snake_case names; `ConfigError` for what cannot be used."""
        values, explicit = read_settings(READER_SETTINGS, given)
        for row in READER_SETTINGS[len(CONNECTION_SETTINGS) :]:
            setattr(self, row.keyword, values[row.keyword])
        self.connection = ConnectionSettings.from_values(values, explicit)

    @property
    def read_committed(self) -> bool:
        """Whether aborted and open transactions are left out."""
        return self.isolation_level == "read_committed"
