"""Under which subject a schema is registered: the three strategies of the Confluent Schema Registry's serializers.

topic          TOPIC-key or TOPIC-value, whatever the schema is called (the default)
record         the record's full name, wherever it is sent
topic_record   TOPIC-RECORD
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.errors import ConfigError

# Topic, "key" or "value", the record's full name where the schema has one.
SubjectNameStrategy = Callable[[str, str, str | None], str]


def topic_subject(topic: str, part: str, record_name: str | None = None) -> str:
    """TOPIC-key or TOPIC-value."""
    return f"{topic}-{part}"


def record_subject(topic: str, part: str, record_name: str | None) -> str:
    """The record's full name."""
    return _named(record_name, "record")


def topic_record_subject(topic: str, part: str, record_name: str | None) -> str:
    """TOPIC-RECORD."""
    return f"{topic}-{_named(record_name, 'topic_record')}"


STRATEGIES: dict[str, SubjectNameStrategy] = {
    "topic": topic_subject,
    "record": record_subject,
    "topic_record": topic_record_subject,
}
# As Java and confluent_kafka call them.
_ELSEWHERE = {
    "topicnamestrategy": "topic",
    "recordnamestrategy": "record",
    "topicrecordnamestrategy": "topic_record",
}


def read_strategy(given: Any) -> SubjectNameStrategy:
    """The strategy of this name, also of its class in Java; a function is one itself. ConfigError for anything else."""
    if str(getattr(given, "__module__", "")).startswith("confluent_kafka."):
        # confluent_kafka's functions take other arguments: ours of the same name is used.
        given = getattr(given, "__name__", "").removesuffix("_subject_name_strategy")
    if callable(given):
        strategy: SubjectNameStrategy = given
        return strategy
    if isinstance(given, str):
        plain = given.rpartition(".")[2].lower()
        found = STRATEGIES.get(_ELSEWHERE.get(plain, plain))
        if found is not None:
            return found
    raise ConfigError(
        f"subject.name.strategy={given!r:.80} is not known; allowed are {', '.join(STRATEGIES)}, and a function of "
        'topic, "key" or "value", and the record\'s name.'
    )


def _named(record_name: str | None, strategy: str) -> str:
    if not record_name:
        raise ConfigError(
            f"subject.name.strategy={strategy} needs a schema with a name, which a record, an enum, a message or a "
            "title gives; use topic for others."
        )
    return record_name
