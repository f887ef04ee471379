"""Writes the reference of the embedded brokers' settings from their tables: names, defaults, and why some differ."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.documentation.api import SOURCE

from ottla.broker.settings import BROKER_SETTINGS, INT32_MAX, INT64_MAX, Setting, text_of
from ottla.broker.topic_settings import BROKER_SYNONYMS, TOPIC_SETTINGS

INTRODUCTION = """\
# Broker and topic settings

Settings of the [embedded cluster](embedded-cluster.md), with Kafka's names. Brokers get theirs by
`ottla.Cluster(settings={"log.segment.bytes": 1048576})`, `ottla serve --set NAME=VALUE` or `kafka-configs.sh`, topics
by `create_topic(..., configs={...})`. Defaults are Kafka's where the last column is empty. A default of 2^63-1 means
"never".
"""
# A comment of so few words is the heading of the settings below it; a longer one is about the next setting.
_HEADING_WORDS_MOST = 4


def write_broker_settings() -> str:
    """broker-settings.md."""
    by_name = {setting.name: setting for setting in BROKER_SETTINGS}
    parts = [INTRODUCTION]
    for heading, rows in groups():
        parts.append(
            f"## {heading}\n\n| setting | default | allowed | what differs from Kafka, and why |\n|---|---|---|---|"
        )
        parts += [f"{row(by_name[name])} {note} |" for name, note in rows]
        parts.append("")
    parts.append("## Topics\n\n| setting of a topic | default: the broker's | allowed |\n|---|---|---|")
    parts += [
        f"| `{setting.name}` | `{BROKER_SYNONYMS[setting.name]}` | {short(setting.allowed)} |"
        for setting in TOPIC_SETTINGS
    ]
    return "\n".join(parts) + "\n"


def row(setting: Setting) -> str:
    """The first cells of a setting's row."""
    default = text_of(setting.default) or "(empty)"
    return short(f"| `{setting.name}` | `{default}` | {setting.allowed} |")


def short(text: str) -> str:
    """The largest numbers as powers."""
    return text.replace(str(INT64_MAX), "2^63-1").replace(str(INT32_MAX), "2^31-1")


def groups() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each heading with its settings, (name, what the comment above it says), as they stand in the source."""
    text = (SOURCE / "broker" / "settings.py").read_text()
    table = text.split("BROKER_SETTINGS: tuple[Setting, ...] = (\n")[1].split("\n)\n")[0]
    heading, rows = "", list[tuple[str, str]]()
    for comment, name in re.findall(r'((?:    #[^\n]*\n)*)    Setting\("([^"]+)"', table + "\n"):
        said = " ".join(line.strip(" #") for line in comment.splitlines())
        if said and len(said.split()) <= _HEADING_WORDS_MOST:
            if rows:
                yield heading, rows
            heading, rows, said = said.rstrip("."), [], ""
        rows.append((name, said))
    yield heading, rows
